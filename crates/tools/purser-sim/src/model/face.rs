//! What decides in a part of a world, as one number.
//!
//! Left out is what nothing that decides can tell: hashes, places in a history, the numbers that things
//! happened to get, and which of the regions it is.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;

use purser_ledger::{
    Account, Allocation, Booked, Bucket, Entry, Fact, Hold, HoldNumber, HoldState, Identity,
    LotNumber, Move, Report, Source, Spend, codec,
};
use purser_types::{Credits, Generation, Owner, Region, Sequence};

use super::parts::{HomePart, RegionPart, Sent};
use crate::site::Site;
use crate::world::{Message, RegionWorld, World};

/// In place of an operation that is told apart by something else.
const NOTHING: Identity = Identity { key: [0; 16], fingerprint: [0; 16] };

/// The faces of home's side.
pub(super) struct HomeFaces {
    /// What decides, but for the allocations.
    pub(super) common: u128,
    /// What is known of the allocations of each region, in the regions' order, with the numbers that
    /// regions and messages refer to.
    pub(super) sides: Vec<u128>,
    /// Both, to tell homes apart.
    pub(super) exact: u128,
}

/// The account at home, and at its standby while that can take over.
pub(super) fn accounts(world: &World) -> impl Iterator<Item = (&Account, &Site)> {
    let replica = world.replica().filter(|_| world.homes.lost_count() == 0);
    let standby =
        replica.and_then(|site| Some((site.book(&world.account, Generation::HOME)?, site)));
    std::iter::once((world.home_account(), &world.home)).chain(standby)
}

/// `has_undone` is whether anybody may come back to a charge.
pub(super) fn of_home(world: &World, regions: &[Region], has_undone: bool) -> HomeFaces {
    let mut common = Gathered::default();
    for (account, _) in accounts(world) {
        hash_account(account, None, &mut common);
        let bound = account.bound();
        (bound.realised.get(), bound.taken_back.get(), bound.overdraft.get()).hash(&mut common);
        account.standing().policy.unacknowledged_max.get().hash(&mut common);
        (bound.failover.get(), account.ceiling().get(), account.epoch()).hash(&mut common);
    }
    hash_homes(world, &mut common);
    let sides = regions.iter().map(|region| exact_side(world, *region, has_undone)).collect();
    let common = common.number();
    let exact = number(&(common, &sides));
    HomeFaces { common, sides, exact }
}

fn exact_side(world: &World, region: Region, has_undone: bool) -> u128 {
    let mut bytes = Gathered::default();
    for (account, site) in accounts(world) {
        let mut all = Gathered::default();
        for allocation in account.allocations().filter(|it| it.owner.region == region) {
            let mut allocation = allocation.clone();
            allocation.opened_by = Sequence::ZERO;
            codec::encode(&allocation).hash(&mut all);
            let paid = has_undone.then(|| paid(account, site, allocation.owner));
            for (hold, spends) in paid.into_iter().flatten() {
                hold.hash(&mut all);
                hash_spends(&spends, &mut all);
            }
        }
        closed(account, region).hash(&mut all);
        all.0.hash(&mut bytes);
    }
    bytes.number()
}

/// How many generations of a region are closed.
fn closed(account: &Account, region: Region) -> usize {
    let owners = (1..=8).map(|generation| Owner { region, generation: Generation(generation) });
    owners.filter(|owner| account.has_closed(*owner)).count()
}

/// To the last entry of each book: whatever was decided there.
pub(super) fn of_region(name: Region, world: &RegionWorld) -> u128 {
    let books = world.site.ledger().allocations();
    let books: Vec<_> = books.map(|book| (book.owner(), book.head().hash)).collect();
    let booked: Vec<_> = world.booked.iter().collect();
    number(&(name, books, booked, world.lost.len()))
}

