//! The client against a small server that answers as it is told and remembers what it was asked.
//!
//! Time is real here, because a paused clock would run while a socket is waited for. So pauses
//! between attempts are zero, and silence is given up after 20 ms. What concerns time is tested in
//! `retry`, under a paused clock and without sockets.

#![expect(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use purser_client::api::{
    AsOf, AuthorizeRequest, Balance, Buckets, CallAmount, CaptureAnswer, CaptureRequest, DecidedBy,
    DeciderRole, GroupNumber, Hold, HoldAnswer, HoldId, HoldStatus, LeaderRequest, NodeNumber,
    Problem, ProblemCode, RefundRequest, ReleaseRequest, SubjectId, TotalAmount, Totals,
};
use purser_client::{Account, Backoff, Call, Client, ClientError, ClientSettings};
use purser_types::{Credits, IdempotencyKey, LogTime, Region, Sequence, TenantId, Unit};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What the server was asked.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    method: Method,
    path: String,
    key: Option<String>,
    body: String,
}

/// What the server answers next.
enum Told {
    Body(u16, String),
    /// Waits for ever, so that the client gives the attempt up.
    Silence,
}

#[derive(Clone)]
struct Script {
    answers: Arc<Mutex<VecDeque<Told>>>,
    asked: mpsc::UnboundedSender<Asked>,
}

/// A server, and what reaches it. Dropping it ends it.
struct Server {
    url: String,
    asked: mpsc::UnboundedReceiver<Asked>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(answers: impl IntoIterator<Item = Told>) -> Self {
        let (sender, asked) = mpsc::unbounded_channel();
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        let router = Router::new().fallback(answer).with_state(Script { answers, asked: sender });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, asked, _tasks: tasks }
    }

    /// What reached the server so far.
    fn asked(&mut self) -> Vec<Asked> {
        std::iter::from_fn(|| self.asked.try_recv().ok()).collect()
    }
}

async fn answer(
    State(script): State<Script>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let told = script.answers.lock().unwrap().pop_front();
    let key = headers.get("idempotency-key");
    let asked = Asked {
        method,
        path: uri.to_string(),
        key: key.map(|key| String::from_utf8(key.as_bytes().to_vec()).unwrap()),
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    script.asked.send(asked).unwrap();
    match told {
        Some(Told::Body(status, body)) => {
            let status = StatusCode::from_u16(status).unwrap();
            (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Some(Told::Silence) => std::future::pending().await,
        None => StatusCode::IM_A_TEAPOT.into_response(),
    }
}

fn body(status: u16, body: &impl Serialize) -> Told {
    Told::Body(status, serde_json::to_string(body).unwrap())
}

fn problem(code: ProblemCode) -> Told {
    body(code.status(), &Problem::new(code, "as scripted", "r1"))
}

fn tenant() -> TenantId {
    TenantId::parse("acme").unwrap()
}

fn hold_id() -> HoldId {
    "h7-0-us".parse().unwrap()
}

fn hold(status: HoldStatus) -> Hold {
    Hold {
        hold_id: hold_id(),
        tenant: tenant().into(),
        unit: Unit::credits().into(),
        status,
        amount: Credits::ZERO.into(),
        captured_total: Credits::ZERO.into(),
        held_remaining: Credits::ZERO.into(),
        refunded_total: Credits::ZERO.into(),
        created_at: LogTime::ZERO.into(),
        expires_at: LogTime::MAX.into(),
        lots: Vec::new(),
        overdrawn: None,
        budgets: Vec::new(),
        reference: None,
        sequence: Sequence(7).into(),
        decided_by: DecidedBy {
            region: Region::parse("us").unwrap().into(),
            role: DeciderRole::Home,
        },
    }
}

fn balance() -> Balance {
    let none = || Credits::ZERO.into();
    let nothing = TotalAmount::default;
    Balance {
        tenant: tenant().into(),
        unit: Unit::credits().into(),
        buckets: Buckets {
            granted: none(),
            available: none(),
            held: none(),
            used: none(),
            expired: none(),
            voided: none(),
            debt: none(),
            allocated: BTreeMap::new(),
        },
        pending: none(),
        totals: Totals {
            granted: nothing(),
            authorized: nothing(),
            captured: nothing(),
            released: nothing(),
            refunded: nothing(),
            reclaimed: nothing(),
            expired: nothing(),
        },
        as_of: AsOf { log_time: LogTime::ZERO.into(), sequence: Sequence(7).into() },
        age_ms: 0,
    }
}

fn held(status: HoldStatus) -> Told {
    body(200, &HoldAnswer { hold: hold(status), balance: balance() })
}

fn captured(status: HoldStatus) -> Told {
    let (captured, debt_added) = (Credits::ZERO.into(), Credits::ZERO.into());
    let hold = hold(status);
    body(200, &CaptureAnswer { hold, captured, debt_added, late: false, balance: balance() })
}

/// The account as a client of these servers sees it.
fn account(servers: &[&Server]) -> Account {
    client(servers).account(tenant())
}

/// A client of these servers; nothing waits between attempts.
fn client(servers: &[&Server]) -> Client {
    let urls = servers.iter().map(|server| server.url.clone());
    let mut settings = ClientSettings::new(urls, "secret");
    settings.backoff = Backoff { first: Duration::ZERO, ceiling: Duration::ZERO };
    Client::from_settings(&settings).unwrap()
}

fn five() -> AuthorizeRequest {
    AuthorizeRequest::new(CallAmount::from_credits(Credits::from_u64(5).unwrap()).unwrap())
}

#[tokio::test]
async fn every_attempt_sends_the_same_key_and_body() {
    let told = [ProblemCode::Overloaded, ProblemCode::OutcomeUnknown].map(problem);
    let mut server = Server::start(told.into_iter().chain([held(HoldStatus::Active)])).await;
    let answer = account(&[&server]).authorize(&five(), &Call::new()).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0].path, "/v1/tenants/acme/holds?unit=credits");
    assert_eq!(asked[0].body, r#"{"amount":"5","consistency":"local"}"#);
    assert_eq!(asked[0].key.as_deref(), answer.key.as_ref().map(IdempotencyKey::as_str));
    assert_eq!(asked[0].key.as_ref().unwrap().len(), 32);
    assert!(asked.iter().all(|other| *other == asked[0]), "{asked:?}");
}

#[tokio::test]
async fn a_refusal_is_told_and_not_sent_again() {
    let mut server = Server::start([problem(ProblemCode::InsufficientCredits)]).await;
    let key = IdempotencyKey::parse("größer").unwrap();
    let refused = account(&[&server]).authorize(&five(), &Call::with_key(key)).await.unwrap_err();
    let code = refused.problem().and_then(Problem::known_code);
    assert_eq!(code, Some(ProblemCode::InsufficientCredits));
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].key.as_deref(), Some("größer"));
}

