//! The front door of a development cluster: one address in front of all nodes.
//!
//! It passes requests on and decides nothing. Until the cluster has its demo data, requests wait:
//! what the banner says works as pasted.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use purser_api::{BODY_BYTES_MAX, ProblemCode, headers};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dev::DEV_TOKEN;
use crate::dev::control::{self, ControlAnswer};
use crate::dev::fleet::Fleet;
use crate::dev::passage::{Answer, Passage, json, problem};

/// How long a request waits for the cluster to have its demo data.
const READY_PATIENCE: Duration = Duration::from_secs(15);
/// How long a client may take to send its headers.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The front door.
#[derive(Debug)]
pub(crate) struct FrontDoor {
    fleet: Arc<Fleet>,
    passage: Passage,
    ready: watch::Receiver<bool>,
    next_request: AtomicU64,
}

impl FrontDoor {
    /// A front door to the nodes of `fleet`. Requests wait until `ready` says so.
    pub(crate) fn new(fleet: Arc<Fleet>, ready: watch::Receiver<bool>) -> Self {
        let passage = Passage::new(fleet.running());
        Self { fleet, passage, ready, next_request: AtomicU64::new(1) }
    }

    /// Serves until `stop`; then finishes what is in flight.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    connections.spawn(self.clone().serve_connection(stream, stop.clone()));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: it passes when connections close.
                    tracing::warn!(%error, "the front door could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        connections.close();
        connections.wait().await;
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream, stop: CancellationToken) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "the connection was gone at once");
            return;
        }
        let service = service_fn(|request| {
            let door = self.clone();
            async move { Ok::<_, Infallible>(door.answer(request).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "a connection to the front door broke");
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let request_id = self.request_id(&parts.headers);
        let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let text = format!("a body may have {BODY_BYTES_MAX} bytes");
                return problem(ProblemCode::BodyTooLarge, text, &request_id);
            }
            Err(error) => {
                let text = format!("the body did not arrive: {error}");
                return problem(ProblemCode::InvalidRequest, text, &request_id);
            }
        };
        if parts.uri.path().starts_with(control::PREFIX) {
            return self.control(&parts, &body, &request_id).await;
        }
        self.wait_until_ready().await;
        self.passage.pass_on(&parts, body, &request_id).await
    }

    /// The caller's name for the request, or a new one.
    fn request_id(&self, headers: &HeaderMap) -> String {
        let sent = headers.get(headers::REQUEST_ID).and_then(|id| id.to_str().ok());
        match sent {
            Some(id) => id.to_owned(),
            None => format!("dev-{}", self.next_request.fetch_add(1, Ordering::Relaxed)),
        }
    }

    async fn wait_until_ready(&self) {
        let mut ready = self.ready.clone();
        let waited = tokio::time::timeout(READY_PATIENCE, ready.wait_for(|ready| *ready)).await;
        if !matches!(waited, Ok(Ok(_))) {
            // Not here: a refusal. The node that gets the request knows better what is missing.
            tracing::warn!("a request was passed on before the cluster was ready");
        }
    }

    async fn control(&self, parts: &Parts, body: &[u8], request_id: &str) -> Answer {
        let expected = format!("Bearer {DEV_TOKEN}");
        let sent = parts.headers.get(header::AUTHORIZATION);
        if sent.is_none_or(|sent| sent.as_bytes() != expected.as_bytes()) {
            let text = format!("control calls want the token {DEV_TOKEN}");
            return problem(ProblemCode::Unauthenticated, text, request_id);
        }
        match control::answer(&self.fleet, &parts.method, parts.uri.path(), body).await {
            ControlAnswer::Done(nodes) => json(StatusCode::OK, "application/json", &nodes),
            ControlAnswer::Refused(status, why) => json(status, "application/json", &why),
        }
    }
}
