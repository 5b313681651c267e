//! Paths, queries, methods and headers that name nothing, or nothing that can be.

use purser_tests::{Account, fresh_key};

use super::{Row, Scene, row};

const AMOUNT: &str = r#"{"amount":1}"#;

pub(super) async fn rows(scene: &Scene) -> Vec<Row> {
    let mut rows = Vec::new();
    tenants(scene, &mut rows);
    things(scene, &mut rows);
    queries(scene, &mut rows);
    cursors(scene, &mut rows).await;
    keys(scene, &mut rows);
    routes(scene, &mut rows);
    rows
}

fn tenants(scene: &Scene, rows: &mut Vec<Row>) {
    let long = "a".repeat(129);
    // A dot or two would be taken for a folder by whatever tidies paths on the way.
    let odd = [
        ".",
        "..",
        "a%2Fb",
        "a%20b",
        "%C3%A9",
        "%00",
        "a%0Ab",
        "%ff",
        "a+b",
        "a*",
        "%2e%2e%2f",
        &long,
    ];
    for tenant in odd {
        let holds = format!("/v1/tenants/{tenant}/holds");
        let what = format!("tenant {tenant}");
        rows.push(row(&what, scene.post(&holds, AMOUNT), 400, "invalid_id"));
        let balance = format!("GET /v1/tenants/{tenant}/balance");
        rows.push(row(what, scene.bare(&balance), 400, "invalid_id"));
    }
    let longest = "a".repeat(128);
    for tenant in ["nobody", &longest] {
        let balance = format!("GET /v1/tenants/{tenant}/balance");
        let what = format!("the balance of {tenant}, who has no account");
        rows.push(row(what, scene.bare(&balance), 404, "tenant_not_found"));
    }
}

fn things(scene: &Scene, rows: &mut Vec<Row>) {
    let account = &scene.account;
    let odd = [
        "h1",
        "h0-0-us",
        "h01-0-us",
        "h1-00-us",
        "H1-0-us",
        "h1-0-US",
        "h1-0-",
        "c1-0-us",
        "1",
        "-1",
        "null",
        "%20",
        "h1-0-us%00",
        "h1-0-us%2Fcapture",
        "h18446744073709551616-0-us",
        "h1-0-aaaaaaaaaaaaaaaaa",
    ];
    for hold in odd {
        let what = format!("hold {hold}");
        let capture = account.path(&format!("holds/{hold}/capture"));
        rows.push(row(&what, scene.post(&capture, AMOUNT), 400, "invalid_id"));
        let get = format!("GET {}", account.path(&format!("holds/{hold}")));
        rows.push(row(what, scene.bare(&get), 400, "invalid_id"));
    }
    let undo = r#"{"reason":"none"}"#;
    let charge = account.path("charges/h1-0-us/refund");
    rows.push(row("a hold for a charge", scene.post(&charge, undo), 400, "invalid_id"));
    let lot = account.admin_path("lots/h1-0-us/void");
    rows.push(row("a hold for a lot", scene.post(&lot, undo), 400, "invalid_id"));
    let missing = account.path("holds/h18446744073709551615-0-us/capture");
    rows.push(row("a hold that is not there", scene.post(&missing, AMOUNT), 404, "hold_not_found"));
    let get = format!("GET {}", account.path("charges/c999999-0-us"));
    rows.push(row("a charge that is not there", scene.bare(&get), 404, "charge_not_found"));
}

