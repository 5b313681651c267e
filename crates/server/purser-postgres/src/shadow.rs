//! The tables once more, in a schema beside the live one, from the history alone.
//!
//! What a history makes of the tables is made by the projector's own code, and nothing of it is published.
//! A shadow follows up to exactly where the live tables stand, so the two can be compared, or one can take
//! the other's place.

use std::collections::BTreeSet;

use deadpool_postgres::{ClientWrapper, GenericClient, Object};

use crate::database::Database;
use crate::error::DatabaseError;
use crate::projector::ProjectError;
use crate::source::{Cursor, Shard, Source, region_of};
use crate::target::{Applied, Publishing, Stand, Target, stand};

/// A shard and its history.
#[derive(Debug)]
pub struct History<S> {
    /// The shard.
    pub shard: Shard,
    /// Reads its history.
    pub source: S,
}

/// The regions whose homes are looked at: those of the histories that there are. Other regions may keep
/// their homes in the same tables.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    regions: BTreeSet<String>,
}

impl Scope {
    /// That of some histories; everything if there are none.
    pub(crate) fn of<S>(histories: &[History<S>]) -> Self {
        let regions = histories.iter().map(|history| history.shard.region().to_owned());
        Self { regions: regions.collect() }
    }

    /// Whether it has a shard.
    pub(crate) fn covers(&self, projected: &Projected) -> bool {
        self.regions.is_empty() || self.regions.contains(region_of(&projected.shard))
    }

    /// The regions as a list in SQL; their names have nothing that would need more than quotes. Nothing if
    /// everything is looked at.
    pub(crate) fn regions(&self) -> Option<String> {
        let quoted: Vec<String> = self.regions.iter().map(|region| format!("'{region}'")).collect();
        (!quoted.is_empty()).then(|| quoted.join(", "))
    }
}

/// The most entries of a page.
const PAGE_ENTRIES_MAX: usize = 2_000;

/// See the module's documentation.
pub(crate) struct Shadow {
    pub(crate) database: Database,
    /// A connection that keeps others off the schema; its end is the lock's.
    _lock: ClientWrapper,
}

/// How far a shard is projected.
#[derive(Debug)]
pub(crate) struct Projected {
    shard: String,
    pub(crate) stand: Stand,
}

impl Shadow {
    /// An empty one, of which there is one at a time: whoever comes second waits. What an earlier attempt
    /// has left behind is removed.
    pub(crate) async fn begin(live: &Database, suffix: &str) -> Result<Self, DatabaseError> {
        let database = live.beside(suffix)?;
        let lock = lock(&database).await?;
        database.remove().await?;
        database.migrate().await?;
        Ok(Self { database, _lock: lock })
    }

    /// Goes on to where the live tables stand. `histories` must have every shard that they have of the
    /// histories' regions.
    pub(crate) async fn follow<S: Source>(
        &self,
        live: &[Projected],
        histories: &[History<S>],
    ) -> Result<(), ProjectError> {
        let scope = Scope::of(histories);
        for Projected { shard, stand } in live.iter().filter(|projected| scope.covers(projected)) {
            let history = histories.iter().find(|history| history.shard.as_str() == shard);
            let history =
                history.ok_or_else(|| ProjectError::NoHistory { shard: shard.clone() })?;
            self.follow_shard(history, stand.cursor).await?;
        }
        Ok(())
    }

    async fn follow_shard<S: Source>(
        &self,
        history: &History<S>,
        until: Cursor,
    ) -> Result<(), ProjectError> {
        let target = Target { database: &self.database, shard: &history.shard };
        let mut from = target.stand().await?;
        while from.cursor < until {
            let mut page = history.source.page(from.cursor, PAGE_ENTRIES_MAX).await?;
            if page.next <= from.cursor {
                let (shard, projected) = (history.shard.clone(), until);
                return Err(ProjectError::HistoryTooShort { shard, projected, end: page.next });
            }
            page.items.retain(|item| item.cursor < until);
            page.next = page.next.min(until);
            let applied = target.apply(from, &page, Publishing::Nothing).await?;
            let (Applied::Written(stand, _) | Applied::Overtaken(stand)) = applied;
            from = stand;
        }
        Ok(())
    }
}

/// A connection that keeps out who wants the same schema; its end is the lock's.
pub(crate) async fn lock(database: &Database) -> Result<ClientWrapper, DatabaseError> {
    let lock = Object::take(database.client().await?);
    let statement = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
    lock.execute(statement, &[&database.schema().as_str()]).await?;
    Ok(lock)
}

/// How far each shard is projected.
pub(crate) async fn projected(
    client: &impl GenericClient,
) -> Result<Vec<Projected>, DatabaseError> {
    let query = "SELECT position, log_time, shard FROM projectors ORDER BY shard";
    let rows = client.query(query, &[]).await?;
    let read =
        |row: &tokio_postgres::Row| Ok(Projected { shard: row.try_get(2)?, stand: stand(row)? });
    rows.iter().map(read).collect()
}