/// What decides about a region, with what home and its standby know of it.
pub(super) fn of_side(home: &HomePart, region: &RegionPart, has_undone: bool) -> u128 {
    let mut bytes = Gathered::default();
    let world = &home.world;
    for (account, site) in accounts(world) {
        let mut all = Gathered::default();
        closed(account, region.name).hash(&mut all);
        for allocation in account.allocations().filter(|it| it.owner.region == region.name) {
            let book = region.world.site.book(&world.account, allocation.owner.generation);
            allocation_face(allocation, book).hash(&mut all);
            let Some(book) = book else {
                // Whoever has heard nothing will be asked back for the first time.
                allocation.recall.number.hash(&mut all);
                continue;
            };
            let last = has_undone.then(|| last_charge(book, &region.world)).flatten();
            if let Some(hold) = last {
                let mut paid = paid(account, site, allocation.owner);
                let paid = paid.rfind(|(number, _)| *number == hold.number);
                hash_spends(&paid.map(|(_, spends)| spends).unwrap_or_default(), &mut all);
            }
        }
        all.0.hash(&mut bytes);
    }
    for book in region.world.site.ledger().allocations() {
        if let Some(hold) = has_undone.then(|| last_charge(book, &region.world)).flatten() {
            let given_back = (hold.refunded.get(), hold.reclaimed.map(Credits::get));
            (hold.captured.get(), given_back).hash(&mut bytes);
            hash_spends(&hold.spent, &mut bytes);
        }
        hash_book(world, book, region, &mut bytes);
    }
    bytes.number()
}

fn allocation_face(known: &Allocation, book: Option<&Account>) -> Vec<u8> {
    let mut allocation = known.clone();
    allocation.owner.region = crate::homes::region(crate::homes::HOMES[0]);
    allocation.booked = Booked::default();
    allocation.opened_by = Sequence::ZERO;
    allocation.voucher = 0;
    allocation.recall.number = 0;
    for cover in &mut allocation.covers {
        cover.number = lot_face(Some(known), cover.number);
        // What may draw from it is the over-capture of its hold.
        cover.asked = NOTHING;
        let mut holds = book.into_iter().flat_map(|book| book.holds_from(Bound::Unbounded));
        let place = holds.position(|hold| hold.number == cover.hold);
        let place = place.and_then(|place| u64::try_from(place).ok());
        cover.hold = HoldNumber(Sequence(place.unwrap_or(u64::MAX)));
        for part in &mut cover.out {
            if let Source::Debt(origin) = &mut part.source {
                *origin = Sequence::ZERO;
            }
        }
    }
    codec::encode(&allocation)
}

/// A book: its figures, the vouchers that it has heard of, and the entries that home or its standby have
/// not booked.
fn hash_book(world: &World, book: &Account, region: &RegionPart, hasher: &mut Gathered) {
    let owner = book.owner();
    owner.generation.hash(hasher);
    let home = world.home_account();
    let allocation = home.allocations().find(|it| it.owner == owner);
    hash_account(book, allocation, hasher);
    book.book_phase().map(|phase| codec::encode(&phase)).hash(hasher);
    let (voucher, recall, overdraft, mode) = book.voucher_heard().unwrap_or_default();
    (overdraft, codec::encode(&mode)).hash(hasher);
    let (_, asked_back) = book.standing_orders().unwrap_or_default();
    asked_back.map(|asked| asked.keep.get()).hash(hasher);
    book.heard_on_expiry().map(|heard| codec::encode(&heard)).hash(hasher);
    // A report says which home the region has heard of.
    let report = book.report(book.head().sequence, region.world.site.history());
    report.expect("memory can be read").map(|report| report.epoch).hash(hasher);
    let mut since = book.head().sequence;
    for (account, _) in accounts(world) {
        let known = account.allocations().find(|it| it.owner == owner);
        // What home has closed it says nothing of any more.
        let unheard = known.map(|it| {
            let recalled = it.recall.number.wrapping_sub(recall);
            (it.voucher.wrapping_sub(voucher), recalled)
        });
        unheard.hash(hasher);
        let booked = if account.has_closed(owner) {
            book.head().sequence
        } else {
            known.map_or(Sequence::ZERO, |it| it.booked.sequence)
        };
        since = since.min(booked);
        book.head().sequence.0.wrapping_sub(booked.0).hash(hasher);
    }
    let heard = region.world.booked.get(&owner.generation).copied().unwrap_or_default();
    heard.0.saturating_sub(since.0).hash(hasher);
    for entry in entries_after(book, since, &region.world.site) {
        (entry.fact.kind(), moves_face(allocation, &entry.moves)).hash(hasher);
    }
}