#[tokio::test]
async fn a_failing_node_is_left_for_the_next() {
    let mut first = Server::start([problem(ProblemCode::NotReady)]).await;
    let mut second = Server::start([held(HoldStatus::Active), held(HoldStatus::Released)]).await;
    let account = account(&[&first, &second]);
    account.authorize(&five(), &Call::new()).await.unwrap();
    // The next call starts where the last one found an answer.
    account.release(&hold_id(), &ReleaseRequest::default(), &Call::new()).await.unwrap();
    assert_eq!((first.asked().len(), second.asked().len()), (1, 2));
}

#[tokio::test]
async fn silence_is_unknown_for_a_change_and_nothing_for_a_read() {
    let server = Server::start([Told::Silence, Told::Silence]).await;
    let account = account(&[&server]);
    let soon = Call::new().within(Duration::from_millis(20));
    let change = account.authorize(&five(), &soon).await.unwrap_err();
    assert!(matches!(change, ClientError::Unknown { key: Some(_), .. }), "{change:?}");
    let read = account.hold(&hold_id(), &soon).await.unwrap_err();
    assert!(matches!(read, ClientError::Unreachable { .. }), "{read:?}");
}

#[tokio::test]
async fn nothing_happened_where_nothing_listens() {
    // Port 1 is below the range that the system hands out.
    let mut settings = ClientSettings::new(["http://127.0.0.1:1"], "secret");
    settings.call_time = Duration::from_millis(20);
    let account = Client::from_settings(&settings).unwrap().account(tenant());
    let error = account.authorize(&five(), &Call::new()).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_key_that_http_would_change_is_not_sent() {
    let mut server = Server::start([]).await;
    let call = Call::with_key(IdempotencyKey::parse("key ").unwrap());
    let error = account(&[&server]).authorize(&five(), &call).await.unwrap_err();
    assert!(matches!(error, ClientError::Unsendable(_)), "{error:?}");
    assert_eq!(server.asked(), []);
}

#[tokio::test]
async fn a_dropped_guard_releases_once() {
    let told = [held(HoldStatus::Active), problem(ProblemCode::OutcomeUnknown)];
    let mut server = Server::start(told.into_iter().chain([held(HoldStatus::Released)])).await;
    let guard = account(&[&server]).hold_credits(&five(), &Call::new()).await.unwrap();
    drop(guard);
    let authorize = server.asked.recv().await.unwrap();
    let (first, second) = (server.asked.recv().await.unwrap(), server.asked.recv().await.unwrap());
    assert_eq!(first.path, "/v1/tenants/acme/holds/h7-0-us/release?unit=credits");
    assert_ne!(first.key, authorize.key);
    // Sent twice because the first outcome was unknown, and one change because the key is one.
    assert_eq!(first, second);
}

#[tokio::test]
async fn an_ended_guard_releases_nothing() {
    let told = [held(HoldStatus::Active), captured(HoldStatus::Captured), held(HoldStatus::Active)];
    let told = told.into_iter().chain([held(HoldStatus::Released)]);
    let mut server = Server::start(told).await;
    let account = account(&[&server]);
    let mut guard = account.hold_credits(&five(), &Call::new()).await.unwrap();
    guard.capture(&CaptureRequest::default(), &Call::new()).await.unwrap();
    drop(guard);
    let guard = account.hold_credits(&five(), &Call::new()).await.unwrap();
    guard.release(&ReleaseRequest::default()).await.unwrap();
    let asked: Vec<String> = server.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked.iter().filter(|path| path.contains("/release")).count(), 1);
}

