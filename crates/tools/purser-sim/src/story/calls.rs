//! What clients ask: of a region's book, of home, and again with the same key.

use purser_ledger::{
    Authorize, Capture, Charge, Extend, Fact, IfExpired, Operation, Outcome, Reclaim, Refund,
    Release, Target,
};
use purser_types::{Epoch, Generation, IdempotencyKey, Owner, Span};

use super::{Answered, Known, Story, Unheard, credits, hold_of};
use crate::broken::Rule;

impl Story {
    /// A client calls.
    pub(super) fn call(&mut self) {
        match self.rng.u8(0..16) {
            0 => return self.retry(),
            1 => return self.retry_elsewhere(),
            2 => return self.retry_at_door(),
            3 | 4 => return self.call_at_door(),
            5 if !self.unheard.is_empty() => return self.ask_unheard(),
            6 | 7 if !self.short.is_empty() => return self.go_on_with_short(),
            _ => (),
        }
        let newest = {
            let region = self.any_region();
            self.world.newest_book(region).map(purser_ledger::Account::owner)
        };
        let at_home = self.rng.u8(0..5) == 0;
        let owner = if at_home { None } else { newest };
        let owner = owner.unwrap_or_else(|| self.world.home_account().owner());
        let (owner, operation) = match self.rng.u8(0..10) {
            0..4 => (owner, self.authorize()),
            4 => (owner, self.charge()),
            _ => match self.rng.choice(&self.known).copied() {
                Some(known) if !self.is_current(known) => return self.count("hold of a lost home"),
                Some(Known { owner, target, .. }) => (owner, self.about(target)),
                None => (owner, self.authorize()),
            },
        };
        self.ask(owner, operation);
    }

    pub(super) fn authorize(&mut self) -> Operation {
        let amount = credits(self.rng.u64(1..=30));
        let ttl = Span::from_secs(self.rng.u64(1..120));
        Operation::Authorize(Authorize { amount, ttl, reference: None, budgets: Box::default() })
    }

    pub(super) fn charge(&mut self) -> Operation {
        let amount = credits(self.rng.u64(1..=20));
        Operation::Charge(Charge {
            amount,
            allow_debt: self.rng.bool(),
            reference: None,
            budgets: Box::default(),
        })
    }

    /// Whether a number still means what it was given for: a lost home may have given it to another
    /// hold. Who routes a call looks at the region and the epoch in the id.
    pub(super) fn is_current(&self, known: Known) -> bool {
        let account = self.world.home_account();
        let number = known.target.number().0;
        !known.is_of_home()
            || number <= account.head().sequence
                && account.home_at(number) == (known.owner.region, known.epoch)
    }

    pub(super) fn about(&mut self, target: Target) -> Operation {
        let hold = hold_of(target);
        let amount = self.rng.bool().then(|| credits(self.rng.u64(1..=35)));
        let charged = matches!(target, Target::Charge(_));
        match self.rng.u8(if charged { 5 } else { 0 }..10) {
            0..3 => Operation::Capture(Capture {
                hold,
                amount,
                is_final: self.rng.bool(),
                allow_debt: self.rng.bool(),
                if_expired: if self.rng.bool() { IfExpired::Charge } else { IfExpired::Refuse },
                away: None,
            }),
            3 => Operation::Release(Release { hold, away: None }),
            4 => {
                let until = self.now.saturating_add(Span::from_secs(self.rng.u64(1..200)));
                Operation::Extend(Extend { hold, until, away: None })
            }
            5..8 => Operation::Refund(Refund { target, amount, away: None }),
            _ => Operation::Reclaim(Reclaim { target, away: None }),
        }
    }

    /// Who is asked about a hold or charge, and what: home, once the allocation that it is of is closed.
    fn seated(&self, owner: Owner, mut operation: Operation) -> (Owner, Operation) {
        let home = self.world.home_account();
        if !home.has_closed(owner) {
            return (owner, operation);
        }
        match operation.away_mut() {
            Some(_) if self.world.breaks(Rule::ClosedIsNamed) => (),
            Some(away) => *away = Some(owner),
            None => return (owner, operation),
        }
        (home.owner(), operation)
    }

    /// Asks with a new key, and notes what it should come to.
    pub(super) fn ask(&mut self, owner: Owner, operation: Operation) {
        let key = self.key();
        self.ask_under(owner, operation, key);
    }

    /// A client that heard nothing asks again, under the same key.
    fn ask_unheard(&mut self) {
        let place = self.rng.usize(0..self.unheard.len());
        let Unheard { owner, operation, key } = self.unheard.swap_remove(place);
        self.count("asked again after a crash");
        self.ask_under(owner, operation, key);
    }

