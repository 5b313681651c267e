//! Passing a request on to a node that runs, and its answer back.
//!
//! If a node cannot be connected to, nothing was sent and the next one is tried; if a connection
//! breaks later, the request may have been carried out, so the caller is told that the outcome is
//! unknown, and retries with its key. Reads are simply asked elsewhere.
//!
//! Requests are spread over all nodes. One with an idempotency key goes to the node that its key
//! names for as long as that runs: a retry in another region would find a second book that does not
//! know the key.
//!
//! Not here: who listens for requests, and whether the caller may ask.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use purser_api::{Problem, ProblemCode, headers};
use tokio::sync::watch;

/// How long a node may take to answer; longer than a node's own deadline for a request.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection may take: everything is on this machine.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);

/// Headers that are about one connection and so are not passed on (RFC 9110, section 7.6.1).
const HOP_BY_HOP: &[HeaderName] = &[
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
];

/// An answer: a node's, as it arrives, or one of our own.
pub(super) type Answer = Response<Either<Incoming, Full<Bytes>>>;

/// The way to the nodes.
#[derive(Debug)]
pub(super) struct Passage {
    client: Client<HttpConnector, Full<Bytes>>,
    nodes: watch::Receiver<Vec<SocketAddr>>,
    next_node: AtomicUsize,
}

impl Passage {
    /// A way to the nodes that run, whichever those are at the moment of a request.
    pub(super) fn new(nodes: watch::Receiver<Vec<SocketAddr>>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_PATIENCE));
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { client, nodes, next_node: AtomicUsize::new(0) }
    }

    /// Asks one node after the other, as long as nothing can have happened.
    pub(super) async fn pass_on(&self, parts: &Parts, body: Bytes, request_id: &str) -> Answer {
        let passed = self.ask_in_turn(parts, body, request_id);
        tokio::time::timeout(ANSWER_PATIENCE, passed).await.unwrap_or_else(|_elapsed| {
            let text = "the node did not answer in time";
            problem(ProblemCode::OutcomeUnknown, text, request_id)
        })
    }

    async fn ask_in_turn(&self, parts: &Parts, body: Bytes, request_id: &str) -> Answer {
        for node in self.in_turn(parts.headers.get(headers::IDEMPOTENCY_KEY)) {
            let request = match rebuilt(parts, &node.to_string(), body.clone(), request_id) {
                Ok(request) => request,
                Err(error) => {
                    let text = format!("the request cannot be passed on: {error}");
                    return problem(ProblemCode::InvalidRequest, text, request_id);
                }
            };
            match self.client.request(request).await {
                Ok(response) => return without_hop_headers(response),
                // Nothing was sent, or asking twice does no harm.
                Err(error) if error.is_connect() || parts.method.is_safe() => {
                    tracing::debug!(%node, %error, "a node did not answer, trying the next");
                }
                Err(error) => {
                    tracing::debug!(%node, %error, "a node was lost after the request was sent");
                    let text = "the node was lost while it worked on the request";
                    return problem(ProblemCode::OutcomeUnknown, text, request_id);
                }
            }
        }
        problem(ProblemCode::NotReady, "no node of the cluster answers", request_id)
    }

    /// The nodes in the order in which they are asked for a request with this key.
    fn in_turn(&self, key: Option<&HeaderValue>) -> Vec<SocketAddr> {
        let mut nodes = self.nodes.borrow().clone();
        if let Some(key) = key {
            // Rendezvous hashing: the end of one node moves no other node's keys.
            nodes.sort_by_cached_key(|node| {
                let mut hasher = DefaultHasher::new();
                (key.as_bytes(), node).hash(&mut hasher);
                hasher.finish()
            });
        } else {
            let first = self.next_node.fetch_add(1, Ordering::Relaxed);
            let turn = first.checked_rem(nodes.len()).unwrap_or_default();
            nodes.rotate_left(turn);
        }
        nodes
    }
}

/// The request as it goes to `node` (`host:port`).
fn rebuilt(
    parts: &Parts,
    node: &str,
    body: Bytes,
    request_id: &str,
) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme("http").authority(node).path_and_query(path).build()?;
    let mut request = Request::builder()
        .method(parts.method.clone())
        .uri(uri)
        .version(Version::HTTP_11)
        .body(Full::new(body))?;
    let to = request.headers_mut();
    *to = parts.headers.clone();
    for name in HOP_BY_HOP.iter().chain([&header::HOST, &header::CONTENT_LENGTH]) {
        // The client that sends the request writes its own.
        to.remove(name);
    }
    to.insert(headers::REQUEST_ID, HeaderValue::try_from(request_id)?);
    Ok(request)
}