#[tokio::test]
async fn a_capture_on_its_way_is_never_overtaken_by_a_release() {
    let told = [held(HoldStatus::Active), Told::Silence, problem(ProblemCode::HoldNotFound)];
    let mut server = Server::start(told).await;
    let account = account(&[&server]);
    let mut guard = account.hold_credits(&five(), &Call::new()).await.unwrap();
    let soon = Call::new().within(Duration::from_millis(20));
    let error = guard.capture(&CaptureRequest::default(), &soon).await.unwrap_err();
    assert!(matches!(error, ClientError::Unknown { .. }), "{error:?}");
    drop(guard);
    // One more call, so that a release, had there been one, would have been sent before it.
    let reason = "the work failed".parse().unwrap();
    let refund = RefundRequest { amount: None, reason };
    let subject = SubjectId::Hold(hold_id());
    assert!(account.refund(&subject, &refund, &Call::new()).await.is_err());
    let asked: Vec<String> = server.asked().into_iter().map(|asked| asked.path).collect();
    assert!(asked.iter().all(|path| !path.contains("/release")), "{asked:?}");
}

#[tokio::test]
async fn a_refused_capture_leaves_the_guard_on() {
    let told = [held(HoldStatus::Active), problem(ProblemCode::InsufficientCredits)];
    let mut server = Server::start(told.into_iter().chain([held(HoldStatus::Released)])).await;
    let mut guard = account(&[&server]).hold_credits(&five(), &Call::new()).await.unwrap();
    assert!(guard.capture(&CaptureRequest::default(), &Call::new()).await.is_err());
    drop(guard);
    for part in ["/holds?", "/capture?", "/release?"] {
        let asked = server.asked.recv().await.unwrap();
        assert!(asked.path.contains(part), "{asked:?} is not {part}");
    }
}

#[tokio::test]
async fn what_shall_be_is_said_again_without_a_key() {
    let group = r#"{"group":7,"role":"follower","term":3,"leader":2,"last_index":9,
        "committed_index":9,"applied_index":9,"snapshot_index":0,"voters":[1,2],"learners":[],
        "lag_entries":{},"clock":"good"}"#;
    let told = [problem(ProblemCode::OutcomeUnknown), Told::Body(200, group.to_owned())];
    let mut server = Server::start(told).await;
    let cluster = client(&[&server]).admin().cluster();
    let body = LeaderRequest { node: NodeNumber(2) };
    let answer = cluster.set_leader(GroupNumber(7), &body, &Call::new()).await.unwrap();
    assert_eq!(answer.leader, Some(NodeNumber(2)));
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!((&asked[0].method, asked[0].key.as_ref()), (&Method::PUT, None));
    assert_eq!(asked[0].path, "/admin/v1/cluster/groups/7/leader");
    assert_eq!(asked[0].body, r#"{"node":2}"#);
    assert_eq!(asked[0], asked[1]);
}

#[test]
fn a_client_shows_no_token() {
    let client = Client::new(["http://127.0.0.1:7710/"], "secret").unwrap();
    assert_eq!(format!("{client:?}"), r#"Client { base_urls: ["http://127.0.0.1:7710"], .. }"#);
    for odd in ["", "https://a", "127.0.0.1:1", "http://a?b", "ftp://a"] {
        assert!(Client::new([odd], "secret").is_err(), "{odd:?}");
    }
    assert!(Client::new(Vec::<String>::new(), "secret").is_err());
}
