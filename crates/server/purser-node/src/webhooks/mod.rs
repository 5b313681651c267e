//! Webhooks: a consumer of the feed that tells receivers of entries by signed calls.
//!
//! ```text
//!  shard that this node leads
//!   └─ each webhook ── worker: feed ─▶ Dispatch ─▶ errands ─▶ sender ─▶ receiver
//!                                        │ once a second            (address, signature)
//!                                        └─▶ advance, through the log
//! ```
//!
//! Each worker is a task of its own with connections of its own, and nobody waits for it: neither callers nor
//! other webhooks. What it is about to do is the ledger's to say ([`purser_ledger::Dispatch`]).

mod address;
mod connection;
mod event;
mod resolver;
mod sender;
mod signature;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use purser_ledger::Sink;
use purser_types::SinkName;
use tokio_util::sync::CancellationToken;

pub(crate) use self::address::refuse_target;
use self::sender::Senders;
use self::worker::Worker;
use crate::feed::Feed;
use crate::http::Api;
use crate::metrics::WebhookMetrics;
use crate::tasks::Tasks;

/// How often it is looked which webhooks there are, and a worker looks for something to do.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What webhooks may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WebhookSettings {
    /// Whether receivers may stand in private networks and be asked without TLS.
    pub allow_private_targets: bool,
}

/// Has the webhooks of one shard delivered while this node leads it, until shutdown.
pub(crate) async fn keep_delivering(
    (api, feed): (Arc<Api>, Feed),
    tasks: Tasks,
    stopping: CancellationToken,
) -> Result<(), std::convert::Infallible> {
    let senders = Senders::new(api.webhooks(), tasks.clone());
    let mut running: BTreeMap<SinkName, CancellationToken> = BTreeMap::new();
    let mut shown: BTreeMap<SinkName, WebhookMetrics> = BTreeMap::new();
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return Ok(()),
            _ = ticks.tick() => (),
        }
        // A worker that has ended by itself is started again if there is something for it.
        running.retain(|_, ended| !ended.is_cancelled());
        let mut sinks = BTreeMap::new();
        if feed.is_leading() {
            let known = |(name, sink): (&SinkName, &Arc<Sink>)| (name.clone(), Arc::clone(sink));
            sinks = feed.group().view(|ledger, _| ledger.sinks().map(known).collect());
        }
        shown.retain(|name, metrics| {
            let is_here = sinks.contains_key(name);
            if !is_here {
                metrics.clear();
            }
            is_here
        });
        for (name, sink) in sinks {
            let new = || api.metrics().webhook(name.as_str(), feed.shard());
            let metrics = shown.entry(name.clone()).or_insert_with(new).clone();
            if sink.disabled.is_some() {
                metrics.record_kept(&sink);
            }
            if sink.disabled.is_some() || running.contains_key(&name) {
                continue;
            }
            let ended = CancellationToken::new();
            running.insert(name.clone(), ended.clone());
            let worker = Worker::new((name, feed.clone()), senders.sender(), metrics);
            tasks.spawn_until_stopping(async move {
                let _ended = ended.drop_guard();
                worker.run().await;
            });
        }
    }
}
