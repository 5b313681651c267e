//! Comparing the tables with what the histories make of them, row by row.
//!
//! The histories are folded again into tables beside the live ones, up to where these stand, and then both
//! are read in the order of their keys. Totals can agree where lots do not, so every column of every row is
//! compared. Nothing is changed and nothing is published. Not here: mending, which is `rebuild`'s business.

mod merge;
mod tables;

use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};

use purser_ledger::AccountName;
use tokio_postgres::IsolationLevel;

use self::merge::compare;
use self::tables::{TABLES, View};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::moved::Moved;
use crate::projector::ProjectError;
use crate::shadow::{History, Scope, Shadow, projected};
use crate::source::Source;

/// What the name of the schema is made with that the histories are folded into. Its lock keeps the tables from
/// being exchanged.
pub(crate) const SUFFIX: &str = "verify";

/// What a comparison came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// One verdict a table, entries first.
    pub tables: Vec<TableVerdict>,
    /// How many accounts were left out because their home is elsewhere: what is left of them is history.
    pub gone: u64,
    /// How many accounts were left out of which not all is projected with which they came. They are not
    /// compared, and may lack anything.
    pub arriving: u64,
}

/// What is wrong with one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableVerdict {
    /// The table.
    pub table: &'static str,
    /// How many rows it should have.
    pub rows: u64,
    /// Rows that it lacks.
    pub missing: Tally,
    /// Rows that say something else.
    pub altered: Tally,
    /// Rows that it has more than once.
    pub doubled: Tally,
    /// Rows that no entry accounts for.
    pub unexpected: Tally,
    /// The first difference in the order of the keys.
    pub first: Option<Difference>,
}

/// So many rows, and the credits that they are about or by which they are wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub rows: u64,
    /// The credits: of a row that is missing, doubled or unexpected, those that it is about; of one that
    /// is altered, by how much its amounts are wrong, all together.
    pub credits: u128,
}

/// A row that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The table.
    pub table: &'static str,
    /// The row's key: account, then number.
    pub row: String,
    /// What is wrong with it.
    pub what: Wrong,
    /// See [`Tally::credits`].
    pub credits: u128,
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// It is not there.
    Missing,
    /// It says something else.
    Altered(Vec<AlteredColumn>),
    /// It is there more than once.
    Doubled,
    /// No entry accounts for it.
    Unexpected,
}

/// A column that says something else than it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlteredColumn {
    /// The column.
    pub column: &'static str,
    /// What it should say; nothing for NULL.
    pub expected: Option<String>,
    /// What it says.
    pub found: Option<String>,
}

impl Verification {
    /// Whether there is no difference in what was compared.
    pub fn is_sound(&self) -> bool {
        self.first().is_none()
    }

    /// The first difference: in entries, if there is one.
    pub fn first(&self) -> Option<&Difference> {
        self.tables.iter().find_map(|table| table.first.as_ref())
    }

    /// The verdict on one table.
    pub fn table(&self, name: &str) -> Option<&TableVerdict> {
        self.tables.iter().find(|verdict| verdict.table == name)
    }
}

impl Display for Difference {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}: ", self.table, self.row)?;
        match &self.what {
            Wrong::Missing => formatter.write_str("missing")?,
            Wrong::Doubled => formatter.write_str("doubled")?,
            Wrong::Unexpected => formatter.write_str("accounted for by no entry")?,
            Wrong::Altered(columns) => {
                let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".into());
                let told = columns.iter().map(|altered| {
                    let (expected, found) = (shown(&altered.expected), shown(&altered.found));
                    format!("{} is {found}, expected {expected}", altered.column)
                });
                formatter.write_str(&told.collect::<Vec<_>>().join(", "))?;
            }
        }
        write!(formatter, " ({} credits)", self.credits)
    }
}

/// Compares all tables with what the histories make of them. `histories` must have every shard of their
/// regions that was ever projected; what the tables have of other regions' homes is not looked at, nor what
/// they have of an account that has gone, or that is not told whole yet since it came. Projectors go on
/// meanwhile: it is about one moment. A rebuild waits for it, and it for a rebuild's end.
pub async fn verify<S: Source>(
    live: &Database,
    histories: &[History<S>],
) -> Result<Verification, ProjectError> {
    let shadow = Shadow::begin(live, SUFFIX).await?;
    let verified = verify_against(live, &shadow, histories).await;
    shadow.database.remove().await?;
    verified
}

async fn verify_against<S: Source>(
    live: &Database,
    shadow: &Shadow,
    histories: &[History<S>],
) -> Result<Verification, ProjectError> {
    let mut client = live.client().await?;
    // Not for reading only, because of the table of what is left out. It is never committed.
    let found = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    let found = found.start().await.map_err(DatabaseError::from)?;
    shadow.follow(&projected(&found).await?, histories).await?;
    let cut = "SELECT coalesce(max(log_time), '-infinity')::TEXT FROM projectors";
    let cut: String = found
        .query_one(cut, &[])
        .await
        .map_err(DatabaseError::from)?
        .try_get(0)
        .map_err(DatabaseError::from)?;
    let view = View { cut };
    let mut client = shadow.database.client().await?;
    let expected = client.transaction().await.map_err(DatabaseError::from)?;
    let moved = Moved::of(&found, &expected, histories).await?;
    for side in [&found, &expected] {
        moved.leave_out(side).await?;
    }
    if let Some(regions) = Scope::of(histories).regions() {
        let others = format!(
            "INSERT INTO left_out SELECT tenant, unit FROM accounts WHERE home NOT IN ({regions})
             ON CONFLICT DO NOTHING"
        );
        found.execute(&others, &[]).await.map_err(DatabaseError::from)?;
    }
    for side in [&found, &expected] {
        let begin = "ANALYZE left_out; SET TRANSACTION READ ONLY";
        side.batch_execute(begin).await.map_err(DatabaseError::from)?;
    }
    let mut tables = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        tables.push(compare((table, &view), &expected, &found).await?);
    }
    let count =
        |accounts: &BTreeSet<AccountName>| u64::try_from(accounts.len()).unwrap_or(u64::MAX);
    Ok(Verification { tables, gone: count(&moved.gone), arriving: count(&moved.arriving) })
}
