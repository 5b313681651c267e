//! What verifications come to.

use metrics::{Unit, describe_gauge, gauge};
use purser_api::VerificationAnswer;
use purser_raft::NodeId;

const LAST_RUN: &str = "purser_verification_last_run_timestamp_seconds";
const DURATION: &str = "purser_verification_duration_seconds";
const DIFFERENCES: &str = "purser_verification_differences";
const DRIFT: &str = "purser_verification_drift_credits";
const NOT_COMPARED: &str = "purser_verification_checks_incomplete";

pub(super) fn describe() {
    describe_gauge!(LAST_RUN, Unit::Seconds, "When the node's last verification ended");
    describe_gauge!(DURATION, Unit::Seconds, "How long the node's last verification took");
    describe_gauge!(DIFFERENCES, Unit::Count, "Differences that the last verification found");
    describe_gauge!(DRIFT, Unit::Count, "Credits by which they are wrong");
    describe_gauge!(NOT_COMPARED, Unit::Count, "Checks of it in which something was out of reach");
}

/// A verification has ended.
pub(crate) fn record_verification(node: NodeId, verdict: &VerificationAnswer) {
    let node = node.to_string();
    let started = verdict.started_at.0.as_unix_micros();
    let ended = verdict.ended_at.as_ref().map_or(started, |ended| ended.0.as_unix_micros());
    let seconds = |micros: u64| std::time::Duration::from_micros(micros).as_secs_f64();
    let incomplete = verdict.checks.iter().filter(|check| !check.not_compared.is_empty()).count();
    let gauges = [
        (LAST_RUN, seconds(ended)),
        (DURATION, seconds(ended.saturating_sub(started))),
        (DIFFERENCES, count(verdict.differences_count.into())),
        (DRIFT, count(verdict.credits.0)),
        (NOT_COMPARED, count(u128::try_from(incomplete).unwrap_or(u128::MAX))),
    ];
    for (name, value) in gauges {
        gauge!(name, "node" => node.clone()).set(value);
    }
}

/// A gauge is a float. More than 2^32 is as wrong as that.
fn count(number: u128) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
