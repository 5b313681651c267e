//! The checkout this tool belongs to, and how cargo is called in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Where the checkout lies.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

/// Why a program that was called gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// It is not installed, or may not be run.
    #[error("`{command}` could not be started")]
    Start {
        /// The call, as one would type it.
        command: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Its output could not be read to the end.
    #[error("the output of `{command}` could not be read")]
    Output {
        /// The call, as one would type it.
        command: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It ran and reported a failure; what it had to say stands above in the output.
    #[error("`{command}` failed: {status}")]
    Failed {
        /// The call, as one would type it.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// `cargo metadata` answered something else than JSON.
    #[error("the answer of `cargo metadata` could not be read")]
    Metadata(#[source] serde_json::Error),
}

impl Workspace {
    /// The checkout that cargo runs this tool in.
    pub(crate) fn here() -> Self {
        // Asked of cargo, because a binary in a shared target folder may come from another checkout.
        let here = std::env::var_os("CARGO_MANIFEST_DIR");
        let here = here.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here.ancestors().nth(3).expect("xtask lies three folders below the root");
        Self { root: root.to_path_buf() }
    }

    /// The top folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A call of the cargo that runs this tool, in the top folder.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).args(arguments);
        // Cargo describes the running package (this one) in the environment. Build scripts that
        // watch these variables would run again at every other call, and with them half the tree.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }

    /// Calls cargo and waits; its output goes where ours goes.
    pub(crate) fn run_cargo(&self, arguments: &[&str]) -> Result<(), CommandError> {
        run(&mut self.cargo(arguments))
    }

    /// What `cargo metadata` says about the workspace.
    pub(crate) fn metadata(&self, options: &[&str]) -> Result<Value, CommandError> {
        let mut command = self.cargo(&["metadata", "--format-version", "1"]);
        command.args(options).stderr(std::process::Stdio::inherit());
        let output = command
            .output()
            .map_err(|source| CommandError::Start { command: typed(&command), source })?;
        check_status(&command, output.status)?;
        serde_json::from_slice(&output.stdout).map_err(CommandError::Metadata)
    }
}

/// Runs a command to its end; a status other than success is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), CommandError> {
    println!("$ {}", typed(command));
    let status = command
        .status()
        .map_err(|source| CommandError::Start { command: typed(command), source })?;
    check_status(command, status)
}

fn check_status(command: &Command, status: std::process::ExitStatus) -> Result<(), CommandError> {
    if status.success() {
        return Ok(());
    }
    Err(CommandError::Failed { command: typed(command), status })
}

/// A command as one would type it: the program without its folder, then the arguments.
pub(crate) fn typed(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let words: Vec<_> =
        std::iter::once(program).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}
