//! All the orders in which movers, operators and a home can race for one tenant.
//!
//! Each actor looks once and then acts on what it saw, as if nobody else were there. At every moment
//! any of them may also be gone for good, so every state on the way must leave both ways out of a
//! move open, and no copy of what was accepted may do anything a second time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use purser_placement::{
    ChangeNumber, Decided, Operation, Placement, PlacementState, Refusal, Request, Standby,
    TenantPlacement,
};
use purser_types::{Epoch, Region, codec};

use self::common::{ask, change, open, placement, region, request, tenant};

/// What an actor has seen.
type Seen = (Epoch, ChangeNumber);

/// What an actor asks for, one after the other, after a look.
type Program = Vec<Box<dyn Fn(Seen) -> Operation>>;

fn mover(to: fn() -> Region) -> Program {
    let begin = move |(epoch, _): Seen| Operation::BeginMove { epoch, to: to() };
    vec![Box::new(begin), Box::new(|(epoch, _)| Operation::FinishMove { epoch })]
}

fn promoter(to: fn() -> Region) -> Program {
    vec![Box::new(move |(epoch, _)| Operation::FailOver { epoch, to: to() })]
}

/// One who gives up whatever move there is.
fn aborter() -> Program {
    vec![Box::new(|(epoch, _)| Operation::AbortMove { epoch })]
}

/// A home that drops a standby, or takes it back.
fn keeper(promotable: bool) -> Program {
    let keep = move |(epoch, seen): Seen| Operation::SetStandby {
        epoch,
        seen,
        region: region("ap"),
        promotable,
    };
    vec![Box::new(keep)]
}

/// A state that the race can reach, and how it got there as far as that matters.
#[derive(Clone)]
struct Race {
    placement: Placement,
    /// For each actor what it saw, and how many of its requests it has sent.
    actors: Vec<(Option<Seen>, usize)>,
    /// Who was home under each epoch.
    homes: BTreeMap<Epoch, Region>,
    /// What changed something.
    accepted: Vec<Request>,
}

impl Race {
    fn tenant(&self) -> &TenantPlacement {
        self.placement.tenant(&tenant("acme")).unwrap()
    }

    /// Lets an actor do its next step; nothing if it has no more.
    fn step(&self, actor: usize, program: &Program) -> Option<Self> {
        let mut next = self.clone();
        let now = (self.tenant().epoch, self.tenant().change);
        let (seen, sent) = self.actors[actor];
        let Some(seen) = seen else {
            next.actors[actor] = (Some(now), 0);
            return Some(next);
        };
        let request = request("acme", program.get(sent)?(seen));
        next.actors[actor] = (Some(seen), sent + 1);
        let outcome = ask(&mut next.placement, &request);
        if outcome.result == Ok(Decided::Changed) {
            if let Operation::FailOver { to, .. } = request.operation {
                let promoted = Standby { region: to, promotable: true };
                assert!(self.tenant().standbys.as_slice().contains(&promoted), "{request:?}");
            }
            next.accepted.push(request);
        } else {
            assert!(next.placement == self.placement, "{request:?}");
        }
        let (epoch, home) = (next.tenant().epoch, next.tenant().home);
        assert_eq!(*next.homes.entry(epoch).or_insert(home), home, "two homes under {epoch:?}");
        assert!(epoch == now.0 || epoch == Epoch(now.0.0 + 1));
        Some(next)
    }

    /// What is true at every moment.
    fn check(&self) {
        // A drop is a change each time, and only makes the service more careful.
        let is_drop = |request: &&Request| {
            matches!(request.operation, Operation::SetStandby { promotable: false, .. })
        };
        for request in self.accepted.iter().filter(|request| !is_drop(request)) {
            let late = ask(&mut self.placement.clone(), request).result;
            assert_ne!(late, Ok(Decided::Changed), "{request:?} was accepted twice");
        }
        let epoch = self.tenant().epoch;
        if matches!(self.tenant().state, PlacementState::Moving { .. }) {
            for end in [Operation::FinishMove { epoch }, Operation::AbortMove { epoch }] {
                let ended = ask(&mut self.placement.clone(), &request("acme", end));
                let ended = ended.placement.unwrap();
                assert_eq!(ended.epoch, Epoch(epoch.0 + 1));
                assert_eq!(ended.state, PlacementState::Settled);
            }
        }
    }

