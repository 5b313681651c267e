//! The end of a history: the faults stop, every allocation ends, and the sums are drawn.

use std::collections::{BTreeMap, BTreeSet};

use purser_ledger::{
    AllocationStatus, Bucket, Digest32, Fact, Fate, Operation, TakeBack, Target, WriteOff,
};
use purser_types::{Generation, IdempotencyKey, Owner, Span};

use super::{Known, Story};

/// What home's history tells, besides what it holds.
#[derive(Default)]
struct Chain {
    /// The hashes of its entries.
    own: BTreeSet<Digest32>,
    /// The hashes of regions' entries that stand in it.
    booked: BTreeSet<Digest32>,
    /// What became of the entries of lost homes.
    fates: BTreeMap<Digest32, Fate>,
    /// What was taken for them.
    spends: i128,
    /// The charges that were made for them, by their keys.
    charged: Vec<(IdempotencyKey, Known)>,
}

/// More rounds of messages than any end needs: one for the last voucher, one for what it makes the
/// region do, one for the report of that, for each of a few generations.
const ROUNDS_MAX: u32 = 40;

impl Story {
    /// Lets everything come home and compares it with the tally.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.world.wire.clear();
        self.plan.has_crashes = false;
        self.settle_home()?;
        for _ in 0..ROUNDS_MAX {
            let open: Vec<Owner> =
                self.world.home_account().allocations().map(|found| found.owner).collect();
            if open.is_empty() {
                self.ask_about_closed()?;
                self.world.undo_at_home(self.now);
                self.note_own_acts();
                self.world.check(self.now)?;
                self.compare()?;
                self.check_promises()?;
                self.world.audit()?;
                return self.check_keys();
            }
            for owner in open {
                self.bring_home(owner);
                self.note_own_acts();
                self.world.check(self.now)?;
            }
            // Time goes on: lots and holds of home come due in between.
            self.now = self.now.saturating_add(Span::from_secs(300));
        }
        let left: Vec<_> = self.world.home_account().allocations().collect();
        Err(format!("credits are stranded though nothing fails any more: {left:?}"))
    }

    /// Whatever was under way about the home comes to an end, all lost homes are heard of, and nothing
    /// waits any more.
    fn settle_home(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            let now = self.now;
            if self.rng.bool() {
                self.world.abort_move();
            }
            let world = &mut self.world;
            world.stop(now);
            while world.take_over(usize::MAX, now) && !world.is_taken_over() {}
            world.finish_move();
            world.take_home(now);
            world.stay(now);
            for lost in world.lost_homes() {
                world.step_down(lost, now);
            }
            while world.pull_tail(usize::MAX, now) {}
            world.resolve_tails();
            world.check(now)?;
            if world.is_settled() {
                world.set_promotable(false);
                return Ok(());
            }
        }
        Err(format!("the home does not settle: {:?}", self.world.placed()))
    }

    fn bring_home(&mut self, owner: Owner) {
        let lost = self.tally.rolled_back.contains(&owner) || self.world.book(owner).is_none();
        self.world.bring_home(owner, self.now);
        let account = self.world.home_account();
        let found = account.allocations().find(|found| found.owner == owner);
        if let Some(status) = found.map(|found| found.status).filter(|_| lost) {
            self.give_up(owner, status);
        }
    }

    /// An operator gives up on an allocation whose book is lost.
    fn give_up(&mut self, owner: Owner, status: AllocationStatus) {
        let confirm = self.confirm();
        if status == AllocationStatus::Open {
            let take_back = TakeBack { owner, forced: Some(confirm) };
            self.at_home("forced take back", Operation::TakeBack(take_back));
        } else {
            self.at_home("write off", Operation::WriteOff(WriteOff { owner, confirm }));
        }
    }

    fn compare(&self) -> Result<(), String> {
        let account = self.world.home_account();
        let balance = account.balance();
        if !balance.allocated.is_empty() {
            return Err(format!("credits are out of no allocation: {:?}", balance.allocated));
        }
        let Chain { booked, own, spends, .. } = self.chain();
        let mut expected = spends;
        for ((owner, hash), used) in &self.tally.used {
            if booked.contains(hash) || own.contains(hash) {
                expected += used;
            } else if owner.generation == Generation::HOME {
                // Lost with a home: what came of it is among the spends.
                continue;
            } else if !self.tally.rolled_back.contains(owner) {
                return Err(format!("an entry of {owner:?} was never booked at home"));
            }
        }
        let used = i128::from(balance.used.get());
        if used == expected {
            Ok(())
        } else {
            Err(format!("{used} are used, the calls come to {expected}"))
        }
    }

    /// What a home has answered stands: as its own entry, as that of a later home, or booked from the
    /// tail. Only a hold of which nothing was taken may be lost, and what an operator gave up.
    fn check_promises(&self) -> Result<(), String> {
        let Chain { own, fates, .. } = self.chain();
        for promised in self.promised.iter().filter(|hash| !own.contains(*hash)) {
            match fates.get(promised) {
                Some(Fate::Matched | Fate::OtherUnderKey | Fate::Booked | Fate::HoldDropped) => (),
                None if self.written_off => (),
                lost => return Err(format!("what was answered is lost: {lost:?}")),
            }
        }
        Ok(())
    }

    /// R10: under one key, at most one charge lasts.
    fn check_keys(&self) -> Result<(), String> {
        let account = self.world.home_account();
        let history = self.world.home.history();
        let mut made_under = self.made_under.clone();
        for (key, made) in self.chain().charged {
            made_under.entry(key).or_default().push(made);
        }
        for (key, made) in &made_under {
            let current = made.iter().filter(|made| self.is_current(**made));
            let lasting = current.filter(|Known { owner, target, .. }| {
                let hold = if owner.generation == Generation::HOME {
                    account.hold(*target, self.now, history)
                } else {
                    account.hold_away(*owner, *target, self.now, history)
                };
                let hold = hold.expect("memory can be read");
                hold.is_some_and(|hold| !hold.net().is_zero())
            });
            let lasting: Vec<_> = lasting.collect();
            if lasting.len() > 1 {
                return Err(format!("{key} was charged more than once: {lasting:?}"));
            }
        }
        Ok(())
    }

    /// What home's history tells.
    fn chain(&self) -> Chain {
        let account = self.world.home_account();
        let entries = account.entries_back_from(account.head().sequence, self.world.home.history());
        let mut chain = Chain::default();
        for hashed in entries.expect("memory can be read") {
            let hashed = hashed.expect("memory can be read");
            chain.own.insert(hashed.hash);
            let entry = hashed.entry;
            if let Fact::Settled(settlement) = &entry.fact {
                let shipped = settlement.shipped.iter();
                chain.booked.extend(shipped.map(|shipped| shipped.entry.hash()));
            }
            let Fact::TailBooked(run) = &entry.fact else { continue };
            chain.fates.extend(run.lost.iter().map(|lost| (lost.entry.hash(), lost.fate)));
            let taken = entry.moves.iter().filter(|step| step.to == Bucket::Used);
            chain.spends += taken.map(|step| i128::from(step.amount.get())).sum::<i128>();
            if let (Some(hold), Some(key)) = (&run.spend, &entry.key)
                && hold.number.0 == entry.sequence
            {
                let (region, epoch) = account.home_at(entry.sequence);
                let (owner, target) = (Owner::home(region), Target::Charge(hold.number));
                chain.charged.push((key.clone(), Known { owner, target, epoch }));
            }
        }
        chain
    }
}
