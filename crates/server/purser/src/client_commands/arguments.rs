//! Arguments that many commands share.

use clap::Args;
use purser_api::{
    BudgetLabel, BudgetsNamed, Consistency, Cursor, KeyText, Metadata, PageLimit, Reason,
    Reference, SequenceNumber, TenantName, TtlSeconds, UnitName,
};
use purser_types::{IdempotencyKey, TenantId, Unit};

use super::connection::Connection;
use crate::failure::CommandError;

/// A command that has subcommands, and where they are sent.
#[derive(Debug, Args)]
pub(crate) struct Group<T: clap::Subcommand> {
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(subcommand)]
    pub(super) action: T,
}

/// A command that is one call, and where it is sent.
#[derive(Debug, Args)]
pub(crate) struct Call<T: Args> {
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(flatten)]
    pub(super) action: T,
}

/// Whose credits, in which unit.
#[derive(Debug, Args)]
pub(crate) struct Account {
    /// The tenant.
    tenant: TenantName,
    /// What the account counts.
    #[arg(long, default_value = "credits")]
    unit: UnitName,
}

impl Account {
    /// The tenant.
    pub(super) fn tenant(&self) -> &TenantId {
        &self.tenant.0
    }

    /// What the account counts.
    pub(super) fn unit(&self) -> &Unit {
        &self.unit.0
    }
}

/// The name of one change.
#[derive(Debug, Args)]
pub(crate) struct Key {
    /// Idempotency key: the same command with the same key happens once. Random if left out.
    #[arg(long)]
    key: Option<KeyText>,
}

impl Key {
    /// The key that was named, if any.
    pub(super) fn named(&self) -> Option<IdempotencyKey> {
        self.key.clone().map(IdempotencyKey::from)
    }
}

/// Why an operator does something.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// Why, for whoever reads the history.
    #[arg(long)]
    pub(super) reason: Reason,
}

/// The caller's own notes on a change.
#[derive(Debug, Args)]
pub(crate) struct Notes {
    /// A note to keep with the entry; may be given several times.
    #[arg(long = "metadata", value_name = "NAME=TEXT", value_parser = note)]
    metadata: Vec<(String, String)>,
}

impl Notes {
    /// The notes, if they are few and small enough.
    pub(super) fn checked(&self) -> Result<Metadata, CommandError> {
        Metadata::from_pairs(self.metadata.iter().cloned())
            .map_err(|error| CommandError::Usage(error.to_string()))
    }
}

fn note(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a note is NAME=TEXT")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Which page of a list.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// How many at most, 1 to 1000.
    #[arg(long, default_value_t)]
    pub(super) limit: PageLimit,
    /// Where the page starts, as the page before said.
    #[arg(long)]
    pub(super) cursor: Option<Cursor>,
}

/// What holds and charges say about the work behind them.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// Who may decide: `local` or `strict`.
    #[arg(long, default_value = "local")]
    pub(super) consistency: Consistency,
    /// A budget that is asked as well; up to eight of them, then home decides.
    #[arg(long = "budget", value_name = "BUDGET")]
    pub(super) budgets: Vec<BudgetLabel>,
    /// Your own name for the work, to search by.
    #[arg(long)]
    pub(super) reference: Option<Reference>,
    #[command(flatten)]
    pub(super) notes: Notes,
}

/// The budgets that a call names, if they are few enough and each is named once.
pub(super) fn budgets(named: &[BudgetLabel]) -> Result<BudgetsNamed, CommandError> {
    BudgetsNamed::try_from(named.to_vec()).map_err(|error| CommandError::Usage(error.to_string()))
}

/// A look before an act that cannot be undone, and its confirmation.
#[derive(Debug, Args)]
pub(crate) struct Safety {
    /// Only show what would happen, and the number to confirm it with.
    #[arg(long, conflicts_with = "confirm")]
    pub(super) dry_run: bool,
    /// The number that the dry run showed. Refused if the account has changed since.
    #[arg(long, value_name = "NUMBER", required_unless_present = "dry_run")]
    pub(super) confirm: Option<SequenceNumber>,
}

/// Reads a number that has a range of its own.
pub(super) fn ranged<T>(text: &str) -> Result<T, String>
where
    T: TryFrom<u32, Error: std::fmt::Display>,
{
    let number: u32 = text.parse().map_err(|error| format!("{error}"))?;
    T::try_from(number).map_err(|error| error.to_string())
}

/// Reads a TTL in seconds.
pub(super) fn ttl(text: &str) -> Result<TtlSeconds, String> {
    let seconds: u32 = text.parse().map_err(|error| format!("{error}"))?;
    TtlSeconds::try_from(seconds).map_err(|error| error.to_string())
}
