//! Calls that a region is short for: home is asked to cover them, and they are asked again, whatever has
//! happened meanwhile.

use purser_ledger::{Cover, Item, Operation, Outcome, Rejection, Shortage};
use purser_types::{IdempotencyKey, Owner};

use super::{Answered, Short, Story};
use crate::site::item;

impl Story {
    /// Notes a call that its region is short for.
    pub(super) fn note_short(
        &mut self,
        owner: Owner,
        (operation, key): (&Operation, &IdempotencyKey),
        outcome: &Outcome,
    ) {
        let Err(Rejection::RightExhausted { short_by, .. }) = outcome.result else { return };
        let asked = item(operation.clone(), Some(key.clone()));
        let cover = Cover::of(owner, &asked, short_by);
        self.short.extend(cover.map(|cover| Short { cover, asked }));
    }

    /// Home is asked for one of them, its region is told or not, and the client asks again or not.
    pub(super) fn go_on_with_short(&mut self) {
        if self.short.is_empty() {
            return;
        }
        let place = self.rng.usize(0..self.short.len());
        let Short { cover, asked } = self.short.swap_remove(place);
        let owner = cover.owner;
        let covered = self.world.at_home(Operation::Cover(cover), None, self.now);
        self.say(|_| format!("cover {owner:?}: {:?}\n    {:?}", asked.operation, covered.result));
        if covered.result.is_ok() {
            self.count("cover");
        }
        if self.rng.u8(0..4) > 0
            && let Some(voucher) = self.world.voucher(owner)
        {
            self.world.deliver(&voucher, self.now);
        }
        if self.rng.u8(0..4) > 0 {
            self.ask_again(owner, asked, covered.result.err());
        }
    }

    fn ask_again(&mut self, owner: Owner, mut asked: Item, by_home: Option<Rejection>) {
        let Some(key) = asked.context.key.clone() else { return };
        let operation = asked.operation.clone();
        let is_no = matches!(by_home, Some(Rejection::InsufficientCredits { .. }));
        asked.shortage = by_home.filter(|_| is_no).map(|no| Shortage::NotCovered(Box::new(no)));
        let Some(outcome) = self.world.ask_region(owner, asked, self.now) else { return };
        self.say(|_| format!("again, {owner:?}: {operation:?}\n    {:?}", outcome.result));
        if outcome.replayed {
            return;
        }
        self.note(owner, &outcome);
        if outcome.result.is_ok() {
            self.count("covered");
        }
        self.note_short(owner, (&operation, &key), &outcome);
        let (at, lost_count) = (self.now, self.world.homes.lost_count());
        self.answered.push(Answered { owner, operation, key, outcome, at, lost_count });
    }
}
