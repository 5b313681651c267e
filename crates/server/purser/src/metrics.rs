//! What `/metrics` tells besides what a node tells: of the read model.

use ::metrics::gauge;
use purser_postgres::{Progress, Shard};

const LOG_TIME_SECONDS: &str = "purser_projector_log_time_seconds";
const FAILED_ATTEMPTS: &str = "purser_projector_failed_attempts";
const STOPPED: &str = "purser_projector_stopped";

/// How far a shard is projected, and whether the database is away.
pub(crate) fn record(shard: &Shard, progress: &Progress) {
    let shard = shard.as_str().to_owned();
    let micros = progress.log_time.as_unix_micros();
    gauge!(LOG_TIME_SECONDS, "shard" => shard.clone()).set(seconds(micros));
    let failing = progress.failing.as_ref().map_or(0, |(attempts, _)| *attempts);
    gauge!(FAILED_ATTEMPTS, "shard" => shard).set(f64::from(failing));
}

/// A projector cannot begin: the database was asked so often in vain.
pub(crate) fn record_waiting(shard: &Shard, attempts: u32) {
    let shard = shard.as_str().to_owned();
    gauge!(FAILED_ATTEMPTS, "shard" => shard).set(f64::from(attempts));
}

/// A projector has stopped for good.
pub(crate) fn record_stopped(shard: &Shard) {
    gauge!(STOPPED, "shard" => shard.as_str().to_owned()).set(1.0);
}

fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    fn read(file: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// The metrics of this file. A name is a constant, which ends its line.
    fn of_read_model() -> Vec<&'static str> {
        let lines = include_str!("metrics.rs").lines().filter_map(|line| line.strip_suffix("\";"));
        lines.filter_map(|line| line.split_once(": &str = \"")).map(|(_, name)| name).collect()
    }

    /// Those of a node, from a table that a test of the node holds to its code.
    fn of_node(table: &str) -> Vec<&str> {
        table.lines().filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect()
    }

    #[test]
    fn the_documentation_names_every_metric_of_the_read_model() {
        let (metrics, documentation) = (of_read_model(), read("docs/postgres.md"));
        assert!(!metrics.is_empty());
        for metric in metrics {
            assert!(documentation.contains(&format!("`{metric}`")), "{metric} is not documented");
        }
    }

    /// A rule about a metric that is called otherwise would never fire.
    #[test]
    fn rules_are_about_metrics_that_there_are_and_name_what_to_do() {
        let (rules, table) = (read("deploy/alerts.yaml"), read("docs/metrics.md"));
        let known = [of_node(&table), of_read_model()].concat();
        let is_part = |part: char| part.is_ascii_lowercase() || part == '_';
        let words = rules.split(|part| !is_part(part));
        let metrics: Vec<&str> = words.filter(|word| word.starts_with("purser_")).collect();
        assert!(metrics.len() > 5, "{metrics:?}");
        for metric in metrics {
            assert!(known.contains(&metric), "there is no {metric}");
        }
        let alerts = rules.lines().filter(|line| line.contains("- alert: ")).count();
        let named = rules.lines().filter_map(|line| line.trim().strip_prefix("runbook: "));
        let runbooks: Vec<&str> = named.collect();
        assert_eq!(runbooks.len(), alerts);
        for runbook in runbooks {
            assert!(read(runbook).starts_with("# "), "{runbook}");
        }
    }

    #[test]
    fn a_verification_is_late_after_twice_its_period() {
        let (rules, node) = (read("deploy/alerts.yaml"), read("deploy/purser.toml"));
        let every = node.lines().find_map(|line| line.strip_prefix("verify-seconds = "));
        let late = 2 * every.expect("the file says it").parse::<u64>().expect("a number");
        let last = "time() - purser_verification_last_run_timestamp_seconds";
        assert!(rules.contains(&format!("expr: {last} > {late}\n")));
        assert!(rules.contains(&format!("last_run_timestamp_seconds\n        for: {late}s\n")));
    }
}