fn without_hop_headers(mut response: Response<Incoming>) -> Answer {
    for name in HOP_BY_HOP {
        response.headers_mut().remove(name);
    }
    response.map(Either::Left)
}

/// A problem of our own.
pub(super) fn problem(code: ProblemCode, detail: impl Into<String>, request_id: &str) -> Answer {
    let document = Problem::new(code, detail, request_id);
    let status = StatusCode::from_u16(code.status()).expect("the table has valid statuses");
    json(status, Problem::MEDIA_TYPE, &document)
}

/// An answer of our own.
pub(super) fn json(
    status: StatusCode,
    media_type: &'static str,
    body: &impl serde::Serialize,
) -> Answer {
    let text = serde_json::to_vec(body).expect("these bodies have text keys and plain values");
    let mut response = Response::new(Either::Right(Full::new(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

#[cfg(test)]
mod tests {
    use hyper::Method;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// What a node of a test does with the one request that it gets.
    #[derive(Debug, Clone, Copy)]
    enum Behavior {
        Answers,
        /// Reads the request and is gone: it may have carried it out.
        Dies,
        /// Was gone before.
        IsDown,
    }

    async fn node(behavior: Behavior, tasks: &TaskTracker) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        if matches!(behavior, Behavior::IsDown) {
            return address;
        }
        tasks.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4_096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            if matches!(behavior, Behavior::Answers) {
                stream
                    .write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n")
                    .await
                    .unwrap();
            }
        });
        address
    }

    /// Sends one request to nodes that behave like this, the first of them first.
    async fn check_passage(method: Method, behaviors: &[Behavior], expected: u16) {
        let tasks = TaskTracker::new();
        let mut nodes = Vec::new();
        for behavior in behaviors {
            nodes.push(node(*behavior, &tasks).await);
        }
        let (_sender, nodes) = watch::channel(nodes);
        let request = Request::builder().method(method.clone()).uri("/v1/batch").body(()).unwrap();
        let (parts, ()) = request.into_parts();
        let answer = Passage::new(nodes).pass_on(&parts, Bytes::new(), "test-1").await;
        assert_eq!(answer.status(), expected, "{method} to {behaviors:?}");
    }

    #[tokio::test]
    async fn a_node_that_is_down_costs_nothing() {
        check_passage(Method::POST, &[Behavior::IsDown, Behavior::Answers], 201).await;
        check_passage(Method::POST, &[Behavior::IsDown, Behavior::IsDown], 503).await;
        check_passage(Method::POST, &[], 503).await;
    }

    #[tokio::test]
    async fn what_may_have_happened_is_never_sent_to_another_node() {
        check_passage(Method::POST, &[Behavior::Dies, Behavior::Answers], 504).await;
        check_passage(Method::GET, &[Behavior::Dies, Behavior::Answers], 201).await;
    }

    #[test]
    fn a_retry_goes_where_its_key_went_and_all_nodes_get_keys() {
        let nodes: Vec<SocketAddr> =
            [7_710, 7_720, 7_730].map(|port| ([127, 0, 0, 1], port).into()).into();
        let (sender, receiver) = watch::channel(nodes.clone());
        let passage = Passage::new(receiver);
        let first = |key: usize| {
            let key = HeaderValue::try_from(format!("key-{key}")).unwrap();
            passage.in_turn(Some(&key))[0]
        };
        let before: Vec<SocketAddr> = (0..30).map(first).collect();
        assert!(nodes.iter().all(|node| before.contains(node)), "{before:?}");
        assert_eq!((0..30).map(first).collect::<Vec<_>>(), before);

        sender.send_replace(vec![nodes[0], nodes[2]]);
        for (key, node) in before.iter().enumerate().filter(|(_, node)| **node != nodes[1]) {
            assert_eq!(first(key), *node, "the end of another node moves no key");
        }
    }

    #[test]
    fn a_request_keeps_its_path_and_loses_its_connection() {
        let request = Request::post("http://door/v1/tenants/acme/holds?unit=tokens")
            .header("connection", "close")
            .header("idempotency-key", "k1")
            .body(())
            .unwrap();
        let (parts, ()) = request.into_parts();
        let passed = rebuilt(&parts, "127.0.0.1:7711", Bytes::new(), "dev-1").unwrap();
        assert_eq!(passed.uri(), "http://127.0.0.1:7711/v1/tenants/acme/holds?unit=tokens");
        assert_eq!(passed.headers().get("connection"), None);
        assert_eq!(passed.headers().get("idempotency-key").unwrap(), "k1");
        assert_eq!(passed.headers().get(headers::REQUEST_ID).unwrap(), "dev-1");
    }
}
