//! One HTTP/1.1 connection, as lean as it can be: no task of its own, no pool, no middleware.
//!
//! Whoever calls also drives the connection while it waits, so a call costs no hand-over between
//! tasks. Load generators need that: client and server share the machine that is measured.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::str::FromStr;
use std::task::Poll;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Whom a program that makes load calls, and as whom.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Callees {
    /// Nodes or front doors to call, in turn. Behind the front door of `purser dev` the nodes of all
    /// regions are found and called; else name a node of each region that is to be called.
    #[arg(
        long,
        value_name = "URL",
        env = "PURSER_URL",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7700"
    )]
    pub(crate) url: Vec<Address>,
    /// The bearer token; it needs the scopes `spend`, `read` and `admin`, and all tenants.
    #[arg(long, env = "PURSER_TOKEN", default_value = "dev", hide_env_values = true)]
    pub(crate) token: String,
}

/// Where a node's API is: `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// `host:port`, for connecting.
    authority: String,
    /// The same as the `Host` header.
    host: HeaderValue,
}

/// The text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address of the form http://host:port")]
pub(crate) struct InvalidAddress(String);

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let rest = text.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let is_authority = |rest: &&str| {
            let port = rest.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
            matches!(port, Some(Ok(_))) && !rest.contains('/')
        };
        let address = rest.filter(is_authority).and_then(|authority| {
            let host = HeaderValue::from_str(authority).ok()?;
            Some(Self { authority: authority.to_owned(), host })
        });
        address.ok_or_else(|| InvalidAddress(text.to_owned()))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "http://{}", self.authority)
    }
}

impl Address {
    /// The address of a listener.
    pub(crate) fn of(listener: SocketAddr) -> Self {
        let authority = listener.to_string();
        let host = HeaderValue::from_str(&authority);
        Self { authority, host: host.expect("an address and a port are plain characters") }
    }

    /// A request with a JSON body, or none. Names the caller by `authorization` (see [`bearer`]).
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        authorization: &HeaderValue,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ConnectionError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(body));
        request.map_err(ConnectionError::Request)
    }
}

/// The `Authorization` header for a token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, InvalidToken> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(InvalidToken)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The token has characters that no header may have.
#[derive(Debug, thiserror::Error)]
#[error("the token has characters that a header cannot carry")]
pub(crate) struct InvalidToken(#[source] hyper::header::InvalidHeaderValue);

/// Why there was no answer. Whether the call took effect is not known, unless it was never sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// All connections that there may be were in use. Nothing was sent.
    #[error("no connection was free in time")]
    NoneFree,
    /// Nobody listens there, or the connection broke while it was made.
    #[error("could not connect")]
    Connect(#[source] std::io::Error),
    /// The request cannot be written down: a path with odd characters.
    #[error("the request cannot be made")]
    Request(#[source] hyper::http::Error),
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    /// The connection was closed before the answer was there.
    #[error("the connection was closed")]
    Closed,
    /// No answer came in time.
    #[error("no answer came in time")]
    TimedOut,
}

impl ConnectionError {
    /// Whether the call may have happened.
    pub(crate) const fn leaves_open(&self) -> bool {
        match self {
            Self::NoneFree | Self::Connect(_) | Self::Request(_) => false,
            Self::Broken(_) | Self::Closed | Self::TimedOut => true,
        }
    }
}

/// A connection to one address.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: &Address) -> Result<Self, ConnectionError> {
        let stream =
            TcpStream::connect(&address.authority).await.map_err(ConnectionError::Connect)?;
        stream.set_nodelay(true).map_err(ConnectionError::Connect)?;
        let (sender, driver) =
            http1::handshake(TokioIo::new(stream)).await.map_err(ConnectionError::Broken)?;
        Ok(Self { sender, driver: Box::pin(driver) })
    }

    /// Sends a request and reads the whole answer.
    ///
    /// A connection whose call failed, or was dropped before it ended, cannot be used again.
    pub(crate) async fn call(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, ConnectionError> {
        let Self { sender, driver } = self;
        let exchange = async {
            sender.ready().await?;
            let (parts, body) = sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Response::from_parts(parts, body))
        };
        let mut exchange = pin!(exchange);
        poll_fn(|context| {
            if let Poll::Ready(done) = exchange.as_mut().poll(context) {
                return Poll::Ready(done.map_err(ConnectionError::Broken));
            }
            let driven = driver.as_mut().poll(context);
            // The driver may have brought the answer just now, also with its last breath.
            match (exchange.as_mut().poll(context), driven) {
                (Poll::Ready(done), _) => Poll::Ready(done.map_err(ConnectionError::Broken)),
                (Poll::Pending, Poll::Ready(Err(error))) => {
                    Poll::Ready(Err(ConnectionError::Broken(error)))
                }
                (Poll::Pending, Poll::Ready(Ok(()))) => Poll::Ready(Err(ConnectionError::Closed)),
                (Poll::Pending, Poll::Pending) => Poll::Pending,
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_host_and_port() {
        let address: Address = "http://127.0.0.1:7700/".parse().unwrap();
        assert_eq!(address.to_string(), "http://127.0.0.1:7700");
        assert!("http://[::1]:7700".parse::<Address>().is_ok());
        for odd in ["", "127.0.0.1:7700", "https://a:1", "http://a", "http://a:b", "http://a:1/v1"]
        {
            assert!(odd.parse::<Address>().is_err(), "{odd:?}");
        }
    }
}
