//! Usage events on their way: alone or in batches that are shuffled, with an event among them that nobody
//! can read.

use std::sync::Arc;
use std::time::Duration;

use purser_api::{EventVerdict, EventsAnswer, VerdictKind, paths};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::floor::{Floor, STRANDED};
use crate::replay::random::Random;

/// How many events a batch has at most.
const BATCH_MAX: usize = 50;
/// How long a batch waits for more.
const BATCH_WAIT: Duration = Duration::from_millis(100);
/// How many events may wait for a batch before their tellers have to wait.
const WAITING_MAX: usize = 1_000;

/// What is to become of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// It counts, or has counted before.
    Taken,
    /// It says something else than one that has counted before.
    Conflict,
    /// Either, or it waits for its job.
    Anything,
}

/// An event without the attributes that all have in common.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// The place of its tenant.
    pub(crate) tenant: usize,
    /// What it is called by.
    pub(crate) id: String,
    /// What it says.
    pub(crate) data: Value,
}

/// Takes events that are told in batches.
pub(crate) type Outbound = mpsc::Sender<(Event, Awaited)>;
/// Gives them to whoever sends the batches.
pub(crate) type Inbound = mpsc::Receiver<(Event, Awaited)>;

/// A way to whoever sends the batches.
pub(crate) fn way() -> (Outbound, Inbound) {
    mpsc::channel(WAITING_MAX)
}

impl Event {
    /// Tells it, later than it could be: one in three of the late ones alone, the others in a batch.
    pub(crate) fn tell(self, floor: &Arc<Floor>, later: Duration, awaited: Awaited) {
        let (floor, tellers) = (Arc::clone(floor), floor.tellers.clone());
        tellers.spawn(async move {
            sleep(later).await;
            if later.as_millis() % 3 == 1 {
                return self.told_alone(&floor, awaited).await;
            }
            if floor.outbound.send((self, awaited)).await.is_err() {
                floor.complain("an event was told after the last batch".to_owned());
            }
        });
    }

    /// Tells it alone, and waits for the verdict.
    pub(crate) async fn told_alone(self, floor: &Floor, awaited: Awaited) {
        let body = self.cloud_event(floor);
        let path = paths::EVENTS.to_owned();
        let Some(answer) = floor.ask::<EventsAnswer>(path, None, &body).await else { return };
        floor.count("events_alone");
        match &answer.verdicts[..] {
            [verdict] => check(floor, (&self, awaited), verdict),
            verdicts => floor.complain(format!("{} verdicts on one event", verdicts.len())),
        }
    }

    fn cloud_event(&self, floor: &Floor) -> Value {
        json!({
            "specversion": "1.0",
            "source": format!("/replay/{}", floor.run),
            "id": self.id,
            "type": "work.done",
            "subject": floor.name(self.tenant).as_str(),
            "data": self.data,
        })
    }
}

fn check(floor: &Floor, (event, awaited): (&Event, Awaited), verdict: &EventVerdict) {
    let reason = verdict.reason.as_deref().unwrap_or_default();
    let is_taken = matches!(verdict.verdict, VerdictKind::Applied | VerdictKind::Duplicate);
    let is_parked = verdict.verdict == VerdictKind::DeadLettered;
    // Whoever operates the service takes it up when the region is back; whether one was away is judged at
    // the end.
    let is_stranded = is_parked && reason == STRANDED;
    if is_stranded {
        floor.count(STRANDED);
        floor.noted().stranded.insert(event.tenant);
    }
    let is_right = is_stranded
        || match awaited {
            Awaited::Taken => is_taken,
            // The second time it is known.
            Awaited::Conflict => is_parked && reason == "conflict" || is_taken,
            Awaited::Anything => is_taken || is_parked && reason == "unmatched",
        };
    floor.count(match verdict.verdict {
        VerdictKind::Applied => "events_applied",
        VerdictKind::Duplicate => "events_duplicate",
        VerdictKind::DeadLettered => "events_parked",
        VerdictKind::Invalid => "events_invalid",
    });
    if verdict.id != event.id || !is_right {
        floor.complain(format!("event {}, {awaited:?}: {verdict:?}", event.id));
    }
}

/// Sends batches until `end`, and then what still waits.
pub(crate) async fn send_batches(floor: Arc<Floor>, mut inbound: Inbound, end: CancellationToken) {
    let mut random = Random::from_seed(floor.plan.seed);
    loop {
        let first = tokio::select! {
            biased;
            first = inbound.recv() => first,
            () = end.cancelled() => None,
        };
        let Some(first) = first else { break };
        let mut batch = vec![first];
        let until = Instant::now() + BATCH_WAIT;
        while batch.len() < BATCH_MAX {
            match timeout_at(until, inbound.recv()).await {
                Ok(Some(next)) => batch.push(next),
                Ok(None) | Err(_) => break,
            }
        }
        shuffle(&mut batch, &mut random);
        let poison = usize::try_from(random.below(51)).unwrap_or_default().min(batch.len());
        send_batch(&floor, &batch, poison).await;
    }
}

/// Sends a batch with an event that nobody can read at one place.
async fn send_batch(floor: &Floor, batch: &[(Event, Awaited)], poison: usize) {
    let mut bodies: Vec<Value> = batch.iter().map(|(event, _)| event.cloud_event(floor)).collect();
    bodies.insert(poison, json!({ "specversion": "1.0", "id": "poison", "data": 7 }));
    let path = paths::EVENTS.to_owned();
    let Some(answer) = floor.ask::<EventsAnswer>(path, None, &bodies).await else { return };
    floor.count("event_batches");
    let mut verdicts = answer.verdicts;
    if verdicts.len() != bodies.len() {
        let (verdicts, events) = (verdicts.len(), bodies.len());
        return floor.complain(format!("{verdicts} verdicts on {events} events"));
    }
    let poisoned = verdicts.remove(poison);
    if poisoned.verdict != VerdictKind::Invalid {
        floor.complain(format!("an event without a tenant: {poisoned:?}"));
    }
    for ((event, awaited), verdict) in batch.iter().zip(&verdicts) {
        check(floor, (event, *awaited), verdict);
    }
}

fn shuffle<T>(list: &mut [T], random: &mut Random) {
    for place in (1..list.len()).rev() {
        let bound = u64::try_from(place).unwrap_or_default().saturating_add(1);
        list.swap(place, usize::try_from(random.below(bound)).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_loses_nothing_and_leaves_nothing_where_it_was() {
        let mut list: Vec<u32> = (0..50).collect();
        shuffle(&mut list, &mut Random::from_seed(5));
        let moved = list.iter().enumerate().filter(|(place, it)| *place != **it as usize);
        assert!(moved.count() > 40, "{list:?}");
        list.sort_unstable();
        assert_eq!(list, (0..50).collect::<Vec<u32>>());
    }
}
