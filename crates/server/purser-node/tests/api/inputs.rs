//! What callers get wrong: every answer is a problem with the right code, and none is a 5xx.

use bytes::Bytes;
use purser_api::BODY_BYTES_MAX;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Caller, Cluster};

/// One odd request and what it should be answered with.
struct Odd {
    method: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    expected: (u16, &'static str),
}

const KEY: (&str, &str) = ("idempotency-key", "k");
const JSON: (&str, &str) = ("content-type", "application/json");
const HOLDS: &str = "/v1/tenants/acme/holds";
const CAPTURE: &str = "/v1/tenants/acme/holds/h3-0-us/capture";
const GRANTS: &str = "/admin/v1/tenants/acme/grants";

const fn odd(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    expected: (u16, &'static str),
) -> Odd {
    Odd { method, path, headers: &[KEY, JSON], body, expected }
}

const fn body(path: &'static str, body: &'static str) -> Odd {
    odd("POST", path, body, (400, "invalid_request"))
}

const ODD: &[Odd] = &[
    // Bodies.
    body(HOLDS, ""),
    body(HOLDS, "{"),
    body(HOLDS, "[]"),
    body(HOLDS, "null"),
    body(HOLDS, r#"{"amount":30}{"amount":30}"#),
    body(HOLDS, "{}"),
    body(HOLDS, r#"{"amount":null}"#),
    body(HOLDS, r#"{"amount":0}"#),
    body(HOLDS, r#"{"amount":-1}"#),
    body(HOLDS, r#"{"amount":30.0}"#),
    body(HOLDS, r#"{"amount":3e1}"#),
    body(HOLDS, r#"{"amount":"030"}"#),
    body(HOLDS, r#"{"amount":"all"}"#),
    body(HOLDS, r#"{"amount":true}"#),
    body(HOLDS, r#"{"amount":1000000000000000001}"#),
    body(HOLDS, r#"{"amount":9223372036854775808}"#),
    body(HOLDS, r#"{"amount":1,"amount":2}"#),
    body(HOLDS, r#"{"amount":1,"colour":"red"}"#),
    body(HOLDS, r#"{"amount":1,"ttl_seconds":0}"#),
    body(HOLDS, r#"{"amount":1,"ttl_seconds":604801}"#),
    body(HOLDS, r#"{"amount":1,"metadata":{"a":{}}}"#),
    body(HOLDS, "{\"amount\":1,\"reference\":\"\\u0000\"}"),
    body(CAPTURE, r#"{"if_expired":"maybe"}"#),
    body(GRANTS, r#"{"amount":1,"expires_at":"2026-11-01T01:30:00"}"#),
    body(GRANTS, r#"{"amount":1,"expires_at":"2026-12-31T23:59:60Z"}"#),
    body(GRANTS, r#"{"amount":1,"expires_at":"2026-12-31T23:59:59.0000001Z"}"#),
    body(GRANTS, r#"{"amount":1,"priority":256}"#),
    // Types and keys.
    Odd { headers: &[KEY], ..odd("POST", HOLDS, "{}", (415, "unsupported_media_type")) },
    Odd {
        headers: &[KEY, ("content-type", "text/plain")],
        ..odd("POST", HOLDS, "{}", (415, "unsupported_media_type"))
    },
    Odd { headers: &[JSON], ..odd("POST", HOLDS, "{}", (400, "missing_idempotency_key")) },
    Odd {
        headers: &[("idempotency-key", ""), JSON],
        ..odd("POST", HOLDS, "{}", (400, "invalid_idempotency_key"))
    },
    // Paths.
    odd("POST", "/v1/tenants/a%20b/holds", "{}", (400, "invalid_id")),
    odd("POST", "/v1/tenants/%ff/holds", "{}", (400, "invalid_id")),
    odd("GET", "/v1/tenants/../balance", "", (400, "invalid_id")),
    odd("GET", "/v1/tenants/%2e/balance", "", (400, "invalid_id")),
    body("/admin/v1/tenants", r#"{"tenant":".."}"#),
    odd("POST", "/v1/tenants/acme/holds/h0-0-us/capture", "{}", (400, "invalid_id")),
    odd("POST", "/v1/tenants/acme/holds/c3-0-us/capture", "{}", (400, "invalid_id")),
    odd("POST", "/v1/tenants/acme/holds/h3-0-eu/capture", "{}", (404, "hold_not_found")),
    odd("POST", "/v1/tenants/acme/holds/h3-7-us/capture", "{}", (404, "hold_not_found")),
    odd("POST", "/v1/tenants/acme/holds/h9-0-us/capture", "{}", (404, "hold_not_found")),
    odd("GET", "/v1/tenants/acme/holds/h3-0-eu", "", (404, "hold_not_found")),
    odd(
        "POST",
        "/v1/tenants/acme/charges/c3-0-eu/reclaim",
        r#"{"reason":"r"}"#,
        (404, "charge_not_found"),
    ),
    odd("GET", "/v1/tenants/acme/holds/h9-0-us", "", (404, "hold_not_found")),
    odd("GET", "/v1/tenants/acme/charges/c9-0-us", "", (404, "charge_not_found")),
    odd("GET", "/v1/tenants/nobody/balance", "", (404, "tenant_not_found")),
    odd("GET", "/v1/tenants/acme/balance?unit=tokens", "", (404, "tenant_not_found")),
    odd("GET", "/", "", (404, "not_found")),
    odd("GET", "/v1/tenants/acme/holds/", "", (404, "not_found")),
    odd("POST", "/v2/tenants/acme/holds", "{}", (404, "not_found")),
    odd("DELETE", HOLDS, "", (405, "method_not_allowed")),
    odd("GET", CAPTURE, "", (405, "method_not_allowed")),
    odd("PUT", "/admin/v1/cluster/groups/9/voters", r#"{"voters":[1]}"#, (404, "not_found")),
    odd("PUT", "/admin/v1/cluster/groups/x/voters", r#"{"voters":[1]}"#, (400, "invalid_id")),
    odd("PUT", "/admin/v1/cluster/groups/0/voters", r#"{"voters":[]}"#, (400, "invalid_request")),
    odd("PUT", "/admin/v1/cluster/groups/0/learners/99", "", (404, "not_found")),
    odd("PUT", "/admin/v1/cluster/groups/0/learners/+1", "", (400, "invalid_id")),
    // Queries.
    odd("GET", "/v1/tenants/acme/holds?limit=0", "", (400, "invalid_request")),
    odd("GET", "/v1/tenants/acme/holds?limit=1001", "", (400, "invalid_request")),
    odd("GET", "/v1/tenants/acme/holds?color=red", "", (400, "invalid_request")),
    odd("GET", "/v1/tenants/acme/holds?limit=1&limit=2", "", (400, "invalid_request")),
    odd("GET", "/v1/tenants/acme/holds?state=open", "", (400, "invalid_request")),
    odd("GET", "/v1/tenants/acme/holds?cursor=AAAA", "", (400, "invalid_cursor")),
    odd("GET", "/v1/tenants/acme/balance?at_sequence=-1", "", (400, "invalid_request")),
    odd(
        "GET",
        "/v1/tenants/acme/statement?from=2026-08-02T00:00:00Z&to=2026-08-01T00:00:00Z",
        "",
        (400, "invalid_request"),
    ),
];

async fn send(caller: &Caller, place: usize, odd: &Odd) -> crate::support::Answer {
    // What the log decides is remembered, so each has a key of its own.
    let key = format!("k{place}");
    let headers: Vec<_> = odd
        .headers
        .iter()
        .map(|header| if *header == KEY { (KEY.0, key.as_str()) } else { *header })
        .collect();
    caller.raw(odd.method, odd.path, &headers, Bytes::from_static(odd.body.as_bytes())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_odd_request_is_refused_by_its_code() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    for (place, odd) in ODD.iter().enumerate() {
        let answer = send(&caller, place, odd).await;
        let (status, code) = odd.expected;
        let Odd { method, path, body, .. } = odd;
        assert_eq!(answer.status, status, "{method} {path} {body}: {:#}", answer.body);
        let answer = answer.expect_problem(status, code);
        assert_eq!(answer.text("/request_id"), answer.header("request-id"));
        assert!(answer.text("/type").starts_with("https://purser.dev/problems/"));
    }
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/as_of/sequence"), "2", "nothing happened");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_may_have_one_mebibyte() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let filled = |bytes: usize| {
        let body = json!({ "amount": 1 }).to_string();
        Bytes::from(format!("{body}{}", " ".repeat(bytes - body.len())))
    };
    caller.raw("POST", HOLDS, &[KEY, JSON], filled(1 << 20)).await.expect(201);
    let large = caller.raw("POST", HOLDS, &[KEY, JSON], filled((1 << 20) + 1)).await;
    large.expect_problem(413, "body_too_large");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_may_be_sent_again() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let mut stream = TcpStream::connect(cluster.nodes[0].addresses().api).await.unwrap();
    let head = "POST /v1/tenants/acme/holds HTTP/1.1\r\nhost: purser\r\n\
                authorization: Bearer root\r\nidempotency-key: k\r\n\
                content-type: application/json\r\ncontent-length: 12\r\n\
                purser-deadline-ms: 50\r\n\r\n{\"amount\"";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains(r#""code":"body_incomplete","retry":"later","#), "{answer}");
    caller.raw("POST", HOLDS, &[KEY, JSON], r#"{"amount":1}"#.into()).await.expect(201);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_outlives_a_refusal_of_what_was_not_read() {
    let (cluster, _) = Cluster::with_credits(100).await;
    let mut stream = TcpStream::connect(cluster.nodes[0].addresses().api).await.unwrap();
    let body = " ".repeat(BODY_BYTES_MAX);
    let refused = [
        ("/v1/tenants/acme/holds", "authorization: Bearer nobody", "401"),
        ("/v1/tenants/acme/holds", "authorization: Bearer reader", "403"),
        ("/v1/tenants/acme/holds", "authorization: Bearer root", "400"),
        ("/v1/nothing", "authorization: Bearer root", "404"),
        ("/v1/tenants/acme/balance", "authorization: Bearer root", "405"),
    ];
    for (path, header, status) in refused {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: purser\r\n{header}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let read = stream.read_buf(&mut answer).await.unwrap();
            assert_ne!(read, 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_keeps_the_id_that_it_brings() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let headers = [("request-id", "trace-me"), KEY, JSON];
    let body = json!({ "amount": 1000 }).to_string();
    let answer = caller.raw("POST", HOLDS, &headers, body.into()).await;
    let answer = answer.expect_problem(402, "insufficient_credits");
    assert_eq!(answer.text("/request_id"), "trace-me");
    assert_eq!(answer.header("request-id"), "trace-me");
    cluster.end().await;
}
