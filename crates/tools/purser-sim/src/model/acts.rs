//! What each step does: to which parts of a world, and by which of its functions.

use std::sync::Arc;

use purser_ledger::{
    Allocate, Authorize, Bucket, Capture, Charge, Confirm, Cover, Fact, Hold, HoldKind, HoldNumber,
    IfExpired, Item, Mode, Operation, Reclaim, Refund, Release, Return, SetAllocation, TakeBack,
    Target,
};
use purser_types::{Credits, IdempotencyKey, Owner, Region, Sequence, Span};

use super::parts::{
    AtHome, Both, BothStep, HomePart, HomeStep, InRegion, RegionPart, RegionStep, Sent,
};
use super::{Action, NOW, Search, State, credits, face};
use crate::broken::Rule;
use crate::site::item;
use crate::world::{Message, RegionWorld, World};

impl Search {
    /// Does it, if there is anything to do.
    pub(super) fn act(&self, before: &State, action: Action) -> Option<State> {
        match action {
            Action::Allocate(_) => {
                let mut state = self.home_acts(before, HomeStep::Act(action))?;
                state.grants = state.grants.checked_sub(1)?;
                Some(state)
            }
            Action::Recall(_) | Action::Overdraft(..) | Action::End(_) | Action::TakeBack(_) => {
                let mut state = self.home_acts(before, HomeStep::Act(action))?;
                state.orders = state.orders.checked_sub(1)?;
                Some(state)
            }
            Action::Cover(owner) => {
                let hold = self.region(before, owner).book(owner)?.oldest_hold?;
                let mut state = self.home_acts(before, HomeStep::Cover(owner, hold))?;
                state.orders = state.orders.checked_sub(1)?;
                Some(state)
            }
            Action::Tend(owner) if self.small.broken == Some(Rule::GivenUpBeforeCredit) => {
                let mut state = before.clone();
                self.in_both(&mut state, owner, BothStep::Tend(owner));
                Some(state)
            }
            Action::Tend(owner) => self.region_acts(before, owner, RegionStep::Act(action)),
            Action::Tell(owner) => self.arrive(before, &self.voucher(&before.home, owner)?),
            Action::Report(owner) => self.arrive(before, &self.report(before, owner, None)?),
            Action::SendVoucher(owner) => send(before, self.voucher(&before.home, owner)?),
            Action::SendReport(owner) => send(before, self.report(before, owner, None)?),
            Action::Deliver(place) => self.arrive(before, before.wire.get(place)?),
            Action::Lose(place) => {
                let mut state = before.clone();
                state.wire.remove(place);
                Some(state)
            }
            Action::Replicate | Action::FailOver | Action::HearOfLostHome => {
                self.home_acts(before, HomeStep::Act(action))
            }
            Action::HomeAuthorize
            | Action::HomeCharge
            | Action::HomeCapture
            | Action::LostCharge => {
                let mut state = self.home_acts(before, HomeStep::Act(action))?;
                state.calls = state.calls.checked_sub(1)?;
                Some(state)
            }
            Action::Authorize(owner)
            | Action::Charge(owner)
            | Action::OverCapture(owner)
            | Action::Capture(owner)
            | Action::Release(owner)
            | Action::Refund(owner)
            | Action::Reclaim(owner)
            | Action::Return(owner) => {
                let mut state = self.region_acts(before, owner, RegionStep::Act(action))?;
                state.calls = state.calls.checked_sub(1)?;
                Some(state)
            }
        }
    }

    pub(super) fn place(&self, owner: Owner) -> usize {
        usize::from(self.names[0] != owner.region)
    }