/// What decides about a message, by what home knows of its region.
pub(super) fn of_message(home: &HomePart, sent: &Sent) -> u128 {
    let mut hasher = Gathered::default();
    let account = home.world.home_account();
    let known = account.allocations().find(|it| it.owner == sent.owner);
    let (number, recall) = known.map_or((0, 0), |it| (it.voucher, it.recall.number));
    match &sent.message {
        Message::Voucher(voucher) => {
            let mut voucher = (**voucher).clone();
            voucher.owner.region = crate::homes::region(crate::homes::HOMES[0]);
            for lot in &mut voucher.lots {
                lot.lot = lot_face(known, lot.lot);
                lot.only_for = lot.only_for.map(|_| NOTHING);
            }
            voucher.number = number.wrapping_sub(voucher.number);
            voucher.recall.number = recall.wrapping_sub(voucher.recall.number);
            voucher.booked = Booked::default();
            codec::encode(&voucher).hash(&mut hasher);
        }
        Message::Report(report) => {
            let booked = accounts(&home.world).filter_map(|(account, _)| {
                let known = account.allocations().find(|it| it.owner == sent.owner)?;
                Some(known.booked.sequence)
            });
            let booked = booked.min().unwrap_or_default();
            (1_u8, report.owner.generation, report.epoch, report.is_sealed).hash(&mut hasher);
            for bytes in &report.entries {
                let entry: Entry = codec::decode(bytes).expect("a region's entry can be read");
                let place = entry.sequence.0.saturating_sub(booked.0);
                // What is booked already is skipped, whatever it says.
                if place > 0 {
                    let moves = moves_face(known, &entry.moves);
                    (place, entry.fact.kind(), moves).hash(&mut hasher);
                }
            }
        }
    }
    hasher.number()
}

/// Who is home, who stands by, and what homes that were lost had decided besides.
fn hash_homes(world: &World, hasher: &mut Gathered) {
    let account = world.home_account();
    let placed = purser_placement::TenantPlacement {
        change: purser_placement::ChangeNumber::NONE,
        ..world.placed().clone()
    };
    let lost_count = world.homes.lost_count();
    (codec::encode(&placed), world.waits(), lost_count, world.lost_homes().len()).hash(hasher);
    if let Some((known, _)) = accounts(world).nth(1) {
        let lacked = entries_after(account, known.head().sequence, &world.home);
        hash_told(&[&lacked], account, hasher);
    }
    for tail in account.tails() {
        (tail.quarantine.get(), tail.counted.get(), tail.debited.get()).hash(hasher);
        let since = entries_after(account, tail.forked_at, &world.home);
        let Some(lost) = world.group(tail.from) else { continue };
        let Some(book) = lost.book(&world.account, Generation::HOME) else { continue };
        hash_account(book, None, hasher);
        let besides = entries_after(book, tail.booked.sequence, lost);
        hash_told(&[&since, &besides], account, hasher);
    }
}

/// Entries of homes, newest first: what they count for, and which hold each is about.
fn hash_told(homes: &[&[Entry]], account: &Account, hasher: &mut Gathered) {
    let hold = |entry: &Entry| entry.fact.hold().map(|hold| hold.number);
    let told = homes.iter().flat_map(|entries| entries.iter());
    let live = account.holds_from(Bound::Unbounded).map(|hold| hold.number);
    let holds: BTreeSet<HoldNumber> = told.filter_map(hold).chain(live).collect();
    for entries in homes {
        entries.is_empty().hash(hasher);
        for entry in *entries {
            let Some(counted) = purser_ledger::counted(entry) else { continue };
            let place = hold(entry).map(|number| holds.range(..number).count());
            (entry.fact.kind(), counted.get(), place).hash(hasher);
            entry.moves.iter().map(amount_of).collect::<Vec<_>>().hash(hasher);
        }
    }
}

fn amount_of(step: &Move) -> (bool, u64) {
    (step.to == Bucket::Used, step.amount.get())
}

/// What paid for the holds and charges of an allocation that are booked, in the order of booking.
fn paid(
    account: &Account,
    site: &Site,
    owner: Owner,
) -> impl DoubleEndedIterator<Item = (HoldNumber, Vec<Spend>)> {
    let mut found = Vec::new();
    for entry in entries_after(account, Sequence::ZERO, site).into_iter().rev() {
        match entry.fact {
            Fact::Settled(settlement) if settlement.allocation.owner == owner => {
                for shipped in settlement.shipped {
                    let number = shipped.entry.fact.hold().map(|hold| hold.number);
                    found.extend(number.map(|number| (number, shipped.spent)));
                }
            }
            Fact::DebtRepaid(hold) => found.push((hold.number, hold.spent)),
            _ => (),
        }
    }
    found.into_iter()
}

fn hash_spends(spends: &[Spend], hasher: &mut Gathered) {
    for spend in spends {
        (matches!(spend.source, Source::Debt(_)), spend.amount.get()).hash(hasher);
    }
}

