//! `purser bench storage`: what a ledger takes in memory and on disk, and how long a node with a
//! long history needs to serve again.
//!
//! Memory is what the system says this process has more than before, divided by a large count; a
//! restart is a real one: a group's data folder is filled through consensus, closed and opened.

mod commands;
mod disk;
mod memory;

use std::path::PathBuf;

use serde::Serialize;

use self::disk::{DiskError, DiskFigures};
use self::memory::{MemoryError, MemoryFigures};
use crate::failure::CommandError;
use crate::output::Output;

/// Measure bytes of memory and of disk, and how long a restart takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many accounts the memory of an idle account is measured with.
    #[arg(long, default_value_t = 200_000)]
    accounts: u32,
    /// How many holds and keys their memory is measured with.
    #[arg(long, default_value_t = 1_000_000)]
    holds: u32,
    /// How many entries the node has that is restarted.
    #[arg(long, default_value_t = 10_000_000)]
    entries: u32,
    /// Where the node keeps its data for the time; the system's folder for temporary files if left
    /// out.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
enum StorageError {
    #[error("the memory could not be measured")]
    Memory(#[from] MemoryError),
    #[error("the disk and the restart could not be measured")]
    Disk(#[from] DiskError),
}

/// What was measured.
#[derive(Debug, Serialize)]
struct StorageReport {
    memory: MemoryFigures,
    disk: DiskFigures,
}

/// Measures.
pub(super) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    let report = measure(&args, output)
        .await
        .map_err(|error| CommandError::broken("nothing was measured", error))?;
    output.answer(&report, render)?;
    Ok(())
}

async fn measure(args: &Args, output: &Output) -> Result<StorageReport, StorageError> {
    let memory = memory::measure(args.accounts, args.holds, output)?;
    let disk = disk::measure(args.entries, args.data.as_deref(), output).await?;
    Ok(StorageReport { memory, disk })
}

fn render(report: &StorageReport) -> String {
    let StorageReport { memory, disk } = report;
    format!(
        "| what | figure |\n|---|---|\n\
         | memory of an idle account with one lot | {:.0} B |\n\
         | memory of a live hold | {:.0} B |\n\
         | memory of an ended hold | {:.0} B |\n\
         | memory of a remembered key | {:.0} B |\n\
         | history on disk | {:.0} B an entry |\n\
         | data folder after {} entries | {:.0} B an entry |\n\
         | entries written | {:.0} a second |\n\
         | restart until ready | {:.2} s |",
        memory.idle_account_bytes,
        memory.live_hold_bytes,
        memory.ended_hold_bytes,
        memory.remembered_key_bytes,
        disk.history_bytes_per_entry,
        disk.entries,
        disk.folder_bytes_per_entry,
        disk.entries_per_second,
        disk.restart_seconds
    )
}
