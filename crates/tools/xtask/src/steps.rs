//! Runs the steps of a command one after the other, times them and sums up.
//!
//! A failed step does not end the run: whoever waits for the answer wants all of it at once. What
//! the steps are is `plan`'s business.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::workspace::{CommandError, Workspace};

/// One step of a command.
#[derive(Debug)]
pub(crate) struct Step {
    /// What the summary calls it.
    pub(crate) name: &'static str,
    /// Does it.
    pub(crate) run: fn(&Workspace) -> Result<Outcome, StepError>,
}

/// How a step ended that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Looked, and found nothing wrong.
    Passed,
    /// Tests ran and passed.
    TestsPassed {
        /// The line with which their runner closed.
        closing_line: String,
    },
    /// Did not look, because this machine lacks something. Never silent: the summary says it.
    NotRun {
        /// What is lacking.
        reason: String,
    },
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    /// A program that the step calls failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Tests ran and failed.
    #[error("tests failed")]
    TestsFailed {
        /// The line with which their runner closed.
        closing_line: String,
    },
    /// A check found something. The findings stand above in the output.
    #[error("{count} findings")]
    Findings {
        /// How many.
        count: usize,
    },
    /// A file or folder could not be read.
    #[error("{path} could not be read")]
    Unreadable {
        /// Which one.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file could be read, but does not say what it should.
    #[error("{path}: {detail}")]
    Malformed {
        /// Which one.
        path: String,
        /// What is wrong with it.
        detail: String,
    },
}

/// A step that ran.
struct Finished {
    name: &'static str,
    took: Duration,
    result: Result<Outcome, StepError>,
}

/// Runs all steps, prints a summary and, last, the line with which the tests closed, if any ran. If
/// something else failed, that is the last line: nobody shall read of success there.
///
/// The exit code is success if no step failed. A step that was not run is no failure.
pub(crate) fn run_all(workspace: &Workspace, steps: &[Step]) -> ExitCode {
    let mut finished = Vec::new();
    for step in steps {
        println!("\n==> {}", step.name);
        let start = Instant::now();
        let result = (step.run)(workspace);
        finished.push(Finished { name: step.name, took: start.elapsed(), result });
    }
    println!("\n{}", summary(&finished));
    if let Some(line) = closing_line(&finished) {
        println!("{line}");
    }
    let failed = finished.iter().any(|step| step.result.is_err());
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Reports what a check found, a line each.
pub(crate) fn report(findings: &[impl std::fmt::Display]) -> Result<Outcome, StepError> {
    for finding in findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        return Ok(Outcome::Passed);
    }
    Err(StepError::Findings { count: findings.len() })
}

fn summary(finished: &[Finished]) -> String {
    let rows = finished.iter().map(|step| {
        let verdict = match &step.result {
            Ok(Outcome::Passed | Outcome::TestsPassed { .. }) => "passed".to_owned(),
            Ok(Outcome::NotRun { reason }) => format!("NOT RUN: {reason}"),
            Err(error) => format!("FAILED: {}", chain(error)),
        };
        format!("{:>7.1} s  {:<14} {verdict}\n", step.took.as_secs_f64(), step.name)
    });
    rows.collect()
}

/// An error and its causes in one line.
fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        line = format!("{line}: {inner}");
        cause = inner.source();
    }
    line
}

/// The last line: what failed tests closed with, else another failure, else what tests closed with
/// that passed.
fn closing_line(finished: &[Finished]) -> Option<String> {
    let failed_tests = finished.iter().find_map(|step| match &step.result {
        Err(StepError::TestsFailed { closing_line }) => Some(closing_line.clone()),
        _ => None,
    });
    let failed = || {
        finished.iter().find_map(|step| {
            let error = step.result.as_ref().err()?;
            Some(format!("FAILED: {}: {}", step.name, chain(error)))
        })
    };
    let passed = || {
        finished.iter().find_map(|step| match &step.result {
            Ok(Outcome::TestsPassed { closing_line }) => Some(closing_line.clone()),
            _ => None,
        })
    };
    failed_tests.or_else(failed).or_else(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(result: Result<Outcome, StepError>) -> Finished {
        Finished { name: "step", took: Duration::from_millis(1_250), result }
    }

    fn passed(line: &str) -> Finished {
        finished(Ok(Outcome::TestsPassed { closing_line: line.to_owned() }))
    }

    fn failed(line: &str) -> Finished {
        finished(Err(StepError::TestsFailed { closing_line: line.to_owned() }))
    }

    #[track_caller]
    fn check_last_line(finished: &[Finished], expected: Option<&str>) {
        assert_eq!(closing_line(finished).as_deref(), expected);
    }

    #[test]
    fn the_closing_line_of_a_failure_wins() {
        check_last_line(&[passed("unit"), passed("doc")], Some("unit"));
        check_last_line(&[passed("unit"), failed("doc")], Some("doc"));
        check_last_line(&[finished(Ok(Outcome::Passed))], None);
    }

    /// As when the tests do not compile, and the examples in the documentation pass.
    #[test]
    fn no_success_is_told_last_when_anything_failed() {
        let broken = || finished(Err(StepError::Findings { count: 3 }));
        check_last_line(&[broken(), passed("doc")], Some("FAILED: step: 3 findings"));
        check_last_line(&[broken(), failed("doc")], Some("doc"));
    }

    #[test]
    fn the_summary_says_what_was_not_run_and_why_a_step_failed() {
        let source = std::io::Error::new(std::io::ErrorKind::NotFound, "no such file");
        let unreadable = StepError::Unreadable { path: "docs".to_owned(), source };
        let not_run = Outcome::NotRun { reason: "no database".to_owned() };
        let text = summary(&[finished(Ok(not_run)), finished(Err(unreadable))]);
        assert_eq!(
            text,
            "    1.2 s  step           NOT RUN: no database\n    \
             1.2 s  step           FAILED: docs could not be read: no such file\n"
        );
    }
}
