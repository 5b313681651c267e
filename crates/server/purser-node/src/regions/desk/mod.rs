//! Home's side of the allocations of one shard: books what regions report, decides who gets what,
//! and lets calls wait whose credits are out.
//!
//! ```text
//!  reports ──▶ settle ──▶ tend ──▶ pool decides ──▶ grants, recalls, modes ──▶ vouchers
//!  short calls ─ queue ──▶ tend ──▶ go · exhausted · stranded
//! ```
//!
//! Works on the leader only. What is kept here is in memory and says how credits are best spread; a
//! new leader learns it again within a few reports. What may be granted or taken back is for the
//! ledger to decide, and nothing here can make it wrong. Not here: how messages travel.

mod account;
mod covering;
mod heard;
mod tend;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use purser_ledger::{
    Account, AccountName, Command, Context, Item, Ledger, OnExpiry, Operation, Receipt, Refund,
    Rejection, TakeBack, Target, codec, lease::home_deadline,
};
use purser_raft::{Group, ProposeError};
use purser_types::{Credits, Owner, Region, Span};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use self::account::DeskAccount;
pub(crate) use self::heard::{AwayTotals, HeardOf, right_of, unsettled_of};
pub(crate) use self::waiting::{Ticket, Waited};
use super::links::Links;
use super::messages::{AccountReport, Answered, Ask, Reports, Told, Vouchers};
use super::signature::SignedVoucher;
use super::{Watch, only_result};
use crate::metrics::HomeAct;
use crate::settings::VoucherKey;
use crate::shards::Shard;
use crate::tasks::chain;

/// How long one decision of home's own may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is to be told to a region leaves together with what else is decided meanwhile.
const COLLECTED: Duration = Duration::from_millis(5);

/// How often leases are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// After so long without a report a region that can be reached is told again what it has: it reports
/// every five seconds if it knows.
const UNHEARD_AFTER: Span = Span::from_secs(15);

/// How long what a region is to be told may wait for standbys. Then it asks again.
const SECURE_PATIENCE: Duration = Duration::from_secs(2);

/// How long a region may take to take vouchers up and answer.
const PUSH_PATIENCE: Duration = Duration::from_secs(3);

/// How many bytes of vouchers leave in one message, of the 4 MiB that one may have: what goes beyond
/// follows in the next.
const PUSH_BYTES_MAX: usize = 3 << 20;

/// How many messages with vouchers may be on their way to a region: as many as leave one after the other
/// in the time that the farthest region takes to answer, at five milliseconds each.
const PUSHES_AT_ONCE: usize = 64;

/// See the module's documentation.
pub(crate) struct Desk {
    shard: Shard,
    group: Group<Ledger>,
    /// Whom the shard waits for.
    watch: Arc<Watch>,
    links: Arc<Links>,
    key: VoucherKey,
    state: Mutex<DeskState>,
    /// Told when something is to be pushed to a region.
    to_push: BTreeMap<Region, Notify>,
    /// Told when accounts are to be tended.
    to_tend: Notify,
}

#[derive(Default)]
struct DeskState {
    accounts: BTreeMap<AccountName, DeskAccount>,
    /// When each region was last heard, about whichever account.
    heard_at: BTreeMap<Region, Span>,
    /// What each region is to be told without having asked.
    pushes: BTreeMap<Region, BTreeSet<(AccountName, Owner)>>,
    /// Which accounts are to be looked at.
    tends: BTreeSet<AccountName>,
    /// Counts the calls that waited.
    tickets: u64,
}

impl Desk {
    /// The desk of a shard.
    pub(crate) fn new(
        (shard, group, watch): (Shard, Group<Ledger>, Arc<Watch>),
        links: Arc<Links>,
        key: VoucherKey,
    ) -> Self {
        let to_push = links.others().map(|region| (region, Notify::new())).collect();
        let to_tend = Notify::new();
        Self { shard, group, watch, links, key, state: Mutex::default(), to_push, to_tend }
    }

