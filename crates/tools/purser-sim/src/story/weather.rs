//! What the world does: messages are sent, delivered twice, late or never; processes restart; a
//! region comes back from an old backup.

use purser_ledger::{Operation, Return};
use purser_types::{Life, Region, Span};

use super::{Story, credits};
use crate::world::{Message, World};

/// Messages on the wire at most.
const WIRE_MAX: usize = 12;

impl Story {
    /// Messages go their way, or not.
    pub(super) fn messages(&mut self) {
        match self.rng.u8(0..20) {
            0..4 => {
                let sent = self.any_allocation().and_then(|owner| self.world.voucher(owner));
                self.put_on_wire(sent);
            }
            4..9 => {
                let owner = self.rng.choice(self.world.reporting());
                let sent = owner.and_then(|owner| self.world.report(owner));
                self.put_on_wire(sent);
            }
            9..16 => self.deliver(),
            16 => {
                self.take_off_wire();
                self.count("loss");
            }
            17 => {
                // A second copy of an old message may be the first to arrive.
                if let Some(message) = self.any_message() {
                    self.world.deliver(&message, self.now);
                    self.count("repetition");
                }
            }
            _ => {
                if let Some(owner) = self.any_book() {
                    let now = self.now;
                    self.act(owner.region, ["tend", "tend lost"], |world| world.tend(owner, now));
                }
            }
        }
    }

    fn put_on_wire(&mut self, message: Option<Message>) {
        let Some(message) = message else { return };
        if self.world.wire.len() == WIRE_MAX {
            self.take_off_wire();
        }
        self.world.wire.push(message);
    }

    fn take_off_wire(&mut self) -> Option<Message> {
        let place = self.rng.usize(0..self.world.wire.len().max(1));
        (place < self.world.wire.len()).then(|| self.world.wire.swap_remove(place))
    }

    fn any_message(&mut self) -> Option<Message> {
        self.rng.choice(&self.world.wire).cloned()
    }

    fn deliver(&mut self) {
        if let Some(message) = self.take_off_wire() {
            self.say(|_| format!("delivery: {message:?}"));
            if self.crashes() {
                return self.lose_delivery(&message);
            }
            self.world.deliver(&message, self.now);
            self.count("delivery");
        }
    }

    /// Whoever gets the message acts on it, and crashes before that is synced.
    fn lose_delivery(&mut self, message: &Message) {
        let (at, name) = match message {
            Message::Voucher(voucher) => (Some(voucher.owner.region), "voucher lost"),
            Message::Report(_) => (None, "report lost"),
        };
        let now = self.now;
        self.world.crash_amid(at, |world| world.deliver(message, now));
        self.count(name);
    }

    /// A region does something of its own accord, and may lose it before it is synced.
    fn act(&mut self, region: Region, names: [&'static str; 2], act: impl FnOnce(&mut World)) {
        let [done, lost] = names;
        if self.crashes() {
            self.world.crash_amid(Some(region), act);
            return self.count(lost);
        }
        act(&mut self.world);
        self.count(done);
    }

    /// Something goes wrong, or a region does something of its own accord.
    pub(super) fn weather(&mut self) {
        match self.rng.u8(0..10) {
            0 | 1 => {
                self.world.home.restart();
                self.count("home restart");
            }
            2 | 3 => {
                let region = self.any_region();
                self.world.restart_region(region);
                self.count("region restart");
            }
            4 | 5 => {
                if let Some(owner) = self.any_book() {
                    let keep = credits(self.rng.u64(0..=10));
                    let give = Operation::Return(Return::free(keep, 0));
                    let now = self.now;
                    self.act(owner.region, ["return", "return lost"], |world| {
                        world.in_region(owner, give, None, now);
                    });
                }
            }
            6 => {
                self.now = self.now.saturating_add(Span::from_secs(self.rng.u64(30..300)));
                self.count("long silence");
            }
            7 => {
                let region = self.any_region();
                if let Some(found) = self.world.regions.get(&region) {
                    self.backups.push((region, found.site.clone()));
                    self.count("backup");
                }
            }
            8 if self.plan.has_rollbacks && self.rng.u8(0..3) == 0 => self.roll_back(),
            _ => {
                self.world.sweep_home(self.now);
                self.count("sweep");
            }
        }
    }

    /// A region is restored from a backup.
    fn roll_back(&mut self) {
        let Some((region, site)) = self.rng.choice(&self.backups).cloned() else { return };
        let before = self.world.regions.get(&region).into_iter();
        let before = before.flat_map(|found| found.site.ledger().allocations());
        self.tally.rolled_back.extend(before.map(|book| book.owner()));
        // What the region had noted and decided is forgotten, and home's journal has to find it.
        self.accepted.retain(|(asked, _), _| *asked != region);
        let life = Life::from_bytes(self.rng.u128(..).to_be_bytes());
        self.say(|story| format!("{region} is set back to a backup at {:?}", story.now));
        self.world.restore(region, site, life, self.now);
        self.count("rollback");
    }
}