fn queries(scene: &Scene, rows: &mut Vec<Row>) {
    let odd = [
        "holds?limit=0",
        "holds?limit=1001",
        "holds?limit=-1",
        "holds?limit=ten",
        "holds?limit=",
        "holds?state=open",
        "holds?status=active",
        "holds?reference=",
        "lots?status=free",
        "entries?from=1",
        "entries?limit=10&limit=20",
        "balance?at_sequence=-1",
        "balance?at_sequence=1.0",
        "balance?at_sequence=18446744073709551616",
        "balance?consistency=eventual",
        "balance?unit=Credits",
        "balance?as_of=now",
        "statement?from=2026-01-01",
        "statement?from=2026-01-01T00:00:00",
        "statement?to=2016-12-31T23:59:60Z",
        "statement?from=yesterday",
    ];
    for query in odd {
        let get = format!("GET {}", scene.account.path(query));
        rows.push(row(query, scene.bare(&get), 400, "invalid_request"));
    }
    let get = format!("GET {}", scene.account.path("balance?at_sequence=999999"));
    rows.push(row("the future", scene.bare(&get), 404, "sequence_not_found"));
    let get = format!("GET {}", scene.account.path("balance?unit=tokens"));
    rows.push(row("another unit", scene.bare(&get), 404, "tenant_not_found"));
}

/// K066: a cursor belongs to one list with its filters.
async fn cursors(scene: &Scene, rows: &mut Vec<Row>) {
    let account = &scene.account;
    let first = account.get("entries?limit=1").await;
    let cursor = first.check(200).text("next_cursor");
    let other = account.through(&account.api);
    let other = Account { tenant: format!("other-{}", fresh_key()), ..other };
    let opened = serde_json::json!({ "tenant": other.tenant });
    account.api.post("/admin/v1/tenants", &fresh_key(), &opened).await.check(201);

    let altered = format!("{cursor}A");
    let foreign = [
        account.path(&format!("holds?cursor={cursor}")),
        account.path(&format!("lots?cursor={cursor}")),
        account.path(&format!("statement?cursor={cursor}")),
        other.path(&format!("entries?cursor={cursor}")),
        account.path(&format!("entries?cursor={altered}")),
        account.path("entries?cursor=AAAA"),
    ];
    for path in foreign {
        let bytes = scene.bare(&format!("GET {path}"));
        rows.push(row(format!("a cursor at {path}"), bytes, 400, "invalid_cursor"));
    }
}

fn keys(scene: &Scene, rows: &mut Vec<Row>) {
    let holds = scene.account.path("holds");
    let header = |key: &[u8]| scene.post_with(&holds, &[("idempotency-key", key)], AMOUNT);
    let long = [b'k'; 256];
    let odd: [(&str, &[u8]); 4] = [
        ("nothing", b""),
        ("256 bytes", &long),
        ("bytes that are not UTF-8", b"\xff\xfe"),
        ("a tab", b"a\tb"),
    ];
    for (what, key) in odd {
        rows.push(row(format!("a key of {what}"), header(key), 400, "invalid_idempotency_key"));
    }
    let none = header(b"");
    let none = String::from_utf8_lossy(&none).replace("idempotency-key: \r\n", "").into_bytes();
    rows.push(row("no key", none, 400, "missing_idempotency_key"));
    let one: (&str, &[u8]) = ("idempotency-key", b"one");
    let two = scene.post_with(&holds, &[one, ("idempotency-key", b"two")], AMOUNT);
    rows.push(row("two keys", two, 400, "invalid_idempotency_key"));
}

fn routes(scene: &Scene, rows: &mut Vec<Row>) {
    let unknown =
        ["/", "/v1", "/v1/nothing", "/v2/tenants/table/balance", "/admin/v1", "//", "/v1/"];
    for path in unknown {
        let bytes = scene.bare(&format!("GET {path}"));
        rows.push(row(format!("GET {path}"), bytes, 404, "not_found"));
    }
    let holds = scene.account.path("holds");
    let methods = [
        format!("DELETE {holds}"),
        format!("PUT {holds}"),
        format!("PATCH {holds}"),
        format!("BREW {holds}"),
        format!("POST {}", scene.account.path("balance")),
        format!("GET {}", scene.account.path("charges")),
        "POST /livez".to_owned(),
        "GET /v1/batch".to_owned(),
    ];
    for line in methods {
        rows.push(row(&line, scene.bare(&line), 405, "method_not_allowed"));
    }
}
