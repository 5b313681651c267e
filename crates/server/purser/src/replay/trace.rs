//! Traces: files that say when someone asked for work, what it was thought to cost and what it did.
//!
//! Two kinds of rows are read, from CSV with a header line or from JSON objects, one a line:
//!
//! - `time`, `tenant` (may be absent), `estimated`, `actual`, `duration_ms` (may be absent).
//! - `TIMESTAMP`, `ContextTokens`, `GeneratedTokens`: the public Azure traces of LLM inference, as
//!   they are. What is known before such a request runs is its context, and that no answer of that
//!   service is longer than the file's longest: that sum is the estimate.
//!
//! A time without an offset is UTC; finer than microseconds is cut. Not here: who pays
//! ([`super::plan`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Tokens that an LLM service generates in a second, per request: the pace of the answers of
/// models of that generation. It turns the length of an answer into the time until it is there.
const TOKENS_PER_SECOND: u64 = 50;

/// The largest cost of one request: a trillion. More is a slip in the file, and sums of costs must
/// stay amounts.
const COST_MAX: u64 = 1_000_000_000_000;

/// How long work takes if the trace does not say.
const DURATION_DEFAULT: Duration = Duration::from_secs(1);

/// One request of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceRequest {
    /// When it was made, from the first request of all on.
    pub(crate) due: Duration,
    /// Who made it, if the trace says so.
    pub(crate) tenant: Option<String>,
    /// What it was thought to cost. At least 1.
    pub(crate) estimate: u64,
    /// What it did cost.
    pub(crate) actual: u64,
    /// How long it ran.
    pub(crate) duration: Duration,
}

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    /// The disk refused, or the text is not UTF-8.
    #[error("could not read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{}, line {line}: {detail}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        detail: String,
    },
    /// There is no request in any of the files.
    #[error("there is no request in the trace")]
    Empty,
}

/// Reads traces and merges them by time.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<TraceRequest>, TraceError> {
    let mut rows = Vec::new();
    for path in paths {
        let text = fs::read_to_string(path)
            .map_err(|source| TraceError::Read { path: path.clone(), source })?;
        rows.extend(parse(path, &text)?);
    }
    // Stable, so that requests of one instant stay in the order of the files.
    rows.sort_by_key(|row| row.at);
    let start = rows.first().ok_or(TraceError::Empty)?.at;
    let since_start = |at: Timestamp| Duration::try_from(at.duration_since(start));
    let request = |row: Row| TraceRequest {
        due: since_start(row.at).expect("rows are sorted by time"),
        tenant: row.tenant,
        estimate: row.estimate.max(1),
        actual: row.actual,
        duration: row.duration,
    };
    Ok(rows.into_iter().map(request).collect())
}

/// A request with its own time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    at: Timestamp,
    tenant: Option<String>,
    estimate: u64,
    actual: u64,
    duration: Duration,
}

/// The fields of a line by their names in lower case.
type Fields = BTreeMap<String, String>;

fn parse(path: &Path, text: &str) -> Result<Vec<Row>, TraceError> {
    let mut header: Option<Vec<String>> = None;
    let mut rows = Vec::new();
    let mut answer_max: Option<u64> = None;
    for (place, text) in text.lines().enumerate() {
        let wrong = |detail| TraceError::Line { path: path.to_owned(), line: place + 1, detail };
        if text.trim().is_empty() {
            continue;
        }
        let fields = if text.starts_with('{') {
            json_fields(text).map_err(wrong)?
        } else if let Some(names) = &header {
            csv_fields(names, text).map_err(wrong)?
        } else {
            header = Some(csv_values(text).map_err(wrong)?);
            continue;
        };
        let (row, answer) = row(&fields).map_err(wrong)?;
        if row.estimate.max(row.actual) > COST_MAX {
            return Err(wrong(format!("a cost is more than {COST_MAX}")));
        }
        answer_max = answer.max(answer_max);
        rows.push((row, answer.is_some()));
    }
    let with_answer_max = |(mut row, is_inference): (Row, bool)| {
        if is_inference {
            row.estimate = row.estimate.saturating_add(answer_max.unwrap_or_default());
        }
        row
    };
    Ok(rows.into_iter().map(with_answer_max).collect())
}

fn csv_values(line: &str) -> Result<Vec<String>, String> {
    if line.contains('"') {
        return Err("quoted fields are not read; no field here needs them".to_owned());
    }
    Ok(line.split(',').map(|field| field.trim().to_owned()).collect())
}

fn csv_fields(names: &[String], line: &str) -> Result<Fields, String> {
    let values = csv_values(line)?;
    if values.len() != names.len() {
        return Err(format!("{} fields, but the header names {}", values.len(), names.len()));
    }
    Ok(names.iter().map(|name| name.to_ascii_lowercase()).zip(values).collect())
}

