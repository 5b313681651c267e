//! Every history of a small world: two regions, three credits, a handful of calls.
//!
//! The transitions are those of `purser-ledger`; what is made up here is which comes next, and the
//! search tries all of it. Two worlds count as one if nothing that decides can tell them apart:
//! figures, lots, holds, what is not booked yet, and what is on the wire; not hashes, places in a
//! history, the numbers that things happened to get, and which region is which.
//!
//! Any message may be lost, come again and again, or come after what was sent later: what is on the
//! wire stays there until it could change nothing any more, and makes room for another if that is sent.

mod acts;
mod face;
mod losing;
mod parts;
mod rest;

use std::collections::BTreeSet;
use std::sync::Arc;

use purser_ledger::{Account, Category, Grant, HoldNumber, OnExpiry, Operation, Policy};
use purser_types::{Credits, LogTime, Owner, Region};
use stateright::{Model, Property};

use self::parts::{HomePart, Kept, RegionPart, Sent};
use crate::broken::Rule;
use crate::world::{Message, RegionWorld, World};

/// How much may happen.
#[derive(Debug, Clone)]
pub struct Small {
    /// The regions: one or two.
    pub regions: &'static [&'static str],
    /// What the tenant was granted.
    pub credits: u64,
    /// How many calls clients make.
    pub calls: u8,
    /// Whether clients also undo what was charged and take more than was held, and home also asks back,
    /// forbids what it allowed, and ends allocations.
    pub has_all_kinds: bool,
    /// How many credits home sets aside, one at a time.
    pub grants: u8,
    /// How many other decisions home takes.
    pub orders: u8,
    /// How many messages are late at once. Others arrive when they are sent.
    pub wire: usize,
    /// What the regions may overspend when home allows it.
    pub overdraft: u64,
    /// Whether home allows that with the first credit; otherwise it is a decision of its own.
    pub overdraft_at_once: bool,
    /// What may be taken back without an operator's word.
    pub takeback_cap: u64,
    /// Whether an operator may take back beyond that.
    pub is_forced: bool,
    /// Whether home covers over-captures, and how much may be owed for them.
    pub covers: Option<u64>,
    /// Whether it is also tried from everywhere that everything comes home.
    pub comes_home: bool,
    /// Whether home takes calls and is lost, once, and what it may answer for on its own: any of these.
    pub lost_home: &'static [u64],
    /// A rule that is broken on purpose, to see that it is missed.
    pub broken: Option<Rule>,
}

/// A world in parts, what may still happen, and what clients were told.
#[derive(Debug, Clone)]
pub struct State {
    home: Arc<HomePart>,
    regions: [Arc<RegionPart>; 2],
    wire: Vec<Arc<Sent>>,
    calls: u8,
    grants: u8,
    orders: u8,
    /// What clients were told that they used.
    used: i64,
    /// What home took for calls whose answers it kept back, or that its successor may have lost.
    untold: i64,
    /// What decides, and nothing else.
    face: u128,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.face == other.face
    }
}

impl Eq for State {}

impl std::hash::Hash for State {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.face.hash(hasher);
    }
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Home gives a region one more credit.
    Allocate(Region),
    /// Home asks a region's free credits back.
    Recall(Owner),
    /// Home allows a region to overspend, or not any more.
    Overdraft(Owner, bool),
    /// Home ends an allocation.
    End(Owner),
    /// Home takes an allocation back.
    TakeBack(Owner),
    /// Home covers what an over-capture of the oldest hold lacks.
    Cover(Owner),
    /// A client authorizes one credit.
    Authorize(Owner),
    /// A client charges one credit.
    Charge(Owner),
    /// A client captures two credits of the oldest hold, which held one.
    OverCapture(Owner),
    /// A client captures the oldest hold.
    Capture(Owner),
    /// A client releases the oldest hold.
    Release(Owner),
    /// A client wants the last charge refunded.
    Refund(Owner),
    /// A client's job succeeded after all.
    Reclaim(Owner),
    /// A region gives a credit back of its own accord.
    Return(Owner),
    /// A region's leader follows its orders.
    Tend(Owner),
    /// Home speaks, and is heard at once.
    Tell(Owner),
    /// A region reports, and is heard at once.
    Report(Owner),
    /// Home speaks, and is heard later or never.
    SendVoucher(Owner),
    /// A region reports, and is heard later or never.
    SendReport(Owner),
    /// A message arrives.
    Deliver(usize),
    /// A message is lost.
    Lose(usize),
    /// A client authorizes one credit at home.
    HomeAuthorize,
    /// A client charges one credit at home.
    HomeCharge,
    /// A client captures home's oldest hold.
    HomeCapture,
    /// A client charges one credit at the home that was lost.
    LostCharge,
    /// The standby hears everything.
    Replicate,
    /// Home is lost, and the standby takes over.
    FailOver,
    /// The lost home is heard of.
    HearOfLostHome,
}

const NOW: LogTime = LogTime::ZERO;

