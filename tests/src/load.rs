//! Load by many clients that keep a record of their own, and its comparison with the entries.
//!
//! Each client does one thing after the other, under a key for each, and repeats a call under the
//! same key until it is decided, at another node each time. So at the end nothing is unknown: every
//! key in a record has exactly one effect, and no entry has a key that nobody used.
//!
//! Not here: any rule about credits. A record says what was asked and what was answered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::account::{Account, Figures, number};
use crate::http::{Api, Reply};
use crate::wait::wait_for;

/// How long one call is repeated before the test gives up.
const DECISION_DEADLINE: Duration = Duration::from_secs(60);
/// How the keys of all clients start. Others spend from the same accounts under other keys.
const KEY_START: &str = "client-";
/// Pause between two attempts of one call.
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// A running load. Dropped, it stops in the middle of its calls.
#[derive(Debug)]
pub struct Load {
    stop: watch::Sender<bool>,
    acknowledged: Arc<AtomicU64>,
    clients: JoinSet<Record>,
}

/// What was done under one key, by the client that did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Whose credits.
    pub tenant: String,
    /// The kind of entry that it makes.
    pub kind: &'static str,
    /// The sequence that the answer named.
    pub sequence: u64,
}

/// What one client did, or all of them.
#[derive(Debug, Default)]
pub struct Record {
    /// All that was acknowledged, by key.
    pub done: BTreeMap<String, Done>,
    /// Attempts that were not decided, by what came instead.
    pub troubles: BTreeMap<String, u64>,
    /// Calls that were sent again on purpose although they had been acknowledged.
    pub repeated: u64,
    /// How long the slowest call took until it was decided.
    pub slowest: Duration,
}

impl Load {
    /// Starts clients that spend from `accounts`, each beginning at another of `nodes`.
    ///
    /// The accounts need so many credits that none is ever refused.
    pub fn start(count: usize, nodes: &[Api], accounts: &[Account]) -> Self {
        let (stop, stopped) = watch::channel(false);
        let acknowledged = Arc::<AtomicU64>::default();
        let mut clients = JoinSet::new();
        for number in 0..count {
            // Connections of its own for each client, as programs on different machines have.
            let mut nodes: Vec<Api> = nodes.iter().map(Api::reconnected).collect();
            let first = number % nodes.len();
            nodes.rotate_left(first);
            let accounts = accounts.to_vec();
            let client = Client {
                number,
                nodes,
                accounts,
                calls: 0,
                record: Record::default(),
                acknowledged: Arc::clone(&acknowledged),
            };
            clients.spawn(client.run(stopped.clone()));
        }
        Self { stop, acknowledged, clients }
    }

    /// Waits until so many more calls have been acknowledged, so that what comes next happens in
    /// the middle of work.
    pub async fn wait_for_calls(&self, more: u64) {
        let wanted = self.acknowledged.load(Ordering::Relaxed) + more;
        wait_for(format!("{more} more calls are acknowledged"), DECISION_DEADLINE, async || {
            (self.acknowledged.load(Ordering::Relaxed) >= wanted).then_some(())
        })
        .await;
    }

    /// Lets every client finish what it has begun, and returns all records as one.
    pub async fn finish(mut self) -> Record {
        self.stop.send_replace(true);
        let mut all = Record::default();
        while let Some(ended) = self.clients.join_next().await {
            all.add(ended.expect("a client does not panic"));
        }
        all
    }
}

struct Client {
    number: usize,
    /// The node to ask comes first.
    nodes: Vec<Api>,
    accounts: Vec<Account>,
    calls: u64,
    record: Record,
    acknowledged: Arc<AtomicU64>,
}

impl Client {
    async fn run(mut self, stopped: watch::Receiver<bool>) -> Record {
        let mut round = self.number;
        while !*stopped.borrow() {
            let account = &self.accounts[round % self.accounts.len()];
            let tenant = account.tenant.clone();
            self.one_job(&tenant, round).await;
            round += 1;
        }
        self.record
    }

