//! A region's node: it asks its book, and passes on to home what the book may not decide. Clients who
//! get no answer repeat the call there.

use purser_ledger::{Operation, Outcome, PassedOn, Rejection};
use purser_types::{Generation, IdempotencyKey, Owner, Region};

use super::{AtDoor, Story};
use crate::site::item;

impl Story {
    /// A client asks a region's node for something new.
    pub(super) fn call_at_door(&mut self) {
        let region = self.any_region();
        let operation = if self.rng.bool() { self.authorize() } else { self.charge() };
        let call = AtDoor { region, operation, key: self.key() };
        self.at_doors.push(call.clone());
        self.knock(call);
    }

    /// The answer was lost, and the client asks the same region again, whatever that has been given
    /// since.
    pub(super) fn retry_at_door(&mut self) {
        let Some(call) = self.rng.choice(&self.at_doors).cloned() else { return };
        self.count("retry at the door");
        self.knock(call);
    }

    /// R10: of a call that is asked of one region any number of times, at most one decision is to
    /// accept it, and the others repeat that.
    fn knock(&mut self, AtDoor { region, operation, key }: AtDoor) {
        let Some((owner, outcome)) = self.decide_at_door(region, &operation, &key) else { return };
        self.say(|_| format!("{region} asked {owner:?}: {operation:?}\n    {:?}", outcome.result));
        if outcome.replayed {
            return;
        }
        self.note(owner, &outcome);
        if outcome.result.is_ok() {
            let before = self.accepted.insert((region, key.clone()), owner);
            // What a lost home had accepted is decided anew.
            let by_home = before.is_some_and(|before| before.generation == Generation::HOME);
            let is_lost = by_home && self.world.homes.lost_count() > 0;
            if before.is_some() && !is_lost {
                self.miss(format!("{key} was accepted by {before:?} and {owner:?}"));
            }
        }
    }

    /// Who decides, and how. Nothing if the call is lost on its way to home.
    fn decide_at_door(
        &mut self,
        region: Region,
        operation: &Operation,
        key: &IdempotencyKey,
    ) -> Option<(Owner, Outcome)> {
        if let Some(owner) = self.world.spendable(region) {
            let outcome = self.send_or_crash(owner, operation.clone(), key)?;
            match outcome.result {
                Err(Rejection::DecidedInGeneration { generation }) => {
                    self.count("decided in another generation");
                    let owner = Owner { generation, ..owner };
                    return Some((owner, self.send_or_crash(owner, operation.clone(), key)?));
                }
                Err(Rejection::RightExhausted { .. } | Rejection::DecidedElsewhere) => (),
                _ => return Some((owner, outcome)),
            }
        }
        let noted = item(operation.clone(), Some(key.clone()));
        if self.crashes() {
            let now = self.now;
            self.world.crash_amid(Some(region), |world| world.pass_on(region, noted, now));
            self.count("note of a call lost");
            return None;
        }
        let owner = match self.world.pass_on(region, noted, self.now)? {
            PassedOn::Decided(generation) => Owner { region, generation },
            PassedOn::ToHome => self.world.home_account().owner(),
        };
        self.count("passed on");
        if self.rng.u8(0..4) == 0 {
            return None;
        }
        Some((owner, self.send_or_crash(owner, operation.clone(), key)?))
    }
}
