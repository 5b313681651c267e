//! A region's side of the allocations of one shard: takes up home's word, does as it says, and
//! reports what has happened.
//!
//! ```text
//!  spends ──▶ books ── once a second, or at once when little is left ──▶ reports ──▶ home
//!               ▲                                                                    │
//!               └── accept · return · undo · finish ◀── vouchers ◀───────────────────┘
//! ```
//!
//! Works on the leader only. What is kept here is in memory: how fast credits are used, how far home
//! has booked, until when the lease runs. A new leader begins with a report that asks. Not here: which
//! call may be decided in the region (`spend`).

mod covering;
mod notes;
mod report;
mod spend;
mod take_up;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use purser_ledger::{
    AccountName, Answer, Command, Context, Item, Ledger, Operation, PassedOn, Receipt, Rejection,
    codec,
};
use purser_raft::{Group, ProposeError};
use purser_types::{Generation, Owner, Region, Span};
use tokio::sync::Notify;

use self::notes::AccountNotes;
pub(crate) use self::spend::{Chance, HomeReason};
use super::desk::Desk;
use super::links::Links;
use super::only_result;
use super::placement::Directory;
use crate::settings::VoucherKey;
use crate::shards::Shard;

/// How long one decision of the region's own may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where homes are, and how they are reached.
pub(crate) struct Homes {
    /// Those in other regions.
    pub(crate) links: Arc<Links>,
    /// Who is home of whom.
    pub(crate) directory: Arc<Directory>,
    /// The one in this region, for accounts whose home has come here.
    pub(crate) desk: Arc<Desk>,
}

/// See the module's documentation.
pub(crate) struct Outpost {
    shard: Shard,
    group: Group<Ledger>,
    links: Arc<Links>,
    directory: Arc<Directory>,
    desk: Arc<Desk>,
    key: VoucherKey,
    /// How long accounts remember keys that are opened without saying so.
    key_retention: Span,
    notes: Mutex<BTreeMap<AccountName, AccountNotes>>,
    /// Told when something is to be reported to a home at once.
    urgent: BTreeMap<Region, Notify>,
    /// Counts the calls that were short.
    tickets: AtomicU64,
    /// How long homes took lately to answer reports, their standbys included.
    refills: Mutex<BTreeMap<Region, Span>>,
}

impl Outpost {
    /// The outpost of a shard.
    pub(crate) fn new(
        (shard, group): (Shard, Group<Ledger>),
        homes: Homes,
        key: VoucherKey,
        key_retention: Span,
    ) -> Self {
        let Homes { links, directory, desk } = homes;
        let regions = links.others().chain([links.own()]);
        let urgent = regions.map(|region| (region, Notify::new())).collect();
        Self {
            shard,
            group,
            links,
            directory,
            desk,
            key,
            key_retention,
            notes: Mutex::default(),
            urgent,
            tickets: AtomicU64::new(0),
            refills: Mutex::default(),
        }
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<AccountName, AccountNotes>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Span {
        self.links.clock().now()
    }

    fn leads(&self) -> bool {
        self.group.is_leading()
    }

    fn owner(&self, generation: Generation) -> Owner {
        Owner { region: self.links.own(), generation }
    }

    /// Asks a book for something of the region's own.
    async fn propose(
        &self,
        account: &AccountName,
        generation: Generation,
        operation: Operation,
    ) -> Result<Result<Receipt, Rejection>, ProposeError> {
        let item = Item::new(Context::default(), operation);
        let command = Command::Account { account: account.clone(), items: vec![item], generation };
        only_result(self.put(&command, Instant::now() + PATIENCE).await?)
    }

    /// Notes durably that a call is passed on to home; or that a book here has decided it before.
    pub(crate) async fn pass_on(
        &self,
        account: &AccountName,
        item: Item,
        deadline: Instant,
    ) -> Result<PassedOn, ProposeError> {
        let command = Command::PassOn {
            account: account.clone(),
            item: Box::new(item),
            retention: self.mark_retention(account),
        };
        match self.put(&command, deadline).await? {
            Answer::PassedOn(passed_on) => Ok(passed_on),
            Answer::Account(_)
            | Answer::Swept { .. }
            | Answer::Move(_)
            | Answer::Life(_)
            | Answer::Leased(_)
            | Answer::Sink(_) => Err(ProposeError::OutcomeUnknown),
        }
    }

    /// How long it is remembered that a call was passed on: as long as home remembers keys, as far as
    /// that is known here. A region without an allocation knows no policy.
    fn mark_retention(&self, account: &AccountName) -> Span {
        let of_book = self.group.view(|ledger, _| {
            let books = ledger.generations(account);
            books.map(|(_, book)| book.standing().policy.key_retention).max()
        });
        of_book.map_or(self.key_retention, |of_book| of_book.max(self.key_retention))
    }

    async fn put(&self, command: &Command, deadline: Instant) -> Result<Answer, ProposeError> {
        self.group.propose(Bytes::from(codec::encode(command)), deadline).await
    }

    /// Has an account's books reported at once, whatever was reported before: its home has changed.
    pub(crate) fn report_anew(&self, account: &AccountName, home: Region) {
        if let Some(known) = self.notes().get_mut(account) {
            known.books.values_mut().for_each(|noted| noted.reported_at = None);
        }
        self.report_soon(home);
    }

    /// Has everything that is new reported to a home at once.
    fn report_soon(&self, home: Region) {
        if let Some(urgent) = self.urgent.get(&home) {
            urgent.notify_one();
        }
    }
}
