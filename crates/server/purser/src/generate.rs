//! Texts that are made from the code: the description of the API, completions and manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use serde::Serialize;

use crate::failure::CommandError;
use crate::output::Output;

/// Print the description of the HTTP API, OpenAPI 3.1.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct OpenapiArgs {}

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Write manual pages into a folder, one for each command.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The folder; made if it does not exist.
    dir: PathBuf,
}

/// Prints the description of the API.
pub(crate) fn openapi(_: OpenapiArgs, output: &Output) -> Result<(), CommandError> {
    output.json(&purser_node::openapi_document())?;
    Ok(())
}

/// Prints completions.
pub(crate) fn completions(
    args: &CompletionsArgs,
    mut command: Command,
    output: &Output,
) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "purser", &mut script);
    let completions = Completions {
        shell: args.shell.to_string(),
        script: String::from_utf8_lossy(&script).trim_end().to_owned(),
    };
    output.answer(&completions, |completions| completions.script.clone())?;
    Ok(())
}

/// Completions for a shell.
#[derive(Debug, Serialize)]
struct Completions {
    shell: String,
    script: String,
}

/// Where manual pages were written.
#[derive(Debug, Serialize)]
struct ManualPages {
    dir: PathBuf,
    count: usize,
}

/// Writes manual pages.
pub(crate) fn man(
    args: &ManArgs,
    mut command: Command,
    output: &Output,
) -> Result<(), CommandError> {
    command.build();
    let failed = |error: io::Error| {
        CommandError::broken(format!("cannot write manual pages to {}", args.dir.display()), error)
    };
    fs::create_dir_all(&args.dir).map_err(failed)?;
    let count = write_pages(&command, &args.dir).map_err(failed)?;
    let pages = ManualPages { dir: args.dir.clone(), count };
    output.answer(&pages, |ManualPages { dir, count }| {
        format!("{count} manual pages written to {}", dir.display())
    })?;
    Ok(())
}

/// Writes the page of a command and of everything below it; tells how many pages that were.
fn write_pages(command: &Command, dir: &Path) -> io::Result<usize> {
    // A built command knows its full name, `purser hold create`, which a page is called by.
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-");
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().display_name(name.clone())).render(&mut page)?;
    fs::File::create(dir.join(format!("{name}.1")))?.write_all(&page)?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        count += write_pages(below, dir)?;
    }
    Ok(count)
}
