//! Which addresses a webhook may have.
//!
//! Whoever may make a webhook has the service send requests, so by default these do not go where only the
//! service gets to: this machine, private networks, what is handed out by the link. A name is resolved here
//! and every address that it has is judged; the connection goes to one of these and nowhere else, so a name
//! that answers differently the next time gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::Uri;

use super::resolver::{RESOLVER, ResolveError};

/// A receiver's address, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Name or address, without brackets.
    pub(super) host: String,
    /// The port.
    pub(super) port: u16,
    /// Whether it is asked by TLS.
    pub(super) is_secure: bool,
    /// The address as a whole.
    pub(super) uri: Uri,
}

/// Why an address is not called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadTarget {
    /// It is none.
    #[error("the address cannot be read")]
    Unreadable,
    /// It is asked without TLS.
    #[error("the address must be https, unless private targets are allowed")]
    NotSecure,
    /// It has no addresses.
    #[error("the name {0} could not be resolved")]
    Unresolved(String, #[source] ResolveError),
    /// It leads where webhooks do not go.
    #[error("{0} is a private address, and private targets are not allowed")]
    Private(IpAddr),
}

impl Target {
    /// Takes an address apart.
    pub(super) fn parse(url: &str) -> Result<Self, BadTarget> {
        let uri: Uri = url.parse().map_err(|_unreadable| BadTarget::Unreadable)?;
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(BadTarget::Unreadable),
        };
        let host = uri.host().ok_or(BadTarget::Unreadable)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Self { host, port, is_secure, uri })
    }

    /// The addresses to connect to, all of which may be called.
    pub(super) async fn resolve(&self, allow_private: bool) -> Result<Vec<SocketAddr>, BadTarget> {
        self.refuse(allow_private)?;
        let found = RESOLVER.resolve(&self.host, self.port).await;
        let found = found.map_err(|error| BadTarget::Unresolved(self.host.clone(), error))?;
        match found.iter().find(|address| !allow_private && !is_public(address.ip())) {
            Some(private) => Err(BadTarget::Private(private.ip())),
            None => Ok(found),
        }
    }

    /// Refuses what can be refused without asking anybody.
    fn refuse(&self, allow_private: bool) -> Result<(), BadTarget> {
        if allow_private {
            return Ok(());
        }
        if !self.is_secure {
            return Err(BadTarget::NotSecure);
        }
        match self.host.parse::<IpAddr>() {
            Ok(address) if !is_public(address) => Err(BadTarget::Private(address)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Refuses an address that is known to be a bad one without resolving it.
pub(crate) fn refuse_target(url: &str, allow_private: bool) -> Result<(), BadTarget> {
    Target::parse(url)?.refuse(allow_private)
}

/// Whether an address belongs to the public network, and to nothing else.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// By the registry of special-purpose addresses (RFC 6890 and what has been added since).
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = (a, b, c) == (192, 0, 0) || (a, b, c) == (192, 88, 99);
    let is_benchmark = a == 198 && (18..20).contains(&b);
    !(a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || is_shared
        || is_protocol
        || is_benchmark
        // Multicast, reserved, broadcast.
        || a >= 224)
}

/// Only what is handed out to the public (2000::/3), and not what has another address inside.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inside) = address.to_ipv4_mapped() {
        return is_public_v4(inside);
    }
    let [first, second, ..] = address.segments();
    let is_handed_out = first & 0xe000 == 0x2000;
    // Teredo, ORCHID and other protocols; documentation; 6to4, which has an IPv4 address inside.
    let is_protocol = first == 0x2001 && second < 0x0200;
    let is_documentation = (first, second) == (0x2001, 0x0db8) || first == 0x3fff;
    is_handed_out && !is_protocol && !is_documentation && first != 0x2002
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_called() {
        for public in
            ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.7",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "fc00::1",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    #[test]
    fn what_is_private_by_its_spelling_is_refused_before_anybody_is_asked() {
        let refused = |url| refuse_target(url, false).map_err(|error| error.to_string());
        assert_eq!(refused("https://a.example/x"), Ok(()));
        for url in ["https://127.0.0.1/", "https://[::1]:8443/", "https://169.254.169.254/latest"] {
            assert!(refused(url).unwrap_err().contains("private address"), "{url}");
            assert!(refuse_target(url, true).is_ok());
        }
        assert!(refused("http://a.example/").unwrap_err().contains("must be https"));
    }

    #[tokio::test]
    async fn a_name_is_judged_by_every_address_that_it_has() {
        let target = Target::parse("https://localhost:9/").unwrap();
        let refused = target.resolve(false).await.unwrap_err().to_string();
        assert!(refused.contains("is a private address"), "{refused}");
        let found = target.resolve(true).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 9));
    }
}
