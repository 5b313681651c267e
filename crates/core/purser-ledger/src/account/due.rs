//! What happens by itself when its time comes.
//!
//! Before every command and every read, whatever is due takes effect in the order of the instants
//! at which it was due, as if a sweeper had run at each of them. At one instant: holds end, lots
//! expire, lots become effective, debt is repaid. So no answer depends on when a sweeper runs.
//!
//! Not in a region's book that has ended. A sealed one does not know what was spent from it in the past
//! that it has lost (R9): what it gave back might be that, and home would book it twice. So it is
//! sealed as it stands, and stays so.

use purser_types::{Credits, HistoryError, HistoryReader, LogTime, Sequence};

use super::{Account, Draft, HoldKey, Origin, Scribe, Side, read_entry};
use crate::command::{HoldNumber, LotNumber};
use crate::entry::{Bucket, Fact, Move};
use crate::hold::{Hold, HoldState, Source, Spend};
use crate::lot::{Lot, LotPhase, LotTerms};
use crate::region::BookPhase;

/// Something that will happen by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(crate) at: LogTime,
    pub(crate) event: DueEvent,
}

/// The order of the variants is the order of events at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DueEvent {
    HoldEnds(HoldNumber),
    LotExpires(LotNumber),
    LotBecomesEffective(LotNumber),
}

impl Account {
    /// When something is next due, the freeing of memory included. Nothing is while the account has
    /// stopped for a move.
    pub(crate) fn next_due(&self) -> Option<LogTime> {
        if self.stopped().is_some() {
            return None;
        }
        let event = self.first_event();
        let home = self.home_side().ok();
        let away = home.and_then(|home| home.away.next_forget());
        let duplicates = home.and_then(|home| home.duplicates.next_forget());
        let requests = home.and_then(|home| home.requests.next_forget());
        let decided = home.and_then(|home| home.decided.next_forget());
        let jobs = self.jobs().ended.next_forget();
        let events = self.events().next_forget();
        let own = [self.keys.next_forget(), self.ended.next_forget(), jobs, events];
        let forgets = own.into_iter().chain([away, duplicates, requests, decided]);
        forgets.chain([event]).flatten().min()
    }

