//! A shard's projector: reads its history, page by page, into the tables.
//!
//! ```text
//!  page ─▶ lock the cursor's row ─┬─ it stands elsewhere ──▶ go on from there
//!                                 └─ lock accounts ─▶ fold ─▶ write ─▶ move the cursor ─▶ commit
//! ```
//!
//! A page is one transaction, cursor included, so it is applied once or not at all: whoever does not know
//! whether it was (the connection was lost in the commit, another projector was faster) finds the answer
//! in the cursor. Not here: who runs a projector. The leader does, and two leaders do no harm.

use std::time::Duration;

use purser_ledger::{AccountName, FoldError};
use purser_types::{LogTime, Sequence};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::database::Database;
use crate::error::{DatabaseError, chain};
use crate::source::{Cursor, Shard, Source, SourceError};
use crate::target::{Applied, Publishing, Stand, Target};

/// Why a projector stops. Nothing of the page in question is written, and nothing is lost: once the cause
/// is gone, or the tables are built again, it goes on from its cursor.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The database; see there.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The history.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An entry is missing: in the tables, or in the history.
    #[error(
        "account {}/{}: entry {} follows, expected {}",
        account.tenant, account.unit, found.0, expected.0
    )]
    Gap {
        /// The account.
        account: AccountName,
        /// The entry that should come.
        expected: Sequence,
        /// The one that came.
        found: Sequence,
    },
    /// An entry does not continue those in the tables, or is another one than the tables have.
    #[error(
        "account {}/{}: entry {} does not continue what the tables have",
        account.tenant, account.unit, sequence.0
    )]
    Forked {
        /// The account.
        account: AccountName,
        /// The entry.
        sequence: Sequence,
    },
    /// The tables do not have what an entry changes.
    #[error("account {}/{}, entry {}: {error}", account.tenant, account.unit, sequence.0)]
    Unfounded {
        /// The account.
        account: AccountName,
        /// The entry.
        sequence: Sequence,
        /// What they lack.
        error: FoldError,
    },
    /// No history was given of a shard that the tables have.
    #[error("shard {shard} is in the tables, and its history was not given")]
    NoHistory {
        /// The shard.
        shard: String,
    },
    /// The history ends before what the tables have of it: it is another one.
    #[error("shard {shard} is projected up to {projected}, its history ends at {end}")]
    HistoryTooShort {
        /// The shard.
        shard: Shard,
        /// How far the tables have it.
        projected: Cursor,
        /// How far it goes.
        end: Cursor,
    },
}

impl ProjectError {
    /// Whether trying again may help.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Database(error) => error.is_transient(),
            Self::Source(SourceError::Unavailable(_)) => true,
            Self::Source(SourceError::Unreadable(_))
            | Self::Gap { .. }
            | Self::Forked { .. }
            | Self::Unfounded { .. }
            | Self::NoHistory { .. }
            | Self::HistoryTooShort { .. } => false,
        }
    }
}

/// How a projector goes about its work.
#[derive(Debug, Clone, Copy)]
pub struct ProjectorSettings {
    /// The most entries of a page. More is faster and holds locks longer.
    pub page_entries_max: usize,
    /// How long to wait after there was nothing new.
    pub idle: Duration,
    /// How long to wait after the first failure in a row; each further one doubles it.
    pub retry_first: Duration,
    /// The longest wait between two attempts.
    pub retry_max: Duration,
}

impl Default for ProjectorSettings {
    fn default() -> Self {
        Self {
            // A fifth of a second's work at ten thousand entries a second.
            page_entries_max: 2_000,
            idle: Duration::from_millis(100),
            retry_first: Duration::from_millis(50),
            retry_max: Duration::from_secs(5),
        }
    }
}

/// How far a projector has come: for metrics, and for whoever waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Everything before it is in the tables.
    pub cursor: Cursor,
    /// The latest log time among what is in the tables: how old they are.
    pub log_time: LogTime,
    /// How many entries this projector has written.
    pub entries: u64,
    /// How many attempts in a row have failed, and what the last one said.
    pub failing: Option<(u32, String)>,
}

