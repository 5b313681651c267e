//! Who may ask for what.

use purser_tests::{Account, Api, Caller, Cluster, Reply, fresh_key};
use reqwest::Method;
use serde_json::{Value, json};

/// Sends without a token, or with something in its place.
async fn with_authorization(api: &Api, value: Option<&str>) -> Reply {
    let client = reqwest::Client::builder().no_proxy().build().expect("it needs nothing");
    let mut request =
        client.request(Method::GET, format!("{}/v1/tenants/acme/balance", api.base()));
    if let Some(value) = value {
        request = request.header("authorization", value);
    }
    api.send(request).await.expect("the node answers")
}

#[tokio::test]
async fn without_a_known_token_nothing_is_answered() {
    let cluster = Cluster::start().await;
    let api = cluster.api(1);
    Account::open(&api, Caller::ACME, 100).await;
    let basic = format!("Basic {}", Caller::Admin.secret());
    let padded = format!("Bearer {}x", Caller::Admin.secret());
    let none =
        ["", "Bearer", "Bearer ", "Bearer nobody's", &basic, &padded, Caller::Admin.secret()];
    for value in none.into_iter().map(Some).chain([None]) {
        with_authorization(&api, value).await.check_problem(401, "unauthenticated");
    }
    let good = format!("Bearer {}", Caller::Read.secret());
    with_authorization(&api, Some(&good)).await.check(200);
}

#[tokio::test]
async fn each_scope_allows_its_calls_and_no_others() {
    let cluster = Cluster::start().await;
    // Through a node that leads the account's shard and through those that forward to it.
    for id in Cluster::IDS {
        let tenant = format!("scopes-{id}");
        let account = Account::open(&cluster.api(id), &tenant, 100).await;
        let hold = account.hold(10).await;
        for (caller, reads, spends, admits) in [
            (Caller::Admin, true, true, true),
            (Caller::Spend, true, true, false),
            (Caller::Read, true, false, false),
        ] {
            let account = account.through(&cluster.api_of(id, caller));
            for rest in ["balance", "entries", "lots", "holds", "statement"] {
                check_allowed(caller, rest, &account.get(rest).await, reads);
            }
            let one = json!({ "amount": 1 });
            let held = account.post("holds", &fresh_key(), one.clone()).await;
            check_allowed(caller, "authorize", &held, spends);
            let charged = account.post("charges", &fresh_key(), one.clone()).await;
            check_allowed(caller, "charge", &charged, spends);
            let part = json!({ "amount": 1, "final": false });
            let path = format!("holds/{hold}/capture");
            let captured = account.post(&path, &fresh_key(), part).await;
            check_allowed(caller, "capture", &captured, spends);
            let granted = account.admin("grants", &fresh_key(), one).await;
            check_allowed(caller, "grant", &granted, admits);
            let listed = account.api.get("/admin/v1/tenants").await;
            check_allowed(caller, "tenants", &listed, admits);
            let cluster = account.api.get("/admin/v1/cluster").await;
            check_allowed(caller, "cluster", &cluster, admits);
        }
        account.check_balance("G=101 A=87 H=10 U=4").await;
    }
}

#[track_caller]
fn check_allowed(caller: Caller, call: &str, reply: &Reply, allowed: bool) {
    println!("{caller:?} {call}: {}", reply.status);
    if allowed {
        assert!(reply.status < 300, "{caller:?} {call}: {reply:#?}");
    } else {
        reply.check_problem(403, "forbidden");
    }
}

