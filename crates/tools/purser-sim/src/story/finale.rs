//! The end of a history: the faults stop, every allocation ends, and the sums are drawn.

use std::collections::BTreeSet;

use purser_ledger::{AllocationStatus, Digest32, Fact, Operation, TakeBack, WriteOff};
use purser_types::{Generation, Owner, Span};

use super::Story;

/// More rounds of messages than any end needs: one for the last voucher, one for what it makes the
/// region do, one for the report of that, for each of a few generations.
const ROUNDS_MAX: u32 = 40;

impl Story {
    /// Lets everything come home and compares it with the tally.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.world.wire.clear();
        for _ in 0..ROUNDS_MAX {
            let open: Vec<Owner> =
                self.world.home_account().allocations().map(|found| found.owner).collect();
            if open.is_empty() {
                self.world.undo_at_home(self.now);
                self.note_own_acts();
                self.compare()?;
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
        let booked = self.booked_entries();
        let mut expected = 0_i128;
        for ((owner, hash), used) in &self.tally.used {
            if owner.generation == Generation::HOME || booked.contains(hash) {
                expected += used;
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

    /// R10: under one key, at most one charge lasts.
    fn check_keys(&self) -> Result<(), String> {
        let account = self.world.home_account();
        let history = self.world.home.history();
        let home = account.owner();
        for (key, made) in &self.made_under {
            let lasting = made.iter().filter(|(owner, target)| {
                let hold = if *owner == home {
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

    /// The hashes of the regions' entries that stand in home's ledger.
    fn booked_entries(&self) -> BTreeSet<Digest32> {
        let account = self.world.home_account();
        let entries = account.entries_back_from(account.head().sequence, self.world.home.history());
        let mut booked = BTreeSet::new();
        for hashed in entries.expect("memory can be read") {
            if let Fact::Settled(settlement) = hashed.expect("memory can be read").entry.fact {
                booked.extend(settlement.shipped.iter().map(|shipped| shipped.entry.hash()));
            }
        }
        booked
    }
}
