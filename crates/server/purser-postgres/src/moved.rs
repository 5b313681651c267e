//! Accounts that come and go: of which the tables rightly have something else than the shard's entries make of
//! them as far as they are projected.
//!
//! ```text
//!  has gone   tables ── its rows are history, or another region's ─────────▶ left out, and counted
//!  arriving   tables ── rows of an earlier stay, or the old home's ────────▶ left out, and not compared:
//!             shadow ── not all yet of the entries with which it came        nothing is sound meanwhile
//! ```
//!
//! An account comes to another home with all its entries, which are told once more, and goes from the old one
//! without a word.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::{GenericClient, Transaction};
use purser_ledger::{AccountName, Residence};
use purser_types::{Epoch, Sequence, TenantId, Unit};
use tokio_postgres::Row;

use crate::error::DatabaseError;
use crate::shadow::{History, Scope};
use crate::source::Source;

/// How many accounts are looked at together.
const ACCOUNTS_AT_A_TIME: i32 = 1_000;

/// How many are named together.
const ACCOUNTS_TOLD_AT_A_TIME: usize = 10_000;

/// Where they are named on one side: there may be so many that they must not be sent with each query, nor
/// looked for row by row.
const MAKE_LEFT_OUT: &str = "CREATE TEMPORARY TABLE left_out (
         tenant TEXT COLLATE \"C\", unit TEXT COLLATE \"C\", PRIMARY KEY (tenant, unit)
     ) ON COMMIT DROP";

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// Accounts whose home is elsewhere.
    pub(crate) gone: BTreeSet<AccountName>,
    /// Accounts whose home is here, and of which not all is projected with which they came.
    pub(crate) arriving: BTreeSet<AccountName>,
}

/// The tables, and what the histories have made of them beside.
struct Looking<'a, S> {
    live: &'a Transaction<'a>,
    shadow: &'a Transaction<'a>,
    histories: &'a [History<S>],
    regions: Option<String>,
    moved: Moved,
}

impl Moved {
    /// Those of the accounts in `live` and in `shadow`, which has followed the histories to where `live`
    /// stands.
    pub(crate) async fn of<S: Source>(
        live: &Transaction<'_>,
        shadow: &Transaction<'_>,
        histories: &[History<S>],
    ) -> Result<Self, DatabaseError> {
        let regions = Scope::of(histories).regions();
        let moved = Self::default();
        let mut looking = Looking { live, shadow, histories, regions, moved };
        for side in [shadow, live] {
            looking.look_through(side).await?;
        }
        Ok(looking.moved)
    }

    /// Names them on one side in the table `left_out`, which goes with the transaction.
    pub(crate) async fn leave_out(&self, side: &Transaction<'_>) -> Result<(), DatabaseError> {
        side.batch_execute(MAKE_LEFT_OUT).await?;
        let note = "INSERT INTO left_out SELECT * FROM unnest($1::TEXT[], $2::TEXT[])";
        let accounts: Vec<&AccountName> = self.gone.union(&self.arriving).collect();
        for some in accounts.chunks(ACCOUNTS_TOLD_AT_A_TIME) {
            let (tenants, units) = columns(some.iter().copied());
            side.execute(note, &[&tenants, &units]).await?;
        }
        Ok(())
    }
}