/// Whoever is limited to a tenant learns nothing of another: not by its name, not by an id, not by
/// a cursor, not in a batch. Not even whether there is such a tenant.
#[tokio::test]
async fn a_limited_token_does_not_see_another_tenant() {
    let cluster = Cluster::start().await;
    let acme = Account::open(&cluster.api(1), Caller::ACME, 100).await;
    let globex = Account::open(&cluster.api(1), "globex", 100).await;
    let mut holds = Vec::new();
    for _ in 0..3 {
        holds.push(globex.hold(10).await);
    }
    let cursor = globex.get("holds?limit=1").await.check(200).text("next_cursor");
    for (id, caller) in [(1, Caller::AcmeSpend), (2, Caller::AcmeSpend), (3, Caller::AcmeAdmin)] {
        let api = cluster.api_of(id, caller);
        let (mine, theirs) = (acme.through(&api), globex.through(&api));
        let nobodys = Account { tenant: "nobody".to_owned(), ..theirs.clone() };
        mine.get("balance").await.check(200);
        for rest in ["balance", "entries", "lots", "holds", &format!("holds/{}", holds[0])] {
            check_unseen(&theirs.get(rest).await, &nobodys.get(rest).await);
        }
        let one = json!({ "amount": 1 });
        for rest in ["holds", "charges", "check", &format!("holds/{}/capture", holds[0])] {
            let key = fresh_key();
            let answers = (
                theirs.post(rest, &key, one.clone()).await,
                nobodys.post(rest, &key, one.clone()).await,
            );
            check_unseen(&answers.0, &answers.1);
        }
        // An id of theirs under a name of mine is an id of nothing, or of something of mine.
        let seen = mine.get(&format!("holds/{}", holds[2])).await;
        seen.check_problem(404, "hold_not_found");
        let paged = mine.get(&format!("holds?limit=1&cursor={cursor}")).await;
        paged.check_problem(400, "invalid_cursor");
        check_batch(&api, &holds[0]).await;
    }

    let admin = cluster.api_of(2, Caller::AcmeAdmin);
    let theirs = globex.through(&admin);
    let nobodys = Account { tenant: "nobody".to_owned(), ..theirs.clone() };
    let one = json!({ "amount": 1 });
    let grants = (
        theirs.admin("grants", &fresh_key(), one.clone()).await,
        nobodys.admin("grants", &fresh_key(), one).await,
    );
    check_unseen(&grants.0, &grants.1);
    let opened = admin.post("/admin/v1/tenants", &fresh_key(), &json!({ "tenant": "mine" })).await;
    assert!([403, 404].contains(&opened.status), "{opened:#?}");
    let listed = admin.get("/admin/v1/tenants").await;
    assert!(!listed.body.to_string().contains("globex"), "{listed:#?}");
    globex.check_balance("G=100 A=70 H=30").await;
    acme.check_balance("G=100 A=97 U=3").await;
}

/// A tenant that is there and one that is not are refused alike.
#[track_caller]
fn check_unseen(theirs: &Reply, nobodys: &Reply) {
    assert!([403, 404].contains(&theirs.status), "{theirs:#?}");
    let told = |reply: &Reply| (reply.status, reply.body["code"].clone());
    assert_eq!(told(theirs), told(nobodys), "{theirs:#?}");
}

/// One item of mine and two of theirs: mine is done, theirs are not, alone and as a whole.
async fn check_batch(api: &Api, hold: &str) {
    let item = |op: &str, tenant: &str, more: (&str, Value)| {
        let mut item = json!({ "op": op, "tenant": tenant, "idempotency_key": fresh_key() });
        item[more.0] = more.1;
        item
    };
    let theirs = item("charge", "globex", ("amount", json!(1)));
    let items = json!([
        item("charge", Caller::ACME, ("amount", json!(1))),
        theirs,
        item("release", "globex", ("hold_id", json!(hold))),
    ]);
    let plain = api.post("/v1/batch", "unused", &json!({ "items": items })).await;
    let status = |place: usize| plain.body["results"][place]["status"].as_u64();
    assert_eq!(status(0), Some(201), "{plain:#?}");
    for place in [1, 2] {
        assert!([Some(403), Some(404)].contains(&status(place)), "{plain:#?}");
    }
    let whole =
        json!({ "atomic": true, "items": [item("charge", "globex", ("amount", json!(1)))] });
    let whole = api.post("/v1/batch", "unused", &whole).await;
    let told = whole.body.to_string();
    assert!(told.contains("forbidden") || told.contains("tenant_not_found"), "{whole:#?}");
}
