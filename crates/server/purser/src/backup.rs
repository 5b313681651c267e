//! `purser backup` and `purser restore`: a node's data folder, copied away and back.
//!
//! What is copied back has a past that it does not know, so the node's groups begin another life before the
//! node serves anything: see `purser-node`'s `restoring`.

use std::path::PathBuf;

use crate::failure::CommandError;
use crate::output::Output;

/// Copy the data folder of a stopped node.
///
/// Every byte is checked before it is copied. Refused while a node uses the folder.
#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The node's data folder.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where the backup is to be. Nothing may be there yet.
    #[arg(long, value_name = "BACKUP")]
    to: PathBuf,
}

/// Make a node's data folder of a backup, for a region whose nodes are all restored.
///
/// When the node starts, the allocations that its region had are sealed: nothing more is spent under them,
/// and new ones are opened on demand. What they had out stays out until it is taken back or written off. A
/// node that was lost alone is not restored, but replaced by an empty one: the others have all it had.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The backup.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Where the node's data folder is to be. Nothing may be there yet.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

/// Makes a backup.
pub(crate) fn back_up(args: &BackupArgs, output: &Output) -> Result<(), CommandError> {
    purser_node::back_up(&args.dir, &args.to)
        .map_err(|error| CommandError::broken("no backup was made", error))?;
    output
        .answer(&args.to, |to| format!("{} is a backup of {}", to.display(), args.dir.display()))?;
    Ok(())
}

/// Restores one.
pub(crate) fn restore(args: &RestoreArgs, output: &Output) -> Result<(), CommandError> {
    purser_node::restore(&args.backup, &args.to)
        .map_err(|error| CommandError::broken("nothing was restored", error))?;
    output.answer(&args.to, |to| {
        let to = to.display();
        format!("{to} is restored: its region's allocations are sealed when the node starts")
    })?;
    Ok(())
}