    fn state(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Span {
        self.links.clock().now()
    }

    fn leads(&self) -> bool {
        self.group.is_leading()
    }

    /// Books what a region reports, lets the pool decide, and says what the region is to know.
    pub(crate) async fn book(&self, reports: Reports, is_answer: bool) -> Answered {
        if !self.leads() {
            let leader = self.group.leader().map(|node| node.0);
            return Answered::NotLeader { leader };
        }
        let (region, refill) = (reports.region, reports.refill);
        let now = self.now();
        self.state().heard_at.insert(region, now);
        let booking =
            reports.accounts.into_iter().map(|report| self.book_one(report, refill, is_answer));
        let told = join_all(booking).await;
        if is_answer {
            return Answered::Told(Vec::new());
        }
        let told = self.secured(told.into_iter().flatten().collect()).await;
        Answered::Told(told.into_iter().map(|(told, _)| told).collect())
    }

    /// Waits until the standbys have everything that is to be told, and gives what may be (R1). Notes the
    /// vouchers among it as told.
    async fn secured(&self, seen: Vec<(Told, u64)>) -> Vec<(Told, u64)> {
        // Order matters: the index is read after what is told was looked at.
        let Some(index) = self.group.shown_index() else { return Vec::new() };
        let deadline = Instant::now() + SECURE_PATIENCE;
        let securing = seen.into_iter().map(|(told, voucher)| async move {
            match self.watch.secure(&told.account, index, deadline).await {
                Ok(()) => Some((told, voucher)),
                Err(error) => {
                    tracing::debug!(region = %told.owner.region, %error, "nothing is told");
                    None
                }
            }
        });
        let told: Vec<_> = join_all(securing).await.into_iter().flatten().collect();
        let now = self.now();
        let mut state = self.state();
        for (told, voucher) in told.iter().filter(|(told, _)| told.voucher.is_some()) {
            if let Some(known) = state.accounts.get_mut(&told.account) {
                known.note_told(told.owner, *voucher, now);
            }
        }
        drop(state);
        told
    }

    async fn book_one(
        &self,
        reported: AccountReport,
        refill: Span,
        is_answer: bool,
    ) -> Option<(Told, u64)> {
        let AccountReport { account, report, voucher, answered, demand, covers } = reported;
        let owner = report.owner;
        if !report.entries.is_empty() || report.is_sealed {
            match self.propose(&account, Operation::Settle(report)).await {
                // What is booked is told below, and the region goes on from there.
                Ok(Err(Rejection::ReportGap { .. })) => (),
                Ok(Err(rejection)) if !is_harmless(&rejection) => {
                    let (tenant, region) = (account.tenant.as_str(), owner.region);
                    tracing::warn!(tenant, %region, %rejection, "a report was not booked");
                }
                Ok(_) => (),
                Err(error) => {
                    tracing::debug!(error = %chain(&error), "a report was not booked");
                    return None;
                }
            }
        }
        let not_covered = self.cover(&account, owner, covers).await;
        self.undo_here(&account).await;
        self.note_report(&account, owner, (demand, answered, refill));
        self.note_taken_up(&account, owner, (voucher, answered));
        self.tend(&account).await;
        let (told, number) = self.tell(&account, owner, voucher)?;
        // What was to be pushed is in the answer. If that is lost, the next report shows it.
        if let Some(pushes) = self.state().pushes.get_mut(&owner.region)
            && !is_answer
        {
            pushes.remove(&(account, owner));
        }
        Some((Told { not_covered, ..told }, number))
    }

    /// Undoes holds and charges of closed allocations that had been decided elsewhere before (R10).
    async fn undo_here(&self, account: &AccountName) {
        let doubled = self.group.view(|ledger, _| {
            let found = ledger.account(account);
            found.map(|found| found.reversals_at_home().collect::<Vec<_>>()).unwrap_or_default()
        });
        for (owner, hold) in doubled {
            for target in [Target::Hold(hold), Target::Charge(hold)] {
                let refund = Refund { target, amount: None, away: Some(owner) };
                match self.propose(account, Operation::Refund(refund)).await {
                    Ok(Ok(_)) => tracing::info!(region = %owner.region, "a duplicate was undone"),
                    Ok(Err(rejection)) => tracing::trace!(%rejection, "not needed"),
                    Err(error) => tracing::debug!(%error, "a duplicate was not undone"),
                }
            }
        }
    }

    /// What a region is to know of an allocation, if it has heard of voucher `heard`, with the number of
    /// the newest one. Nothing if the account is not known here.
    fn tell(&self, account: &AccountName, owner: Owner, heard: u64) -> Option<(Told, u64)> {
        let seen = self.group.view(|ledger, _| {
            let found = ledger.account(account)?;
            let allocation = found.allocations().find(|allocation| allocation.owner == owner);
            let booked = allocation.map(|allocation| allocation.booked);
            // A leader that has not applied everything yet may not know the allocation: it says nothing.
            let is_closed = found.has_closed(owner);
            let is_told = (booked.is_some() || is_closed) && found.stopped().is_none();
            is_told.then(|| (found.voucher(owner), booked, bound_of(found), is_closed))
        });
        let (voucher, booked, bound, is_closed) = seen?;
        let news = voucher.filter(|it| it.number > heard || !it.reversals.is_empty());
        let number = news.as_ref().map_or(heard, |voucher| voucher.number);
        let voucher = news.map(|voucher| SignedVoucher::sign(&voucher, &self.key));
        let (account, not_covered) = (account.clone(), Vec::new());
        let told = Told { account, owner, booked, voucher, bound, is_closed, not_covered };
        Some((told, number))
    }

    /// Asks the ledger for something of home's own.
    pub(crate) async fn propose(
        &self,
        account: &AccountName,
        operation: Operation,
    ) -> Result<Result<Receipt, Rejection>, ProposeError> {
        self.propose_item(account, Item::new(Context::default(), operation)).await
    }

    /// The same with what else the ledger is to know.
    async fn propose_item(
        &self,
        account: &AccountName,
        item: Item,
    ) -> Result<Result<Receipt, Rejection>, ProposeError> {
        let command = Command::at_home(account.clone(), vec![item]);
        let command = Bytes::from(codec::encode(&command));
        only_result(self.group.propose(command, Instant::now() + PATIENCE).await?)
    }

    /// Tells regions what they have not asked for, until `stopping`. What is decided next does not wait
    /// for the answer: vouchers may overtake each other.
    pub(crate) async fn push(&self, region: Region, stopping: CancellationToken) {
        let Some(to_push) = self.to_push.get(&region) else { return };
        let mut under_way = FuturesUnordered::new();
        loop {
            let may_push = under_way.len() < PUSHES_AT_ONCE;
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                Some(()) = under_way.next() => continue,
                () = to_push.notified(), if may_push => tokio::time::sleep(COLLECTED).await,
                () = tokio::time::sleep(LOOK_EVERY), if may_push => (),
            }
            let accounts = self.take_pushes(region);
            if !accounts.is_empty() {
                under_way.push(self.push_once(region, accounts));
            }
        }
    }

