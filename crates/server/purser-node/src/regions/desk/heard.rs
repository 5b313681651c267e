//! What home's leader remembers of each allocation's reports, for whoever wants to know.
//!
//! It is in memory, as all of a desk is: a new leader remembers nothing, and says so. Nothing here
//! decides about credits.

use std::collections::{BTreeMap, BTreeSet};

use purser_ledger::{Account, AccountName, Allocation, lease::home_deadline};
use purser_types::{Owner, Region, Span};

use super::Desk;
use super::account::DeskAccount;

/// The most allocations that a region is told of at once. A voucher takes some hundred bytes, and 52 for
/// each of up to 1,024 lots without a `source_ref` and 86 for each of up to 32 covers: 55 KiB, and 2.6 MiB
/// for so many. Where references of grants make them larger, the message is cut by its bytes.
const PUSHED_AT_ONCE: usize = 48;

/// What is remembered of one allocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllocationNotes {
    /// Since when.
    since: Span,
    /// The last voucher that its region was sent.
    pub(super) told: u64,
    /// Its last report.
    pub(super) report: Option<ReportNote>,
}

/// What a report said besides its entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReportNote {
    /// When it was applied here.
    pub(super) at: Span,
    /// The last voucher that was durable in the region.
    pub(super) voucher: u64,
    /// The last recall that the region had answered.
    pub(super) answered: u64,
}

/// What home's leader has heard of an allocation since it leads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeardOf {
    /// How long ago its last report was applied.
    pub(crate) age: Span,
    /// How long home waits before its lease has run out; zero if it has.
    pub(crate) lease_left: Span,
    /// The last voucher that was durable in the region.
    pub(crate) voucher: u64,
    /// The last recall that the region had answered.
    pub(crate) answered: u64,
}

/// What a shard's allocations in one region come to, and how well they are known. Sums may pass what one
/// account can have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AwayTotals {
    /// Granted, and neither spent nor returned nor taken back.
    pub(crate) out: u128,
    /// What the region may still spend.
    pub(crate) right: u128,
    /// The most that it can have spent without home knowing.
    pub(crate) unsettled: u128,
    /// The age of the oldest last report, of allocations of which one was heard.
    pub(crate) age_max: Option<Span>,
    /// The least that is left of a lease, of the same.
    pub(crate) lease_left_min: Option<Span>,
}

impl AwayTotals {
    /// Both together.
    pub(crate) fn add(&mut self, other: &Self) {
        self.out = self.out.saturating_add(other.out);
        self.right = self.right.saturating_add(other.right);
        self.unsettled = self.unsettled.saturating_add(other.unsettled);
        // Of two that may be missing, the smaller would be none.
        self.age_max = self.age_max.max(other.age_max);
        let left = self.lease_left_min.into_iter().chain(other.lease_left_min);
        self.lease_left_min = left.min();
    }

    fn add_allocation(&mut self, allocation: &Allocation, heard: Option<HeardOf>) {
        self.add(&Self {
            out: allocation.outstanding().get().into(),
            right: right_of(allocation),
            unsettled: unsettled_of(allocation),
            age_max: heard.map(|heard| heard.age),
            lease_left_min: heard.map(|heard| heard.lease_left),
        });
    }
}

/// What a region may still spend, as far as home knows: what is out and not held, and the overdraft that
/// is not used.
pub(crate) fn right_of(allocation: &Allocation) -> u128 {
    let free = allocation.for_all().saturating_sub(allocation.held);
    u128::from(free.get()).saturating_add(allocation.overdraft_unused().get().into())
}

/// The most that a region can have spent without home knowing: what is out, the overdraft that is not
/// used, and what was taken back and is not resolved.
pub(crate) fn unsettled_of(allocation: &Allocation) -> u128 {
    let parts = [allocation.outstanding(), allocation.overdraft_unused(), allocation.unresolved()];
    parts.iter().fold(0, |sum: u128, part| sum.saturating_add(part.get().into()))
}

impl DeskAccount {
    /// What is remembered of an allocation.
    pub(super) fn notes_mut(&mut self, owner: Owner, now: Span) -> &mut AllocationNotes {
        let none = AllocationNotes { since: now, told: 0, report: None };
        self.allocations.entry(owner).or_insert(none)
    }