    fn ask_under(&mut self, of: Owner, operation: Operation, key: IdempotencyKey) {
        let (owner, asked) = self.seated(of, operation.clone());
        if of != owner {
            self.count("call about a closed allocation");
        }
        let Some(outcome) = self.send_or_crash(owner, asked.clone(), &key) else {
            return self.unheard.push(Unheard { owner: of, operation, key });
        };
        let operation = asked;
        self.say(|_| format!("{owner:?}: {operation:?}\n    {:?}", outcome.result));
        if !outcome.replayed {
            // Another client may have asked with an unheard call's key.
            self.note(owner, &outcome);
        }
        if owner.generation == Generation::HOME
            && let Ok(receipt) = &outcome.result
        {
            if !self.world.may_answer(&receipt.entry) {
                // The client does not hear of it, and may ask again.
                return self.count("no answer yet");
            }
            self.promised.insert(receipt.entry.hash());
        }
        self.note_short(owner, (&operation, &key), &outcome);
        let (at, lost_count) = (self.now, self.world.homes.lost_count());
        self.answered.push(Answered { owner, operation, key, outcome, at, lost_count });
    }

    /// The same, unless the group crashes before it has synced what it decided.
    pub(super) fn send_or_crash(
        &mut self,
        owner: Owner,
        operation: Operation,
        key: &IdempotencyKey,
    ) -> Option<Outcome> {
        if !self.crashes() {
            return self.send(owner, operation, key);
        }
        let is_of_home = owner.generation == Generation::HOME;
        let at = (!is_of_home).then_some(owner.region);
        let (now, asked) = (self.now, Some(key.clone()));
        let outcome = self.world.crash_amid(at, |world| match at {
            None => Some(world.at_home(operation, asked, now)),
            Some(_) => world.in_region(owner, operation, asked, now),
        });
        self.count(if is_of_home { "home lost a decision" } else { "region lost a decision" });
        outcome.filter(|_| self.world.breaks(Rule::SyncedBeforeAnswer))
    }

    /// Asks whoever keeps the book.
    pub(super) fn send(
        &mut self,
        owner: Owner,
        operation: Operation,
        key: &IdempotencyKey,
    ) -> Option<Outcome> {
        let (now, key) = (self.now, Some(key.clone()));
        if owner.generation == Generation::HOME {
            return Some(self.world.at_home(operation, key, now));
        }
        self.world.in_region(owner, operation, key, now)
    }

    /// The same call again must come to the same answer, whatever has happened since.
    fn retry(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let place = self.rng.usize(0..self.answered.len());
        let Answered { owner, ref operation, ref key, ref outcome, at, lost_count } =
            self.answered[place];
        let kept = self.now < at.saturating_add(Span::from_days(1));
        let remembered = outcome.result.as_ref().err().is_none_or(|no| no.is_remembered());
        let rolled_back = self.tally.rolled_back.contains(&owner);
        let ended = self
            .world
            .book(owner)
            .is_some_and(|book| book.book_phase() != Some(purser_ledger::BookPhase::Open));
        let stopped =
            owner.generation == Generation::HOME && self.world.home_account().stopped().is_some();
        if !kept || !remembered || rolled_back || ended || stopped {
            return;
        }
        let is_lost = owner.generation == Generation::HOME
            && match &outcome.result {
                Ok(receipt) => !self.world.stands(&receipt.entry),
                Err(_) => lost_count < self.world.homes.lost_count(),
            };
        let (operation, key, before) = (operation.clone(), key.clone(), outcome.result.clone());
        let Some(again) = self.send_or_crash(owner, operation, &key) else { return };
        if is_lost {
            // It is decided anew, unless it was heard of meanwhile.
            if !again.replayed {
                self.note(owner, &again);
            }
            return self.count("retry of a lost call");
        }
        if !again.replayed || again.result != before {
            self.miss(format!("a repeat gets another answer: {before:?}, then {again:?}"));
        }
        self.count("retry");
    }

    /// What a region had decided about a hold or charge stays decided when its allocation is closed: home
    /// gives the same answer to each call. And what is new home decides.
    pub(super) fn ask_about_closed(&mut self) -> Result<(), String> {
        for place in 0..self.answered.len() {
            let Answered { owner, ref operation, ref key, ref outcome, at, .. } =
                self.answered[place];
            let (asked, again) = self.seated(owner, operation.clone());
            let kept = self.now < at.saturating_add(Span::from_days(1));
            let is_told = outcome.result.is_ok() && !self.tally.rolled_back.contains(&owner);
            if asked == owner || !kept || !is_told {
                continue;
            }
            let (key, before) = (key.clone(), outcome.result.clone());
            let again = self.send(asked, again, &key).expect("home is there");
            if !again.replayed || again.result != before {
                return Err(format!("R10: a repeat is decided anew: {before:?}, then {again:?}"));
            }
            self.count("retry after a close");
        }
        let of_regions = self.known.iter().filter(|known| !known.is_of_home());
        let of_regions: Vec<Known> = of_regions.copied().collect();
        for _ in 0..of_regions.len().min(4) {
            let Some(Known { owner, target, .. }) = self.rng.choice(&of_regions).copied() else {
                break;
            };
            let operation = self.about(target);
            self.ask(owner, operation);
        }
        Ok(())
    }

