//! Results as a table in Markdown.

use super::cell::CellResult;

const HEADER: &str = "\
| spread | workers | batch | due/s | pairs/s | calls/s | authorize p50 | p95 | p99 | capture p50 | p95 | p99 | server µs/call | errors |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// The table, waits in milliseconds.
pub(crate) fn render(results: &[CellResult]) -> String {
    let mut text = HEADER.to_owned();
    for result in results {
        text.push('\n');
        text.push_str(&row(result));
    }
    for result in results.iter().filter(|result| result.errors > 0) {
        let first = result.first_error.as_deref().unwrap_or("unknown");
        let (spread, workers) = (result.spread, result.concurrency);
        text.push_str(&format!("\n\nfirst error of {spread}, {workers}: {first}"));
    }
    text
}

fn row(result: &CellResult) -> String {
    let optional = |number: Option<u32>| number.map_or_else(|| "–".to_owned(), |n| n.to_string());
    let micros = result.server_micros_per_call;
    let (authorize, capture) = (&result.authorize, &result.capture);
    format!(
        "| {} | {} | {} | {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {} |",
        result.spread,
        result.concurrency,
        optional(result.batch),
        optional(result.rate),
        result.pairs_per_second,
        result.calls_per_second,
        authorize.p50_ms,
        authorize.p95_ms,
        authorize.p99_ms,
        capture.p50_ms,
        capture.p95_ms,
        capture.p99_ms,
        micros.map_or_else(|| "–".to_owned(), |micros| format!("{micros:.1}")),
        result.errors,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cell::Spread;
    use crate::replay::tally::Quantiles;

    #[test]
    fn every_row_has_as_many_fields_as_the_header() {
        let result = CellResult {
            spread: Spread::Hot,
            concurrency: 64,
            batch: None,
            rate: Some(139),
            pairs_per_second: 138.7,
            calls_per_second: 277.4,
            authorize: Quantiles::default(),
            capture: Quantiles::default(),
            server_micros_per_call: Some(37.25),
            errors: 1,
            first_error: Some("503".to_owned()),
        };
        let text = render(&[result]);
        let fields = |line: &str| line.matches('|').count();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(fields(lines[0]), fields(lines[2]));
        assert!(lines[2].starts_with("| hot | 64 | – | 139 | 139 | 277 |"), "{}", lines[2]);
        assert!(text.ends_with("first error of hot, 64: 503"));
    }
}
