//! Every history of a small world: two regions, three credits, a handful of calls.
//!
//! The transitions are those of `purser-ledger`; what is made up here is which comes next, and the
//! search tries all of it. Two worlds count as one if nothing that decides can tell them apart:
//! figures, lots, holds, what is not booked yet, and what is on the wire; not hashes, places in a
//! history, and the numbers that things happened to get.

mod face;
mod losing;

use purser_ledger::{
    Account, Allocate, Authorize, BookPhase, Capture, Category, Charge, Confirm, Cover, Fact,
    Grant, Hold, HoldKind, HoldNumber, HoldState, IfExpired, Item, Mode, OnExpiry, Operation,
    Outcome, Policy, Reclaim, Refund, Release, Return, SetAllocation, TakeBack, Target,
};
use purser_types::{Credits, Generation, IdempotencyKey, LogTime, Owner, Region, Span};
use stateright::{Model, Property};

use crate::broken::Rule;
use crate::site::item;
use crate::world::{Message, World};

/// How much may happen.
#[derive(Debug, Clone)]
pub struct Small {
    /// The regions.
    pub regions: &'static [&'static str],
    /// What the tenant was granted.
    pub credits: u64,
    /// How many calls clients make.
    pub calls: u8,
    /// How many decisions home takes.
    pub orders: u8,
    /// How many messages are on the wire at once.
    pub wire: usize,
    /// How many messages are delivered twice.
    pub repeats: u8,
    /// What the regions may overspend when home allows it.
    pub overdraft: u64,
    /// What may be taken back without an operator's word.
    pub takeback_cap: u64,
    /// Whether an operator may take back beyond that.
    pub is_forced: bool,
    /// Whether home covers over-captures, and how much may be owed for them.
    pub covers: Option<u64>,
    /// Whether it is also tried from everywhere that everything comes home.
    pub comes_home: bool,
    /// Whether home takes calls and is lost, once, and what it may answer for on its own.
    pub lost_home: Option<u64>,
    /// A rule that is broken on purpose, to see that it is missed.
    pub broken: Option<Rule>,
}

/// A world, what may still happen, and what clients were told.
#[derive(Debug, Clone)]
pub struct State {
    world: World,
    calls: u8,
    orders: u8,
    repeats: u8,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Home speaks.
    SendVoucher(Owner),
    /// A region reports.
    SendReport(Owner),
    /// A message arrives, for the last time or not.
    Deliver(usize, Copies),
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

/// Whether a delivered message may come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// It may not.
    Last,
    /// It may.
    More,
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
        orders: 2,
        wire: 1,
        repeats: 1,
        overdraft: 0,
        takeback_cap: 0,
        is_forced: false,
        covers: None,
        comes_home: false,
        lost_home: None,
        broken: None,
    };

    fn state(&self) -> State {
        let on_expiry =
            if self.takeback_cap > 0 { OnExpiry::TakeBack } else { OnExpiry::default() };
        let takeback_cap = credits(self.takeback_cap);
        let unacknowledged_max = credits(self.lost_home.unwrap_or_default());
        let debt_limit = credits(self.covers.unwrap_or_default());
        let policy =
            Policy { debt_limit, takeback_cap, on_expiry, unacknowledged_max, ..Policy::default() };
        let mut world = World::new(self.regions, policy);
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
        if self.lost_home.is_some() {
            world.set_promotable(true);
        }
        let (calls, orders, repeats) = (self.calls, self.orders, self.repeats);
        let mut state = State { world, calls, orders, repeats, used: 0, untold: 0, face: 0 };
        state.face = state.face();
        state
    }

    fn orders(&self, state: &State, actions: &mut Vec<Action>) {
        if state.orders == 0 {
            return;
        }
        let account = state.world.home_account();
        if !account.balance().available.is_zero() {
            actions.extend(state.world.regions.keys().map(|region| Action::Allocate(*region)));
        }
        for allocation in account.allocations() {
            let owner = allocation.owner;
            actions.extend([Action::Recall(owner), Action::End(owner), Action::TakeBack(owner)]);
            if self.covers.is_some() {
                actions.push(Action::Cover(owner));
            }
            if self.overdraft > 0 {
                actions.push(Action::Overdraft(owner, allocation.overdraft.is_zero()));
            }
        }
    }

    fn calls(state: &State, actions: &mut Vec<Action>) {
        for book in state.world.books().filter(|book| book.book_phase() == Some(BookPhase::Open)) {
            let owner = book.owner();
            if state.calls > 0 {
                actions.extend([Action::Authorize(owner), Action::Charge(owner)]);
                if oldest_hold(book).is_some() {
                    actions.push(Action::Capture(owner));
                    actions.push(Action::OverCapture(owner));
                    actions.push(Action::Release(owner));
                }
                if last_charge(state, owner).is_some() {
                    actions.extend([Action::Refund(owner), Action::Reclaim(owner)]);
                }
                if !book.balance().available.is_zero() {
                    actions.push(Action::Return(owner));
                }
            }
            actions.push(Action::Tend(owner));
        }
    }

    fn messages(&self, state: &State, actions: &mut Vec<Action>) {
        let wire = &state.world.wire;
        if wire.len() < self.wire {
            let account = state.world.home_account();
            actions.extend(account.allocations().map(|found| Action::SendVoucher(found.owner)));
            actions.extend(state.world.books().map(|book| Action::SendReport(book.owner())));
        }
        for place in 0..wire.len() {
            actions.extend([Action::Deliver(place, Copies::Last), Action::Lose(place)]);
            if state.repeats > 0 {
                actions.push(Action::Deliver(place, Copies::More));
            }
        }
    }
}

