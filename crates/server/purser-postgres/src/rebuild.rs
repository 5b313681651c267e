//! Building the tables again from the histories, side by side, and putting them in place.
//!
//! ```text
//!  purser          live, projected and read all the while ──────────┐ locked ─┬─▶ the new tables
//!  purser_rebuild  empty ─▶ all entries ─▶ as far as the live ones ─┘         └─▶ gone
//! ```
//!
//! Where several regions keep their homes in the same tables, and only some of the histories are at hand,
//! the rows of these regions' accounts are exchanged instead of the tables.
//!
//! Cursors and outbox stay as they are: nothing is published again, and nothing is left out, because the
//! new tables stand exactly where the old ones did.

use deadpool_postgres::Transaction;

use crate::database::Database;
use crate::error::DatabaseError;
use crate::moved::Moved;
use crate::projector::ProjectError;
use crate::shadow::{History, Scope, Shadow, lock, projected};
use crate::source::Source;
use crate::verify::SUFFIX;

/// The tables that are a projection of entries.
const PROJECTED: [&str; 9] =
    ["entries", "accounts", "balances", "allocated", "lots", "holds", "books", "keys", "events"];

/// Builds the tables again. `histories` must have every shard of their regions that was ever projected.
///
/// Projectors and readers go on meanwhile; projectors wait while rows are exchanged, and readers while tables
/// are. A verification that goes on is waited for before that. When it fails, nothing has changed, and it can
/// be begun again.
pub async fn rebuild<S: Source>(
    live: &Database,
    histories: &[History<S>],
) -> Result<(), ProjectError> {
    let shadow = Shadow::begin(live, "rebuild").await?;
    let mut client = live.client().await?;
    // Most of the way without holding anybody up.
    shadow.follow(&projected(&client).await?, histories).await?;
    // A verification is about the tables as they were when it began: those that take their place are empty
    // to it.
    let verifying = lock(&live.beside(SUFFIX)?).await?;
    shadow.follow(&projected(&client).await?, histories).await?;
    let transaction = client.transaction().await.map_err(DatabaseError::from)?;
    let lock = "LOCK TABLE projectors IN EXCLUSIVE MODE";
    transaction.batch_execute(lock).await.map_err(DatabaseError::from)?;
    let projected = projected(&transaction).await?;
    shadow.follow(&projected, histories).await?;
    let scope = Scope::of(histories);
    let is_whole = projected.iter().all(|projected| scope.covers(projected));
    let (live_name, new_name) = (live.schema().as_str(), shadow.database.schema().as_str());
    let exchange = match scope.regions().filter(|_| !is_whole) {
        Some(regions) => {
            leave_moved(&transaction, &shadow, histories).await?;
            exchange_rows(live_name, new_name, &regions)
        }
        None => exchange(live_name, new_name),
    };
    transaction.batch_execute(&exchange).await.map_err(DatabaseError::from)?;
    transaction.commit().await.map_err(DatabaseError::from)?;
    drop(verifying);
    tracing::info!(schema = live.schema().as_str(), "read model rebuilt");
    Ok(())
}

/// Notes which accounts keep their rows: another region's projector may go on from them.
async fn leave_moved<S: Source>(
    live: &Transaction<'_>,
    shadow: &Shadow,
    histories: &[History<S>],
) -> Result<(), DatabaseError> {
    let mut client = shadow.database.client().await?;
    let new = client.transaction().await?;
    let moved = Moved::of(live, &new, histories).await?;
    // Order matters: whoever removes the schema waits for the end of this.
    new.rollback().await?;
    moved.leave_out(live).await
}

/// Statements that put the tables of `new` in the place of those in `live`.
fn exchange(live: &str, new: &str) -> String {
    let old = PROJECTED.map(|table| format!("{live}.{table}")).join(", ");
    // Order matters: readers are kept out of all tables before the first one goes.
    let mut statements = format!("LOCK TABLE {old} IN ACCESS EXCLUSIVE MODE;\nDROP TABLE {old};\n");
    for table in PROJECTED {
        statements.push_str(&format!("ALTER TABLE {new}.{table} SET SCHEMA {live};\n"));
    }
    statements.push_str(&format!("DROP SCHEMA {new} CASCADE;\n"));
    statements
}

/// Statements that put the rows of accounts whose home is in `regions` in the place of those in `live`,
/// but for those that are left out.
fn exchange_rows(live: &str, new: &str, regions: &str) -> String {
    let mut statements = format!(
        "CREATE TEMPORARY TABLE exchanged ON COMMIT DROP AS
             (SELECT tenant, unit FROM {new}.accounts
              UNION SELECT tenant, unit FROM {live}.accounts WHERE home IN ({regions}))
             EXCEPT SELECT tenant, unit FROM left_out;\n"
    );
    for table in PROJECTED {
        statements.push_str(&format!(
            "DELETE FROM {live}.{table} USING exchanged
                 WHERE {table}.tenant = exchanged.tenant AND {table}.unit = exchanged.unit;
             INSERT INTO {live}.{table} SELECT * FROM {new}.{table}
                 WHERE (tenant, unit) IN (SELECT tenant, unit FROM exchanged);\n"
        ));
    }
    statements.push_str(&format!("DROP SCHEMA {new} CASCADE;\n"));
    statements
}