/// The property that something was overspent, which some models are to reach.
pub const OVERSPENT: &str = "a region has overspent";

/// The property that a node breaks that breaks a rule.
pub const BOOKED_ONCE: &str = "overspend stays within the bound, every call is booked once";

impl Small {
    /// Two regions and three credits, with nothing that could overspend.
    pub const TWO_REGIONS: Self = Self {
        regions: &["eu", "us"],
        credits: 3,
        calls: 2,
        has_all_kinds: true,
        grants: 2,
        orders: 1,
        wire: 1,
        overdraft: 0,
        overdraft_at_once: false,
        takeback_cap: 0,
        is_forced: false,
        covers: None,
        comes_home: false,
        lost_home: &[],
        broken: None,
    };

    /// The same with all that can go wrong at once: an overdraft, a take-back, a home that is lost.
    pub const EVERYTHING: Self = Self {
        has_all_kinds: false,
        overdraft: 1,
        overdraft_at_once: true,
        takeback_cap: 1,
        comes_home: true,
        lost_home: &[0, 1],
        ..Self::TWO_REGIONS
    };

    /// The search over it.
    ///
    /// # Panics
    ///
    /// If it is about more than two regions.
    pub fn search(self) -> Search {
        let mut names: Vec<Region> =
            self.regions.iter().map(|name| crate::homes::region(name)).collect();
        // A world of one region has another in which nothing ever happens.
        names.extend((names.len() == 1).then(|| crate::homes::region("nowhere")));
        let names = names.try_into().expect("a search is about one or two regions");
        Search { small: self, names, kept: Kept::default() }
    }

    /// A world in which nothing has happened but the grant. Home may answer for `alone` on its own.
    fn world(&self, alone: u64) -> World {
        let on_expiry =
            if self.takeback_cap > 0 { OnExpiry::TakeBack } else { OnExpiry::default() };
        let takeback_cap = credits(self.takeback_cap);
        let unacknowledged_max = credits(alone);
        let debt_limit = credits(self.covers.unwrap_or_default());
        let policy =
            Policy { debt_limit, takeback_cap, on_expiry, unacknowledged_max, ..Policy::default() };
        let mut world = World::new(&[], policy);
        world.broken = self.broken;
        let grant = Grant {
            amount: credits(self.credits),
            category: Category::Paid,
            priority: Grant::PRIORITY_DEFAULT,
            effective_at: None,
            expires_at: None,
            source_ref: None,
        };
        world.at_home(Operation::Grant(grant), None, NOW);
        if !self.lost_home.is_empty() {
            world.set_promotable(true);
        }
        world
    }
}

/// Every history of a small world, and what was found out about its parts.
#[derive(Debug)]
pub struct Search {
    small: Small,
    names: [Region; 2],
    kept: Kept,
}

impl Search {
    /// How many homes, regions and messages there were, and how often a ledger was asked for one part
    /// and for two.
    pub fn counts(&self) -> [usize; 5] {
        self.kept.counts()
    }

    fn orders(&self, state: &State, actions: &mut Vec<Action>) {
        let account = state.home.world.home_account();
        if state.grants > 0 && !account.balance().available.is_zero() {
            let regions = self.names.iter().take(self.small.regions.len());
            actions.extend(regions.map(|region| Action::Allocate(*region)));
        }
        if state.orders == 0 {
            return;
        }
        for allocation in account.allocations() {
            let (owner, is_allowed) = (allocation.owner, !allocation.overdraft.is_zero());
            actions.push(Action::TakeBack(owner));
            if self.small.overdraft > 0 && (!is_allowed || self.small.has_all_kinds) {
                actions.push(Action::Overdraft(owner, !is_allowed));
            }
            if self.small.has_all_kinds {
                actions.extend([Action::Recall(owner), Action::End(owner)]);
            }
            if self.small.covers.is_some() {
                actions.push(Action::Cover(owner));
            }
        }
    }

    fn calls(&self, state: &State, actions: &mut Vec<Action>) {
        let books = state.regions.iter().flat_map(|region| &region.books);
        for book in books.filter(|book| book.is_open) {
            let owner = book.owner;
            actions.push(Action::Tend(owner));
            if state.calls == 0 {
                continue;
            }
            actions.extend([Action::Authorize(owner), Action::Charge(owner)]);
            if book.oldest_hold.is_some() {
                actions.extend([Action::Capture(owner), Action::Release(owner)]);
            }
            if !self.small.has_all_kinds {
                continue;
            }
            if book.oldest_hold.is_some() {
                actions.push(Action::OverCapture(owner));
            }
            if book.has_charge {
                actions.extend([Action::Refund(owner), Action::Reclaim(owner)]);
            }
            if book.has_available {
                actions.push(Action::Return(owner));
            }
        }
    }

