//! Bodies that cannot be read: not JSON, not these fields, not these values, too large.

use super::{Row, Scene, row};

/// The largest body: 1 MiB.
const BODY_BYTES_MAX: usize = 1 << 20;

pub(super) fn rows(scene: &Scene) -> Vec<Row> {
    let mut rows = Vec::new();
    not_json(scene, &mut rows);
    authorizes(scene, &mut rows);
    grants(scene, &mut rows);
    others(scene, &mut rows);
    sizes_and_types(scene, &mut rows);
    rows
}

fn not_json(scene: &Scene, rows: &mut Vec<Row>) {
    let holds = scene.account.path("holds");
    let deep = |open: &str, close: &str, depth: usize| {
        format!(r#"{{"amount":1,"metadata":{}1{}}}"#, open.repeat(depth), close.repeat(depth))
    };
    let texts = [
        ("nothing", String::new()),
        ("a brace", "{".to_owned()),
        ("half an object", r#"{"amount":30"#.to_owned()),
        ("words", "amount=30".to_owned()),
        ("a list", "[]".to_owned()),
        ("the fields as a list", r#"[30]"#.to_owned()),
        ("a string", r#""x""#.to_owned()),
        ("null", "null".to_owned()),
        ("two objects", r#"{"amount":30}{"amount":30}"#.to_owned()),
        ("a comma too many", r#"{"amount":30,}"#.to_owned()),
        ("a comment", r#"{"amount":30/* all */}"#.to_owned()),
        ("a field twice", r#"{"amount":30,"amount":31}"#.to_owned()),
        ("a byte order mark", "\u{feff}{\"amount\":30}".to_owned()),
        ("lists a hundred thousand deep", deep("[", "]", 100_000)),
        ("objects a hundred thousand deep", deep(r#"{"a":"#, "}", 100_000)),
    ];
    for (what, text) in texts {
        rows.push(row(what, scene.post(&holds, text), 400, "invalid_request"));
    }
    let bytes: [(&str, &[u8]); 3] = [
        ("what is not UTF-8", b"{\"amount\":30,\"reference\":\"\xff\"}"),
        ("an overlong NUL", b"{\"amount\":30,\"reference\":\"\xc0\x80\"}"),
        ("UTF-16", b"\xff\xfe{\0}\0"),
    ];
    for (what, bytes) in bytes {
        rows.push(row(what, scene.post(&holds, bytes), 400, "invalid_request"));
    }
}

fn authorizes(scene: &Scene, rows: &mut Vec<Row>) {
    let many_keys: Vec<String> = (0..17).map(|number| format!(r#""k{number}":"v""#)).collect();
    let more = [
        r#""ttl":60"#.to_owned(),
        r#""Amount":30"#.to_owned(),
        r#""reserved":500"#.to_owned(),
        r#""ttl_seconds":0"#.to_owned(),
        r#""ttl_seconds":-1"#.to_owned(),
        r#""ttl_seconds":1.5"#.to_owned(),
        r#""ttl_seconds":604801"#.to_owned(),
        r#""ttl_seconds":4294967296"#.to_owned(),
        r#""ttl_seconds":null"#.to_owned(),
        r#""ttl_seconds":"soon""#.to_owned(),
        r#""consistency":"maybe""#.to_owned(),
        r#""consistency":null"#.to_owned(),
        r#""reference":"""#.to_owned(),
        r#""reference":7"#.to_owned(),
        r#""reference":null"#.to_owned(),
        r#""reference":"a\u0000b""#.to_owned(),
        r#""reference":"two\nlines""#.to_owned(),
        r#""reference":"\ud800""#.to_owned(),
        format!(r#""reference":"{}""#, "x".repeat(256)),
        r#""metadata":null"#.to_owned(),
        r#""metadata":[]"#.to_owned(),
        r#""metadata":"x""#.to_owned(),
        r#""metadata":{"a":{}}"#.to_owned(),
        r#""metadata":{"a":null}"#.to_owned(),
        r#""metadata":{"a":1.5}"#.to_owned(),
        r#""metadata":{"":"x"}"#.to_owned(),
        r#""metadata":{"a":"1","a":"2"}"#.to_owned(),
        format!(r#""metadata":{{{}}}"#, many_keys.join(",")),
        format!(r#""metadata":{{"k":"{}"}}"#, "v".repeat(2_048)),
    ];
    for more in more {
        let what = format!("authorize with {}", more.chars().take(60).collect::<String>());
        let body = format!(r#"{{"amount":1,{more}}}"#);
        let bytes = scene.post(&scene.account.path("holds"), body);
        rows.push(row(what, bytes, 400, "invalid_request"));
    }
}

/// K072 and K074, and what else a grant may not say.
fn grants(scene: &Scene, rows: &mut Vec<Row>) {
    let more = [
        (r#""expires_at":"2126-11-01T01:30:00""#, "invalid_request"),
        (r#""expires_at":"2126-11-01""#, "invalid_request"),
        (r#""expires_at":"2016-12-31T23:59:60Z""#, "invalid_request"),
        (r#""expires_at":"2126-06-15T12:00:60Z""#, "invalid_request"),
        (r#""expires_at":"2126-06-15T12:00:00.0000001Z""#, "invalid_request"),
        (r#""expires_at":"2126-06-15T12:00:00.0000000000Z""#, "invalid_request"),
        (r#""expires_at":"2126-02-30T00:00:00Z""#, "invalid_request"),
        (r#""expires_at":"2126-06-15T24:00:00Z""#, "invalid_request"),
        (r#""expires_at":"10000-01-01T00:00:00Z""#, "invalid_request"),
        (r#""expires_at":"1969-12-31T23:59:59Z""#, "invalid_request"),
        (r#""expires_at":"2126-06-15T12:00:00+25:00""#, "invalid_request"),
        (r#""expires_at":4937000000"#, "invalid_request"),
        (r#""expires_at":"never""#, "invalid_request"),
        (r#""expires_at":"2020-01-01T00:00:00Z""#, "grant_already_expired"),
        (r#""expires_at":"1970-01-01T00:00:00Z""#, "grant_already_expired"),
        (r#""effective_at":null"#, "invalid_request"),
        (r#""priority":256"#, "invalid_request"),
        (r#""priority":-1"#, "invalid_request"),
        (r#""priority":"1""#, "invalid_request"),
        (r#""category":"free""#, "invalid_request"),
        (r#""source_ref":"""#, "invalid_request"),
        (r#""source_ref":null"#, "invalid_request"),
        (r#""lot_id":"l1-0-us""#, "invalid_request"),
    ];
    for (more, code) in more {
        let body = format!(r#"{{"amount":1,{more}}}"#);
        let bytes = scene.post(&scene.account.admin_path("grants"), body);
        rows.push(row(format!("grant with {more}"), bytes, 400, code));
    }
}

fn others(scene: &Scene, rows: &mut Vec<Row>) {
    let Scene { account, captured, active, lot } = scene;
    let hold = |id: &str, verb: &str| account.path(&format!("holds/{id}/{verb}"));
    let lot_void = account.admin_path(&format!("lots/{lot}/void"));
    let cases = [
        (hold(active, "capture"), r#"{"amount":1,"final":"yes"}"#),
        (hold(active, "capture"), r#"{"amount":1,"allow_debt":1}"#),
        (hold(active, "capture"), r#"{"amount":1,"if_expired":"pay"}"#),
        (hold(active, "release"), r#"{"amount":1}"#),
        (hold(active, "release"), r#"{"reason":null}"#),
        (hold(active, "extend"), "{}"),
        (hold(active, "extend"), r#"{"until":"tomorrow"}"#),
        (hold(active, "extend"), r#"{"until":"2126-01-01T00:00:00"}"#),
        (hold(captured, "refund"), "{}"),
        (hold(captured, "refund"), r#"{"amount":1}"#),
        (hold(captured, "refund"), r#"{"amount":1,"reason":""}"#),
        (hold(captured, "reclaim"), r#"{"reason":7}"#),
        (hold(captured, "reclaim"), r#"{"reason":"none","amount":1}"#),
        (lot_void, "{}"),
        (account.admin_path("adjust"), r#"{"amount":1,"direction":"add"}"#),
        (account.admin_path("adjust"), r#"{"amount":1,"direction":"up","reason":"none"}"#),
        (account.admin_path("policy"), r#"{"debt_limit":-1}"#),
        (account.admin_path("policy"), r#"{"debt_limit":null}"#),
        (account.admin_path("policy"), r#"{"limit":1}"#),
        (account.admin_path("policy"), r#"["5"]"#),
        (hold(active, "release"), "[]"),
        (hold(active, "capture"), "[1]"),
        (account.admin_path("freeze"), "{}"),
        (account.admin_path("close"), "{}"),
        ("/admin/v1/tenants".to_owned(), "{}"),
        ("/admin/v1/tenants".to_owned(), r#"{"tenant":""}"#),
        ("/admin/v1/tenants".to_owned(), r#"{"tenant":"a b"}"#),
        ("/admin/v1/tenants".to_owned(), r#"{"tenant":"a","policy":["5"]}"#),
        ("/admin/v1/tenants".to_owned(), r#"{"tenant":"a","unit":"Credits"}"#),
        ("/v1/batch".to_owned(), "{}"),
        ("/v1/batch".to_owned(), r#"{"items":[]}"#),
        ("/v1/batch".to_owned(), r#"{"items":{}}"#),
        ("/v1/batch".to_owned(), r#"{"items":[{}],"all":true}"#),
        ("/v1/batch".to_owned(), r#"[[{}]]"#),
    ];
    for (path, body) in cases {
        let what = format!("{path} with {body}");
        rows.push(row(what, scene.post(&path, body), 400, "invalid_request"));
    }
    // A destructive act needs the confirmation of its dry run.
    let unconfirmed = r#"{"reason":"none"}"#;
    for path in [account.admin_path(&format!("lots/{lot}/void")), account.admin_path("close")] {
        let bytes = scene.post(&path, unconfirmed);
        rows.push(row(format!("{path} unconfirmed"), bytes, 400, "confirmation_required"));
    }
}

fn sizes_and_types(scene: &Scene, rows: &mut Vec<Row>) {
    let holds = scene.account.path("holds");
    let mut body = br#"{"amount":1}"#.to_vec();
    body.resize(BODY_BYTES_MAX + 1, b' ');
    let large = scene.post(&holds, &body);
    rows.push(row("a body of 1 MiB and a byte", large, 413, "body_too_large"));
    let batch = scene.post("/v1/batch", &body);
    rows.push(row("a batch of 1 MiB and a byte", batch, 413, "body_too_large"));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json", ""] {
        let header = [("content-type", kind.as_bytes())];
        let bytes = scene.post_with(&holds, &header, r#"{"amount":1}"#);
        let what = format!("content type {kind:?}");
        rows.push(row(what, bytes, 415, "unsupported_media_type"));
    }
}
