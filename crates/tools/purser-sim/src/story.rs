//! A history made up from a seed: what clients ask, what operators decide, what the world does.
//!
//! Beside the ledgers runs a tally: what each accepted call should come to, by the entry that it
//! made. It shares nothing with the ledgers but their answers, and at the end what home says was used
//! must be what the tally says, entry for entry.

mod calls;
mod covers;
mod door;
mod finale;
mod moves;
mod orders;
mod weather;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use purser_ledger::{
    Cover, Digest32, HoldNumber, Item, OnExpiry, Operation, Outcome, Policy, RefundExpired, Target,
};
use purser_types::{Credits, Epoch, Generation, IdempotencyKey, LogTime, Owner, Region, Span};

use crate::broken::Rule;
use crate::site::Site;
use crate::world::World;

/// What may happen in a history, and how much of it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The regions.
    pub regions: &'static [&'static str],
    /// How many steps it has.
    pub steps: u32,
    /// What may be taken back without an operator's word.
    pub takeback_cap: u64,
    /// How much a region may be allowed to overspend at most.
    pub overdraft_max: u64,
    /// Whether groups crash and lose what they have not synced.
    pub has_crashes: bool,
    /// Whether regions are restored from old backups.
    pub has_rollbacks: bool,
    /// Whether the home moves, and is lost.
    pub has_moves: bool,
    /// The most that a home may answer for on its own.
    pub unacknowledged_max: u64,
    /// A rule that is broken on purpose, to see that it is missed.
    pub broken: Option<Rule>,
}

impl Plan {
    /// Three regions on a bad network, with groups that crash; nothing is overdrawn, taken back or rolled
    /// back, so nothing may ever be overspent.
    pub const CALM: Self = Self {
        regions: &["ap", "eu", "us"],
        steps: 400,
        takeback_cap: 0,
        overdraft_max: 0,
        has_crashes: true,
        has_rollbacks: false,
        has_moves: false,
        unacknowledged_max: 0,
        broken: None,
    };

    /// Everything that can go wrong does.
    pub const WILD: Self =
        Self { takeback_cap: 30, overdraft_max: 25, has_rollbacks: true, ..Self::CALM };

    /// The home moves and is lost; all that is answered waits for the standby.
    pub const MOVING: Self = Self { has_moves: true, ..Self::CALM };

    /// The home moves and is lost, answers for some of it on its own, and everything else goes wrong too.
    pub const LOSING: Self = Self { has_moves: true, unacknowledged_max: 40, ..Self::WILD };
}

/// Why a history is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The seed that leads there.
    pub seed: u64,
    /// The step after which it shows.
    pub step: u32,
    /// What is wrong.
    pub detail: String,
}

/// What a history came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tale {
    /// Of the whole world at the end.
    pub digest: Vec<Digest32>,
    /// How often each thing happened, by its name.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Who hears of each thing that happens.
pub type Listener = Box<dyn FnMut(&str)>;

/// A history in the making.
pub(crate) struct Story {
    rng: Rng,
    plan: Plan,
    world: World,
    now: LogTime,
    /// The next idempotency key.
    next_key: u64,
    tally: Tally,
    /// Calls that may be sent again, and how they were answered.
    answered: Vec<Answered>,
    /// Calls that nobody answered because of a crash. Clients repeat them.
    unheard: Vec<Unheard>,
    /// Calls that a region is short for.
    short: Vec<Short>,
    /// Holds and charges that calls may be about.
    known: Vec<Known>,
    /// The same by the key under which they were asked for.
    made_under: BTreeMap<IdempotencyKey, Vec<Known>>,
    /// The entries of homes whose calls were answered.
    promised: BTreeSet<Digest32>,
    /// Whether a tail was given up, so that what was promised may be lost.
    written_off: bool,
    /// Old states of regions.
    backups: Vec<(Region, Site)>,
    /// Calls that clients made of a region's node, which may pass them on.
    at_doors: Vec<AtDoor>,
    /// Which of them were accepted, by the region that was asked and the key: by whom.
    accepted: BTreeMap<(Region, IdempotencyKey), Owner>,
    counts: BTreeMap<&'static str, u64>,
    /// What a client has seen that should never be.
    wrong: Option<String>,
    listener: Option<Listener>,
}

/// A call that was decided, and of which the client did not hear.
#[derive(Debug, Clone)]
struct Unheard {
    owner: Owner,
    operation: Operation,
    key: IdempotencyKey,
}

/// A call and the answer it got.
struct Answered {
    owner: Owner,
    operation: Operation,
    key: IdempotencyKey,
    outcome: Outcome,
    at: LogTime,
    /// How many homes had been lost by then.
    lost_count: u32,
}

/// A call that needs more than its region may spend.
#[derive(Debug, Clone)]
struct Short {
    /// What home is asked for.
    cover: Cover,
    asked: Item,
}

/// A hold or charge that somebody was told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    owner: Owner,
    target: Target,
    /// Of a hold of home: the epoch under which it was made.
    epoch: Epoch,
}

impl Known {
    fn is_of_home(&self) -> bool {
        self.owner.generation == Generation::HOME
    }
}

/// A call that a client made of a region's node.
#[derive(Clone)]
struct AtDoor {
    region: Region,
    operation: Operation,
    key: IdempotencyKey,
}