    fn messages(&self, state: &State, actions: &mut Vec<Action>) {
        let account = state.home.world.home_account();
        let has_room = state.wire.len() < self.small.wire;
        for allocation in account.allocations() {
            actions.push(Action::Tell(allocation.owner));
            actions.extend(has_room.then_some(Action::SendVoucher(allocation.owner)));
        }
        for book in state.regions.iter().flat_map(|region| &region.books) {
            actions.push(Action::Report(book.owner));
            actions.extend(has_room.then_some(Action::SendReport(book.owner)));
        }
        for place in 0..state.wire.len() {
            actions.push(Action::Deliver(place));
            // One that never arrives is as good as lost: it matters only to whom it leaves room.
            actions.extend((!has_room).then_some(Action::Lose(place)));
        }
    }
}

impl Model for Search {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let Small { calls, grants, orders, lost_home, .. } = self.small;
        let each = if lost_home.is_empty() { &[0] } else { lost_home };
        let begin = |alone: &u64| {
            let home = self.home(self.small.world(*alone));
            let regions = self.names.map(|name| self.kept.region(name, RegionWorld::default()));
            let (wire, used, untold, face) = (Vec::new(), 0, 0, 0);
            let state = State { home, regions, wire, calls, grants, orders, used, untold, face };
            State { face: self.face(&state), ..state }
        };
        each.iter().map(begin).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.orders(state, actions);
        self.calls(state, actions);
        self.messages(state, actions);
        if !self.small.lost_home.is_empty() {
            state.losing(actions);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = self.act(before, action)?;
        self.drop_dead_messages(&mut state);
        state.face = self.face(&state);
        (state.face != before.face).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the bound stays within its ceiling", |_: &Self, state: &State| {
                state.home.world.check_bound().is_ok()
            }),
            Property::always(BOOKED_ONCE, |search: &Self, state: &State| {
                search.is_booked_once(state)
            }),
            Property::always("nothing is stranded at rest", |search: &Self, state: &State| {
                !search.small.comes_home || search.everything_comes_home(state)
            }),
            Property::sometimes(OVERSPENT, |_: &Self, state: &State| {
                !state.home.world.home_account().bound().realised.is_zero()
            }),
        ]
    }
}

impl Search {
    fn home(&self, world: World) -> Arc<HomePart> {
        self.kept.home(world, &self.names, self.small.has_all_kinds)
    }

    /// A number that is the same for states of which nothing can tell the difference.
    fn face(&self, state: &State) -> u128 {
        let mut sides = [(0, Vec::new()), (0, Vec::new())];
        for (place, region) in state.regions.iter().enumerate() {
            let known = state.home.sides[place];
            let side = self.kept.faces.get((known, region.number), || {
                face::of_side(&state.home, region, self.small.has_all_kinds)
            });
            let sent = state.wire.iter().filter(|sent| sent.owner.region == region.name);
            let mut sent: Vec<u128> =
                sent.map(|sent| self.message_face(&state.home, sent)).collect();
            sent.sort_unstable();
            sides[place] = (side, sent);
        }
        // Which region is which decides nothing.
        sides.sort_unstable();
        let left = (state.calls, state.grants, state.orders);
        face::number(&(left, state.used, state.untold, state.home.face, sides))
    }

    fn message_face(&self, home: &HomePart, sent: &Sent) -> u128 {
        let known = home.sides[self.place(sent.owner)];
        let find = || face::of_message(home, sent);
        self.kept.message_faces.get((known, sent.number), find)
    }

    /// Takes off the wire what can change nothing any more, now or later, and what says the same as another.
    fn drop_dead_messages(&self, state: &mut State) {
        // Whoever breaks a rule may take an old message for a new one.
        if self.small.broken.is_some() {
            return;
        }
        let State { home, regions, wire, .. } = state;
        let mut said = BTreeSet::new();
        wire.retain(|sent| {
            let mut is_new = || said.insert((sent.owner, self.message_face(home, sent)));
            !is_dead(sent, home, regions) && is_new()
        });
    }
}

/// Whether a message can change nothing any more. A voucher that is not newer than what its book has
/// taken up, or whose book has ended: neither is ever undone. A report of which home, and a standby that
/// may take over, have booked all.
fn is_dead(sent: &Sent, home: &HomePart, regions: &[Arc<RegionPart>; 2]) -> bool {
    match &sent.message {
        Message::Voucher(voucher) => {
            let mut books = regions.iter().filter_map(|region| region.book(sent.owner));
            books.next().is_some_and(|book| !book.is_open || voucher.number <= book.heard)
        }
        Message::Report(report) => {
            let has_booked = |account: &Account| {
                let known = account.allocations().find(|known| known.owner == sent.owner);
                known.map_or_else(
                    || account.has_closed(sent.owner),
                    |it| it.booked.sequence >= sent.last,
                )
            };
            !report.is_sealed && face::accounts(&home.world).all(|(account, _)| has_booked(account))
        }
    }
}

/// The oldest hold that has not ended.
fn oldest_hold(book: &Account) -> Option<HoldNumber> {
    book.holds_from(std::ops::Bound::Unbounded).next().map(|hold| hold.number)
}

fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).expect("a small amount")
}
