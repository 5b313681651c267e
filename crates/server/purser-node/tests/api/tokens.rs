//! Who may ask for what: every call of the description, with every scope.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::support::{Cluster, open_with};

/// Method, path and scope of every call in the description that needs a token.
fn calls() -> Vec<(String, String, String)> {
    let document = serde_json::to_value(purser_node::openapi_document()).unwrap();
    let mut calls = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, call) in item.as_object().unwrap() {
            if let Some(scope) = call["security"][0]["token"][0].as_str() {
                calls.push((method.to_uppercase(), path.clone(), scope.to_owned()));
            }
        }
    }
    calls
}

/// A path of a template, about tenant `acme`.
fn filled(template: &str) -> String {
    let values = [
        ("{tenant}", "acme"),
        ("{hold}", "h9-0-us"),
        ("{charge}", "c9-0-us"),
        ("{lot}", "l9-0-us"),
        ("{group}", "0"),
        ("{node}", "1"),
    ];
    values.iter().fold(template.to_owned(), |path, (name, value)| path.replace(name, value))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_open_to_its_scope_and_larger_ones_only() {
    let (cluster, _) = Cluster::with_credits(100).await;
    let rank = |scope: &str| ["read", "spend", "admin"].iter().position(|known| *known == scope);
    let calls = calls();
    assert!(30 < calls.len(), "{calls:?}");
    for (method, template, scope) in &calls {
        let path = filled(template);
        for (secret, has) in [("reader", "read"), ("spender", "spend"), ("root", "admin")] {
            let caller = cluster.caller(0, secret);
            // An odd body: what is allowed is refused for that, and has no effect.
            let body = if method == "GET" { "" } else { "x" };
            let headers = [("idempotency-key", "k"), ("content-type", "application/json")];
            let answer = caller.raw(method, &path, &headers, Bytes::from_static(body.as_bytes()));
            let status = answer.await.status;
            let allowed = rank(scope) <= rank(has);
            assert_eq!(status != 403, allowed, "{secret}: {method} {template}: {status}");
            assert_ne!(status, 401);
        }
        for secret in ["", "unknown", "roo"] {
            let caller = cluster.caller(0, secret);
            let answer = caller.raw(method, &path, &[], Bytes::new()).await;
            let answer = answer.expect_problem(401, "unauthenticated");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_one_tenant_sees_no_other() {
    let (cluster, root) = Cluster::with_credits(100).await;
    open_with(&root, "beta", 100).await;
    let admin = cluster.caller(0, "acme-admin");
    for (method, template, _) in calls() {
        let foreign = filled(&template).replace("acme", "beta");
        if !template.contains("{tenant}") {
            continue;
        }
        for path in [foreign.clone(), foreign.replace("beta", "nobody")] {
            let headers = [("idempotency-key", "k"), ("content-type", "application/json")];
            let answer = admin.raw(&method, &path, &headers, Bytes::new()).await;
            answer.expect_problem(403, "forbidden");
        }
    }

    let body = json!({ "tenant": "gamma" });
    admin.post("/admin/v1/tenants", "o1", &body).await.expect_problem(403, "forbidden");
    admin.get("/admin/v1/cluster").await.expect_problem(403, "forbidden");
    let listed = admin.get("/admin/v1/tenants").await.expect(200);
    assert_eq!(listed.body["items"].as_array().unwrap().len(), 1);
    assert_eq!(listed.text("/items/0/tenant"), "acme");

    let spender = cluster.caller(0, "acme-spender");
    let item = |tenant: &str| json!({ "op": "charge", "tenant": tenant, "idempotency_key": "k", "amount": 1 });
    let body = json!({ "items": [item("acme"), item("beta"), item("nobody")] }).to_string();
    let headers = [("content-type", "application/json")];
    let answer = spender.raw("POST", "/v1/batch", &headers, body.into()).await.expect(200);
    let results = answer.body["results"].as_array().unwrap().iter();
    let statuses: Vec<&Value> = results.map(|result| &result["status"]).collect();
    assert_eq!(statuses, [201, 403, 403]);
    cluster.end().await;
}
