//! What becomes of the home: it moves, is lost, goes on alone, and is heard of again. Each step may be
//! the last one that anybody takes, until somebody else takes another.

use purser_ledger::{Operation, PolicyChange, WriteOffTail};
use purser_types::Region;

use super::{Known, Story, credits};
use crate::homes::HOMES;
use crate::world::Message;

/// As many entries go with one message at most: a few, so that a move takes several.
const PART_MAX: usize = 50;

impl Story {
    /// Somebody takes a step.
    pub(super) fn home_step(&mut self) {
        let now = self.now;
        let part = self.rng.usize(1..=PART_MAX);
        let name = match self.rng.u8(0..46) {
            0..8 => self.done("replication", |world, _| world.replicate()),
            8 | 9 => self.done("standby taken in", |world, _| world.set_promotable(true)),
            10 => self.done("standby dropped", |world, _| world.set_promotable(false)),
            11 | 40 => {
                let to = crate::homes::region(HOMES[self.rng.usize(0..HOMES.len())]);
                self.done("move begun", |world, _| world.begin_move(to))
            }
            12 | 13 => self.done("stop", |world, now| world.stop(now)),
            14..22 => self.done("take over", |world, now| world.take_over(part, now)),
            22 | 23 | 41 | 42 => self.done("move finished", |world, _| world.finish_move()),
            24 if self.rng.bool() => self.done("move aborted", |world, _| world.abort_move()),
            25 | 26 => self.done("stay", |world, now| world.stay(now)),
            27 => self.done("fail-over", |world, _| world.fail_over()),
            28..31 | 43 => self.done("home taken", |world, now| world.take_home(now)),
            31 => {
                let at = self.any_lost_home();
                self.done("step down", |world, now| at.is_some_and(|at| world.step_down(at, now)))
            }
            32..35 => self.done("tail booked", |world, now| world.pull_tail(part, now)),
            35 | 36 => self.done("tails resolved", |world, _| world.resolve_tails()),
            37 if self.rng.u8(0..8) == 0 => self.write_off_tail(),
            38 if self.rng.u8(0..4) == 0 => self.set_limit(),
            39 => self.report_to_lost_home(),
            _ => self.call_lost_home(),
        };
        let Some(name) = name else { return };
        self.say(|story| format!("{name}: {:?} at {now:?}", story.world.placed()));
    }

    fn done(
        &mut self,
        name: &'static str,
        step: impl FnOnce(&mut crate::world::World, purser_types::LogTime) -> bool,
    ) -> Option<&'static str> {
        step(&mut self.world, self.now).then(|| {
            self.count(name);
            name
        })
    }

    pub(super) fn any_lost_home(&mut self) -> Option<Region> {
        let lost = self.world.lost_homes();
        self.rng.choice(lost)
    }

    fn write_off_tail(&mut self) -> Option<&'static str> {
        let epoch = self.world.home_account().tails().next()?.epoch;
        let confirm = self.confirm();
        let write_off = Operation::WriteOffTail(WriteOffTail { epoch, confirm });
        let outcome = self.world.at_home(write_off, None, self.now);
        self.written_off |= outcome.result.is_ok();
        outcome.result.is_ok().then_some("tail written off")
    }

    /// X changes.
    fn set_limit(&mut self) -> Option<&'static str> {
        let unacknowledged_max = Some(credits(self.rng.u64(0..=self.plan.unacknowledged_max)));
        let change = PolicyChange { unacknowledged_max, ..PolicyChange::default() };
        self.at_home("limit", Operation::SetPolicy(change));
        Some("limit")
    }

    /// A region that has not heard of the new home reports to the old one.
    fn report_to_lost_home(&mut self) -> Option<&'static str> {
        let at = self.any_lost_home()?;
        let owner = self.any_book()?;
        let Message::Report(report) = self.world.report(owner)? else { return None };
        self.world.report_to_lost_home(at, report, self.now);
        self.count("report to a lost home");
        Some("report to a lost home")
    }

    /// A client still reaches a home that is cut off: with something new, with what it had asked before,
    /// or about a hold.
    fn call_lost_home(&mut self) -> Option<&'static str> {
        let at = self.any_lost_home()?;
        let (operation, key) = match self.rng.u8(0..4) {
            0 => (self.authorize(), self.key()),
            1 => (self.charge(), self.key()),
            2 => {
                let first = self.rng.choice(&self.answered)?;
                (first.operation.clone(), first.key.clone())
            }
            _ => {
                let known: Vec<Known> =
                    self.known.iter().filter(|it| it.is_of_home()).copied().collect();
                let target = self.rng.choice(known)?.target;
                (self.about(target), self.key())
            }
        };
        let asked = self.world.at_lost_home(at, operation.clone(), key, self.now)?;
        let (outcome, leaves) = asked;
        self.count("call of a lost home");
        self.say(|_| format!("lost home: {operation:?}\n    {:?}, {leaves}", outcome.result));
        if let (Ok(receipt), false) = (&outcome.result, outcome.replayed)
            && leaves
        {
            self.promised.insert(receipt.entry.hash());
            self.count("answer of a lost home");
        }
        Some("call of a lost home")
    }
}
