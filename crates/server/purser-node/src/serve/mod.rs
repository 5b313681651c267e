//! Accepting connections and speaking HTTP on them.
//!
//! HTTP/1.1 and HTTP/2 on one port, told apart by what the caller sends. A connection can only take
//! up what the limits allow: so many connections, so many bytes of headers, so long for headers or
//! idleness, so long for taking no byte of an answer. How long a request may take, and how large its
//! body may be, is checked where it is read. Not here: routes, tokens, bodies.

mod stall;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::metrics::NodeMetrics;
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
    let connections = Arc::new(Semaphore::new(limits.connections_max));
    let graceful = GracefulShutdown::new();
    let protocol = Protocol { builder: builder(limits, &tasks), router, limits };
    let serve_one = |stream, permit| {
        let count = metrics.connection();
        let serving = protocol.connection(stream, graceful.watcher());
        tasks.spawn(async move {
            serving.await;
            drop((permit, count));
        });
    };
    while let Some((stream, permit)) = accept(&listener, &connections, &stopping).await {
        serve_one(stream, permit);
    }
    // Callers whose connections wait in the port believe that they are connected.
    while let Ok(permit) = Arc::clone(&connections).try_acquire_owned()
        && let Some(Ok((stream, _))) = listener.accept().now_or_never()
    {
        serve_one(stream, permit);
    }
    drop(listener);
    graceful.shutdown().await;
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
}

impl Protocol {
    fn connection(
        &self,
        stream: TcpStream,
        watcher: Watcher,
    ) -> impl Future<Output = ()> + Send + 'static {
        // Answers are small and complete: waiting for more to send only makes callers wait.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "could not switch off delays");
        }
        let io =
            TokioIo::new(StallGuard::new(stream, self.limits.header_read, self.limits.write_stall));
        let service = TowerToHyperService::new(self.router.clone());
        let connection = self.builder.serve_connection(io, service).into_owned();
        async move {
            if let Err(error) = watcher.watch(connection).await {
                // The caller went away, was too slow or sent what is not HTTP: its own affair.
                tracing::debug!(error, "connection ended");
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