    async fn push_once(&self, region: Region, accounts: BTreeSet<(AccountName, Owner)>) {
        let seen = accounts.iter().filter_map(|(account, owner)| {
            let (told, number) = self.tell(account, *owner, 0)?;
            told.voucher.is_some().then_some((Told { booked: None, ..told }, number))
        });
        let mut seen: Vec<(Told, u64)> = seen.collect();
        let name = |(told, _): &(Told, u64)| (told.account.clone(), told.owner);
        let mut untold: BTreeSet<_> = seen.iter().map(name).collect();
        seen.truncate(fitting(&seen));
        let told = self.secured(seen).await;
        untold.retain(|untold| told.iter().all(|told| name(told) != *untold));
        self.push_again(region, untold);
        let told: Vec<Told> = told.into_iter().map(|(told, _)| told).collect();
        if told.is_empty() {
            return;
        }
        let Shard(shard) = self.shard;
        let vouchers = Vouchers { home: self.links.own(), shard, told };
        let deadline = Instant::now() + PUSH_PATIENCE;
        let ask = Ask::Vouchers(vouchers);
        match self.links.ask((region, Some(self.shard)), &ask, deadline).await {
            Ok(Answered::Reports(reports)) => drop(self.book(reports, true).await),
            Ok(_) => tracing::warn!(%region, "vouchers were answered with something else"),
            Err(error) => {
                tracing::debug!(%region, %error, "vouchers were not taken");
                self.push_again(region, accounts);
            }
        }
    }

