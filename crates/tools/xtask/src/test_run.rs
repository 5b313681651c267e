//! Runs the tests, passes their output on, and keeps the line with which the runner closes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::closing::Closing;
use crate::needs;
use crate::steps::{Outcome, StepError};
use crate::workspace::{CommandError, Workspace, typed};

/// All test programs and the binaries that process tests start. One set of targets and one profile
/// for building and for running: another choice would build everything again.
const TARGETS: [&str; 4] = ["--workspace", "--lib", "--bins", "--tests"];

/// Runs unit, scenario, property, golden and process tests.
pub(crate) fn run_tests(workspace: &Workspace) -> Result<Outcome, StepError> {
    // Test runners build test programs, but not the binary that process tests start.
    crate::workspace::run(workspace.cargo(&["build", "--profile", "test"]).args(TARGETS))?;
    let (package, program) = needs::POSTGRES_TESTS;
    if needs::has_subcommand(workspace, "nextest") {
        let mut command = workspace.cargo(&["nextest", "run", "--no-fail-fast"]);
        command.args(TARGETS);
        if !needs::has_postgres() {
            command.args(["-E", &format!("not binary_id({package}::{program})")]);
        }
        return watch(&mut command, Closing::Nextest(None));
    }
    println!("cargo-nextest is not installed; plain cargo runs the same tests, only slower");
    let mut command = workspace.cargo(&["test", "--no-fail-fast"]);
    command.args(TARGETS);
    if !needs::has_postgres() {
        command.args(["--exclude", package]);
    }
    watch(&mut command, Closing::Cargo(None))
}

/// Runs the examples in the documentation.
pub(crate) fn run_doctests(workspace: &Workspace) -> Result<Outcome, StepError> {
    let mut command = workspace.cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    watch(&mut command, Closing::Cargo(None))
}

/// Runs a test runner, passes its output on, and finds its closing line.
fn watch(command: &mut Command, mut closing: Closing) -> Result<Outcome, StepError> {
    let typed = typed(command);
    println!("$ {typed}");
    // cargo-nextest talks on standard error, the test programs of plain cargo on standard output.
    if matches!(closing, Closing::Nextest(_)) {
        command.stderr(Stdio::piped());
    } else {
        command.stdout(Stdio::piped());
    }
    let mut child =
        command.spawn().map_err(|source| CommandError::Start { command: typed.clone(), source })?;
    let broken = |source| CommandError::Output { command: typed.clone(), source };
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read>);
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read>);
    let pipe = stderr.or(stdout).expect("one of the two was piped above");
    let mut lines = BufReader::new(pipe);
    let mut line = Vec::new();
    // Bytes, not `lines()`: a test may print what is not UTF-8.
    while lines.read_until(b'\n', &mut line).map_err(broken)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        closing.look(&text);
        line.clear();
    }
    let status = child.wait().map_err(broken)?;

    match (status.success(), closing.line()) {
        (true, Some(closing_line)) => Ok(Outcome::TestsPassed { closing_line }),
        (false, Some(closing_line)) => Err(StepError::TestsFailed { closing_line }),
        (true, None) => Ok(Outcome::NotRun { reason: "there are none".to_owned() }),
        (false, None) => Err(CommandError::Failed { command: typed, status }.into()),
    }
}
