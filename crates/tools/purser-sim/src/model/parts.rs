//! A world in parts that are kept once: home's side, and each region.
//!
//! Most steps change one part, and what comes of one is the same whatever the others are. So a part is
//! known by a number, and what came of each step from it is remembered: the ledger decides everything
//! that is new, once.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use purser_ledger::{BookPhase, HoldNumber, codec};
use purser_types::{Generation, Owner, Region, Sequence};

use super::{Action, oldest_hold};
use crate::model::face;
use crate::world::{Message, RegionWorld, World};

/// Home, its standby, and homes that were lost.
#[derive(Debug)]
pub(super) struct HomePart {
    pub(super) number: u32,
    /// A world without regions.
    pub(super) world: World,
    /// What decides about it, but for its allocations.
    pub(super) face: u128,
    /// What is known of each region's allocations, to the number.
    pub(super) sides: Vec<u128>,
    /// What clients have used, as far as it is booked.
    pub(super) used: i64,
}

/// A region's group.
#[derive(Debug)]
pub(super) struct RegionPart {
    pub(super) number: u32,
    pub(super) name: Region,
    pub(super) world: RegionWorld,
    pub(super) books: Vec<Book>,
}

/// What a step needs to know of a book to tell whether it can be taken.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) owner: Owner,
    pub(super) is_open: bool,
    pub(super) oldest_hold: Option<HoldNumber>,
    pub(super) has_charge: bool,
    pub(super) has_available: bool,
    /// The last voucher that was taken up.
    pub(super) heard: u64,
}

/// A message.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) number: u32,
    pub(super) message: Message,
    pub(super) owner: Owner,
    /// The last entry that it brings, if it is a report.
    pub(super) last: Sequence,
}

/// What is done to home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum HomeStep {
    /// Something that only concerns home.
    Act(Action),
    /// A cover of what an over-capture of this hold lacks.
    Cover(Owner, HoldNumber),
    /// A report arrives.
    Take(u32),
    /// Every tail is booked, as if all lost homes were heard of.
    BookTails,
    /// Nobody is waited for any more.
    StopWaiting,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct AtHome {
    pub(super) home: Arc<HomePart>,
    /// What a client was told that it used.
    pub(super) used: i64,
    /// What was taken for a client who was not told.
    pub(super) untold: i64,
    /// From where on home wants a report that began too late.
    pub(super) gap: Option<Sequence>,
}

/// What is done to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RegionStep {
    /// Something that only concerns the region.
    Act(Action),
    /// A voucher arrives.
    Take(u32),
    /// Home's answer to a report says how far it has booked.
    Hear(Generation, Sequence),
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct InRegion {
    pub(super) region: Arc<RegionPart>,
    /// What a client was told that it used.
    pub(super) used: i64,
}

/// What is done to home and a region in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BothStep {
    /// A round of ending an allocation.
    BringHome(Owner),
    /// The region's leader follows its orders, and breaks a rule.
    Tend(Owner),
}

/// Both of them.
#[derive(Debug, Clone)]
pub(super) struct Both {
    pub(super) home: Arc<HomePart>,
    pub(super) region: Arc<RegionPart>,
}

/// Every part that was met, and what came of each step.
#[derive(Debug, Default)]
pub(super) struct Kept {
    homes: Memory<u128, Arc<HomePart>>,
    regions: Memory<u128, Arc<RegionPart>>,
    messages: Memory<Vec<u8>, Arc<Sent>>,
    counted: AtomicU32,
    pub(super) at_home: Memory<(u32, HomeStep), Option<AtHome>>,
    pub(super) in_region: Memory<(u32, RegionStep), Option<InRegion>>,
    pub(super) in_both: Memory<(u32, u32, BothStep), Both>,
    pub(super) vouchers: Memory<(u32, Owner), Option<Arc<Sent>>>,
    pub(super) reports: Memory<(u32, Owner, Option<Sequence>), Option<Arc<Sent>>>,
    /// What decides about a region, with what is known of it at home.
    pub(super) faces: Memory<(u128, u32), u128>,
    /// What decides about a message.
    pub(super) message_faces: Memory<(u128, u32), u128>,
}

