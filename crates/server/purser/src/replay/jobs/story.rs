//! What becomes of a job: which attempts fail, who never answers, how often and in which order an outcome
//! is told, and how all that must end. The end is known before anything is asked.
//!
//! It does not depend on the order of what happens. A failure names its lease, so that a late one ends no
//! other attempt; where one cannot (an event has no lease), the job may be tried more often than planned.
//! Attempts that nobody planned, because a node died with the answer to a lease, are allowed for.

use std::time::Duration;

use crate::replay::random::Random;

/// Of a thousand jobs so many fail at least once: one in five.
const TROUBLED: u64 = 200;
/// Of a thousand jobs that are delivered at the first attempt, so many whose success is told before they
/// are created.
const TOLD_AHEAD: u64 = 40;
/// The most times that one thing is told.
pub(crate) const TOLD_MAX: u64 = 5;
/// The longest that something is told later than something else, in milliseconds.
const LATER_MAX_MS: u64 = 2_000;
/// Attempts that may be lost beyond those that are planned, before a job is dead that shall not be: while a
/// busy service has not heard the outcome yet, leases go on running out.
const SPARE_ATTEMPTS: u32 = 400;

/// What becomes of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Story {
    /// How the first attempts go, one after the other.
    pub(crate) stumbles: Vec<Stumble>,
    /// What comes after them.
    pub(crate) then: Then,
    /// How its last outcome is told: at least once.
    pub(crate) tells: Vec<Tell>,
    /// Whether that is told before the job is created, too.
    pub(crate) is_ahead: bool,
}

/// How an attempt goes that does not deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stumble {
    /// It fails, and that is told so often: each time with so much delay, under a key of its own.
    Fails(Vec<Duration>),
    /// It fails, and an event says so that knows of no lease.
    FailsByEvent,
    /// Whoever works on it is never heard of again.
    Crashes,
}

/// What comes after the stumbles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The work is delivered.
    Delivered,
    /// It fails for good.
    FailsForGood,
    /// There are no more attempts: it is a dead letter.
    Dead(Fate),
}

/// What becomes of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing.
    Left,
    /// It is redriven, several times at once, and delivered.
    Redriven,
    /// It is discarded.
    Discarded,
    /// It turns out to be delivered after all.
    DeliveredAfterAll,
}

/// One of the times that an outcome is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tell {
    /// How.
    pub(crate) way: Way,
    /// How much later than it could be.
    pub(crate) later: Duration,
}

/// How an outcome is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// As an outcome, under a key of this teller's own.
    Outcome(u8),
    /// As a usage event, always the same one.
    Event,
}

/// How a job must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// Delivered, and paid once.
    Succeeded,
    /// Failed for good; it costs nothing.
    Failed,
    /// A dead letter; it costs nothing.
    Dead,
    /// Discarded; it costs nothing.
    Discarded,
}

