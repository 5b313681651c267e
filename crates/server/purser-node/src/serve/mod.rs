//! Accepting connections and speaking HTTP on them.
//!
//! HTTP/1.1 and HTTP/2 on one port, told apart by what the caller sends. A connection can only take
//! up what the limits allow: so many connections, so many bytes of headers, so long for headers or
//! idleness, so long for taking no byte of an answer, so long for taking all of it. How long a
//! request may take, and how large its body may be, is checked where it is read. Not here: routes,
//! tokens, bodies.

mod exchange;
mod stall;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt;
use hyper::rt::Executor;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::NodeMetrics;
use crate::serve::exchange::{Exchanges, Overdue, Patience};
use crate::serve::stall::StallGuard;
use crate::settings::LimitSettings;
use crate::tasks::Tasks;

/// Streams that one HTTP/2 connection may have open. One connection shall not have more requests
/// in flight than a group's queue bears.
const HTTP2_STREAMS_MAX: u32 = 256;

/// How often an HTTP/2 connection without requests is asked whether it lives.
const HTTP2_PING_EVERY: Duration = Duration::from_secs(20);

/// Pause after a failed accept, which usually means that the process has no file to give: without
/// it, the loop would only make matters worse.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `router` on `listener` until `stopping`; then accepts no more, lets the requests in flight
/// finish, and returns when the last connection is closed.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: LimitSettings,
    metrics: Arc<NodeMetrics>,
    tasks: Tasks,
) -> Result<(), Infallible> {
    let stopping = tasks.stopping();
    let room = Arc::new(Semaphore::new(limits.connections_max));
    let open = TaskTracker::new();
    let closing = CancellationToken::new();
    let builder = builder(limits, &tasks);
    let protocol = Protocol { builder, router, limits, closing: closing.clone() };
    let serve_one = |stream: TcpStream, permit| {
        // Answers are small and complete: waiting for more to send only makes callers wait.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "could not switch off delays");
        }
        let count = metrics.connection();
        let serving = open.track_future(protocol.connection(stream));
        tasks.spawn(async move {
            serving.await;
            drop((permit, count));
        });
    };
    while let Some((stream, permit)) = accept(&listener, &room, &stopping).await {
        serve_one(stream, permit);
    }
    // Callers whose connections wait in the port believe that they are connected.
    while let Ok(permit) = Arc::clone(&room).try_acquire_owned()
        && let Some(Ok((stream, _))) = listener.accept().now_or_never()
    {
        serve_one(stream, permit);
    }
    drop(listener);
    closing.cancel();
    open.close();
    open.wait().await;
    Ok(())
}

/// The next connection, once there is room for it; `None` when no more are to be accepted.
async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
    stopping: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let accepting = async {
        let permit = Arc::clone(connections).acquire_owned().await;
        let permit = permit.expect("nobody closes the semaphore");
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return (stream, permit),
                Err(error) => {
                    tracing::warn!(error = %error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = stopping.cancelled() => None,
        accepted = accepting => Some(accepted),
    }
}

/// What all connections of a listener have in common.
struct Protocol {
    builder: auto::Builder<TrackedExecutor>,
    router: Router,
    limits: LimitSettings,
    /// Canceled when connections should end as soon as they have finished what they have.
    closing: CancellationToken,
}

impl Protocol {
    /// Serves one connection until it ends, or has to.
    fn connection<I>(&self, io: I) -> impl Future<Output = ()> + Send + 'static
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let LimitSettings { header_read, write_stall, answer, .. } = self.limits;
        let io = TokioIo::new(StallGuard::new(io, header_read, write_stall));
        let exchanges = Exchanges::new();
        let router = TowerToHyperService::new(self.router.clone());
        let of_connection = Arc::clone(&exchanges);
        let service = service_fn(move |request| {
            let exchange = of_connection.begin();
            let answering = router.call(request);
            async move {
                let response = answering.await?;
                Ok::<_, Infallible>(response.map(|body| exchange.answer(body)))
            }
        });
        let connection = self.builder.serve_connection(io, service).into_owned();
        let closing = self.closing.clone();
        let patience = Patience { answer, idle: header_read };
        async move {
            let mut connection = pin!(connection);
            let mut is_closing = false;
            let mut since = Instant::now();
            loop {
                // Order matters: a request that has come already is taken before the connection is
                // asked to end.
                tokio::select! {
                    biased;
                    ended = connection.as_mut() => {
                        if let Err(error) = ended {
                            // The caller went away, was too slow or sent what is not HTTP: its own
                            // affair.
                            tracing::debug!(error, "connection ended");
                        }
                        return;
                    }
                    () = closing.cancelled(), if !is_closing => (),
                    overdue = exchanges.overdue(patience, since) => {
                        if is_closing || overdue == Overdue::Answer {
                            tracing::debug!(?overdue, "connection was cut off");
                            return;
                        }
                    }
                }
                connection.as_mut().graceful_shutdown();
                is_closing = true;
                since = Instant::now();
            }
        }
    }
}

