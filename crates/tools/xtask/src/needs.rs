//! What steps need from the machine beyond cargo itself: looked for, else installed, else told.
//!
//! Tests need nothing but Rust and the C compiler it links with, so there is nothing about them in
//! here.

use std::process::{Command, Stdio};

use crate::steps::{Outcome, StepError};
use crate::workspace::{CommandError, Workspace, run};

/// A part of the Rust toolchain that a minimal installation lacks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Component {
    /// The lints.
    Clippy,
    /// The formatter.
    Rustfmt,
}

impl Component {
    /// Its name in rustup.
    const fn name(self) -> &'static str {
        match self {
            Self::Clippy => "clippy",
            Self::Rustfmt => "rustfmt",
        }
    }

    /// Its name as a subcommand of cargo.
    const fn subcommand(self) -> &'static str {
        match self {
            Self::Clippy => "clippy",
            Self::Rustfmt => "fmt",
        }
    }
}

/// Runs `step` if the component is there or can be installed; else the step counts as not run.
pub(crate) fn with_component(
    workspace: &Workspace,
    component: Component,
    step: impl FnOnce() -> Result<(), CommandError>,
) -> Result<Outcome, StepError> {
    let name = component.name();
    if !has_subcommand(workspace, component.subcommand())
        && let Err(error) = run(Command::new("rustup").args(["component", "add", name]))
    {
        let reason = format!("{name} is not installed, and installing it did not work: {error}");
        return Ok(Outcome::NotRun { reason });
    }
    step()?;
    Ok(Outcome::Passed)
}

/// Whether cargo has the subcommand.
pub(crate) fn has_subcommand(workspace: &Workspace, subcommand: &str) -> bool {
    let mut probe = workspace.cargo(&[subcommand, "--version"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}