    pub(super) fn region<'a>(&self, state: &'a State, owner: Owner) -> &'a Arc<RegionPart> {
        &state.regions[self.place(owner)]
    }

    fn home_acts(&self, before: &State, step: HomeStep) -> Option<State> {
        let done = self.at_home(&before.home, step, None)?;
        let used = before.used.checked_add(done.used)?;
        let untold = before.untold.checked_add(done.untold)?;
        Some(State { home: done.home, used, untold, ..before.clone() })
    }

    fn region_acts(&self, before: &State, owner: Owner, step: RegionStep) -> Option<State> {
        let done = self.in_region(self.region(before, owner), owner, step, None)?;
        let mut state = before.clone();
        state.used = state.used.checked_add(done.used)?;
        state.regions[self.place(owner)] = done.region;
        Some(state)
    }

    /// A message arrives. It is on its way as before.
    fn arrive(&self, before: &State, sent: &Arc<Sent>) -> Option<State> {
        let owner = sent.owner;
        let Message::Report(_) = &sent.message else {
            let region = self.region(before, owner);
            let done = self.in_region(region, owner, RegionStep::Take(sent.number), Some(sent))?;
            let mut state = before.clone();
            state.regions[self.place(owner)] = done.region;
            return Some(state);
        };
        let done = self.at_home(&before.home, HomeStep::Take(sent.number), Some(sent))?;
        let mut state = State { home: done.home, ..before.clone() };
        if let Some(gap) = done.gap {
            let step = RegionStep::Hear(owner.generation, gap);
            let heard = self.in_region(self.region(before, owner), owner, step, None)?;
            state.regions[self.place(owner)] = heard.region;
        }
        Some(state)
    }

    /// What home would say of an allocation, if it may.
    pub(super) fn voucher(&self, home: &HomePart, owner: Owner) -> Option<Arc<Sent>> {
        self.kept.vouchers.get((home.number, owner), || {
            home.world.voucher(owner).map(|voucher| self.kept.message(voucher))
        })
    }

    /// What a region would report: after what it has heard that home has booked, or after what is named.
    pub(super) fn report(
        &self,
        state: &State,
        owner: Owner,
        after: Option<Sequence>,
    ) -> Option<Arc<Sent>> {
        let region = self.region(state, owner);
        self.kept.reports.get((region.number, owner, after), || {
            let mut world = region.world.clone();
            world.booked.extend(after.map(|after| (owner.generation, after)));
            let world = self.world_of(&state.home, Some((owner.region, world)));
            world.report(owner).map(|report| self.kept.message(report))
        })
    }

    /// A world of home and at most one region.
    fn world_of(&self, home: &HomePart, region: Option<(Region, RegionWorld)>) -> World {
        let mut world = home.world.clone();
        world.regions.extend(region);
        world
    }

    /// Takes a step at home, or remembers what came of it. `sent` is what arrives, if anything does.
    pub(super) fn at_home(
        &self,
        home: &HomePart,
        step: HomeStep,
        sent: Option<&Sent>,
    ) -> Option<AtHome> {
        self.kept.at_home.get((home.number, step), || {
            let mut world = home.world.clone();
            let (mut used, mut untold) = (0, 0);
            let mut gap = None;
            match step {
                HomeStep::Take(_) => {
                    let sent = sent?;
                    // A region that notes what it is told, and nothing else.
                    world.regions.insert(sent.owner.region, RegionWorld::default());
                    world.deliver(&sent.message, NOW);
                    let told = world.regions.remove(&sent.owner.region)?;
                    gap = told.booked.get(&sent.owner.generation).copied();
                }
                HomeStep::BookTails => {
                    let mut booked = world.home.clone();
                    world.book_tails(&mut booked, NOW);
                    world.home = booked;
                }
                HomeStep::StopWaiting => drop(world.set_promotable(false)),
                HomeStep::Cover(owner, hold) => {
                    let cover = Cover::of(owner, &over_capture(hold)?, credits(1))?;
                    order(&mut world, Operation::Cover(cover))?;
                }
                HomeStep::Act(action) => {
                    let taken = self.home_does(&mut world, action)?;
                    if taken.is_told { used = taken.used } else { untold = taken.used }
                }
            }
            let home = self.home(world);
            Some(AtHome { home, used, untold, gap })
        })
    }

    fn home_does(&self, world: &mut World, action: Action) -> Option<super::losing::Taken> {
        let small = &self.small;
        let operation = match action {
            Action::Allocate(region) => {
                order(world, Operation::Allocate(Allocate::new(region, credits(1))))?;
                let overdraft = small.overdraft_at_once.then(|| credits(small.overdraft));
                let all = world.home_account().allocations().filter(|it| it.owner.region == region);
                let opened = all.max_by_key(|it| it.owner.generation);
                match (opened.map(|it| (it.owner, it.overdraft)), overdraft) {
                    (Some((owner, known)), Some(overdraft)) if known != overdraft => {
                        set(owner, |change| change.overdraft = Some(overdraft))
                    }
                    _ => return Some(super::losing::Taken::default()),
                }
            }
            Action::Recall(owner) => set(owner, |change| change.keep = Some(Credits::ZERO)),
            Action::Overdraft(owner, is_allowed) => {
                let overdraft = if is_allowed { credits(small.overdraft) } else { Credits::ZERO };
                set(owner, |change| change.overdraft = Some(overdraft))
            }
            Action::End(owner) => set(owner, |change| change.mode = Some(Mode::Ending)),
            Action::TakeBack(owner) => {
                let sequence = world.home_account().head().sequence;
                let forced = small.is_forced.then_some(Confirm(sequence));
                Operation::TakeBack(TakeBack { owner, forced })
            }
            other => return super::losing::act(world, other),
        };
        order(world, operation).map(|()| super::losing::Taken::default())
    }

    /// Takes a step in a region, or remembers what came of it.
    pub(super) fn in_region(
        &self,
        region: &RegionPart,
        owner: Owner,
        step: RegionStep,
        sent: Option<&Sent>,
    ) -> Option<InRegion> {
        self.kept.in_region.get((region.number, step), || {
            // Its home has no part in this.
            let mut world = self.small.world(0);
            world.regions.insert(region.name, region.world.clone());
            let mut used = 0;
            match step {
                RegionStep::Take(_) => world.deliver(&sent?.message, NOW),
                RegionStep::Hear(generation, booked) => {
                    world.regions.get_mut(&region.name)?.booked.insert(generation, booked);
                }
                RegionStep::Act(Action::Tend(owner)) => world.tend(owner, NOW),
                RegionStep::Act(action) => used = call(&mut world, owner, action)?,
            }
            let region = self.kept.region(region.name, world.regions.remove(&region.name)?);
            Some(InRegion { region, used })
        })
    }

    /// Takes a step that home and a region take together.
    pub(super) fn in_both(&self, state: &mut State, owner: Owner, step: BothStep) {
        let region = self.region(state, owner);
        let home = &state.home;
        let both = self.kept.in_both.get((home.number, region.number, step), || {
            let mut world = self.world_of(home, Some((region.name, region.world.clone())));
            match step {
                BothStep::BringHome(owner) => world.bring_home(owner, NOW),
                BothStep::Tend(owner) => world.tend(owner, NOW),
            }
            let left = world.regions.remove(&region.name).unwrap_or_default();
            let region = self.kept.region(region.name, left);
            Both { home: self.home(world), region }
        });
        state.home = both.home;
        state.regions[self.place(owner)] = both.region;
    }
}