    /// Lets everything take effect that is due at `now`.
    pub(crate) fn settle_due(
        &mut self,
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<(), HistoryError> {
        while let Some(instant) = self.next_event(now) {
            while let Some((&due, ())) = self.agenda.first().filter(|(due, ())| due.at == instant) {
                let draft = self.due_draft(due.event);
                self.append(draft, instant, Origin::default(), scribe);
            }
            self.repay_debt(instant, scribe)?;
        }
        self.forget(now);
        Ok(())
    }

    /// Frees the memory of what is not kept any longer.
    pub(crate) fn forget(&mut self, now: LogTime) {
        self.keys.forget(now);
        self.ended.forget(now);
        if let Some(jobs) = &mut self.jobs {
            jobs.ended.forget(now);
        }
        if let Some(events) = &mut self.events {
            events.forget(now);
        }
        if let Side::Home(Some(home)) = &mut self.side {
            home.away.forget(now);
            home.duplicates.forget(now);
            home.requests.forget(now);
            home.decided.forget(now);
        }
    }

    /// The instant of the next event that is due at `now`.
    pub(crate) fn next_event(&self, now: LogTime) -> Option<LogTime> {
        self.first_event().filter(|at| *at <= now)
    }

    /// The instant of the next event, however far off; nothing in a region's book that has ended.
    fn first_event(&self) -> Option<LogTime> {
        let goes_on = self.book_phase().is_none_or(|phase| phase == BookPhase::Open);
        self.agenda.first().map(|(due, ())| due.at).filter(|_| goes_on)
    }

    fn due_draft(&self, event: DueEvent) -> Draft {
        match event {
            DueEvent::HoldEnds(number) => {
                let hold = self.holds.get(&number).expect("INV-6: the agenda names live holds");
                let mut hold = hold.clone();
                let moves = self.unpin(&mut hold);
                self.end(&mut hold, HoldState::Expired);
                self.about(hold, Fact::HoldExpired, moves)
            }
            DueEvent::LotExpires(number) => {
                let lot = self.lots.get(&number).expect("INV-6: the agenda names known lots");
                let to = match self.side {
                    Side::Home(_) => Bucket::Expired,
                    Side::Region(_) => Bucket::Returned,
                };
                let moves = Move::some(Some(number), Bucket::Available, to, lot.free);
                Draft { fact: Fact::LotExpired(number), moves: moves.into_iter().collect() }
            }
            DueEvent::LotBecomesEffective(number) => {
                let lot = self.lots.get(&number).expect("INV-6: the agenda names known lots");
                let waiting = lot.waiting;
                let moves = Move::some(Some(number), Bucket::Granted, Bucket::Available, waiting);
                Draft { fact: Fact::LotEffective(number), moves: moves.into_iter().collect() }
            }
        }
    }

    fn debtor(&self, debtor: HoldKey, history: &dyn HistoryReader) -> Result<Hold, HistoryError> {
        if debtor.allocation == Sequence::ZERO
            && let Some(hold) = self.holds.get(&debtor.hold)
        {
            return Ok(hold.clone());
        }
        let position = self.owing.get(&debtor).expect("INV-8: who owes is not forgotten");
        let fact = read_entry(history, *position)?.fact;
        let hold = if let Fact::Settled(settlement) = &fact {
            settlement.hold_at_home(debtor)
        } else {
            fact.into_hold()
        };
        Ok(hold.expect("INV-8: a debtor's last entry is about it"))
    }

    /// Repays debt, oldest first, for as long as there are credits and debt. Returns how much.
    ///
    /// INV-7: afterwards, not both `available` and `debt` are above zero.
    pub(crate) fn repay_debt(
        &mut self,
        at: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<Credits, HistoryError> {
        let mut repaid = Credits::ZERO;
        if let Side::Region(_) = self.side {
            // What a region has overdrawn is settled by home's grants.
            return Ok(repaid);
        }
        // What is owed under covers counts as debt as well.
        while !self.balance.available.is_zero() && !self.balance.debt.is_zero() {
            let oldest = self.debts.first().map(|(origin, debt)| (*origin, *debt));
            let cover = self.oldest_owed_cover();
            if let Some(cover) = cover.filter(|it| oldest.is_none_or(|(origin, _)| *it < origin)) {
                let draft = self.pay_cover(cover);
                let paid = draft.moves.iter().filter(|step| step.to == Bucket::Debt);
                let paid = crate::hold::sum(paid.map(|step| step.amount));
                self.append(draft, at, Origin::default(), scribe);
                repaid = repaid.checked_add(paid).expect("INV-5: repaid within the account's debt");
                continue;
            }
            let Some((origin, debt)) = oldest else { break };
            let amount = debt.amount.min(self.balance.available);
            let mut hold = self.debtor(debt.debtor, &*scribe.history)?;
            let mut moves = Vec::new();
            let mut paid = Vec::new();
            for portion in self.plan(amount).portions {
                let (lot, amount) = (portion.lot, portion.amount);
                moves.push(Move {
                    lot: Some(lot),
                    from: Bucket::Available,
                    to: Bucket::Debt,
                    amount,
                });
                paid.push(Spend { source: Source::Lot(lot), amount });
            }
            repay(&mut hold.spent, origin, amount, &paid);
            let draft = self.about(hold, Fact::DebtRepaid, moves);
            self.append(draft, at, Origin::default(), scribe);
            repaid = repaid.checked_add(amount).expect("INV-5: repaid within the account's debt");
        }
        Ok(repaid)
    }
}

/// Puts what paid in the place of what was owed, so that undoing keeps its order.
fn repay(spent: &mut Vec<Spend>, origin: Sequence, amount: Credits, paid: &[Spend]) {
    let owed = spent.iter().position(|spend| spend.source == Source::Debt(origin));
    let place = owed.expect("INV-8: a debt is a spend of its hold");
    let rest = spent.get(place).and_then(|spend| spend.amount.checked_sub(amount));
    let rest = rest.expect("INV-8: no more is repaid than is owed");
    let left = Spend { source: Source::Debt(origin), amount: rest };
    let parts = paid.iter().copied().chain((!rest.is_zero()).then_some(left));
    spent.splice(place..=place, parts);
}

/// When a lot becomes effective.
pub(super) fn effective(number: LotNumber, terms: &LotTerms) -> Due {
    Due { at: terms.effective_at, event: DueEvent::LotBecomesEffective(number) }
}

/// When a lot expires, if it ever does.
pub(super) fn expiry(number: LotNumber, terms: &LotTerms) -> Option<Due> {
    terms.expires_at.map(|at| Due { at, event: DueEvent::LotExpires(number) })
}

/// What will still happen to a lot by itself.
pub(crate) fn dues_of_lot(number: LotNumber, lot: &Lot) -> impl Iterator<Item = Due> {
    let start = (lot.phase == LotPhase::Pending).then(|| effective(number, &lot.terms));
    let lives = matches!(lot.phase, LotPhase::Pending | LotPhase::Active);
    let end = lives.then(|| expiry(number, &lot.terms)).flatten();
    start.into_iter().chain(end)
}

/// When a live hold ends by itself.
pub(crate) fn end_of_hold(hold: &Hold) -> Due {
    Due { at: hold.expires_at, event: DueEvent::HoldEnds(hold.number) }
}
