//! Verifications: whoever is asked, what was compared is told, and harm is named.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use purser_node::{ReadModel, ReadModelDifference, ReadModelError, ReadModelVerdict};
use serde_json::{Value, json};

use crate::abroad::{AP, EU, US, make_local, open_in, settled};
use crate::support::{Answer, Caller, Cluster};
use crate::waiting::read_until;

const VERIFICATIONS: &str = "/admin/v1/verifications";

async fn start(caller: &Caller, body: Value) -> Answer {
    let headers = [("content-type", "application/json")];
    caller.raw("POST", VERIFICATIONS, &headers, body.to_string().into()).await
}

/// Verifies, and gives what that came to. `follower` is asked how far it is.
async fn verify(caller: &Caller, follower: &Caller, body: Value) -> Value {
    let begun = start(caller, body).await.expect(200);
    let path = format!("{VERIFICATIONS}/{}", begun.text("/verification_id"));
    read_until(follower, &path, |seen| seen["outcome"] != "running").await.body
}

/// How much was compared in the checks of one subject.
fn compared(verified: &Value, subject: &str) -> u64 {
    let checks = verified["checks"].as_array().unwrap().iter();
    let of_subject = checks.filter(|check| check["subject"] == subject);
    of_subject.map(|check| check["compared"].as_u64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_and_replicas_are_compared_whoever_is_asked_and_while_they_change() {
    let cluster = Cluster::start(3).await;
    let [one, two, three] = [0, 1, 2].map(|place| cluster.caller(place, "root"));
    crate::support::open_with(&one, "acme", 10_000).await;
    let charges = async {
        for number in 0..60 {
            let body = json!({ "amount": 3 });
            let key = format!("c{number}");
            one.post("/v1/tenants/acme/charges", &key, &body).await.expect(201);
        }
    };
    let (verified, ()) = tokio::join!(verify(&two, &three, json!({})), charges);
    assert_eq!(verified["outcome"], "sound", "{verified:#}");
    let checks = verified["checks"].as_array().unwrap().len();
    // Of each shard the entries and the replicas, of which there are two others.
    assert_eq!(compared(&verified, "replicas"), u64::try_from(checks).unwrap(), "{verified:#}");
    let after = verify(&one, &one, json!({})).await;
    assert_eq!(after["outcome"], "sound", "{after:#}");
    assert_eq!(compared(&after, "ledger"), 62);
    assert_eq!(after["bytes_done"], after["bytes_total"]);
    // A node that is away is told as such, and nothing is called sound that was not compared.
    cluster.lose(1).await;
    let gap = verify(&three, &one, json!({})).await;
    assert_eq!((&gap["outcome"], &gap["differences_count"]), (&json!("incomplete"), &json!(0)));
    one.get(&format!("{VERIFICATIONS}/v1-7")).await.expect_problem(404, "not_found");
    one.get(&format!("{VERIFICATIONS}/seven")).await.expect_problem(400, "invalid_id");
    start(&one, json!({ "region": "mars" })).await.expect_problem(404, "region_not_found");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_home_has_booked_is_compared_with_the_books_of_the_regions() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    let spent = make_local(&eu, "acme", "eu").await;
    settled(&us, "acme", "eu", spent).await;
    // Asked in a region that is neither.
    let verified = verify(&ap, &eu, json!({ "region": "us" })).await;
    assert_eq!(verified["outcome"], "sound", "{verified:#}");
    assert_eq!(verified["region"], "us");
    assert_eq!(compared(&verified, "regions"), 1, "{verified:#}");
    cluster.end().await;
}

/// A read model that lacks something until it is built again.
#[derive(Default)]
struct Lacking {
    is_whole: AtomicBool,
    /// Accounts that are not projected whole.
    arriving: AtomicU64,
}

impl ReadModel for Lacking {
    fn verify(&self) -> BoxFuture<'_, Result<ReadModelVerdict, ReadModelError>> {
        let lacks = !self.is_whole.load(Ordering::SeqCst);
        let missing = ReadModelDifference { rows: 2, credits: 40, first: "two rows".to_owned() };
        let tables = lacks.then_some(missing).into_iter().collect();
        let arriving = self.arriving.load(Ordering::SeqCst);
        std::future::ready(Ok(ReadModelVerdict { rows: 9, tables, left_out: 3, arriving })).boxed()
    }

    fn rebuild(&self) -> BoxFuture<'_, Result<(), ReadModelError>> {
        self.is_whole.store(true, Ordering::SeqCst);
        std::future::ready(Ok(())).boxed()
    }
}

/// What was found of the read model.
fn of_tables(verified: &Value) -> &Value {
    let mut checks = verified["checks"].as_array().unwrap().iter();
    checks.find(|check| check["subject"] == "read_model").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_read_model_is_compared_and_built_again_on_request() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let refused = verify(&caller, &caller, json!({ "rebuild_read_model": true })).await;
    assert_eq!(refused["outcome"], "incomplete", "there is none: {refused:#}");
    let lacking = Arc::new(Lacking::default());
    let attached: Arc<dyn ReadModel> = lacking.clone();
    cluster.nodes[0].attach_read_model(attached);
    let found = verify(&caller, &caller, json!({})).await;
    assert_eq!((&found["outcome"], &found["credits"]), (&json!("different"), &json!("40")));
    assert_eq!(found["first_difference"], "two rows");
    let mended = verify(&caller, &caller, json!({ "rebuild_read_model": true })).await;
    // Accounts whose home is elsewhere are told, and are no gap.
    let tables = of_tables(&mended);
    assert_eq!((&tables["compared"], &tables["left_out"]), (&json!(9), &json!(3)));
    assert_eq!(mended["outcome"], "sound", "{mended:#}");
    // Those that have come and are not projected whole may lack anything.
    lacking.arriving.store(2, Ordering::SeqCst);
    let not_all = verify(&caller, &caller, json!({})).await;
    assert_eq!(not_all["outcome"], "incomplete", "{not_all:#}");
    let named = "accounts that have come to this region and are not projected whole: 2";
    assert_eq!(of_tables(&not_all)["not_compared"], json!([named]));
    cluster.end().await;
}