impl Model for Small {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.state()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.orders(state, actions);
        Self::calls(state, actions);
        self.messages(state, actions);
        if self.lost_home.is_some() {
            state.losing(actions);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        state.act(self, action)?;
        state.face = state.face();
        (state.face != before.face).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the bound stays within its ceiling", |_: &Self, state: &State| {
                state.world.check_bound().is_ok()
            }),
            Property::always(BOOKED_ONCE, |_: &Self, state: &State| state.is_booked_once()),
            Property::always("nothing is stranded at rest", |model: &Self, state: &State| {
                !model.comes_home || state.comes_home()
            }),
            Property::sometimes(OVERSPENT, |_: &Self, state: &State| {
                !state.world.home_account().bound().realised.is_zero()
            }),
        ]
    }
}

impl State {
    /// Does it, if there is anything to do.
    fn act(&mut self, model: &Small, action: Action) -> Option<()> {
        match action {
            Action::Allocate(region) => {
                self.order(Operation::Allocate(Allocate::new(region, credits(1))))
            }
            Action::Recall(owner) => self.set(owner, |change| change.keep = Some(Credits::ZERO)),
            Action::Overdraft(owner, is_allowed) => {
                let overdraft = if is_allowed { credits(model.overdraft) } else { Credits::ZERO };
                self.set(owner, |change| change.overdraft = Some(overdraft))
            }
            Action::End(owner) => self.set(owner, |change| change.mode = Some(Mode::Ending)),
            Action::TakeBack(owner) => {
                let sequence = self.world.home_account().head().sequence;
                let forced = model.is_forced.then_some(Confirm(sequence));
                self.order(Operation::TakeBack(TakeBack { owner, forced }))
            }
            Action::Cover(owner) => {
                let asked = self.over_capture(owner)?;
                self.order(Operation::Cover(Cover::of(owner, &asked, credits(1))?))
            }
            Action::Tend(owner) => {
                self.world.tend(owner, NOW);
                Some(())
            }
            Action::SendVoucher(owner) => self.send(self.world.voucher(owner)?),
            Action::SendReport(owner) => self.send(self.world.report(owner)?),
            Action::Deliver(place, copies) => self.deliver(place, copies),
            Action::Lose(place) => {
                self.world.wire.remove(place);
                Some(())
            }
            Action::HomeAuthorize
            | Action::HomeCharge
            | Action::HomeCapture
            | Action::LostCharge
            | Action::Replicate
            | Action::FailOver
            | Action::HearOfLostHome => self.act_about_home(action),
            call => self.call(call),
        }
    }

    fn order(&mut self, operation: Operation) -> Option<()> {
        self.orders = self.orders.checked_sub(1)?;
        self.world.at_home(operation, None, NOW).result.ok().map(|_| ())
    }

    fn set(&mut self, owner: Owner, change: impl FnOnce(&mut SetAllocation)) -> Option<()> {
        let mut asked = SetAllocation::of(owner);
        change(&mut asked);
        self.order(Operation::SetAllocation(asked))
    }

    fn send(&mut self, message: Message) -> Option<()> {
        if self.world.wire.contains(&message) {
            return None;
        }
        self.world.wire.push(message);
        Some(())
    }

    fn deliver(&mut self, place: usize, copies: Copies) -> Option<()> {
        let message = self.world.wire.get(place)?.clone();
        match copies {
            Copies::Last => drop(self.world.wire.remove(place)),
            Copies::More => self.repeats = self.repeats.checked_sub(1)?,
        }
        self.world.deliver(&message, NOW);
        Some(())
    }