    /// One piece of work from beginning to end: a hold that is captured or released, a charge that
    /// is kept or refunded.
    async fn one_job(&mut self, tenant: &str, round: usize) {
        let amount = 2 + round % 7;
        let held = self.decided(tenant, "authorize", "holds", json!({ "amount": amount })).await;
        let hold = held.text("hold_id");
        if round % 4 == 3 {
            let path = format!("holds/{hold}/release");
            self.decided(tenant, "release", &path, json!({})).await;
        } else {
            let path = format!("holds/{hold}/capture");
            self.decided(tenant, "capture", &path, json!({ "amount": amount - 1 })).await;
        }
        let charged = self.decided(tenant, "charge", "charges", json!({ "amount": 3 })).await;
        if round.is_multiple_of(2) {
            let path = format!("charges/{}/refund", charged.text("charge_id"));
            self.decided(tenant, "refund", &path, json!({ "reason": "the work failed" })).await;
        }
    }

    /// Sends a call under a new key until it is decided, and every fifth once more after that.
    async fn decided(
        &mut self,
        tenant: &str,
        kind: &'static str,
        rest: &str,
        body: Value,
    ) -> Reply {
        self.calls += 1;
        let key = format!("{KEY_START}{}-{}", self.number, self.calls);
        let path = format!("/v1/tenants/{tenant}/{rest}");
        let reply = self.until_decided(&path, &key, &body).await;
        if self.calls.is_multiple_of(5) {
            self.record.repeated += 1;
            self.turn_to_next_node();
            let again = self.until_decided(&path, &key, &body).await;
            assert!(again.replayed(), "{key} was acknowledged and is new again: {again:#?}");
            assert_eq!(again.body["sequence"], reply.body["sequence"], "{key} has two effects");
        }
        let sequence = number(&reply.body["sequence"]);
        let done = Done { tenant: tenant.to_owned(), kind, sequence };
        self.record.done.insert(key, done);
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        reply
    }

    async fn until_decided(&mut self, path: &str, key: &str, body: &Value) -> Reply {
        let start = Instant::now();
        let mut ticks = tokio::time::interval(RETRY_PAUSE);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let trouble = match self.nodes[0].try_post(path, key, body).await {
                Ok(reply) if reply.status < 300 => {
                    self.record.slowest = self.record.slowest.max(start.elapsed());
                    return reply;
                }
                Ok(reply) => {
                    let trouble = undecided(&reply);
                    assert!(trouble.is_some(), "{key} may not be answered so: {reply:#?}");
                    trouble.unwrap_or_default()
                }
                Err(_) => "no answer".to_owned(),
            };
            *self.record.troubles.entry(trouble).or_default() += 1;
            self.turn_to_next_node();
            assert!(start.elapsed() < DECISION_DEADLINE, "{key}: {:?}", self.record.troubles);
        }
    }

    fn turn_to_next_node(&mut self) {
        self.nodes.rotate_left(1);
    }
}

/// Names an answer that decides nothing, if it is one of those that clients are told to repeat under
/// the same key.
fn undecided(reply: &Reply) -> Option<String> {
    let code = reply.body["code"].as_str()?;
    let may_come = matches!(
        (reply.status, code, reply.body["outcome"].as_str()?),
        (503, _, "nothing_happened")
            | (504, "outcome_unknown", "unknown")
            // The first attempt, whose answer was cut off, still runs at another node.
            | (409, "in_progress", "unknown")
    );
    may_come.then(|| format!("{} {code}", reply.status))
}

impl Record {
    fn add(&mut self, other: Self) {
        self.done.extend(other.done);
        for (trouble, count) in other.troubles {
            *self.troubles.entry(trouble).or_default() += count;
        }
        self.repeated += other.repeated;
        self.slowest = self.slowest.max(other.slowest);
    }

    /// Compares the record with all entries of `accounts`: each acknowledged key has exactly one
    /// entry, of its kind and at its sequence; no key of a client is in the entries that is not in
    /// the record; the entries have no holes, are chained, and add up to the balance.
    pub async fn check_against(&self, accounts: &[Account]) {
        let mut found: BTreeMap<String, Vec<Done>> = BTreeMap::new();
        for account in accounts {
            let entries = account.entries().await;
            check_chain(&entries);
            assert_eq!(Figures::sum_of(&entries), account.figures().await, "{}", account.tenant);
            for (key, done) in keyed(&account.tenant, &entries) {
                found.entry(key).or_default().push(done);
            }
        }
        let differences = self.differences(&found);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }

