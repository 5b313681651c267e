//! The ports of a node, or of a router.
//!
//! They are bound before anything else is opened, so that several nodes can be told each other's
//! addresses before the first of them starts.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::http::{self, Api};
use crate::metrics::NodeMetrics;
use crate::serve;
use crate::settings::{NodeSettings, RouterSettings};
use crate::tasks::Tasks;

/// Bound ports of a node. Connections wait in them until the node serves.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) api: ApiListeners,
    pub(crate) peer: TcpListener,
    peer_address: SocketAddr,
}

/// Bound ports for callers: all that a router has.
#[derive(Debug)]
pub struct ApiListeners {
    pub(crate) api: TcpListener,
    pub(crate) admin: Option<TcpListener>,
    addresses: ApiAddresses,
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

/// Where callers are listened to, with the ports that the system gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiAddresses {
    /// The API, and the admin API if it has no listener of its own.
    pub api: SocketAddr,
    /// The admin API, if it has a listener of its own.
    pub admin: Option<SocketAddr>,
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
        let api = ApiListeners::bind(settings.listen, settings.admin_listen).await?;
        let (peer, peer_address) = bind(settings.peer_listen, "other nodes").await?;
        Ok(Self { api, peer, peer_address })
    }

    /// Where the ports are.
    pub const fn addresses(&self) -> Addresses {
        let ApiAddresses { api, admin } = self.api.addresses;
        Addresses { api, admin, peer: self.peer_address }
    }
}

impl ApiListeners {
    /// Binds the ports of a router.
    pub async fn bind_router(settings: &RouterSettings) -> Result<Self, BindError> {
        Self::bind(settings.listen, settings.admin_listen).await
    }

    async fn bind(api: SocketAddr, admin: Option<SocketAddr>) -> Result<Self, BindError> {
        let (api, api_address) = bind(api, "the API").await?;
        let (admin, admin_address) = match admin {
            Some(address) => {
                let (listener, address) = bind(address, "the admin API").await?;
                (Some(listener), Some(address))
            }
            None => (None, None),
        };
        let addresses = ApiAddresses { api: api_address, admin: admin_address };
        Ok(Self { api, admin, addresses })
    }

    /// Where the ports are.
    pub const fn addresses(&self) -> ApiAddresses {
        self.addresses
    }

    /// Serves an API on the ports, as tasks of `servers`.
    pub(crate) fn serve(self, api: &Arc<Api>, metrics: &Arc<NodeMetrics>, servers: &Tasks) {
        let Self { api: api_listener, admin: admin_listener, .. } = self;
        let limits = api.limits();
        let serve = |name: &'static str, listener, router| {
            let (metrics, connections) = (Arc::clone(metrics), servers.clone());
            servers.spawn_vital(name, |_| {
                serve::serve(listener, router, limits, metrics, connections)
            });
        };
        serve("api", api_listener, http::data_router(api, admin_listener.is_none()));
        if let Some(listener) = admin_listener {
            serve("admin-api", listener, http::admin_router(api));
        }
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
