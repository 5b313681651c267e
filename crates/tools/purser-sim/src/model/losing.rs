//! One loss of the home in a small world: what it takes on its own, who follows it, and its tail.

use purser_ledger::{Authorize, Bucket, Capture, Charge, Entry, IfExpired, Operation, Outcome};
use purser_types::{Generation, IdempotencyKey, Span};

use super::{Action, NOW, State, credits, oldest_hold};
use crate::site::Site;
use crate::world::World;

/// What home took for a call, and whether its client is told.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    pub(super) used: i64,
    pub(super) is_told: bool,
}

impl State {
    /// What may come next about the home.
    pub(super) fn losing(&self, actions: &mut Vec<Action>) {
        let world = &self.home.world;
        if self.calls > 0 {
            actions.extend([Action::HomeAuthorize, Action::HomeCharge]);
            if oldest_hold(world.home_account()).is_some() {
                actions.push(Action::HomeCapture);
            }
            if !world.lost_homes().is_empty() {
                actions.push(Action::LostCharge);
            }
        }
        if world.homes.lost_count() == 0 {
            actions.extend([Action::Replicate, Action::FailOver]);
        }
        if world.home_account().tails().next().is_some() {
            actions.push(Action::HearOfLostHome);
        }
    }
}

pub(super) fn act(world: &mut World, action: Action) -> Option<Taken> {
    match action {
        Action::Replicate => world.replicate().then(Taken::default),
        Action::FailOver => {
            world.fail_over().then_some(())?;
            while world.take_over(usize::MAX, NOW) && !world.is_taken_over() {}
            world.take_home(NOW).then(Taken::default)
        }
        Action::HearOfLostHome => {
            for lost in world.lost_homes() {
                world.step_down(lost, NOW);
            }
            world.pull_tail(usize::MAX, NOW).then(Taken::default)
        }
        Action::LostCharge => {
            let lost = world.lost_homes().into_iter().next()?;
            let key = next_key(world, world.group(lost)?)?;
            let (outcome, leaves) = world.at_lost_home(lost, charge(), key, NOW)?;
            taken(&outcome, leaves)
        }
        _ => {
            let operation = operation_at_home(world, action)?;
            let key = next_key(world, &world.home);
            let outcome = world.at_home(operation, key, NOW);
            let leaves = outcome.result.as_ref().is_ok_and(|it| world.may_answer(&it.entry));
            taken(&outcome, leaves)
        }
    }
}

/// Every call has a key of its own: the entry that it would make.
fn next_key(world: &World, site: &Site) -> Option<IdempotencyKey> {
    let book = site.book(&world.account, Generation::HOME)?;
    let (epoch, head) = (book.epoch(), book.head().sequence);
    IdempotencyKey::parse(&format!("call {} after {}", epoch.0, head.0)).ok()
}

fn operation_at_home(world: &World, action: Action) -> Option<Operation> {
    Some(match action {
        Action::HomeAuthorize => Operation::Authorize(Authorize {
            amount: credits(1),
            ttl: Span::from_days(1),
            reference: None,
            budgets: Box::default(),
        }),
        Action::HomeCapture => Operation::Capture(Capture {
            hold: oldest_hold(world.home_account())?,
            amount: None,
            is_final: true,
            allow_debt: false,
            if_expired: IfExpired::Refuse,
            away: None,
        }),
        _ => charge(),
    })
}

/// Whoever is not told may have been served or not.
fn taken(outcome: &Outcome, is_told: bool) -> Option<Taken> {
    let entry = &outcome.result.as_ref().ok()?.entry;
    Some(Taken { used: used(entry), is_told })
}

fn charge() -> Operation {
    Operation::Charge(Charge {
        amount: credits(1),
        allow_debt: false,
        reference: None,
        budgets: Box::default(),
    })
}

fn used(entry: &Entry) -> i64 {
    let used = entry.moves.iter().filter(|step| step.to == Bucket::Used);
    used.map(|step| i64::try_from(step.amount.get()).unwrap_or(i64::MAX)).sum()
}