/// A message is on its way, once.
fn send(before: &State, sent: Arc<Sent>) -> Option<State> {
    if before.wire.iter().any(|other| other.number == sent.number) {
        return None;
    }
    let mut state = before.clone();
    state.wire.push(sent);
    Some(state)
}

fn order(world: &mut World, operation: Operation) -> Option<()> {
    world.at_home(operation, None, NOW).result.ok().map(|_| ())
}

fn set(owner: Owner, change: impl FnOnce(&mut SetAllocation)) -> Operation {
    let mut asked = SetAllocation::of(owner);
    change(&mut asked);
    Operation::SetAllocation(asked)
}

/// A client calls a region, and is told how much it has used by that.
fn call(world: &mut World, owner: Owner, action: Action) -> Option<i64> {
    let asked = match action {
        Action::OverCapture(_) => over_capture(super::oldest_hold(world.book(owner)?)?)?,
        action => item(operation(world, owner, action)?, None),
    };
    let entry = world.ask_region(owner, asked, NOW)?.result.ok()?.entry;
    let mut used = 0_i64;
    for step in entry.moves.iter().filter(|step| step.to == Bucket::Used) {
        used = used.checked_add_unsigned(step.amount.get())?;
    }
    if let Fact::RefundPromised { amount, .. } = &entry.fact {
        used = used.checked_sub_unsigned(amount.get())?;
    }
    Some(used)
}

fn operation(world: &World, owner: Owner, action: Action) -> Option<Operation> {
    let book = world.book(owner)?;
    let hold = || super::oldest_hold(book);
    let target = || {
        let hold = face::last_charge(book, world.regions.get(&owner.region)?)?;
        Some(target_of(&hold))
    };
    Some(match action {
        Action::Authorize(_) => {
            let (amount, ttl) = (credits(1), Span::from_days(1));
            Operation::Authorize(Authorize {
                amount,
                ttl,
                reference: None,
                budgets: Box::default(),
            })
        }
        Action::Charge(_) => Operation::Charge(Charge {
            amount: credits(1),
            allow_debt: false,
            reference: None,
            budgets: Box::default(),
        }),
        Action::Capture(_) => capture(hold()?, None),
        Action::Release(_) => Operation::Release(Release { hold: hold()?, away: None }),
        Action::Refund(_) => {
            Operation::Refund(Refund { target: target()?, amount: None, away: None })
        }
        Action::Reclaim(_) => Operation::Reclaim(Reclaim { target: target()?, away: None }),
        Action::Return(_) => {
            let keep = book.balance().available.checked_sub(credits(1))?;
            Operation::Return(Return::free(keep, 0))
        }
        _ => return None,
    })
}

/// A hold's over-capture, under a key of its own: so that home can cover it.
fn over_capture(hold: HoldNumber) -> Option<Item> {
    let key = IdempotencyKey::parse(&format!("hold {}", hold.0.0)).ok()?;
    Some(item(capture(hold, Some(credits(2))), Some(key)))
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

fn target_of(hold: &Hold) -> Target {
    match hold.kind {
        HoldKind::Charge => Target::Charge(hold.number),
        HoldKind::Hold => Target::Hold(hold.number),
    }
}