impl Kept {
    fn next_number(&self) -> u32 {
        self.counted.fetch_add(1, Ordering::Relaxed)
    }

    /// `regions` are all that the search is about, and `has_undone` whether charges are undone in it.
    pub(super) fn home(&self, world: World, regions: &[Region], has_undone: bool) -> Arc<HomePart> {
        let faces = face::of_home(&world, regions, has_undone);
        self.homes.get(faces.exact, || {
            let used = world.home_account().balance().used.get();
            let used = i64::try_from(used).expect("a small amount");
            let (face, sides) = (faces.common, faces.sides);
            Arc::new(HomePart { number: self.next_number(), world, face, sides, used })
        })
    }

    pub(super) fn region(&self, name: Region, world: RegionWorld) -> Arc<RegionPart> {
        self.regions.get(face::of_region(name, &world), || {
            let books = world.site.ledger().allocations().map(|book| Book {
                owner: book.owner(),
                is_open: book.book_phase() == Some(BookPhase::Open),
                oldest_hold: oldest_hold(book),
                has_charge: face::last_charge(book, &world).is_some(),
                has_available: !book.balance().available.is_zero(),
                heard: book.voucher_heard().map_or(0, |(number, ..)| number),
            });
            let books = books.collect();
            Arc::new(RegionPart { number: self.next_number(), name, world, books })
        })
    }

    pub(super) fn message(&self, message: Message) -> Arc<Sent> {
        let bytes = match &message {
            Message::Voucher(voucher) => codec::encode(voucher),
            Message::Report(report) => codec::encode(report),
        };
        self.messages.get(bytes, || {
            let (owner, last) = match &message {
                Message::Voucher(voucher) => (voucher.owner, Sequence::ZERO),
                Message::Report(report) => (report.owner, face::last_entry(report)),
            };
            Arc::new(Sent { number: self.next_number(), message, owner, last })
        })
    }

    /// How many homes, regions and messages were met, and how many steps were decided by a ledger.
    pub(super) fn counts(&self) -> [usize; 5] {
        let steps = self.at_home.len() + self.in_region.len();
        let parts = [self.homes.len(), self.regions.len(), self.messages.len()];
        [parts[0], parts[1], parts[2], steps, self.in_both.len()]
    }
}

impl RegionPart {
    pub(super) fn book(&self, owner: Owner) -> Option<&Book> {
        self.books.iter().find(|book| book.owner == owner)
    }
}

/// What was found out once, for all threads.
#[derive(Debug)]
pub(super) struct Memory<K, V>(Vec<Shard<K, V>>);

type Shard<K, V> = Mutex<HashMap<K, V, BuildHasherDefault<Quick>>>;

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self((0..64).map(|_| Mutex::default()).collect())
    }
}

impl<K: Eq + Hash, V: Clone> Memory<K, V> {
    /// What is known of `key`, or is now. Two threads may find it out at once; the first is kept.
    pub(super) fn get(&self, key: K, find: impl FnOnce() -> V) -> V {
        let hash = BuildHasherDefault::<Quick>::default().hash_one(&key);
        let place = usize::try_from((hash >> 32) % 64).unwrap_or(0);
        let shard = &self.0[place];
        let lock = || shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return known.clone();
        }
        let found = find();
        lock().entry(key).or_insert(found).clone()
    }

    fn len(&self) -> usize {
        let lengths =
            self.0.iter().map(|it| it.lock().unwrap_or_else(PoisonError::into_inner).len());
        lengths.sum()
    }
}

/// A hasher for keys that nobody chooses to do harm: a few multiplications.
#[derive(Debug, Default)]
pub(super) struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        // The fraction of the golden ratio, as in Fibonacci hashing.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