impl<S: Source> Looking<'_, S> {
    /// Looks at all accounts of one side.
    async fn look_through(&mut self, side: &Transaction<'_>) -> Result<(), DatabaseError> {
        let portal = side.bind("SELECT tenant, unit FROM accounts", &[]).await?;
        loop {
            let rows = side.query_portal(&portal, ACCOUNTS_AT_A_TIME).await?;
            if rows.is_empty() {
                return Ok(());
            }
            // A name that no account can have is nobody's: it is compared.
            self.look_at(rows.iter().filter_map(name).collect()).await?;
        }
    }

    async fn look_at(&mut self, accounts: Vec<AccountName>) -> Result<(), DatabaseError> {
        let (told, elsewhere) = (self.told(&accounts).await?, self.elsewhere(&accounts).await?);
        let residences = self.residences(&accounts);
        for (account, residence) in accounts.into_iter().zip(residences) {
            let (sequence, epoch) = told.get(&account).copied().unwrap_or_default();
            // A replica may not know yet that an account has gone whose new home has been projected.
            let is_later = elsewhere.get(&account).is_some_and(|later| epoch < *later);
            match residence {
                // With the entry by which it came all before it have been told.
                Residence::Here(since) if sequence < since => {
                    self.moved.arriving.insert(account);
                }
                Residence::Here(_) | Residence::Unknown if !is_later => (),
                // Another region's, of which nothing was told here.
                _ if !told.contains_key(&account) && elsewhere.contains_key(&account) => (),
                _ => {
                    self.moved.gone.insert(account);
                }
            }
        }
        Ok(())
    }

    /// Where accounts are. Each is in one shard of a region.
    fn residences(&self, accounts: &[AccountName]) -> Vec<Residence> {
        let mut known = vec![Residence::Unknown; accounts.len()];
        for history in self.histories {
            for (known, told) in known.iter_mut().zip(history.source.residences(accounts)) {
                if told != Residence::Unknown {
                    *known = told;
                }
            }
        }
        known
    }

    /// The last entry that the histories have told of accounts, and its epoch.
    async fn told(
        &self,
        accounts: &[AccountName],
    ) -> Result<BTreeMap<AccountName, (Sequence, Epoch)>, DatabaseError> {
        let query = "SELECT tenant, unit, sequence, epoch FROM balances
             JOIN accounts USING (tenant, unit)
             JOIN unnest($1::TEXT[], $2::TEXT[]) AS wanted (tenant, unit) USING (tenant, unit)";
        let rows = rows_of(self.shadow, query, accounts).await?;
        let told = |row: &Row| Some((name(row)?, (Sequence(count(row, 2)), Epoch(count(row, 3)))));
        Ok(rows.iter().filter_map(told).collect())
    }

    /// The epochs of accounts that the tables have in other regions.
    async fn elsewhere(
        &self,
        accounts: &[AccountName],
    ) -> Result<BTreeMap<AccountName, Epoch>, DatabaseError> {
        let Some(regions) = &self.regions else { return Ok(BTreeMap::new()) };
        let query = format!(
            "SELECT tenant, unit, epoch FROM accounts
             JOIN unnest($1::TEXT[], $2::TEXT[]) AS wanted (tenant, unit) USING (tenant, unit)
             WHERE home NOT IN ({regions})"
        );
        let rows = rows_of(self.live, &query, accounts).await?;
        Ok(rows.iter().filter_map(|row| Some((name(row)?, Epoch(count(row, 2))))).collect())
    }
}

async fn rows_of(
    client: &Transaction<'_>,
    query: &str,
    accounts: &[AccountName],
) -> Result<Vec<Row>, DatabaseError> {
    let (tenants, units) = columns(accounts);
    Ok(client.query(query, &[&tenants, &units]).await?)
}

fn columns<'a>(
    accounts: impl IntoIterator<Item = &'a AccountName>,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let accounts = accounts.into_iter();
    accounts.map(|account| (account.tenant.as_str(), account.unit.as_str())).unzip()
}

fn name(row: &Row) -> Option<AccountName> {
    let tenant = TenantId::parse(row.try_get(0).ok()?).ok()?;
    Some(AccountName { tenant, unit: Unit::parse(row.try_get(1).ok()?).ok()? })
}

/// Of what the tables say falsely it is enough that it does not look like more.
fn count(row: &Row, column: usize) -> u64 {
    row.try_get(column).ok().and_then(|count: i64| u64::try_from(count).ok()).unwrap_or(0)
}
