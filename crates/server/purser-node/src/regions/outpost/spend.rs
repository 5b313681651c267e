//! Whether a call can be decided in the region, and what its leader learns from calls.

use std::ops::Bound;
use std::time::Instant;

use purser_ledger::lease::region_deadline;
use purser_ledger::{Account, AccountName, IfExpired, Item, Mode, OnExpiry, Operation};
use purser_types::{Credits, Generation, IdempotencyKey, LogTime, Owner, Region};

use super::Outpost;
use super::notes::AccountNotes;

/// What can become of a call in the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chance {
    /// The book of this generation can decide it, or has decided it before.
    Here(Generation),
    /// Credits are on their way.
    Wait,
    /// It is for home to decide.
    Home(HomeReason),
}

/// Why a region does not decide a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HomeReason {
    /// It has no allocation.
    NoAllocation,
    /// Home or an operator has told it not to, or its lease has run out.
    Ordered,
    /// It may not spend enough.
    Short,
}

impl Outpost {
    /// What can become of a call that costs `cost`. Leads only.
    pub(crate) fn chance(
        &self,
        account: &AccountName,
        key: Option<&IdempotencyKey>,
        cost: Credits,
    ) -> Chance {
        let now = self.group.now();
        let seen = self.group.view(|ledger, _| {
            if let Some(key) = key
                && let Some((generation, _)) =
                    ledger.generations(account).find(|(_, book)| book.knows_key(key, now))
            {
                return Some((generation, None));
            }
            let book = ledger.spendable(account)?;
            Some((
                book.owner().generation,
                Some((book.right(), book.standing_orders(), book.heard_on_expiry())),
            ))
        });
        let Some((generation, rights)) = seen else {
            return Chance::Home(HomeReason::NoAllocation);
        };
        let Some((right, orders, on_expiry)) = rights else { return Chance::Here(generation) };
        if orders.is_none_or(|(mode, _)| mode != Mode::Local) {
            return Chance::Home(HomeReason::Ordered);
        }
        let notes = self.notes();
        let known = notes.get(account);
        if on_expiry == Some(OnExpiry::TakeBack) && !self.has_lease(known, generation) {
            return Chance::Home(HomeReason::Ordered);
        }
        if cost <= right {
            Chance::Here(generation)
        } else if known.is_some_and(|known| self.is_sooner_here(known)) {
            Chance::Wait
        } else {
            Chance::Home(HomeReason::Short)
        }
    }

    /// Whether credits that home was asked for should be here before its answer to a call would be.
    fn is_sooner_here(&self, known: &AccountNotes) -> bool {
        let Some((asked_at, home)) = known.asked_at.zip(known.home) else { return false };
        let expected = asked_at.as_micros().saturating_add(self.refill(home).as_micros());
        let answered =
            self.now().as_micros().saturating_add(self.links.round_trip(home).as_micros());
        expected <= answered
    }

    /// Whether an allocation's lease lets it decide about something that was made under it: what was set
    /// aside in time may be taken for as long as the hold lives, and whatever takes more is new. Its leader
    /// tells.
    pub(crate) fn has_time_for(
        &self,
        account: &AccountName,
        generation: Generation,
        item: &Item,
    ) -> bool {
        let now = self.group.now();
        let needs_lease = self.group.view(|ledger, _| {
            let book = ledger.spendable(account).filter(|it| it.owner().generation == generation);
            let book = book.filter(|it| it.heard_on_expiry() == Some(OnExpiry::TakeBack));
            book.is_some_and(|book| {
                let is_known =
                    || item.context.key.as_ref().is_some_and(|it| book.knows_key(it, now));
                takes_anew(book, &item.operation, now) && !is_known()
            })
        });
        !needs_lease || !self.leads() || self.has_lease(self.notes().get(account), generation)
    }

    /// Whether the lease of an allocation that home may take back runs. Under another term it lasts longer,
    /// and home may have changed that since.
    fn has_lease(&self, known: Option<&AccountNotes>, generation: Generation) -> bool {
        let from = known.and_then(|known| known.books.get(&generation)?.lease_from);
        from.is_some_and(|from| self.now() < region_deadline(from, OnExpiry::TakeBack.term()))
    }

    /// Waits until home has answered what it was asked for an account.
    pub(crate) async fn wait_for_home(&self, account: &AccountName, deadline: Instant) {
        let answered = {
            let notes = self.notes();
            let known = notes.get(account).filter(|known| known.asked_at.is_some());
            known.map(|known| std::sync::Arc::clone(&known.answered))
        };
        let Some(answered) = answered else { return };
        let mut answered = std::pin::pin!(answered.notified());
        answered.as_mut().enable();
        let still = self.notes().get(account).is_some_and(|known| known.asked_at.is_some());
        if still {
            // Whether it was told or ran out of time, the caller looks again.
            drop(tokio::time::timeout_at(deadline.into(), answered).await);
        }
    }

    /// A call was decided in the region, and accepted. Home is asked for more at once if little is
    /// left.
    pub(crate) fn note_accepted(
        &self,
        account: &AccountName,
        generation: Generation,
        (cost, home): (Credits, Region),
    ) {
        let now = self.now();
        let book = self.group.view(|ledger, _| ledger.book(account, generation).cloned());
        let Some(book) = book else { return };
        let mut notes = self.notes();
        let known = notes.entry(account.clone()).or_default();
        let noted = known.book(&book, now);
        noted.demand.accepted(cost, now);
        let is_low = book.right() < noted.low_water;
        if is_low && known.asked_at.is_none() {
            known.ask(now);
            drop(notes);
            self.report_soon(home);
        }
    }

    /// The region is short: home is to hear of it at once.
    pub(crate) fn ask_for_more(&self, account: &AccountName, home: Region) {
        let has_book = self.group.view(|ledger, _| ledger.spendable(account).is_some());
        if has_book {
            let now = self.now();
            self.notes().entry(account.clone()).or_default().ask(now);
            self.report_soon(home);
        }
    }

    /// What became of a call that was passed on to home because the region was short. What home has
    /// accepted is demand of this region, though its book never saw it.
    pub(crate) fn note_passed(&self, account: &AccountName, cost: Credits, status: u16) {
        let now = self.now();
        let book = self.group.view(|ledger, _| ledger.spendable(account).cloned());
        let mut notes = self.notes();
        let (Some(book), Some(known)) = (book, notes.get_mut(account)) else { return };
        // What home has refused, nobody waits for.
        if (200..300).contains(&status) {
            known.book(&book, now).demand.accepted_by_home(cost, now);
        }
    }

    /// The bound that home last stated for an account.
    pub(crate) fn bound(&self, account: &AccountName) -> Option<Credits> {
        self.notes().get(account)?.bound
    }

    /// The account's allocation here of this generation.
    pub(crate) fn owner_of(&self, generation: Generation) -> Owner {
        self.owner(generation)
    }
}

/// Whether an operation about a hold or charge takes more than was set aside for it.
fn takes_anew(book: &Account, operation: &Operation, now: LogTime) -> bool {
    match operation {
        Operation::Capture(capture) => {
            let mut live = book.holds_from(Bound::Included(&capture.hold));
            let live = live.next().filter(|hold| hold.number == capture.hold);
            match live.filter(|hold| now < hold.expires_at) {
                Some(hold) => capture.amount.is_some_and(|amount| hold.held < amount),
                // One that has ended has nothing left.
                None => capture.if_expired == IfExpired::Charge,
            }
        }
        Operation::Extend(_) | Operation::Reclaim(_) => true,
        _ => false,
    }
}