fn builder(limits: LimitSettings, tasks: &Tasks) -> auto::Builder<TrackedExecutor> {
    let mut builder = auto::Builder::new(TrackedExecutor(tasks.clone()));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read)
        .max_buf_size(limits.header_bytes_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HTTP2_PING_EVERY)
        .keep_alive_timeout(limits.header_read)
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX));
    builder
}

/// Runs the streams of HTTP/2 connections as tasks of the node.
#[derive(Clone)]
struct TrackedExecutor(Tasks);

impl<F> Executor<F> for TrackedExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        self.0.spawn(async move {
            stream.await;
        });
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use http_body_util::Empty;
    use hyper::body::Bytes;
    use hyper::client::conn::http2;
    use hyper_util::rt::TokioExecutor;
    use tokio::io::DuplexStream;
    use tokio::task::JoinSet;

    use super::*;

    const LIMITS: LimitSettings =
        LimitSettings { header_read: Duration::from_secs(600), ..LimitSettings::STANDARD };

    const ANSWER: &str = "An answer that nobody takes.";

    fn protocol() -> Protocol {
        let router = Router::new().route("/", get(async || ANSWER));
        let builder = builder(LIMITS, &Tasks::new());
        Protocol { builder, router, limits: LIMITS, closing: CancellationToken::new() }
    }

    /// Serves one connection, whose caller gives an answer room for so many bytes; gives that
    /// caller, and what ends when the service lets go of the connection.
    async fn connect(window: u32) -> (http2::SendRequest<Empty<Bytes>>, JoinSet<()>) {
        let (io, served): (DuplexStream, DuplexStream) = tokio::io::duplex(1 << 16);
        let serving = JoinSet::from_iter([protocol().connection(served)]);
        let handshake = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .handshake(TokioIo::new(io));
        let (caller, connection) = handshake.await.unwrap();
        Tasks::new().spawn(async move {
            drop(connection.await);
        });
        (caller, serving)
    }

    async fn ask(caller: &mut http2::SendRequest<Empty<Bytes>>) -> hyper::Response<Body> {
        let request = hyper::Request::get("http://purser/").body(Empty::new()).unwrap();
        let response = caller.send_request(request).await.unwrap();
        response.map(Body::new)
    }

    #[track_caller]
    fn check_took(since: Instant, limit: Duration) {
        let took = since.elapsed();
        assert!(limit <= took && took <= 2 * limit, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_given_no_room_is_cut_off() {
        for window in [0, 1] {
            let (mut caller, mut serving) = connect(window).await;
            let asked = Instant::now();
            let unread = ask(&mut caller).await;
            serving.join_next().await.unwrap().unwrap();
            check_took(asked, LIMITS.answer);
            drop(unread);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_once_its_answers_are_taken() {
        let (mut caller, mut serving) = connect(1 << 16).await;
        let taken = axum::body::to_bytes(ask(&mut caller).await.into_body(), 100).await;
        assert_eq!(&taken.unwrap()[..], ANSWER.as_bytes());
        let idle = Instant::now();
        serving.join_next().await.unwrap().unwrap();
        check_took(idle, LIMITS.header_read);
    }
}