fn json_fields(line: &str) -> Result<Fields, String> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    let field = |(name, value): (String, serde_json::Value)| {
        let text = match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        (name.to_ascii_lowercase(), text)
    };
    Ok(object.into_iter().filter(|(_, value)| !value.is_null()).map(field).collect())
}

/// A row, and how long the answer was if it is one of an inference trace. The longest answer of
/// the file is still to be added to such a row's estimate.
fn row(fields: &Fields) -> Result<(Row, Option<u64>), String> {
    let at = instant(first(fields, &["time", "timestamp"])?)?;
    if let Some(context) = fields.get("contexttokens") {
        let context = number(context)?;
        let answer = number(first(fields, &["generatedtokens"])?)?;
        let millis = answer.saturating_mul(1_000) / TOKENS_PER_SECOND;
        let actual = context.checked_add(answer).ok_or("too many tokens")?;
        let duration = Duration::from_millis(millis);
        return Ok((Row { at, tenant: None, estimate: context, actual, duration }, Some(answer)));
    }
    let tenant = fields.get("tenant").filter(|name| !name.is_empty()).cloned();
    let estimate = number(first(fields, &["estimated", "estimate", "estimated_cost"])?)?;
    let actual = number(first(fields, &["actual", "actual_cost"])?)?;
    let duration = match fields.get("duration_ms") {
        Some(millis) => Duration::from_millis(number(millis)?),
        None => DURATION_DEFAULT,
    };
    Ok((Row { at, tenant, estimate, actual, duration }, None))
}

fn first<'a>(fields: &'a Fields, names: &[&str]) -> Result<&'a str, String> {
    let found = names.iter().find_map(|name| fields.get(*name));
    found.map(String::as_str).ok_or_else(|| format!("there is no field {}", names.join(" or ")))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_invalid| format!("{text:?} is not a whole number"))
}

fn instant(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let civil: DateTime = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Offset::UTC.to_timestamp(civil).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two requests in the shape of the Azure traces: CRLF, seven digits, no newline at the end.
    const INFERENCE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
        2023-11-16 18:17:03.9799600,4808,10\r\n\
        2023-11-16 18:17:04.0319601,3180,50";

    fn read_texts(texts: &[&str]) -> Result<Vec<TraceRequest>, TraceError> {
        let folder = tempfile::tempdir().unwrap();
        let write = |(place, text): (usize, &&str)| {
            let path = folder.path().join(format!("{place}.csv"));
            fs::write(&path, text).unwrap();
            path
        };
        read(&texts.iter().enumerate().map(write).collect::<Vec<_>>())
    }

    #[test]
    fn an_inference_trace_is_read_as_it_is() {
        let requests = read_texts(&[INFERENCE]).unwrap();
        let figures: Vec<_> =
            requests.iter().map(|request| (request.estimate, request.actual)).collect();
        assert_eq!(figures, [(4_858, 4_818), (3_230, 3_230)]);
        assert_eq!(requests[0].due, Duration::ZERO);
        assert_eq!(requests[1].due.as_micros(), 52_000);
        assert_eq!(requests[1].duration, Duration::from_secs(1));
    }

    #[test]
    fn each_file_has_its_own_longest_answer_and_all_are_merged_by_time() {
        let other = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04,1,1000\n";
        let requests = read_texts(&[INFERENCE, other]).unwrap();
        let estimates: Vec<u64> = requests.iter().map(|request| request.estimate).collect();
        assert_eq!(estimates, [4_858, 1_001, 3_230]);
    }

    #[test]
    fn a_plain_trace_names_tenants_and_costs() {
        let csv = "time,tenant,estimated,actual,duration_ms\n\
            2026-08-01T09:00:00+09:00,acme,40,25,120\n\
            2026-08-01T00:00:01Z,,7,9,0\n";
        let json = r#"{"time":"2026-08-01T00:00:00.5Z","estimated":3,"actual":3,"tenant":null}"#;
        let requests = read_texts(&[csv, json]).unwrap();
        assert_eq!(requests[0].tenant.as_deref(), Some("acme"));
        assert_eq!(requests[0].duration, Duration::from_millis(120));
        assert_eq!((requests[1].estimate, requests[1].due.as_millis()), (3, 500));
        assert_eq!((requests[2].tenant.as_deref(), requests[2].actual), (None, 9));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let refused = |text: &str| read_texts(&[text]).unwrap_err().to_string();
        assert!(refused("time,estimated,actual\nnoon,1,1\n").contains("line 2"));
        assert!(refused("time,estimated,actual\n2026-08-01T00:00:00Z,1\n").contains("2 fields"));
        assert!(refused("time,estimated\n2026-08-01T00:00:00Z,1\n").contains("no field actual"));
        assert!(refused("time,estimated,actual\n2026-08-01T00:00:00Z,1.5,1\n").contains("whole"));
        assert_eq!(refused("time,estimated,actual\n"), "there is no request in the trace");
    }
}