/// What whoever works on a job does in one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempt<'a> {
    /// Stumbles.
    Stumbles(&'a Stumble),
    /// Delivers, and tells it.
    Delivers(&'a [Tell]),
    /// Tells that trying again is useless.
    GivesUp(&'a [Tell]),
}

impl Story {
    /// Draws a story.
    pub(crate) fn draw(random: &mut Random) -> Self {
        if !random.happens(TROUBLED) {
            let is_ahead = random.happens(TOLD_AHEAD);
            let (stumbles, tells) = (Vec::new(), tells(random));
            return Self { stumbles, then: Then::Delivered, tells, is_ahead };
        }
        let then = match random.below(10) {
            0..=3 => Then::Delivered,
            4 | 5 => Then::FailsForGood,
            6 => Then::Dead(Fate::Left),
            7 => Then::Dead(Fate::Redriven),
            8 => Then::Dead(Fate::Discarded),
            _ => Then::Dead(Fate::DeliveredAfterAll),
        };
        // Whoever gives up at once fails all the same.
        let least = u64::from(then != Then::FailsForGood);
        let count = least + random.below(3 - least);
        let may_be_told_by_event = then == Then::Delivered;
        let stumbles = (0..count).map(|_| stumble(may_be_told_by_event, random)).collect();
        Self { stumbles, then, tells: tells(random), is_ahead: false }
    }

    /// How the job must end.
    pub(crate) const fn end(&self) -> End {
        match self.then {
            Then::Delivered | Then::Dead(Fate::Redriven | Fate::DeliveredAfterAll) => {
                End::Succeeded
            }
            Then::FailsForGood => End::Failed,
            Then::Dead(Fate::Left) => End::Dead,
            Then::Dead(Fate::Discarded) => End::Discarded,
        }
    }

    /// After how many attempts the service is to give the job up.
    pub(crate) fn attempts_max(&self) -> u32 {
        let stumbles = u32::try_from(self.stumbles.len()).unwrap_or(u32::MAX);
        match self.then {
            Then::Dead(_) => stumbles.max(1),
            Then::Delivered | Then::FailsForGood => stumbles.saturating_add(SPARE_ATTEMPTS),
        }
    }

    /// What happens in the n-th attempt, counted from 1 since the job was created or redriven.
    pub(crate) fn attempt(&self, number: u32, is_redriven: bool) -> Attempt<'_> {
        if is_redriven {
            return Attempt::Delivers(&self.tells);
        }
        let place = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
        match (self.stumbles.get(place), self.then) {
            (Some(stumble), _) => Attempt::Stumbles(stumble),
            (None, Then::Delivered) => Attempt::Delivers(&self.tells),
            (None, Then::FailsForGood) => Attempt::GivesUp(&self.tells),
            // More attempts than it may have: whatever the service does here is wrong, and found.
            (None, Then::Dead(_)) => Attempt::Stumbles(&Stumble::Crashes),
        }
    }

    /// Whether somebody who works on it is never heard of again, so that leases have to be short.
    pub(crate) fn crashes(&self) -> bool {
        self.stumbles.contains(&Stumble::Crashes)
    }
}

fn stumble(may_be_told_by_event: bool, random: &mut Random) -> Stumble {
    match random.below(10) {
        0..=2 => Stumble::Crashes,
        3 if may_be_told_by_event => Stumble::FailsByEvent,
        _ => {
            let mut delays: Vec<_> = (0..times(random)).map(|_| later(random)).collect();
            // Whoever tells it first does so at once.
            delays.insert(0, Duration::ZERO);
            delays.pop();
            Stumble::Fails(delays)
        }
    }
}

fn tells(random: &mut Random) -> Vec<Tell> {
    let tells = (0..times(random)).map(|_| {
        let teller = u8::try_from(random.below(TOLD_MAX)).unwrap_or_default();
        let way = if random.happens(300) { Way::Event } else { Way::Outcome(teller) };
        Tell { way, later: later(random) }
    });
    tells.collect()
}

/// How often something is told.
pub(super) fn times(random: &mut Random) -> u64 {
    1 + random.below(TOLD_MAX)
}

/// How much later something is told than it could be: half of the time not at all.
pub(super) fn later(random: &mut Random) -> Duration {
    let is_late = random.happens(500);
    Duration::from_millis(if is_late { random.below(LATER_MAX_MS) } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn stories(count: u64) -> Vec<Story> {
        let mut random = Random::from_seed(11);
        (0..count).map(|_| Story::draw(&mut random)).collect()
    }

    /// The service's rules, naively: attempts one after the other until the job is over.
    fn play(story: &Story) -> (End, u32) {
        let mut number = 0;
        let give_up = |fate| match fate {
            Fate::Left => End::Dead,
            Fate::Discarded => End::Discarded,
            Fate::Redriven => {
                assert!(matches!(story.attempt(1, true), Attempt::Delivers(_)));
                End::Succeeded
            }
            Fate::DeliveredAfterAll => End::Succeeded,
        };
        loop {
            number += 1;
            match story.attempt(number, false) {
                Attempt::Delivers(_) => return (End::Succeeded, number),
                Attempt::GivesUp(_) => return (End::Failed, number),
                Attempt::Stumbles(_) if number < story.attempts_max() => (),
                Attempt::Stumbles(_) => {
                    let Then::Dead(fate) = story.then else { panic!("{story:?} is dead") };
                    return (give_up(fate), number);
                }
            }
        }
    }

    #[test]
    fn a_story_ends_as_it_was_worked_out_beforehand_and_never_tries_too_often() {
        for story in stories(5_000) {
            let (end, attempts) = play(&story);
            assert_eq!(end, story.end(), "{story:?}");
            assert!(attempts <= story.attempts_max(), "{story:?}");
        }
    }

    /// What nobody planned costs attempts: jobs that shall not die have some to spare.
    #[test]
    fn attempts_that_are_lost_change_no_end() {
        for story in stories(5_000) {
            let last = story.attempts_max();
            match (story.then, story.attempt(last, false)) {
                (Then::Delivered, Attempt::Delivers(_))
                | (Then::FailsForGood, Attempt::GivesUp(_))
                | (Then::Dead(_), Attempt::Stumbles(_)) => (),
                (_, attempt) => panic!("{attempt:?} of {story:?}"),
            }
        }
    }

    #[test]
    fn one_job_in_five_fails_and_everything_is_told_one_to_five_times() {
        let stories = stories(10_000);
        let troubled =
            stories.iter().filter(|it| !it.stumbles.is_empty() || it.end() == End::Failed).count();
        assert!((1_800..2_200).contains(&troubled), "{troubled}");
        let mut ends = BTreeMap::new();
        let mut told = BTreeMap::new();
        for story in &stories {
            *ends.entry(story.end()).or_insert(0) += 1;
            *told.entry(story.tells.len()).or_insert(0) += 1;
        }
        assert_eq!(ends.len(), 4, "{ends:?}");
        assert_eq!(told.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert!(stories.iter().any(Story::crashes) && stories.iter().any(|story| story.is_ahead));
        let by_event = |story: &&Story| story.stumbles.contains(&Stumble::FailsByEvent);
        assert!(stories.iter().filter(by_event).all(|story| story.then == Then::Delivered));
        assert!(stories.iter().any(|story| by_event(&story)));
    }

    /// An outcome that is told late must not come after everything that is told early, every time.
    #[test]
    fn outcomes_are_told_in_every_order() {
        let stories = stories(2_000);
        let pairs = stories.iter().flat_map(|story| story.tells.windows(2));
        let (mut forward, mut backward) = (0, 0);
        for pair in pairs {
            let [one, two] = pair else { continue };
            forward += u32::from(one.later < two.later);
            backward += u32::from(one.later > two.later);
        }
        assert!(forward > 500 && backward > 500, "{forward} forward, {backward} backward");
    }
}
