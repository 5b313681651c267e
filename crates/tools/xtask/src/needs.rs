//! What steps need from the machine beyond cargo itself: looked for, else installed, else told.
//!
//! Tests need Rust, the C compiler it links with, and a PostgreSQL server; nothing else.

use std::path::Path;
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

/// Names a server for tests, so that none has to be installed here.
const POSTGRES_ADDRESS: &str = "PURSER_TEST_POSTGRES";

/// The tests that need a server: a package, and its test program.
pub(crate) const POSTGRES_TESTS: (&str, &str) = ("purser-postgres", "it");

/// Looks for PostgreSQL, and installs it from Debian's package where that is possible.
pub(crate) fn postgres(_: &Workspace) -> Result<Outcome, StepError> {
    if has_postgres() {
        return Ok(Outcome::Passed);
    }
    let tests = POSTGRES_TESTS.0;
    let reason = match install("postgresql") {
        Ok(()) if has_postgres() => return Ok(Outcome::Passed),
        Ok(()) => "its package was installed and has no server".to_owned(),
        Err(error) => format!("installing it did not work: {error}"),
    };
    Ok(Outcome::NotRun {
        reason: format!(
            "no PostgreSQL, so the tests of {tests} are left out; {reason}. Install it, or name a \
             server in {POSTGRES_ADDRESS}"
        ),
    })
}

/// Whether a server is named, or its programs are on the path or where packages put them.
pub(crate) fn has_postgres() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut on_path = std::env::split_paths(&path);
    let packaged = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    std::env::var_os(POSTGRES_ADDRESS).is_some()
        || on_path.any(|folder| folder.join("initdb").exists())
        || packaged.into_iter().any(|version| version.path().join("bin/initdb").exists())
}

/// Installs a package of Debian.
pub(crate) fn install(package: &str) -> Result<(), String> {
    if !Path::new("/etc/debian_version").exists() {
        return Err("this is not Debian".to_owned());
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        run(command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
    };
    let installed = apt(&["update"]).and_then(|()| apt(&["install", "--yes", package]));
    installed.map_err(|error| error.to_string())
}