    fn call(&mut self, action: Action) -> Option<()> {
        self.calls = self.calls.checked_sub(1)?;
        let (owner, asked) = match action {
            Action::OverCapture(owner) => (owner, self.over_capture(owner)?),
            action => {
                let (owner, operation) = self.operation(action)?;
                (owner, item(operation, None))
            }
        };
        let Outcome { result, .. } = self.world.ask_region(owner, asked, NOW)?;
        let entry = result.ok()?.entry;
        for step in &entry.moves {
            if step.to == purser_ledger::Bucket::Used {
                self.used = self.used.checked_add_unsigned(step.amount.get())?;
            }
        }
        if let Fact::RefundPromised { amount, .. } = &entry.fact {
            self.used = self.used.checked_sub_unsigned(amount.get())?;
        }
        Some(())
    }

    fn operation(&self, action: Action) -> Option<(Owner, Operation)> {
        let hold_of = |owner| oldest_hold(self.world.book(owner)?);
        Some(match action {
            Action::Authorize(owner) => {
                let (amount, ttl) = (credits(1), Span::from_days(1));
                (owner, Operation::Authorize(Authorize { amount, ttl, reference: None }))
            }
            Action::Charge(owner) => {
                let charge = Charge { amount: credits(1), allow_debt: false, reference: None };
                (owner, Operation::Charge(charge))
            }
            Action::Capture(owner) => (owner, capture(hold_of(owner)?, None)),
            Action::Release(owner) => {
                (owner, Operation::Release(Release { hold: hold_of(owner)?, away: None }))
            }
            Action::Refund(owner) => {
                let target = target_of(&last_charge(self, owner)?);
                (owner, Operation::Refund(Refund { target, amount: None, away: None }))
            }
            Action::Reclaim(owner) => {
                let target = target_of(&last_charge(self, owner)?);
                (owner, Operation::Reclaim(Reclaim { target, away: None }))
            }
            Action::Return(owner) => {
                let available = self.world.book(owner)?.balance().available;
                let keep = available.checked_sub(credits(1))?;
                (owner, Operation::Return(Return::free(keep, 0)))
            }
            _ => return None,
        })
    }

    /// The oldest hold's over-capture, under a key of its own: so that home can cover it.
    fn over_capture(&self, owner: Owner) -> Option<Item> {
        let hold = oldest_hold(self.world.book(owner)?)?;
        let key = IdempotencyKey::parse(&format!("hold {}", hold.0.0)).ok()?;
        Some(item(capture(hold, Some(credits(2))), Some(key)))
    }

    /// If all were booked now, home would say what clients were told, and no more would be overspent
    /// than the bound says.
    fn is_booked_once(&self) -> bool {
        let all = self.world.as_if_all_were_booked(NOW);
        if self.world.check_overspend(&all).is_err() {
            return false;
        }
        let account = all.book(&self.world.account, Generation::HOME);
        let (least, most) = (self.used, self.used + self.untold);
        let used = account.and_then(|account| i64::try_from(account.balance().used.get()).ok());
        used.is_some_and(|used| least <= used && used <= most)
    }

    /// If the faults stopped here, everything would come home.
    fn comes_home(&self) -> bool {
        let mut world = self.world.clone();
        world.set_promotable(false);
        // One voucher, one return, one report and one end for each generation, and one to spare.
        for _ in 0..6 {
            let owners: Vec<Owner> =
                world.home_account().allocations().map(|found| found.owner).collect();
            for owner in owners {
                world.bring_home(owner, NOW);
            }
        }
        world.home_account().allocations().next().is_none()
            && world.home_account().balance().allocated.is_empty()
    }
}

/// The last capture of a hold. Whether debt is allowed matters to home alone.
fn capture(hold: HoldNumber, amount: Option<Credits>) -> Operation {
    Operation::Capture(Capture {
        hold,
        amount,
        is_final: true,
        allow_debt: true,
        if_expired: IfExpired::Refuse,
        away: None,
    })
}

/// The oldest hold that has not ended.
fn oldest_hold(book: &Account) -> Option<HoldNumber> {
    book.holds_from(std::ops::Bound::Unbounded).next().map(|hold| hold.number)
}

/// The charge, or captured hold, that was last heard of.
fn last_charge(state: &State, owner: Owner) -> Option<Hold> {
    let region = state.world.regions.get(&owner.region)?;
    let book = region.site.book(&state.world.account, owner.generation)?;
    let mut entries = book.entries_back_from(book.head().sequence, region.site.history()).ok()?;
    let is_captured = |hold: &Hold| hold.state == HoldState::Captured;
    entries.find_map(|hashed| hashed.ok()?.entry.fact.into_hold().filter(is_captured))
}

fn target_of(hold: &Hold) -> Target {
    match hold.kind {
        HoldKind::Charge => Target::Charge(hold.number),
        HoldKind::Hold => Target::Hold(hold.number),
    }
}

fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).expect("a small amount")
}
