//! `cargo xtask`: the chores of the project, as Rust that has tests of its own.
//!
//! It knows the shape of the tree, the rules of the architecture and how to call cargo. It does not
//! depend on any crate of the product, so it builds in seconds and works while they are broken.
//!
//! ```text
//!  plan (what each command does) ─▶ steps (runs, times, sums up) ─▶ cargo, or a check in here:
//!
//!  tidy ─▶ tree, rust_source     what the tree says about itself
//!  bands                         which crate may depend on which
//!  deny ─▶ license, advisories   what may be depended on at all
//!  webhooks                      whether others can verify what a node sends
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to whoever called it"
)]

mod advisories;
mod bands;
mod closing;
mod deny;
mod license;
mod needs;
mod plan;
mod rust_source;
mod steps;
mod test_run;
mod tidy;
mod tree;
mod webhooks;
mod workspace;

use std::process::ExitCode;

use crate::workspace::Workspace;

/// The exit code for a call that names no command, or more than a command.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let command = plan::COMMANDS.iter().find(|command| command.name == name);
    let (Some(command), None) = (command, arguments.next()) else {
        eprintln!("{}", plan::usage());
        return ExitCode::from(EXIT_USAGE);
    };
    steps::run_all(&Workspace::here(), command.steps)
}
