//! TLS to the database: whether there is any, and who may vouch for the server.
//!
//! Encryption without proof keeps out who only listens. So whoever asks for TLS gets the proof as well:
//! `require` and `verify-full` are the same here. With `prefer` an answer without TLS is taken too, and then
//! proof would prove nothing.

use std::sync::Arc;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::error::DatabaseError;

/// The protocol's name, which a server may ask for.
const PROTOCOL: &[u8] = b"postgresql";

/// What stands between the settings of an address.
const SEPARATORS: [char; 5] = ['?', '&', ' ', '\t', '\n'];

/// Who may vouch for a database.
#[derive(Debug, Clone)]
pub enum Authorities {
    /// Whom this machine trusts.
    Machine,
    /// These certificates, and nobody else.
    Given(Vec<CertificateDer<'static>>),
}

impl Authorities {
    /// Reads certificates in PEM; there has to be one.
    pub fn parse(pem: &[u8]) -> Result<Self, DatabaseError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match read {
            Ok(certificates) if !certificates.is_empty() => Ok(Self::Given(certificates)),
            Ok(_) => Err(DatabaseError::Address("there is no certificate to trust".to_owned())),
            Err(error) => Err(DatabaseError::Address(format!("the certificates: {error}"))),
        }
    }

    fn roots(&self) -> Result<RootCertStore, DatabaseError> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::Machine => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
            Self::Given(certificates) => {
                for certificate in certificates {
                    roots.add(certificate.clone()).map_err(unusable)?;
                }
            }
        }
        if roots.is_empty() {
            let text = "no root certificates were found on this machine, and none are given";
            return Err(DatabaseError::Address(text.to_owned()));
        }
        Ok(roots)
    }
}

/// An address in the words that the client knows: all TLS is verified in full.
pub(crate) fn spelled(address: &str) -> String {
    let mut spelled = String::with_capacity(address.len());
    for part in address.split_inclusive(SEPARATORS) {
        let end = part.strip_prefix("sslmode=verify-full");
        match end.filter(|end| end.trim_end_matches(SEPARATORS).is_empty()) {
            Some(end) => spelled.extend(["sslmode=require", end]),
            None => spelled.push_str(part),
        }
    }
    spelled
}

/// Sets a connection's TLS up.
pub(crate) fn connector(
    config: &mut Config,
    authorities: &Authorities,
) -> Result<MakeRustlsConnect, DatabaseError> {
    // As libpq has it: there is nobody between the ends of a socket.
    let is_socket = |host: &Host| matches!(host, Host::Unix(_));
    let hosts = config.get_hosts();
    if !hosts.is_empty() && hosts.iter().all(is_socket) && config.get_hostaddrs().is_empty() {
        if let Authorities::Given(_) = authorities {
            let text = "certificates to trust are given, and the address is a socket: there is no \
                        TLS, and they would not count";
            return Err(DatabaseError::Address(text.to_owned()));
        }
        config.ssl_mode(SslMode::Disable);
        return unproven();
    }
    // A handshake is about a name.
    let is_nameless = hosts.is_empty();
    match (config.get_ssl_mode(), authorities) {
        (SslMode::Prefer, Authorities::Machine) if is_nameless => {
            config.ssl_mode(SslMode::Disable);
            unproven()
        }
        (SslMode::Require, _) if is_nameless => {
            let text =
                "with sslmode=require a server has to prove its name: the address has no host";
            Err(DatabaseError::Address(text.to_owned()))
        }
        (SslMode::Disable | SslMode::Prefer, Authorities::Machine) => unproven(),
        (SslMode::Disable | SslMode::Prefer, Authorities::Given(_)) => {
            let text = "certificates to trust are given: with sslmode=verify-full they count";
            Err(DatabaseError::Address(text.to_owned()))
        }
        (_, authorities) => proven(authorities),
    }
}

fn proven(authorities: &Authorities) -> Result<MakeRustlsConnect, DatabaseError> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(unusable)?;
    let config = config.with_root_certificates(authorities.roots()?).with_no_client_auth();
    Ok(speaking(config))
}

fn unproven() -> Result<MakeRustlsConnect, DatabaseError> {
    let provider = Arc::new(ring::default_provider());
    let anybody = Arc::new(Anybody(Arc::clone(&provider)));
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().map_err(unusable)?;
    let config = config.dangerous().with_custom_certificate_verifier(anybody);
    Ok(speaking(config.with_no_client_auth()))
}

fn speaking(mut config: ClientConfig) -> MakeRustlsConnect {
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    MakeRustlsConnect::new(config)
}

fn unusable(error: Error) -> DatabaseError {
    DatabaseError::Address(format!("TLS cannot be set up: {error}"))
}

/// Takes any certificate of whoever has its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mode_of_an_address_is_spelled_otherwise() {
        for (address, known) in [
            ("host=a sslmode=verify-full user=b", "host=a sslmode=require user=b"),
            ("postgres://b@a/c?sslmode=verify-full", "postgres://b@a/c?sslmode=require"),
            (
                "postgres://b@a/c?x=y&sslmode=verify-full&z=1",
                "postgres://b@a/c?x=y&sslmode=require&z=1",
            ),
            ("host=a password=xsslmode=verify-full", "host=a password=xsslmode=verify-full"),
            ("postgres://b:sslmode=verify-full@a/c", "postgres://b:sslmode=verify-full@a/c"),
            ("host=a sslmode=verify-fuller", "host=a sslmode=verify-fuller"),
        ] {
            assert_eq!(spelled(address), known);
        }
    }

    #[test]
    fn a_server_without_a_name_is_spoken_to_in_the_clear_or_not_at_all() {
        let set_up = |address: &str| {
            let mut config: Config = address.parse().unwrap();
            let connector = connector(&mut config, &Authorities::Machine);
            connector.map(|_| config.get_ssl_mode())
        };
        assert_eq!(set_up("hostaddr=127.0.0.1 user=a").unwrap(), SslMode::Disable);
        assert_eq!(set_up("host=a hostaddr=127.0.0.1 user=a").unwrap(), SslMode::Prefer);
        let refused = set_up("hostaddr=127.0.0.1 user=a sslmode=require").err().unwrap();
        assert!(matches!(refused, DatabaseError::Address(_)), "{refused}");
    }
    #[test]
    fn certificates_for_a_socket_are_refused_whatever_the_mode() {
        let set_up = |mode: &str, authorities: &Authorities| {
            let address = format!("host=/run/postgresql user=a{mode}");
            connector(&mut address.parse().unwrap(), authorities).map(drop)
        };
        let given = Authorities::Given(vec![CertificateDer::from(vec![0])]);
        for mode in ["", " sslmode=disable", " sslmode=prefer", " sslmode=require"] {
            assert!(set_up(mode, &Authorities::Machine).is_ok(), "{mode}");
            let refused = set_up(mode, &given).err().unwrap();
            assert!(refused.to_string().contains("is a socket"), "{mode}: {refused}");
        }
    }
}