    /// Tends accounts that somebody has asked it for, until `stopping`.
    pub(crate) async fn tend_asked(&self, stopping: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = self.to_tend.notified() => (),
            }
            let accounts = std::mem::take(&mut self.state().tends);
            join_all(accounts.iter().map(|account| self.tend(account))).await;
        }
    }

    /// Begins to care for an account that has just come home to here.
    pub(crate) fn take_on(&self, account: &AccountName) {
        let mut state = self.state();
        self.known(&mut state, account);
        drop(state);
        self.tend_soon(account);
    }

    /// Has an account looked at soon: credits have become available, or a region needs some.
    pub(crate) fn tend_soon(&self, account: &AccountName) {
        self.state().tends.insert(account.clone());
        self.to_tend.notify_one();
    }

    /// Takes back what regions have not accounted for in time, where that was agreed on, and forgets
    /// everything when this node no longer leads; until `stopping`.
    pub(crate) async fn watch_leases(&self, stopping: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = ticks.tick() => (),
            }
            if !self.leads() {
                self.state().accounts.clear();
                continue;
            }
            for (account, owner) in self.unheard() {
                self.push_soon(&account, owner);
            }
            for (account, owner) in self.overdue() {
                let take_back = TakeBack { owner, forced: None };
                match self.propose(&account, Operation::TakeBack(take_back)).await {
                    Ok(Ok(_)) => {
                        let (tenant, region) = (account.tenant.as_str(), owner.region);
                        tracing::warn!(tenant, %region, "credits were taken back unseen");
                        self.links.metrics().record_act(HomeAct::TakeBack, region);
                        self.push_soon(&account, owner);
                    }
                    Ok(Err(rejection)) => tracing::debug!(%rejection, "nothing was taken back"),
                    Err(error) => tracing::debug!(%error, "nothing was taken back"),
                }
            }
        }
    }

    /// The allocations whose leases have run out at home too. A new leader starts them anew.
    fn overdue(&self) -> Vec<(AccountName, Owner)> {
        let now = self.now();
        let with_lease = self.group.view(|ledger, _| {
            let mut found = Vec::new();
            for account in ledger.accounts_with_allocations() {
                let leased = account.allocations().filter(|allocation| {
                    allocation.on_expiry == OnExpiry::TakeBack
                        && !allocation.outstanding().is_zero()
                        && allocation.status == purser_ledger::AllocationStatus::Open
                });
                found.extend(leased.map(|allocation| (account.name().clone(), allocation.owner)));
            }
            found
        });
        let mut state = self.state();
        let is_over = |(account, owner): &(AccountName, Owner)| {
            let known = self.known(&mut state, account);
            let applied = known.lease_from(*owner, now);
            now > home_deadline(applied, OnExpiry::TakeBack.term())
        };
        let mut overdue = with_lease;
        overdue.retain(is_over);
        overdue
    }

    /// Allocations with credits out of which this leader has heard nothing for a while: their regions
    /// may never have got the first voucher.
    fn unheard(&self) -> Vec<(AccountName, Owner)> {
        let now = self.now();
        let out = self.group.view(|ledger, _| {
            let mut out = Vec::new();
            for account in ledger.accounts_with_allocations() {
                let allocations = account.allocations();
                let with_credits = allocations.filter(|it| !it.outstanding().is_zero());
                out.extend(with_credits.map(|it| (account.name().clone(), it.owner)));
            }
            out
        });
        let mut state = self.state();
        let mut unheard = out;
        unheard.retain(|(account, owner)| {
            let known = self.known(&mut state, account);
            let heard_at = known.heard_or_since(owner.region);
            let silence = now.as_micros().saturating_sub(heard_at.as_micros());
            silence > UNHEARD_AFTER.as_micros() && self.links.is_reachable(owner.region)
        });
        unheard
    }

    fn wake_push(&self, region: Region) {
        if let Some(to_push) = self.to_push.get(&region) {
            to_push.notify_one();
        }
    }

    fn push_soon(&self, account: &AccountName, owner: Owner) {
        // This region's own book asks by itself.
        if !self.to_push.contains_key(&owner.region) {
            return;
        }
        let mut state = self.state();
        state.pushes.entry(owner.region).or_default().insert((account.clone(), owner));
        drop(state);
        self.wake_push(owner.region);
    }
}

/// How many of these leave together: at least one, since a voucher alone always fits.
fn fitting(told: &[(Told, u64)]) -> usize {
    let mut bytes = 0_usize;
    let fits = told.iter().take_while(|(told, _)| {
        bytes += told.voucher.as_ref().map_or(0, SignedVoucher::bytes);
        bytes <= PUSH_BYTES_MAX
    });
    fits.count().max(1)
}

/// The account's bound as an amount.
pub(crate) fn bound_of(account: &Account) -> Credits {
    let bound = u64::try_from(account.bound().total()).unwrap_or(u64::MAX);
    Credits::from_u64(bound).unwrap_or(Credits::MAX)
}

/// A report that says nothing new, or comes after the end, is no news to anybody; nor is one that the
/// account's next home will book.
const fn is_harmless(rejection: &Rejection) -> bool {
    matches!(
        rejection,
        Rejection::NothingNew
            | Rejection::AllocationEnded
            | Rejection::HomeStopped { .. }
            | Rejection::HomeMoved { .. }
            | Rejection::DecidedElsewhere
    )
}
