//! One connection to a receiver, made to an address that was judged.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::address::{BadTarget, Target};
use crate::tasks::Tasks;

/// How long it may take to connect, TLS included.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// What requests are sent through.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// The address is not called.
    #[error(transparent)]
    Target(#[from] BadTarget),
    /// Nobody answers there.
    #[error("could not connect")]
    Tcp(#[source] std::io::Error),
    /// It took too long.
    #[error("could not connect within {} seconds", CONNECT_PATIENCE.as_secs())]
    TooLate,
    /// The receiver cannot prove who it is, or does not speak TLS.
    #[error("could not agree on TLS")]
    Tls(#[source] std::io::Error),
    /// The name is none that a certificate could have.
    #[error("the name cannot be that of a certificate")]
    Name,
    /// This machine trusts nobody, or TLS cannot be set up.
    #[error("TLS cannot be used: {0}")]
    NoTls(String),
    /// It does not speak HTTP.
    #[error("could not speak HTTP")]
    Http(#[source] hyper::Error),
}

/// Connects. The connection is a task of the node.
pub(super) async fn connect(
    target: &Target,
    allow_private: bool,
    tasks: &Tasks,
) -> Result<Connection, ConnectError> {
    let connecting = connect_now(target, allow_private, tasks);
    tokio::time::timeout(CONNECT_PATIENCE, connecting).await.unwrap_or(Err(ConnectError::TooLate))
}

async fn connect_now(
    target: &Target,
    allow_private: bool,
    tasks: &Tasks,
) -> Result<Connection, ConnectError> {
    let addresses = target.resolve(allow_private).await?;
    let stream = TcpStream::connect(&*addresses).await.map_err(ConnectError::Tcp)?;
    stream.set_nodelay(true).map_err(ConnectError::Tcp)?;
    if !target.is_secure {
        return speak(stream, tasks).await;
    }
    let name = ServerName::try_from(target.host.clone()).map_err(|_odd| ConnectError::Name)?;
    let connector = TlsConnector::from(tls()?);
    speak(connector.connect(name, stream).await.map_err(ConnectError::Tls)?, tasks).await
}

async fn speak<S>(stream: S, tasks: &Tasks) -> Result<Connection, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(ConnectError::Http)?;
    tasks.spawn_until_stopping(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = %crate::tasks::chain(&error), "a receiver's connection broke");
        }
    });
    Ok(sender)
}

/// Whom this machine trusts. Read once: it is a file of half a megabyte.
fn tls() -> Result<Arc<ClientConfig>, ConnectError> {
    static TLS: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    TLS.get_or_init(make_tls).clone().map_err(ConnectError::NoTls)
}

fn make_tls() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err("no root certificates were found on this machine".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
