//! Amounts that are none (K067, K068, K071), in every call that takes one.

use super::{Row, Scene, row};

/// JSON that no call takes for an amount.
const NEVER: &[&str] = &[
    "-1",
    "-0",
    "-9223372036854775808",
    "null",
    "\"all\"",
    "\"\"",
    "30.5",
    "30.0",
    "3e1",
    "1e400",
    "\"030\"",
    "\" 30\"",
    "\"30 \"",
    "\"+30\"",
    "\"-30\"",
    "\"3e1\"",
    "\"30.0\"",
    "\"0x1e\"",
    "\"3_0\"",
    "\"٣٠\"",
    "true",
    "[30]",
    "{}",
    "1000000000000000001",
    "\"1000000000000000001\"",
    "9223372036854775808",
    "18446744073709551616",
    "\"99999999999999999999999999999999999999\"",
    "NaN",
    "Infinity",
];

/// Zero and nothing, which mean something to a capture only.
const ZERO: &[&str] = &["0", "\"0\"", "\"00\""];

struct Call {
    name: &'static str,
    path: String,
    /// The other fields that the call needs, each with a comma before it.
    more: &'static str,
    /// Whether the amount may be left out.
    optional: bool,
    /// Whether zero means something.
    zero: bool,
}

fn calls(scene: &Scene) -> Vec<Call> {
    let Scene { account, captured, active, .. } = scene;
    let call = |name, path, more| Call { name, path, more, optional: false, zero: false };
    let reason = r#","reason":"none""#;
    vec![
        call("authorize", account.path("holds"), ""),
        call("charge", account.path("charges"), ""),
        call("check", account.path("check"), ""),
        call("grant", account.admin_path("grants"), ""),
        call("adjust", account.admin_path("adjust"), r#","direction":"add","reason":"none""#),
        Call {
            optional: true,
            zero: true,
            ..call("capture", account.path(&format!("holds/{active}/capture")), "")
        },
        Call {
            optional: true,
            ..call("refund", account.path(&format!("holds/{captured}/refund")), reason)
        },
    ]
}

pub(super) fn rows(scene: &Scene) -> Vec<Row> {
    let mut rows = Vec::new();
    for Call { name, path, more, optional, zero } in calls(scene) {
        let mut refuse = |what: String, body: String| {
            rows.push(row(what, scene.post(&path, body), 400, "invalid_request"));
        };
        let zeros: &[&str] = if zero { &[] } else { ZERO };
        for amount in NEVER.iter().chain(zeros) {
            let body = format!(r#"{{"amount":{amount}{more}}}"#);
            refuse(format!("{name} of {amount}"), body);
        }
        if !optional {
            let body = format!("{{{}}}", more.trim_start_matches(','));
            refuse(format!("{name} without an amount"), body);
        }
    }
    rows
}