    /// Where the record and what was found under the keys of clients differ.
    fn differences(&self, found: &BTreeMap<String, Vec<Done>>) -> Vec<String> {
        let mut differences = Vec::new();
        for (key, done) in &self.done {
            match found.get(key).map(Vec::as_slice) {
                None => differences.push(format!("{key} was acknowledged and lost: {done:?}")),
                Some([only]) if only == done => (),
                Some(all) => differences.push(format!("{key} is {done:?}, and found are {all:?}")),
            }
        }
        let unasked = found.iter().filter(|(key, _)| !self.done.contains_key(*key));
        differences.extend(unasked.map(|(key, all)| format!("nobody asked for {key}: {all:?}")));
        differences
    }
}

/// What the entries say was done under the keys of clients.
fn keyed<'a>(
    tenant: &'a str,
    entries: &'a [Value],
) -> impl Iterator<Item = (String, Done)> + use<'a> {
    const KINDS: [&str; 5] = ["authorize", "capture", "release", "charge", "refund"];
    entries.iter().filter_map(move |entry| {
        let key = entry["idempotency_key"].as_str().filter(|key| key.starts_with(KEY_START))?;
        let kind = KINDS.into_iter().find(|kind| entry["kind"] == *kind)?;
        let sequence = number(&entry["sequence"]);
        Some((key.to_owned(), Done { tenant: tenant.to_owned(), kind, sequence }))
    })
}

/// Fails unless entries follow one another without holes, each naming the hash of the one before.
#[track_caller]
pub fn check_chain(entries: &[Value]) {
    for (entry, expected) in entries.iter().zip(1..) {
        assert_eq!(number(&entry["sequence"]), expected, "a hole before {entry:#}");
    }
    for (entry, next) in entries.iter().zip(entries.iter().skip(1)) {
        assert_eq!(entry["hash"], next["prev_hash"], "the chain breaks at {next:#}");
    }
}

impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, troubles, repeated, slowest } = self;
        write!(
            formatter,
            "{} calls acknowledged, {repeated} of them asked twice, slowest {} ms, undecided \
             attempts {troubles:?}",
            done.len(),
            slowest.as_millis(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(sequence: u64) -> Done {
        Done { tenant: "acme".to_owned(), kind: "charge", sequence }
    }

    #[track_caller]
    fn check_differences(found: &[(&str, &[u64])], expected: &[&str]) {
        let acknowledged = [("a", 1), ("b", 2)].map(|(key, at)| (key.to_owned(), done(at)));
        let record = Record { done: acknowledged.into(), ..Record::default() };
        let found = found.iter().map(|(key, all)| {
            ((*key).to_owned(), all.iter().map(|sequence| done(*sequence)).collect())
        });
        let differences = record.differences(&found.collect());
        assert_eq!(differences.len(), expected.len(), "{differences:?}");
        for (difference, start) in differences.iter().zip(expected) {
            assert!(difference.starts_with(start), "{differences:?}");
        }
    }

    /// A comparison that never complains would make every test of faults worthless.
    #[test]
    fn what_was_lost_doubled_changed_or_invented_is_noticed() {
        check_differences(&[("a", &[1]), ("b", &[2])], &[]);
        check_differences(&[("a", &[1])], &["b was acknowledged and lost"]);
        check_differences(&[("a", &[1]), ("b", &[2, 3])], &["b is"]);
        check_differences(&[("a", &[1]), ("b", &[3])], &["b is"]);
        check_differences(&[("a", &[1]), ("b", &[2]), ("c", &[3])], &["nobody asked for c"]);
    }

    #[test]
    fn only_what_clients_are_told_to_repeat_may_come_between() {
        let reply = |status: u16, code: &str, outcome: &str| Reply {
            status,
            headers: reqwest::header::HeaderMap::new(),
            body: json!({ "code": code, "outcome": outcome }),
        };
        assert!(undecided(&reply(503, "not_ready", "nothing_happened")).is_some());
        assert!(undecided(&reply(504, "outcome_unknown", "unknown")).is_some());
        assert!(undecided(&reply(503, "not_ready", "unknown")).is_none());
        assert!(undecided(&reply(500, "internal_error", "unknown")).is_none());
        assert!(undecided(&reply(402, "insufficient_credits", "nothing_happened")).is_none());
    }
}
