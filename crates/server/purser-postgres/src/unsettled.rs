//! Accounts of which the tables rightly have something else than the histories say.
//!
//! An account comes to another home with all its entries, which are told once more, and goes from the
//! old one without a word. So there are moments, and at the old home there is all the time afterwards, at
//! which its rows are not what the shard's entries make of them as far as they are projected. Such rows are
//! left alone: they are history, or another region's.

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

/// See the module's documentation. Named by tenant and unit, as two columns.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    pub(crate) tenants: Vec<String>,
    pub(crate) units: Vec<String>,
}

/// The tables, and what the histories have made of them beside.
struct Looking<'a, S> {
    live: &'a Transaction<'a>,
    shadow: &'a Transaction<'a>,
    histories: &'a [History<S>],
    regions: Option<String>,
    unsettled: BTreeSet<AccountName>,
}

impl Unsettled {
    /// Those of the accounts in `live` and in `shadow`, which has followed the histories to where `live`
    /// stands.
    pub(crate) async fn of<S: Source>(
        live: &Transaction<'_>,
        shadow: &Transaction<'_>,
        histories: &[History<S>],
    ) -> Result<Self, DatabaseError> {
        let regions = Scope::of(histories).regions();
        let unsettled = BTreeSet::new();
        let mut looking = Looking { live, shadow, histories, regions, unsettled };
        looking.look_through(shadow, "TRUE".to_owned()).await?;
        let own = looking.regions.as_ref().map(|regions| format!("home IN ({regions})"));
        looking.look_through(live, own.unwrap_or_else(|| "TRUE".to_owned())).await?;
        let mut columns = Self::default();
        for account in looking.unsettled {
            columns.tenants.push(account.tenant.as_str().to_owned());
            columns.units.push(account.unit.as_str().to_owned());
        }
        Ok(columns)
    }
}

impl<S: Source> Looking<'_, S> {
    /// Looks at all accounts of one side.
    async fn look_through(
        &mut self,
        side: &Transaction<'_>,
        condition: String,
    ) -> Result<(), DatabaseError> {
        let query = format!("SELECT tenant, unit FROM accounts WHERE {condition}");
        let portal = side.bind(query.as_str(), &[]).await?;
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
        for (account, residence) in accounts.iter().zip(self.residences(&accounts)) {
            let (sequence, epoch) = told.get(account).copied().unwrap_or_default();
            let is_settled = match residence {
                // With the entry by which it came all before it have been told.
                Residence::Here(since) => since <= sequence,
                Residence::Elsewhere => false,
                Residence::Unknown => true,
            };
            // A replica may not know yet that an account has gone whose new home has been projected.
            let has_gone = elsewhere.get(account).is_some_and(|later| epoch < *later);
            if !is_settled || has_gone {
                self.unsettled.insert(account.clone());
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
    let tenants: Vec<&str> = accounts.iter().map(|account| account.tenant.as_str()).collect();
    let units: Vec<&str> = accounts.iter().map(|account| account.unit.as_str()).collect();
    Ok(client.query(query, &[&tenants, &units]).await?)
}

fn name(row: &Row) -> Option<AccountName> {
    let tenant = TenantId::parse(row.try_get(0).ok()?).ok()?;
    Some(AccountName { tenant, unit: Unit::parse(row.try_get(1).ok()?).ok()? })
}

/// Of what the tables say falsely it is enough that it does not look like more.
fn count(row: &Row, column: usize) -> u64 {
    row.try_get(column).ok().and_then(|count: i64| u64::try_from(count).ok()).unwrap_or(0)
}
