//! The read model of a node, of `purser serve` or of `purser dev`: a projector for each shard, fed by the node.
//!
//! Every node has them, and each waits until its node leads the shard. One that stops says so in the log and
//! in [`crate::metrics`]; the node goes on, because nothing is decided from the tables. What the tables say
//! can be compared with the node's histories, and built from them again, whether the node leads or not.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use purser_ledger::{AccountName, Residence};
use purser_node::{
    Feed, FeedCursor, FeedError, FeedItem, FeedPage, PostgresConfig, ReadModelDifference,
    ReadModelError, ReadModelVerdict,
};
use purser_postgres::{
    Authorities, Cursor, Database, History, InvalidShard, Item, Page, ProjectError, Projector,
    ProjectorSettings, Shard, Source, SourceError, TableVerdict, rebuild, verify,
};
use purser_types::{HistoryError, Position};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failure::CommandError;
use crate::metrics;

/// How many connections the projectors of a node share.
const CONNECTIONS: usize = 8;

/// How often the tables are asked for while the database is away.
const MIGRATE_EVERY: Duration = Duration::from_secs(5);

/// How long a projector waits at a time for its node to lead, or for entries.
const WAIT: Duration = Duration::from_secs(1);

/// How long a node may lack what was projected before it says so: another one led, and it follows.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(10);

/// The projectors of a node; they end when this is dropped.
pub(crate) struct ReadModel {
    kept: Arc<Kept>,
    projectors: JoinSet<()>,
}

/// The database that the configuration names. Nothing is asked of it yet: one that is away is waited for.
/// Fails for an address that cannot be read.
pub(crate) fn database(config: &PostgresConfig) -> Result<Database, CommandError> {
    let address = read(&config.address_file)?;
    let authorities = match &config.ca_file {
        Some(file) => Authorities::parse(read(file)?.as_bytes()),
        None => Ok(Authorities::Machine),
    };
    let database = authorities.and_then(|authorities| {
        Database::vouched_for(address.trim(), &config.schema, CONNECTIONS, &authorities)
    });
    database.map_err(|error| CommandError::settings("the [postgres] section".to_owned(), error))
}

fn read(file: &Path) -> Result<String, CommandError> {
    std::fs::read_to_string(file).map_err(|error| {
        CommandError::broken(format!("{} could not be read", file.display()), error)
    })
}

/// The tables, and the histories that they are made from.
struct Kept {
    database: Database,
    shards: Vec<(Shard, Feed)>,
}

impl ReadModel {
    /// Starts to keep the tables of a region's shards. Fails only for a region whose name no shard can have.
    pub(crate) fn start(
        database: &Database,
        (region, feeds): (&str, &[Feed]),
    ) -> Result<Self, InvalidShard> {
        let mut projectors = JoinSet::new();
        let mut shards = Vec::with_capacity(feeds.len());
        for feed in feeds {
            let shard = Shard::parse(&format!("{region}/{}", feed.shard()))?;
            projectors.spawn(project(database.clone(), shard.clone(), feed.clone()));
            shards.push((shard, feed.clone()));
        }
        let kept = Arc::new(Kept { database: database.clone(), shards });
        Ok(Self { kept, projectors })
    }

    /// Ends the projectors in the middle of whatever they do, and waits until nothing of them is left.
    pub(crate) async fn end(mut self) {
        self.projectors.shutdown().await;
    }

    /// The tables, to be compared and built again.
    pub(crate) fn kept(&self) -> Arc<dyn purser_node::ReadModel> {
        Arc::clone(&self.kept) as Arc<dyn purser_node::ReadModel>
    }
}

impl Kept {
    fn histories(&self) -> Vec<History<Written>> {
        let history = |(shard, feed): &(Shard, Feed)| History {
            shard: shard.clone(),
            source: Written { feed: feed.clone() },
        };
        self.shards.iter().map(history).collect()
    }
}

impl purser_node::ReadModel for Kept {
    fn verify(&self) -> BoxFuture<'_, Result<ReadModelVerdict, ReadModelError>> {
        async {
            let verified = verify(&self.database, &self.histories()).await;
            let verified = verified.map_err(|error| refused(&error))?;
            let rows = verified.tables.iter().map(|table| table.rows);
            let rows = rows.fold(0, u64::saturating_add);
            let tables = verified.tables.iter().filter_map(difference).collect();
            let (left_out, arriving) = (verified.gone, verified.arriving);
            Ok(ReadModelVerdict { rows, tables, left_out, arriving })
        }
        .boxed()
    }

    fn rebuild(&self) -> BoxFuture<'_, Result<(), ReadModelError>> {
        async {
            let rebuilt = rebuild(&self.database, &self.histories()).await;
            rebuilt.map_err(|error| refused(&error))
        }
        .boxed()
    }
}