    /// Where an allocation's lease begins: with the region's last report about the account, or with when
    /// this leader first saw the allocation, whichever is later.
    pub(super) fn lease_from(&mut self, owner: Owner, now: Span) -> Span {
        let since = self.notes_mut(owner, now).since;
        self.heard.get(&owner.region).map_or(since, |heard| heard.at.max(since))
    }

    /// What was heard of an allocation, if anything was.
    fn heard_of(&mut self, allocation: &Allocation, now: Span) -> Option<HeardOf> {
        let owner = allocation.owner;
        let ReportNote { at, voucher, answered } = self.allocations.get(&owner)?.report?;
        let deadline = home_deadline(self.lease_from(owner, now), allocation.on_expiry.term());
        let left = deadline.as_micros().saturating_sub(now.as_micros());
        let age = now.as_micros().saturating_sub(at.as_micros());
        let (age, lease_left) = (Span::from_micros(age), Span::from_micros(left));
        Some(HeardOf { age, lease_left, voucher, answered })
    }
}

impl Desk {
    /// What was heard of an account's allocations. Those of which nothing was heard are missing.
    pub(crate) fn heard_of(&self, account: &Account) -> BTreeMap<Owner, HeardOf> {
        let now = self.now();
        let mut state = self.state();
        let Some(known) = state.accounts.get_mut(account.name()) else { return BTreeMap::new() };
        let heard =
            |allocation: &Allocation| Some((allocation.owner, known.heard_of(allocation, now)?));
        account.allocations().filter_map(heard).collect()
    }

    /// What a region is to be told now: nothing while it is out of reach. What finds no room is kept.
    pub(super) fn take_pushes(&self, region: Region) -> BTreeSet<(AccountName, Owner)> {
        let mut state = self.state();
        if !self.leads() {
            state.pushes.remove(&region);
            return BTreeSet::new();
        }
        let Some(pushes) = state.pushes.get_mut(&region) else { return BTreeSet::new() };
        if !self.links.is_reachable(region) {
            return BTreeSet::new();
        }
        let rest = pushes.iter().nth(PUSHED_AT_ONCE).cloned();
        let rest = rest.map(|first| pushes.split_off(&first)).unwrap_or_default();
        let now = std::mem::replace(pushes, rest);
        if !pushes.is_empty() {
            self.wake_push(region);
        }
        now
    }

    /// A region may not have heard what it was told. It reports nothing of an allocation that it has never
    /// heard of, so nobody else would tell it again.
    pub(super) fn push_again(&self, region: Region, accounts: BTreeSet<(AccountName, Owner)>) {
        self.state().pushes.entry(region).or_default().extend(accounts);
    }

    /// Has a region told what home has decided about its allocation, also if nothing else is kept in mind
    /// of the account; and has the account looked at.
    pub(crate) fn tell_soon(&self, account: &AccountName, owner: Owner) {
        self.push_soon(account, owner);
        self.tend_soon(account);
    }

    /// Notes what a report says besides its entries.
    pub(super) fn note_taken_up(
        &self,
        account: &AccountName,
        owner: Owner,
        (voucher, answered): (u64, u64),
    ) {
        let at = self.now();
        if let Some(known) = self.state().accounts.get_mut(account) {
            known.notes_mut(owner, at).report = Some(ReportNote { at, voucher, answered });
        }
    }

    /// What the shard's allocations come to, by region; nothing if another node leads it.
    pub(crate) fn totals(&self) -> BTreeMap<Region, AwayTotals> {
        let mut totals = BTreeMap::<Region, AwayTotals>::new();
        if !self.leads() {
            return totals;
        }
        let ledger = self.group.machine();
        for account in ledger.accounts_with_allocations() {
            let heard = self.heard_of(account);
            for allocation in account.allocations() {
                let owner = allocation.owner;
                let of_region = totals.entry(owner.region).or_default();
                of_region.add_allocation(allocation, heard.get(&owner).copied());
            }
        }
        totals
    }
}