/// What each entry of each book should add to what was used.
#[derive(Default)]
struct Tally {
    /// By the entry's hash: a book that was restored from a backup may make another entry of the same
    /// sequence.
    used: BTreeMap<(Owner, Digest32), i128>,
    /// What was ever spent under allocations, whatever became of the books.
    spent: BTreeMap<Owner, u128>,
    /// Books that were restored from a backup: what they forgot and home never heard of never was.
    rolled_back: BTreeSet<Owner>,
}

/// Tells a history.
pub fn tell(seed: u64, plan: &Plan) -> Result<Tale, Wrong> {
    tell_aloud(seed, plan, None)
}

/// Tells a history, and each thing that happens to whoever listens.
pub fn tell_aloud(seed: u64, plan: &Plan, listener: Option<Listener>) -> Result<Tale, Wrong> {
    let story = live_through(seed, plan, listener)?;
    Ok(Tale { digest: story.world.digest(), counts: story.counts })
}

/// The world that a history leads to: for whoever looks at what its ledgers have written.
pub fn world_after(seed: u64, plan: &Plan) -> Result<World, Wrong> {
    live_through(seed, plan, None).map(|story| story.world)
}

fn live_through(seed: u64, plan: &Plan, listener: Option<Listener>) -> Result<Story, Wrong> {
    let mut story = Story::begin(seed, plan);
    story.listener = listener;
    for step in 0..plan.steps {
        story.step();
        story.say(|story| format!("{step}: {:?}", story.world.home_account().bound()));
        let now = story.now;
        let seen = story.wrong.take().map_or(Ok(()), Err);
        let checked = seen.and_then(|()| story.world.check(now));
        let checked = checked.and_then(|()| story.check_rolled_back());
        checked.map_err(|detail| Wrong { seed, step, detail })?;
    }
    story.end().map_err(|detail| Wrong { seed, step: plan.steps, detail })?;
    Ok(story)
}

impl Story {
    fn begin(seed: u64, plan: &Plan) -> Self {
        let mut rng = Rng::with_seed(seed);
        let refund_expired =
            if rng.bool() { RefundExpired::Lapse } else { RefundExpired::Regrant { days: 1 } };
        let policy = Policy {
            debt_limit: credits(rng.u64(0..=20)),
            refund_expired,
            takeback_cap: credits(plan.takeback_cap),
            unacknowledged_max: credits(plan.unacknowledged_max / 2),
            on_expiry: if rng.bool() { OnExpiry::TakeBack } else { OnExpiry::Keep },
            ..Policy::default()
        };
        let mut world = World::new(plan.regions, policy);
        world.broken = plan.broken;
        Self {
            rng,
            plan: plan.clone(),
            world,
            now: LogTime::ZERO,
            next_key: 0,
            tally: Tally::default(),
            answered: Vec::new(),
            unheard: Vec::new(),
            short: Vec::new(),
            known: Vec::new(),
            made_under: BTreeMap::new(),
            backups: Vec::new(),
            promised: BTreeSet::new(),
            written_off: false,
            at_doors: Vec::new(),
            accepted: BTreeMap::new(),
            counts: BTreeMap::new(),
            wrong: None,
            listener: None,
        }
    }

    /// Tells whoever listens.
    fn say(&mut self, what: impl FnOnce(&Self) -> String) {
        if let Some(mut listener) = self.listener.take() {
            listener(&what(self));
            self.listener = Some(listener);
        }
    }

    /// One thing happens.
    fn step(&mut self) {
        if self.rng.u8(0..6) == 0 {
            self.now = self.now.saturating_add(Span::from_micros(self.rng.u64(1..20_000_000)));
        }
        if self.plan.has_moves && self.rng.u8(0..3) == 0 {
            return self.home_step();
        }
        match self.rng.u8(0..100) {
            0..45 => self.call(),
            45..60 => self.order(),
            60..94 => self.messages(),
            _ => self.weather(),
        }
        self.note_own_acts();
    }

    /// Whether a group crashes now, before it has synced what it just decided.
    fn crashes(&mut self) -> bool {
        self.plan.has_crashes && self.rng.u8(0..24) == 0
    }

    /// Something is not as it should be, as a client sees.
    fn miss(&mut self, detail: String) {
        self.wrong.get_or_insert(detail);
    }

    /// Something happened.
    fn count(&mut self, name: &'static str) {
        let count = self.counts.entry(name).or_default();
        *count = count.saturating_add(1);
    }

    fn key(&mut self) -> IdempotencyKey {
        self.next_key = self.next_key.saturating_add(1);
        IdempotencyKey::parse(&format!("key {}", self.next_key)).expect("a key of plain text")
    }

    /// One of the regions.
    fn any_region(&mut self) -> Region {
        let names = self.plan.regions;
        let name = names[self.rng.usize(0..names.len())];
        Region::parse(name).expect("the name of a region")
    }

    /// One of the books that regions keep.
    fn any_book(&mut self) -> Option<Owner> {
        let owners: Vec<Owner> = self.world.books().map(purser_ledger::Account::owner).collect();
        self.rng.choice(owners)
    }

    /// One of the allocations that home has.
    fn any_allocation(&mut self) -> Option<Owner> {
        let account = self.world.home_account();
        let owners: Vec<Owner> = account.allocations().map(|found| found.owner).collect();
        self.rng.choice(owners)
    }
}

fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).expect("a small amount")
}

fn hold_of(target: Target) -> HoldNumber {
    target.number()
}
