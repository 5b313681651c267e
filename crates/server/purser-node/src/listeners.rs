//! The ports of a node.
//!
//! They are bound before anything else is opened, so that several nodes can be told each other's
//! addresses before the first of them starts.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::settings::NodeSettings;

/// Bound ports. Connections wait in them until the node serves.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) api: TcpListener,
    pub(crate) admin: Option<TcpListener>,
    pub(crate) peer: TcpListener,
    addresses: Addresses,
}

/// Where a node listens, with the ports that the system gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The API, and the admin API if it has no listener of its own.
    pub api: SocketAddr,
    /// The admin API, if it has a listener of its own.
    pub admin: Option<SocketAddr>,
    /// For other nodes.
    pub peer: SocketAddr,
}

/// A port could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("could not listen on {address} for {purpose}")]
pub struct BindError {
    /// Where.
    pub address: SocketAddr,
    /// What for.
    pub purpose: &'static str,
    /// What the system said.
    #[source]
    pub source: std::io::Error,
}

impl Listeners {
    /// Binds the ports of `settings`.
    pub async fn bind(settings: &NodeSettings) -> Result<Self, BindError> {
        let (api, api_address) = bind(settings.listen, "the API").await?;
        let (admin, admin_address) = match settings.admin_listen {
            Some(address) => {
                let (listener, address) = bind(address, "the admin API").await?;
                (Some(listener), Some(address))
            }
            None => (None, None),
        };
        let (peer, peer_address) = bind(settings.peer_listen, "other nodes").await?;
        let addresses = Addresses { api: api_address, admin: admin_address, peer: peer_address };
        Ok(Self { api, admin, peer, addresses })
    }

    /// Where the ports are.
    pub const fn addresses(&self) -> Addresses {
        self.addresses
    }
}

async fn bind(
    address: SocketAddr,
    purpose: &'static str,
) -> Result<(TcpListener, SocketAddr), BindError> {
    let failed = |source| BindError { address, purpose, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    if !bound.ip().is_loopback() {
        tracing::warn!(
            address = %bound,
            purpose,
            "listening beyond loopback without encryption: tokens and amounts cross the network \
             in the clear, and whoever reaches this port can try them"
        );
    }
    Ok((listener, bound))
}