/// The number of a lot in a region's book, if it has one of home's, or what it is instead.
fn lot_face(allocation: Option<&Allocation>, lot: LotNumber) -> LotNumber {
    let mut lots = allocation.into_iter().flat_map(|it| &it.lots);
    let is_homes = lot == LotNumber::OVERDRAFT || lots.any(|given| given.lot == lot);
    if allocation.is_none() || is_homes { lot } else { cover_face(allocation, lot) }
}

/// In place of a cover's number, its place among those that home knows. Those that it has booked whole it
/// knows no more, and nothing comes of them.
fn cover_face(allocation: Option<&Allocation>, lot: LotNumber) -> LotNumber {
    let mut covers = allocation.into_iter().flat_map(|it| &it.covers);
    let place = covers.position(|cover| cover.number == lot);
    let place = place.and_then(|place| u64::try_from(place).ok());
    // No lot of home's has a number as high.
    LotNumber(Sequence(
        place.map_or(u64::MAX, |place| u64::MAX.saturating_sub(1).saturating_sub(place)),
    ))
}

fn moves_face(allocation: Option<&Allocation>, moves: &[Move]) -> Vec<u8> {
    let lot = |step: &Move| step.lot.map(|lot| lot_face(allocation, lot));
    let moves: Vec<Move> = moves.iter().map(|step| Move { lot: lot(step), ..*step }).collect();
    codec::encode(&moves)
}

fn hold_face(allocation: Option<&Allocation>, hold: &Hold) -> Vec<u8> {
    let mut hold = hold.clone();
    hold.number = HoldNumber(Sequence::ZERO);
    hold.changed_by = Sequence::ZERO;
    hold.changed_before = None;
    for portion in &mut hold.lots {
        portion.lot = lot_face(allocation, portion.lot);
    }
    for spend in &mut hold.spent {
        if let Source::Lot(lot) = &mut spend.source {
            *lot = lot_face(allocation, *lot);
        }
    }
    codec::encode(&hold)
}

/// An account's figures, lots and holds, without the numbers that they happened to get. A region's book
/// comes with what home knows of it.
fn hash_account(account: &Account, allocation: Option<&Allocation>, hasher: &mut Gathered) {
    let mut balance = account.balance().clone();
    // Lifetime totals decide nothing; what is out is told with the allocations.
    balance.authorized = Default::default();
    balance.captured = Default::default();
    balance.released = Default::default();
    balance.refunded = Default::default();
    balance.reclaimed = Default::default();
    balance.allocated.clear();
    codec::encode(&balance).hash(hasher);
    for (number, lot) in account.lots_from(Bound::Unbounded) {
        let mut lot = lot.clone();
        let cover = lot.only_for.replace(NOTHING).map(|_| cover_face(allocation, *number));
        (cover, codec::encode(&lot)).hash(hasher);
    }
    for hold in account.holds_from(Bound::Unbounded) {
        hold_face(allocation, hold).hash(hasher);
    }
}

/// The charge, or captured hold, of a book that was last heard of.
pub(super) fn last_charge(book: &Account, region: &RegionWorld) -> Option<Hold> {
    let is_captured = |hold: &Hold| hold.state == HoldState::Captured;
    let mut entries = entries_after(book, Sequence::ZERO, &region.site).into_iter();
    entries.find_map(|entry| entry.fact.into_hold().filter(is_captured))
}

/// The last entry of a report.
pub(super) fn last_entry(report: &Report) -> Sequence {
    let last = report.entries.last().map(|bytes| {
        let entry: Entry = codec::decode(bytes).expect("a region's entry can be read");
        entry.sequence
    });
    last.unwrap_or_default()
}

/// The entries after one, newest first.
fn entries_after(account: &Account, before: Sequence, site: &Site) -> Vec<Entry> {
    let entries = account.entries_back_from(account.head().sequence, site.history());
    let entries = entries.expect("memory can be read").map(|hashed| hashed.expect("memory"));
    entries.map(|it| it.entry).take_while(|it| it.sequence > before).collect()
}

/// A number for whatever can be hashed: the same in every run, and of 128 bits.
pub(super) fn number(of: &impl Hash) -> u128 {
    let mut bytes = Gathered::default();
    of.hash(&mut bytes);
    bytes.number()
}

/// A hasher that keeps what it is given, to be hashed twice.
#[derive(Default)]
struct Gathered(Vec<u8>);

impl Gathered {
    fn number(&self) -> u128 {
        let half = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(salt);
            hasher.write(&self.0);
            u128::from(hasher.finish())
        };
        (half(1) << 64) | half(2)
    }
}

impl Hasher for Gathered {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}
