//! Webhooks of a real node, verified by a program that knows nothing of ours: the official Python library of
//! Standard Webhooks.
//!
//! It needs Python, and a registry to install the library from, once; it is kept below `target`. Where either
//! is missing, the step says that it did not run.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::needs;
use crate::steps::{Outcome, StepError};
use crate::workspace::{Workspace, run};

/// The library, and the release that this was written against.
const LIBRARY: &str = "standardwebhooks==1.1.0";

/// Has a node send events, and the library verify them.
pub(crate) fn run_official(workspace: &Workspace) -> Result<Outcome, StepError> {
    let metadata = workspace.metadata(&["--no-deps", "--locked"])?;
    let target = Path::new(metadata["target_directory"].as_str().unwrap_or("target"));
    let environment = target.join("standard-webhooks");
    let python = environment.join("bin/python");
    if let Err(error) = install(&environment, &python) {
        let reason = format!("the official library could not be installed: {error}");
        return Ok(Outcome::NotRun { reason });
    }
    workspace.run_cargo(&["build", "--package", "purser", "--locked"])?;
    let script = workspace.root().join("crates/tools/xtask/webhooks/verify.py");
    run(Command::new(python).arg(script).arg(target.join("debug/purser")))?;
    Ok(Outcome::Passed)
}

fn install(environment: &Path, python: &Path) -> Result<(), String> {
    let make = || {
        let mut command = Command::new("python3");
        run(command.args(["-m", "venv", "--clear"]).arg(environment))
    };
    // Debian has Python without what this needs of it.
    if !has_pip(python) && make().is_err() {
        needs::install("python3-venv")?;
        make().map_err(|error| error.to_string())?;
    }
    let installed = run(Command::new(python).args(["-m", "pip", "install", "--quiet", LIBRARY]));
    installed.map_err(|error| error.to_string())
}

fn has_pip(python: &Path) -> bool {
    let mut probe = Command::new(python);
    probe.args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}
