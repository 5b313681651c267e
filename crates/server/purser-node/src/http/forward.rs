//! Asking another node in the name of a caller.
//!
//! Any node answers; one that does not lead an account's shard passes the request on to the one
//! that does, and its answer back. The error says the one thing that matters: whether the request
//! may have left this node. If it may have, it is never sent anywhere else.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Uri;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioTimer;
use purser_raft::NodeId;
use purser_types::Epoch;

use crate::http::call::{
    Call, DEADLINE_MS, FROM_REGION, HOPS, IDEMPOTENCY_KEY, PLACED, REQUEST_ID, TRACEPARENT,
};
use crate::settings::BaseUrl;
use crate::tasks::Tasks;

/// How often a request may be passed on: to the leader of this region, to the region that decides and
/// its leader there, and twice more because leaderships and homes have just moved.
pub(crate) const HOPS_MAX: u8 = 5;

/// How long it may take to connect to another node.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);

/// How long an unused connection is kept. Shorter than a node keeps one that is idle, so that a
/// request does not meet a connection that is just being closed.
const IDLE: Duration = Duration::from_secs(15);

/// How much earlier than this node another one has to answer, besides the round trip: what both need to
/// pass an answer back. Without it a call that waits elsewhere until its time is over would be answered
/// there with "nothing happened", and here with "unknown", at the same moment.
const HEAD_START: Duration = Duration::from_millis(100);

/// Asks other nodes.
pub(crate) struct Forwarder {
    client: Client<HttpConnector, Full<Bytes>>,
}

/// Another node that a call is passed on to, and what the call takes along.
#[derive(Clone, Copy)]
pub(crate) struct Onward<'a> {
    base: &'a BaseUrl,
    /// The latest epoch that is known here of those whom the call concerns.
    placed: Option<Epoch>,
    /// How long before this node's own deadline the other one has to answer.
    head_start: Duration,
}

impl Call {
    /// The way to another node, if the configuration names it.
    pub(crate) fn onward(&self, node: NodeId, placed: Option<Epoch>) -> Option<Onward<'_>> {
        let base = self.api.base_url(node, &self.parts.uri)?;
        let links = self.api.regions().map(|regions| regions.links());
        let round_trip = links.zip(self.api.region_of(node));
        let round_trip =
            round_trip.map_or(0, |(links, region)| links.round_trip(region).as_micros());
        Some(Onward { base, placed, head_start: Duration::from_micros(round_trip) + HEAD_START })
    }
}

/// How long another node has to answer, of the time that is left here.
fn time_for(left: Duration, head_start: Duration) -> Duration {
    left.saturating_sub(head_start.min(left / 2))
}

/// Why there is no answer from the other node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForwardError {
    /// The request did not leave this node.
    NotSent,
    /// The request may have arrived.
    MaybeSent,
}

/// Headers of an answer that are about the connection, or that this node sets itself.
const OWN_HEADERS: [HeaderName; 5] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::TRANSFER_ENCODING,
    REQUEST_ID,
];

impl Forwarder {
    /// A client whose connections are tasks of the node.
    pub(crate) fn new(tasks: &Tasks) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_PATIENCE));
        let client = Client::builder(ClientExecutor(tasks.clone()))
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Self { client }
    }

    /// Passes a whole call on and gives the other node's answer.
    pub(crate) async fn relay(
        &self,
        call: &Call,
        to: Onward<'_>,
    ) -> Result<Response, ForwardError> {
        let path = call.parts.uri.path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let (headers, body) = self.send(call, to, (path, call.body().clone())).await?;
        let (mut parts, ()) = headers.into_parts();
        for name in OWN_HEADERS {
            parts.headers.remove(name);
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }

    /// Sends `body` to `path` on another node, in the name of `call`.
    pub(crate) async fn send(
        &self,
        call: &Call,
        to: Onward<'_>,
        (path, body): (PathAndQuery, Bytes),
    ) -> Result<(hyper::Response<()>, Bytes), ForwardError> {
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = call.parts.method.clone();
        *request.uri_mut() = address(to.base, path);
        *request.headers_mut() = headers_of(call, to);
        let asking = async {
            let response = self.client.request(request).await.map_err(|error| {
                tracing::debug!(error = %crate::tasks::chain(&error), "could not ask a node");
                if error.is_connect() { ForwardError::NotSent } else { ForwardError::MaybeSent }
            })?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|_cut_off| ForwardError::MaybeSent)?;
            Ok((hyper::Response::from_parts(parts, ()), body.to_bytes()))
        };
        let deadline = call.meta.deadline.into();
        tokio::time::timeout_at(deadline, asking).await.unwrap_or(Err(ForwardError::MaybeSent))
    }
}

fn address(base: &BaseUrl, path: PathAndQuery) -> Uri {
    Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(base.authority().clone())
        .path_and_query(path)
        .build()
        .expect("scheme, authority and path make an address")
}

/// What goes along: who asks, what it is, and how long there is to answer.
fn headers_of(call: &Call, to: Onward<'_>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(10);
    let passed_on = [header::AUTHORIZATION, header::CONTENT_TYPE, IDEMPOTENCY_KEY, TRACEPARENT];
    for name in passed_on {
        if let Some(value) = call.parts.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let request_id = HeaderValue::from_str(&call.meta.request_id);
    headers.insert(REQUEST_ID, request_id.expect("a request's id is made of plain characters"));
    // Whose call it is, also on the way within the region that decides.
    let own = call.api.region();
    let from = call.meta.from_region.as_ref().unwrap_or(own);
    let from = HeaderValue::from_str(from.as_str());
    headers.insert(FROM_REGION, from.expect("a region's name is made of plain characters"));
    // Who knows of an older epoch must not pass it back.
    if let Some(Epoch(epoch)) = to.placed.max(call.meta.placed) {
        headers.insert(PLACED, HeaderValue::from(epoch));
    }
    headers.insert(HOPS, HeaderValue::from(u16::from(call.meta.hops) + 1));
    let left = call.meta.deadline.saturating_duration_since(std::time::Instant::now());
    let time = u64::try_from(time_for(left, to.head_start).as_millis()).unwrap_or(u64::MAX);
    headers.insert(DEADLINE_MS, HeaderValue::from(time));
    headers
}

/// Runs the client's connections, which are dropped when the node stops.
#[derive(Clone)]
struct ClientExecutor(Tasks);

impl<F> hyper::rt::Executor<F> for ClientExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, connection: F) {
        self.0.spawn_until_stopping(async move {
            connection.await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_time(left: u64, head_start: u64, expected: u64) {
        let of = Duration::from_millis;
        assert_eq!(time_for(of(left), of(head_start)), of(expected));
    }

    #[test]
    fn another_node_has_to_answer_in_time_for_this_one() {
        check_time(10_000, 300, 9_700);
        // Who has little time gives half of it away.
        check_time(400, 300, 200);
        check_time(0, 300, 0);
    }
}
