//! Bad requests: refused with a problem and its code, never with a failure, and without effect.
//!
//! ```text
//!  amounts, bodies, addresses   requests that are HTTP and cannot be read further: a problem
//!  below_http                   bytes that are no request: a 4xx without a body, or a hang-up
//! ```
//!
//! The whole table goes to each node in turn, so whoever leads the account's shard reads it, and
//! the others forward it or refuse it themselves.

mod addresses;
mod amounts;
mod below_http;
mod bodies;

use purser_api::Problem;
use purser_tests::{
    Account, AfterSending, Caller, Cluster, RawReply, Reaction, fresh_key, request_bytes, send,
};
use serde_json::json;

/// A request that has to be refused, and how.
struct Row {
    what: String,
    bytes: Vec<u8>,
    status: u16,
    code: &'static str,
}

/// What the rows are about: an account, a hold of which 60 were captured, and an active hold.
struct Scene {
    account: Account,
    captured: String,
    active: String,
    lot: String,
}

impl Scene {
    async fn set(cluster: &Cluster) -> Self {
        let account = Account::open(&cluster.api(1), "table", 0).await;
        let lot = account.grant(100).await;
        let captured = account.captured_hold(60).await;
        let active = account.hold(10).await;
        Self { account, captured, active, lot }
    }

    /// A POST of the administrator with a key and a JSON body, all well formed but the body.
    fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
        self.post_with(path, &[], body)
    }

    /// The same with more headers. One that is given here replaces the usual one.
    fn post_with(&self, path: &str, more: &[(&str, &[u8])], body: impl AsRef<[u8]>) -> Vec<u8> {
        let token = format!("Bearer {}", Caller::Admin.secret());
        let key = fresh_key();
        let usual: [(&str, &[u8]); 3] = [
            ("authorization", token.as_bytes()),
            ("content-type", b"application/json"),
            ("idempotency-key", key.as_bytes()),
        ];
        let kept = usual.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
        let headers: Vec<(&str, &[u8])> = kept.chain(more).copied().collect();
        request_bytes(&format!("POST {path}"), &headers, body.as_ref())
    }

    /// A request of the administrator without a body.
    fn bare(&self, method_and_path: &str) -> Vec<u8> {
        let token = format!("Bearer {}", Caller::Admin.secret());
        request_bytes(method_and_path, &[("authorization", token.as_bytes())], b"")
    }
}

fn row(what: impl Into<String>, bytes: Vec<u8>, status: u16, code: &'static str) -> Row {
    Row { what: what.into(), bytes, status, code }
}

#[tokio::test]
async fn bad_requests_are_refused_by_name_and_change_nothing() {
    let cluster = Cluster::start().await;
    let scene = Scene::set(&cluster).await;
    let before = scene.account.get("balance").await;
    let (mut count, mut complaints) = (0, Vec::new());
    for id in Cluster::IDS {
        // Made anew for each node, because keys are.
        let tables = [amounts::rows(&scene), bodies::rows(&scene), addresses::rows(&scene).await];
        for row in tables.into_iter().flatten() {
            let reaction = send(cluster.address(id), &row.bytes, AfterSending::Wait).await;
            complaints.extend(complaint(&row, &reaction).map(|what| format!("node {id}: {what}")));
            count += 1;
        }
    }
    println!("{count} bad requests, {} answered wrongly", complaints.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));

    let after = scene.account.get("balance").await;
    for field in ["granted", "available", "held", "used", "expired", "voided", "debt", "totals"] {
        assert_eq!(before.body[field], after.body[field], "{field} moved");
    }
    assert_eq!(before.body["as_of"]["sequence"], after.body["as_of"]["sequence"]);
    for id in Cluster::IDS {
        cluster.api(id).get("/livez").await.check(200);
    }
    // The keys of refused captures are free, and zero means release there.
    let capture = format!("holds/{}/capture", scene.active);
    scene.account.post(&capture, &fresh_key(), json!({ "amount": 0 })).await.check(200);
    scene.account.check_balance("G=100 A=40 U=60").await;
}

#[tokio::test]
async fn bytes_that_are_no_request_are_turned_away() {
    let cluster = Cluster::start().await;
    let scene = Scene::set(&cluster).await;
    for (what, bytes, then) in below_http::rows(&scene) {
        for id in Cluster::IDS {
            match send(cluster.address(id), &bytes, then).await {
                Reaction::HungUp => {}
                Reaction::Answered(reply) => {
                    assert!((400..500).contains(&reply.status), "{what}: {reply:#?}");
                }
            }
            cluster.api(id).get("/livez").await.check(200);
        }
    }
    scene.account.check_balance("G=100 A=30 H=10 U=60").await;
}

/// What is wrong about an answer, which has to be the row's problem document.
fn complaint(row: &Row, reaction: &Reaction) -> Option<String> {
    let Row { what, status, code, .. } = row;
    let Reaction::Answered(reply) = reaction else {
        return Some(format!("{what}: no answer"));
    };
    let RawReply { status: answered, body, .. } = reply;
    let is_text = |field: &str| body[field].is_string();
    let whole = body["status"] == *status
        && body["outcome"] == "nothing_happened"
        && ["type", "title", "detail", "retry", "request_id"].into_iter().all(is_text);
    let typed = reply.header("content-type") == Some(Problem::MEDIA_TYPE);
    let right = answered == status && body["code"] == *code && whole && typed;
    (!right).then(|| format!("{what}: {answered} {body} instead of {status} {code}"))
}
