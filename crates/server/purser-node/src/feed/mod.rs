//! The feed: what the homes of a shard have decided, entry by entry, in the order of its log.
//!
//! Whoever keeps something beside the ledger reads it: `GET /v1/changes`, the read model, webhooks. Each
//! has a cursor of its own, and nothing is kept here about them.
//!
//! - Nothing is published that a fail-over could make undone: a page ends where some standby lacks the next
//!   entry ([`reach`]).
//!   Nor anything of an account that was failed over to another home: that one tells all of it again.
//! - At least once, and in order per account. What an account brings along whose home comes from elsewhere
//!   stands in the history too, and is published where it stands: nobody here knows how far its last home was
//!   read. An entry has the same name wherever it is published: account, epoch, sequence.
//! - A region's own books are not published: their entries are, when home has booked them.

mod reach;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use purser_ledger::{Account, AccountName, Hashed, HomeSpan, Ledger, Record, Residence};
use purser_raft::{Group, GroupHistory};
use purser_types::{Epoch, Generation, HistoryError, HistoryReader, Position, Region, Sequence};

use self::reach::Reach;
use crate::regions::Watch;
use crate::shards::Shard;

/// How many bytes of a history are looked through for one page.
const PAGE_BYTES: u64 = 1 << 20;

/// How often who waits for news looks for them.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The feed of one shard. Clones are the same feed.
#[derive(Clone)]
pub struct Feed {
    shard: Shard,
    group: Group<Ledger>,
    watch: Option<Arc<Watch>>,
    reach: Arc<Mutex<Reach>>,
}

/// A place in a feed: where the next record of the shard's history stands. The default is the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedCursor(pub Position);

/// An entry that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedItem {
    /// Whose.
    pub account: AccountName,
    /// The home that decided it, and under which epoch.
    pub home: (Region, Epoch),
    /// The homes that the account has had; none if it never had another.
    pub homes: Vec<HomeSpan>,
    /// The entry.
    pub entry: Hashed,
    /// Where its record stands.
    pub at: Position,
}

/// A page of a feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedPage {
    /// The entries.
    pub items: Vec<FeedItem>,
    /// Where the next page starts.
    pub next: FeedCursor,
}