/// What is wrong with a table, if anything is.
fn difference(table: &TableVerdict) -> Option<ReadModelDifference> {
    let first = table.first.as_ref()?.to_string();
    let tallies = [table.missing, table.altered, table.doubled, table.unexpected];
    let rows = tallies.iter().map(|tally| tally.rows).fold(0, u64::saturating_add);
    let credits = tallies.iter().map(|tally| tally.credits).fold(0, u128::saturating_add);
    Some(ReadModelDifference { rows, credits, first })
}

fn refused(error: &ProjectError) -> ReadModelError {
    ReadModelError(chain(error))
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Projects one shard until it cannot go on.
async fn project(database: Database, shard: Shard, feed: Feed) {
    let mut attempts = 0_u32;
    while let Err(error) = database.migrate().await {
        attempts = attempts.saturating_add(1);
        metrics::record_waiting(&shard, attempts);
        let (is_wrong, error) = (!error.is_transient(), chain(&error));
        tracing::warn!(%shard, error, is_wrong, "the read model's tables cannot be made yet");
        if is_wrong {
            return metrics::record_stopped(&shard);
        }
        tokio::time::sleep(MIGRATE_EVERY).await;
    }
    metrics::record_waiting(&shard, 0);
    let source = Fed { feed: feed.clone() };
    let projector = Projector::new(database, shard.clone(), source, ProjectorSettings::default());
    let mut progress = projector.progress();
    let telling = async {
        while progress.changed().await.is_ok() {
            metrics::record(&shard, &progress.borrow_and_update());
        }
    };
    tokio::select! {
        ended = projector.run(CancellationToken::new()) => match ended {
            Ok(()) => (),
            Err(error) => {
                tracing::error!(%shard, %error, "the read model is not kept any more");
                metrics::record_stopped(&shard);
            }
        },
        () = telling => (),
    }
}

/// A node's feed, as projectors read it.
struct Fed {
    feed: Feed,
}

impl Source for Fed {
    async fn page(&self, from: Cursor, max: usize) -> Result<Page, SourceError> {
        let after = FeedCursor(Position(from.0));
        // Another node's projector may have gone on: its cursor is looked at again from time to time.
        if tokio::time::timeout(WAIT, self.feed.news(after)).await.is_err() {
            return Ok(Page { items: Vec::new(), next: from });
        }
        match self.feed.page(after, max).await {
            Ok(read) => Ok(page(read)),
            Err(FeedError::NotLeading) => {
                tokio::time::sleep(WAIT).await;
                Ok(Page { items: Vec::new(), next: from })
            }
            Err(error) => Err(unread(&error)),
        }
    }

    fn residences(&self, accounts: &[AccountName]) -> Vec<Residence> {
        self.feed.residences(accounts)
    }
}

/// A node's history as it has it, for what was projected from it before.
struct Written {
    feed: Feed,
}

impl Source for Written {
    async fn page(&self, from: Cursor, max: usize) -> Result<Page, SourceError> {
        let after = FeedCursor(Position(from.0));
        let reading = async {
            loop {
                let read = self.feed.written(after, max).await?;
                if read.next > after {
                    return Ok(read);
                }
                tokio::time::sleep(WAIT / 10).await;
            }
        };
        match tokio::time::timeout(FOLLOWS_WITHIN, reading).await {
            Ok(Ok(read)) => Ok(page(read)),
            Ok(Err(error)) => Err(unread(&error)),
            Err(_elapsed) => Ok(Page { items: Vec::new(), next: from }),
        }
    }

    fn residences(&self, accounts: &[AccountName]) -> Vec<Residence> {
        self.feed.residences(accounts)
    }
}

fn page(read: FeedPage) -> Page {
    let FeedPage { items, next: FeedCursor(next) } = read;
    let item = |item: FeedItem| Item {
        account: item.account,
        epoch: item.home.1,
        cursor: Cursor(item.at.0),
        entry: item.entry,
    };
    Page { items: items.into_iter().map(item).collect(), next: Cursor(next.0) }
}

/// A disk that fails once may serve again, and another node may lead; damage stays.
fn unread(error: &FeedError) -> SourceError {
    match error {
        FeedError::NotLeading | FeedError::Task(_) | FeedError::History(HistoryError::Disk(_)) => {
            SourceError::Unavailable(error.to_string())
        }
        FeedError::History(_) | FeedError::NoSuchPlace(_) => {
            SourceError::Unreadable(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Certificates that are named and do not count would be a false comfort.
    #[test]
    fn certificates_that_are_named_are_read_and_have_to_count() {
        let folder = tempfile::tempdir().unwrap();
        let (address_file, ca) = (folder.path().join("address"), folder.path().join("ca.pem"));
        std::fs::write(&address_file, "host=db.example user=a sslmode=verify-full\n").unwrap();
        let schema = Database::SCHEMA_DEFAULT.to_owned();
        let config = PostgresConfig { address_file, ca_file: Some(ca.clone()), schema };
        let missing = database(&config).unwrap_err();
        assert!(missing.to_string().contains("ca.pem could not be read"), "{missing}");
        std::fs::write(&ca, "no certificate").unwrap();
        assert_eq!(database(&config).unwrap_err().exit_code(), 64);
    }
}