    /// The answer was lost, and the client asks another region, or home, with the same key.
    fn retry_elsewhere(&mut self) {
        let begins = |operation: &Operation| {
            matches!(operation, Operation::Authorize(_) | Operation::Charge(_))
        };
        let answered = self.answered.iter().filter(|first| begins(&first.operation));
        let at_home_or_book = answered.map(|first| (&first.operation, &first.key));
        let at_doors = self.at_doors.iter().map(|first| (&first.operation, &first.key));
        let unheard = self.unheard.iter().map(|first| (&first.operation, &first.key));
        let unheard = unheard.filter(|(operation, _)| begins(operation));
        let begun: Vec<_> = at_home_or_book.chain(at_doors).chain(unheard).collect();
        let Some((operation, key)) = self.rng.choice(begun) else { return };
        let (operation, key) = (operation.clone(), key.clone());
        let region = self.any_region();
        let newest = self.world.newest_book(region).map(purser_ledger::Account::owner);
        let at_home = self.rng.u8(0..3) == 0;
        let home = self.world.home_account().owner();
        let owner = if at_home { home } else { newest.unwrap_or(home) };
        let Some(outcome) = self.send_or_crash(owner, operation.clone(), &key) else { return };
        if outcome.replayed {
            return;
        }
        self.say(|_| format!("elsewhere, {owner:?}: {operation:?}\n    {:?}", outcome.result));
        self.note(owner, &outcome);
        if outcome.result.is_ok() {
            self.count("retry elsewhere");
        }
    }

    /// What regions and home did by themselves since this was last asked.
    pub(super) fn note_own_acts(&mut self) {
        for (owner, outcome) in std::mem::take(&mut self.world.own_acts) {
            self.note(owner, &outcome);
            self.count("reversal");
        }
    }

    /// What an accepted call should add to what was used, and what later calls may be about.
    pub(super) fn note(&mut self, owner: Owner, outcome: &Outcome) {
        let Ok(receipt) = &outcome.result else {
            self.count("refused");
            return;
        };
        let entry = &receipt.entry;
        self.count(entry.fact.kind());
        let place = (owner, entry.hash());
        let made = match &entry.fact {
            Fact::Authorized(hold) => Some(Target::Hold(hold.number)),
            Fact::Charged(hold) => Some(Target::Charge(hold.number)),
            _ => None,
        };
        let is_of_home = owner.generation == Generation::HOME;
        let account = self.world.home_account();
        let epoch = if is_of_home { account.epoch() } else { Epoch::default() };
        let owner = if is_of_home { account.owner() } else { owner };
        if !is_of_home {
            let spent = entry.moves.iter().filter(|step| step.to == purser_ledger::Bucket::Used);
            let spent: u128 = spent.map(|step| u128::from(step.amount.get())).sum();
            *self.tally.spent.entry(owner).or_default() += spent;
        }
        let made = made.map(|target| Known { owner, target, epoch });
        self.known.extend(made);
        if let (Some(made), Some(key)) = (made, &entry.key) {
            self.made_under.entry(key.clone()).or_default().push(made);
        }
        let used: i128 = entry
            .moves
            .iter()
            .map(|step| {
                let amount = i128::from(step.amount.get());
                let into = step.to == purser_ledger::Bucket::Used;
                let out = step.from == purser_ledger::Bucket::Used;
                i128::from(into) * amount - i128::from(out) * amount
            })
            .sum();
        let promised = match &entry.fact {
            Fact::RefundPromised { amount, .. } => i128::from(amount.get()),
            _ => 0,
        };
        self.tally.used.insert(place, used - promised);
    }

    /// What a region has ever spent under an allocation, also what it has forgotten since, is no more than
    /// it was given and has not returned.
    pub(super) fn check_rolled_back(&self) -> Result<(), String> {
        for allocation in self.world.home_account().allocations() {
            let owner = allocation.owner;
            let spent = self.tally.spent.get(&owner).copied().unwrap_or_default();
            let given = [allocation.granted, allocation.covered, allocation.overdraft_worst];
            let most = given.iter().map(|amount| u128::from(amount.get())).sum::<u128>();
            let returned = u128::from(allocation.returned.get());
            if self.tally.rolled_back.contains(&owner) && spent + returned > most {
                return Err(format!(
                    "R9: {owner:?} has spent {spent} and returned {returned} of {most}"
                ));
            }
        }
        Ok(())
    }
}