/// Projects one shard.
#[derive(Debug)]
pub struct Projector<S> {
    database: Database,
    shard: Shard,
    source: S,
    settings: ProjectorSettings,
    progress: watch::Sender<Progress>,
}

impl<S: Source> Projector<S> {
    /// A projector of `shard`, whose history `source` reads.
    pub fn new(database: Database, shard: Shard, source: S, settings: ProjectorSettings) -> Self {
        let progress = watch::Sender::new(Progress::default());
        Self { database, shard, source, settings, progress }
    }

    /// How far it has come, from now on.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Projects until shutdown. The tables must be there: see [`Database::migrate`].
    ///
    /// Waits out whatever may pass (a database that is away, a deadlock, a lost connection), with growing
    /// pauses. Ends with an error only when going on would make the tables wrong.
    pub async fn run(&self, shutdown: CancellationToken) -> Result<(), ProjectError> {
        loop {
            let step = self.step();
            let pause = tokio::select! {
                // Shutdown first: a projector with a backlog must still stop.
                biased;
                () = shutdown.cancelled() => return Ok(()),
                outcome = step => match outcome {
                    Ok(true) => continue,
                    Ok(false) => self.settings.idle,
                    Err(error) => self.pause_after(error)?,
                },
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => (),
            }
        }
    }

    /// Projects what there is, and ends. What may pass is waited out as in [`Projector::run`].
    pub async fn catch_up(&self) -> Result<Progress, ProjectError> {
        loop {
            match self.step().await {
                Ok(true) => (),
                Ok(false) => return Ok(self.progress.borrow().clone()),
                Err(error) => tokio::time::sleep(self.pause_after(error)?).await,
            }
        }
    }

    /// How long to wait before the next attempt; the error itself if that would not help.
    fn pause_after(&self, error: ProjectError) -> Result<Duration, ProjectError> {
        if !error.is_transient() {
            return Err(error);
        }
        let mut failed = 0_u32;
        self.progress.send_modify(|progress| {
            failed = progress.failing.as_ref().map_or(1, |(count, _)| count.saturating_add(1));
            progress.failing = Some((failed, chain(&error)));
        });
        // Each outage is told once; how long it lasts is in the progress.
        if failed == 1 {
            tracing::warn!(shard = %self.shard, error = chain(&error), "projector waits");
        }
        let doubled = 2_u32.saturating_pow(failed.saturating_sub(1));
        Ok(self.settings.retry_first.saturating_mul(doubled).min(self.settings.retry_max))
    }

    /// Projects one page. Tells whether there was one.
    async fn step(&self) -> Result<bool, ProjectError> {
        let from = self.stand().await?;
        let page = self.source.page(from.cursor, self.settings.page_entries_max).await?;
        let target = Target { database: &self.database, shard: &self.shard };
        if page.next <= from.cursor {
            // Another projector may have gone on, since another node leads.
            let now = target.stand().await?;
            self.note(now, 0);
            return Ok(from.cursor < now.cursor);
        }
        match target.apply(from, &page, Publishing::Outbox).await? {
            Applied::Written(stand, entries) => self.note(stand, entries),
            Applied::Overtaken(stand) => self.note(stand, 0),
        }
        Ok(true)
    }

    /// Where to go on. After a failure only the database knows: the attempt may have been committed.
    async fn stand(&self) -> Result<Stand, ProjectError> {
        let known = {
            let progress = self.progress.borrow();
            let is_known = progress.failing.is_none() && progress.cursor != Cursor::START;
            is_known.then_some(Stand { cursor: progress.cursor, log_time: progress.log_time })
        };
        if let Some(stand) = known {
            return Ok(stand);
        }
        let target = Target { database: &self.database, shard: &self.shard };
        Ok(target.stand().await?)
    }

    fn note(&self, stand: Stand, entries: u64) {
        let mut recovered = None;
        self.progress.send_modify(|progress| {
            recovered = progress.failing.take();
            progress.cursor = stand.cursor;
            progress.log_time = stand.log_time;
            progress.entries = progress.entries.saturating_add(entries);
        });
        if let Some((attempts, _)) = recovered {
            tracing::info!(shard = %self.shard, attempts, "projector goes on");
        }
    }
}
