//! What decides in a world, as one number.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;

use purser_ledger::{Account, Booked, Fact, HoldNumber, LotNumber, Source, codec};
use purser_types::{Credits, Owner, Sequence};

use super::{State, last_charge};
use crate::world::{Message, RegionWorld};

impl State {
    /// A number that is the same for worlds of which nothing can tell the difference.
    pub(super) fn face(&self) -> u128 {
        let mut bytes = Gathered(Vec::with_capacity(1 << 10));
        self.hash_face(&mut bytes);
        let half = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(salt);
            hasher.write(&bytes.0);
            u128::from(hasher.finish())
        };
        (half(1) << 64) | half(2)
    }

    fn hash_face(&self, hasher: &mut Gathered) {
        (self.calls, self.orders, self.repeats, self.used, self.untold).hash(hasher);
        self.world.hash_homes(hasher);
        let home = self.world.home_account();
        hash_account(home, hasher);
        for allocation in home.allocations() {
            let mut allocation = allocation.clone();
            allocation.booked = Booked::default();
            allocation.opened_by = Sequence::ZERO;
            allocation.voucher = 0;
            allocation.recall.number = 0;
            for cover in &mut allocation.covers {
                cover.number = LotNumber::OVERDRAFT;
                cover.hold = HoldNumber(Sequence::ZERO);
                for part in &mut cover.out {
                    if let Source::Debt(origin) = &mut part.source {
                        *origin = Sequence::ZERO;
                    }
                }
            }
            codec::encode(&allocation).hash(hasher);
        }
        for region in self.world.regions.values() {
            for book in region.site.ledger().allocations() {
                self.hash_book(book, region, hasher);
            }
        }
        let mut wire: Vec<Vec<u8>> =
            self.world.wire.iter().map(|sent| self.message_face(sent)).collect();
        wire.sort_unstable();
        wire.hash(hasher);
    }

    /// A book: its figures, the vouchers and bookings it has heard of, and its unbooked entries.
    fn hash_book(&self, book: &Account, region: &RegionWorld, hasher: &mut Gathered) {
        let owner = book.owner();
        owner.hash(hasher);
        hash_account(book, hasher);
        self.hash_last_charge(owner, hasher);
        book.book_phase().map(|phase| codec::encode(&phase)).hash(hasher);
        let (voucher, recall, overdraft, mode) = book.voucher_heard().unwrap_or_default();
        let (current, current_recall) = self.at_home(owner);
        (current.wrapping_sub(voucher), current_recall.wrapping_sub(recall)).hash(hasher);
        (overdraft, codec::encode(&mode)).hash(hasher);
        let booked = self.booked(owner);
        let heard = region.booked.get(&owner.generation).copied().unwrap_or_default();
        booked.0.wrapping_sub(heard.0).hash(hasher);
        let entries = book.entries_back_from(book.head().sequence, region.site.history());
        for hashed in entries.expect("memory can be read") {
            let entry = hashed.expect("memory can be read").entry;
            if entry.sequence <= booked {
                break;
            }
            (entry.fact.kind(), codec::encode(&entry.moves)).hash(hasher);
        }
    }

    /// What a refund of the last charge would find: the charge in the region, and what paid for it at
    /// home.
    fn hash_last_charge(&self, owner: Owner, hasher: &mut Gathered) {
        let Some(hold) = last_charge(self, owner) else { return };
        (hold.captured.get(), hold.refunded.get(), hold.reclaimed.map(Credits::get)).hash(hasher);
        codec::encode(&hold.spent).hash(hasher);
        let home = self.world.home_account();
        let entries = home.entries_back_from(home.head().sequence, self.world.home.history());
        let paid = entries.expect("memory can be read").find_map(|hashed| {
            match hashed.expect("memory can be read").entry.fact {
                Fact::Settled(settlement) if settlement.allocation.owner == owner => settlement
                    .shipped
                    .into_iter()
                    .rfind(|shipped| {
                        shipped.entry.fact.hold().is_some_and(|other| other.number == hold.number)
                    })
                    .map(|shipped| shipped.spent),
                Fact::DebtRepaid(other) if other.number == hold.number => Some(other.spent),
                _ => None,
            }
        });
        for spend in paid.unwrap_or_default() {
            (matches!(spend.source, Source::Debt(_)), spend.amount.get()).hash(hasher);
        }
    }

    fn message_face(&self, message: &Message) -> Vec<u8> {
        let mut hasher = Gathered(Vec::new());
        match message {
            Message::Voucher(voucher) => {
                let mut voucher = (**voucher).clone();
                let (number, recall) = self.at_home(voucher.owner);
                for lot in voucher.lots.iter_mut().filter(|lot| lot.only_for.is_some()) {
                    lot.lot = LotNumber::OVERDRAFT;
                }
                voucher.number = number.wrapping_sub(voucher.number);
                voucher.recall.number = recall.wrapping_sub(voucher.recall.number);
                let behind = self.booked(voucher.owner).0.wrapping_sub(voucher.booked.sequence.0);
                voucher.booked = Booked { sequence: Sequence(behind), hash: None };
                codec::encode(&voucher).hash(&mut hasher);
            }
            Message::Report(report) => {
                let booked = self.booked(report.owner).0;
                (1_u8, report.owner, report.epoch, report.is_sealed).hash(&mut hasher);
                for bytes in &report.entries {
                    let entry: purser_ledger::Entry =
                        codec::decode(bytes).expect("a region's entry can be read");
                    let place = entry.sequence.0.saturating_sub(booked);
                    // What is booked already is skipped, whatever it says.
                    if place > 0 {
                        (place, entry.fact.kind(), codec::encode(&entry.moves)).hash(&mut hasher);
                    }
                }
            }
        }
        hasher.0
    }

    /// The numbers of home's last voucher and recall.
    fn at_home(&self, owner: Owner) -> (u64, u64) {
        let mut allocations = self.world.home_account().allocations();
        let found = allocations.find(|found| found.owner == owner);
        found.map_or((0, 0), |found| (found.voucher, found.recall.number))
    }

    fn booked(&self, owner: Owner) -> Sequence {
        let mut allocations = self.world.home_account().allocations();
        let found = allocations.find(|found| found.owner == owner);
        found.map_or(Sequence::ZERO, |found| found.booked.sequence)
    }
}

/// An account's figures, lots and holds, without the numbers that they happened to get.
fn hash_account(account: &Account, hasher: &mut Gathered) {
    let mut balance = account.balance().clone();
    // Lifetime totals decide nothing.
    balance.authorized = Default::default();
    balance.captured = Default::default();
    balance.released = Default::default();
    balance.refunded = Default::default();
    balance.reclaimed = Default::default();
    codec::encode(&balance).hash(hasher);
    for (_, lot) in account.lots_from(Bound::Unbounded) {
        codec::encode(lot).hash(hasher);
    }
    for hold in account.holds_from(Bound::Unbounded) {
        let mut hold = hold.clone();
        hold.number = HoldNumber(Sequence::ZERO);
        hold.changed_by = Sequence::ZERO;
        hold.changed_before = None;
        codec::encode(&hold).hash(hasher);
    }
}

/// A hasher that keeps what it is given, to be hashed twice.
struct Gathered(Vec<u8>);

impl Hasher for Gathered {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}