    /// Equal for races that go on alike and have the same past to answer for.
    fn key(&self) -> impl Ord + use<> {
        let requests: BTreeSet<Vec<u8>> = self.accepted.iter().map(codec::encode).collect();
        (self.actors.clone(), self.homes.clone(), requests, codec::encode(self.tenant()))
    }
}

fn start(actors: usize) -> Race {
    let mut placement = placement(&["eu", "us", "ap", "uk"]);
    change(&mut placement, "acme", open("eu", &["ap", "uk"]));
    for standby in ["ap", "uk"] {
        let seen = placement.tenant(&tenant("acme")).unwrap().change;
        let region = region(standby);
        let back = Operation::SetStandby { epoch: Epoch(1), seen, region, promotable: true };
        change(&mut placement, "acme", back);
    }
    let homes = [(Epoch(1), region("eu"))].into();
    Race { placement, actors: vec![(None, 0); actors], homes, accepted: Vec::new() }
}

/// Plays every order, and returns how each can end: the home and the epoch.
fn play(programs: &[Program]) -> BTreeSet<(String, u64)> {
    let mut visited = BTreeSet::new();
    let mut open = vec![start(programs.len())];
    let mut ends = BTreeSet::new();
    while let Some(race) = open.pop() {
        race.check();
        let actors = programs.iter().enumerate();
        let nexts: Vec<Race> =
            actors.filter_map(|(actor, program)| race.step(actor, program)).collect();
        if nexts.is_empty() {
            let moving = matches!(race.tenant().state, PlacementState::Moving { .. });
            assert!(!moving, "whoever began a move has asked for its end: {:?}", race.accepted);
            ends.insert((race.tenant().home.as_str().to_owned(), race.tenant().epoch.0));
        }
        open.extend(nexts.into_iter().filter(|next| visited.insert(next.key())));
    }
    ends
}

#[track_caller]
fn check_ends(programs: &[Program], expected: &[(&str, u64)]) {
    let expected = expected.iter().map(|(home, epoch)| ((*home).to_owned(), *epoch)).collect();
    assert_eq!(play(programs), expected);
}

#[test]
fn whoever_moves_promotes_or_gives_up_each_epoch_has_one_home_and_one_end() {
    let (us, ap, uk) = (|| region("us"), || region("ap"), || region("uk"));
    let programs = [mover(us), mover(ap), promoter(ap), promoter(uk), aborter()];
    // With `eu` as home at the end, a move was given up.
    let at_once = [("ap", 2), ("eu", 2), ("uk", 2), ("us", 2)];
    let later = [("ap", 3), ("uk", 3), ("us", 3)];
    check_ends(&programs, &[at_once.as_slice(), &later].concat());
}

#[test]
fn a_drop_overtakes_whoever_took_the_standby_for_followed_before() {
    let race = start(0);
    let mut placement = race.placement;
    let (epoch, region) = (Epoch(1), region("ap"));
    let drop = |seen| Operation::SetStandby { epoch, seen, region, promotable: false };
    let seen = placement.tenant(&tenant("acme")).unwrap().change;
    change(&mut placement, "acme", drop(seen));
    let seen = placement.tenant(&tenant("acme")).unwrap().change;
    // Another shard's leader gives up as well: nothing to drop, and yet it counts.
    change(&mut placement, "acme", drop(seen));
    let back = Operation::SetStandby { epoch, seen, region, promotable: true };
    assert_eq!(ask(&mut placement, &request("acme", back)).result, Err(Refusal::Overtaken));
}

#[test]
fn a_standby_that_home_has_dropped_is_not_promoted_by_any_order() {
    let (us, ap) = (|| region("us"), || region("ap"));
    let programs = [mover(us), promoter(ap), keeper(false), keeper(true)];
    // Promoted under epoch 2, it was taken back by the home in `us`.
    check_ends(&programs, &[("ap", 2), ("ap", 3), ("us", 2)]);
}
