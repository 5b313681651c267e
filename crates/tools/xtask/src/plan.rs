//! What each command does: tables of steps.
//!
//! A new layer of tests or checks is a line in a table here; how steps are run is `steps`' business.

use crate::needs::{self, Component};
use crate::steps::{Outcome, Step, StepError};
use crate::workspace::{Workspace, run};
use crate::{advisories, deny, test_run, tidy, webhooks};

/// A command of this tool.
#[derive(Debug)]
pub(crate) struct Command {
    /// What one types.
    pub(crate) name: &'static str,
    about: &'static str,
    /// What it does, in this order.
    pub(crate) steps: &'static [Step],
}

const FORMATTING: Step = Step { name: "formatting", run: check_formatting };
const CLIPPY: Step = Step { name: "clippy", run: check_clippy };
const TIDY: Step = Step { name: "tidy", run: tidy::run };
const DOCUMENTATION: Step = Step { name: "documentation", run: check_documentation };
const POSTGRES: Step = Step { name: "PostgreSQL", run: needs::postgres };
const TESTS: Step = Step { name: "tests", run: test_run::run_tests };
const DOCTESTS: Step = Step { name: "doctests", run: test_run::run_doctests };
const MODEL: Step = Step { name: "model", run: search_model };
const DEPENDENCIES: Step = Step { name: "dependencies", run: deny::run };
const ADVISORIES: Step = Step { name: "advisories", run: advisories::run };
const WEBHOOKS: Step = Step { name: "webhooks", run: webhooks::run_official };

/// Every command.
pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        about: "run every test; the last line is the test runner's",
        steps: &[POSTGRES, TESTS, DOCTESTS],
    },
    Command {
        name: "verify",
        about: "all that must hold before a change is handed in; changes nothing",
        steps: &[FORMATTING, CLIPPY, TIDY, DOCUMENTATION, POSTGRES, TESTS, DOCTESTS],
    },
    Command {
        name: "fix",
        about: "mend what can be mended by machine: lints and formatting",
        steps: &[
            Step { name: "clippy fixes", run: fix_clippy },
            Step { name: "formatting", run: fix_formatting },
        ],
    },
    Command {
        name: "tidy",
        about: "check what the tree says about itself: architecture, documents, words",
        steps: &[TIDY],
    },
    Command {
        name: "deny",
        about: "check what is depended on: licenses, bans, sources, known holes",
        steps: &[DEPENDENCIES, ADVISORIES],
    },
    Command {
        name: "webhooks",
        about: "have the official library of Standard Webhooks verify what a node sends",
        steps: &[WEBHOOKS],
    },
    Command {
        name: "ci",
        about: "what continuous integration checks beyond `test`; tidy runs as one of the tests",
        steps: &[FORMATTING, CLIPPY, DOCUMENTATION, DEPENDENCIES, ADVISORIES, MODEL, WEBHOOKS],
    },
];

/// How to call this tool.
pub(crate) fn usage() -> String {
    let mut text = String::from("usage: cargo xtask <command>\n");
    for command in COMMANDS {
        text.push_str(&format!("\n  {:<8} {}", command.name, command.about));
    }
    text
}

fn check_formatting(workspace: &Workspace) -> Result<Outcome, StepError> {
    needs::with_component(workspace, Component::Rustfmt, || {
        workspace.run_cargo(&["fmt", "--all", "--check"])
    })
}

fn check_clippy(workspace: &Workspace) -> Result<Outcome, StepError> {
    needs::with_component(workspace, Component::Clippy, || {
        let options = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        workspace.run_cargo(&options)
    })
}

fn check_documentation(workspace: &Workspace) -> Result<Outcome, StepError> {
    let mut command = workspace.cargo(&["doc", "--workspace", "--no-deps"]);
    run(command.env("RUSTDOCFLAGS", "--deny warnings"))?;
    Ok(Outcome::Passed)
}

/// Every history of a world in which everything can go wrong: minutes, so it is none of the tests.
fn search_model(workspace: &Workspace) -> Result<Outcome, StepError> {
    // That profile optimizes the ledger and the search.
    let options = ["run", "--profile", "test", "--package", "purser-sim", "--", "--model"];
    run(workspace.cargo(&options).arg("everything"))?;
    Ok(Outcome::Passed)
}

fn fix_clippy(workspace: &Workspace) -> Result<Outcome, StepError> {
    needs::with_component(workspace, Component::Clippy, || {
        let options = ["clippy", "--fix", "--workspace", "--all-targets"];
        run(workspace.cargo(&options).args(["--allow-dirty", "--allow-staged"]))
    })
}

fn fix_formatting(workspace: &Workspace) -> Result<Outcome, StepError> {
    needs::with_component(workspace, Component::Rustfmt, || workspace.run_cargo(&["fmt", "--all"]))
}