/// Why a feed was not read.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// This node does not lead the shard, so it does not know what its standbys have.
    #[error("this node does not lead the shard")]
    NotLeading,
    /// The cursor is none of this feed.
    #[error("nothing of this feed stands at {}", .0.0.0)]
    NoSuchPlace(FeedCursor),
    /// The history could not be read.
    #[error("the history could not be read")]
    History(#[from] HistoryError),
    /// The thread that read it ended by itself.
    #[error("reading the history failed")]
    Task(#[from] tokio::task::JoinError),
}

impl Feed {
    pub(crate) fn new(shard: Shard, group: Group<Ledger>, watch: Option<Arc<Watch>>) -> Self {
        Self { shard, group, watch, reach: Arc::default() }
    }

    /// The number of the shard.
    pub fn shard(&self) -> u32 {
        self.shard.0
    }

    pub(crate) fn group(&self) -> &Group<Ledger> {
        &self.group
    }

    /// Whether this node leads the shard, as far as it knows.
    pub fn is_leading(&self) -> bool {
        self.group.is_leading()
    }

    /// What comes behind `after`: at most `items_max` entries, perhaps none. It is the end so far if `next`
    /// is `after`.
    pub async fn page(&self, after: FeedCursor, items_max: usize) -> Result<FeedPage, FeedError> {
        let Some(end) = self.end()? else { return Ok(FeedPage { items: Vec::new(), next: after }) };
        if end <= after.0 {
            return Ok(FeedPage { items: Vec::new(), next: after });
        }
        // Taken after the end: whatever stands before it is known to this ledger.
        let (ledger, history) = (self.group.machine(), self.group.history());
        let watch = self.watch.clone();
        let reading = move || {
            let watch = watch.as_deref();
            Reading { ledger: &ledger, history: &history, watch, items_max }.page(after, end)
        };
        tokio::task::spawn_blocking(reading).await?
    }

    /// An entry that a page has told before; nothing if its account is not here any more.
    pub(crate) async fn again(
        &self,
        account: &AccountName,
        sequence: Sequence,
    ) -> Result<Option<FeedItem>, FeedError> {
        let (ledger, history) = (self.group.machine(), self.group.history());
        let (watch, name) = (self.watch.clone(), account.clone());
        let reading = move || {
            let account = ledger.account(&name).or_else(|| ledger.arriving_account(&name));
            let is_lost = |account: &Account| watch.is_some_and(|watch| watch.is_lost(account));
            let Some(account) = account.filter(|account| !is_lost(account)) else {
                return Ok(None);
            };
            let Some(position) = account.locate(sequence, &history)? else { return Ok(None) };
            let record = Record::decode(position, &history.read(position)?)?;
            Ok(Some(item(account, record.entry(position)?, position)))
        };
        tokio::task::spawn_blocking(reading).await?
    }

    /// What stands behind `after`, on this node and whether it leads or not: for comparing what was read
    /// before. At most `items_max` entries, of accounts whose home is here; it is the end so far if `next`
    /// is `after`.
    pub async fn written(
        &self,
        after: FeedCursor,
        items_max: usize,
    ) -> Result<FeedPage, FeedError> {
        let watch = self.watch.clone();
        let group = self.group.clone();
        // Taken together: the ledger knows the accounts of all these records.
        let (ledger, end) = group.view(|ledger, _| (ledger.clone(), group.history().end()));
        let history = group.history();
        if end <= after.0 {
            return Ok(FeedPage { items: Vec::new(), next: after });
        }
        let reading = move || {
            let watch = watch.as_deref();
            Reading { ledger: &ledger, history: &history, watch, items_max }.page(after, end)
        };
        tokio::task::spawn_blocking(reading).await?
    }

    /// Where the homes of accounts are by now, as far as this node knows.
    pub fn residences(&self, accounts: &[AccountName]) -> Vec<Residence> {
        let ledger = self.group.machine();
        let watch = self.watch.as_deref();
        let is_lost = |name: &AccountName| {
            let live = ledger.account(name);
            live.is_some_and(|live| watch.is_some_and(|watch| watch.is_lost(live)))
        };
        let residence = |name: &AccountName| {
            if is_lost(name) { Residence::Elsewhere } else { ledger.residence(name) }
        };
        accounts.iter().map(residence).collect()
    }

    /// Resolves when there may be more behind `after`, or this node does not lead any more.
    pub async fn news(&self, after: FeedCursor) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.end() {
                Ok(end) if end <= Some(after.0) => (),
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Up to where the history may be published; nothing while that is not known.
    fn end(&self) -> Result<Option<Position>, FeedError> {
        let term = self.group.leading_term().ok_or(FeedError::NotLeading)?;
        let written = self.group.view(|_, _| self.group.history().end());
        // Order matters: the index is read after the end, so it is not too low.
        let index = self.group.shown_index();
        let everywhere = match &self.watch {
            Some(watch) => watch.acknowledged_everywhere(),
            None => Some(u64::MAX),
        };
        let mut reach = self.reach.lock().unwrap_or_else(PoisonError::into_inner);
        let end = reach.advance(term, (index, written), everywhere);
        // Order matters: what was acknowledged was acknowledged to the leader of this term.
        if self.group.leading_term() == Some(term) { Ok(end) } else { Err(FeedError::NotLeading) }
    }
}

/// One page that is being read.
struct Reading<'a> {
    ledger: &'a Ledger,
    history: &'a GroupHistory,
    watch: Option<&'a Watch>,
    items_max: usize,
}

impl Reading<'_> {
    fn page(&self, after: FeedCursor, end: Position) -> Result<FeedPage, FeedError> {
        let (records, behind) =
            self.history.records(after.0, end, PAGE_BYTES).map_err(|error| match error {
                HistoryError::NoRecord(_) => FeedError::NoSuchPlace(after),
                // No page of this history ended here.
                HistoryError::Damaged { position, .. } if position == after.0 => {
                    FeedError::NoSuchPlace(after)
                }
                error @ (HistoryError::Damaged { .. } | HistoryError::Disk(_)) => error.into(),
            })?;
        let mut page = FeedPage { items: Vec::new(), next: after };
        let places: Vec<Position> = records.iter().map(|(position, _)| *position).collect();
        let behind = places.into_iter().skip(1).chain([behind]).map(FeedCursor);
        for ((position, bytes), next) in records.into_iter().zip(behind) {
            let record = Record::decode(position, &bytes)?;
            if let Some(account) = self.home_of(&record) {
                page.items.push(item(account, record.entry(position)?, position));
            }
            page.next = next;
            if page.items.len() >= self.items_max {
                break;
            }
        }
        Ok(page)
    }

    /// The account of a record, if its home is here or comes here.
    fn home_of(&self, record: &Record) -> Option<&Account> {
        let account = self.ledger.account_numbered(record.account)?;
        let is_home = account.owner().generation == Generation::HOME;
        // Order matters: Placement is looked at after the end of what may be told.
        let is_lost = || self.watch.is_some_and(|watch| watch.is_lost(account));
        (is_home && !is_lost()).then_some(&**account)
    }
}

fn item(account: &Account, entry: Hashed, at: Position) -> FeedItem {
    let home = account.home_at(entry.entry.sequence);
    let homes = account.homes().to_vec();
    FeedItem { account: account.name().clone(), home, homes, entry, at }
}
