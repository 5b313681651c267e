//! The metrics of webhooks, as the leaders of their shards see them. Their names are operators', and there
//! are 16 at most.

use metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};
use purser_ledger::{Dispatch, Sink};
use purser_types::LogTime;

use super::float;

const PENDING: &str = "purser_webhook_pending";
const OLDEST: &str = "purser_webhook_oldest_age_seconds";
const PARKED: &str = "purser_webhook_parked_accounts";
const DEAD: &str = "purser_webhook_dead_letters";
const DISABLED: &str = "purser_webhook_disabled";
const DELIVERIES: &str = "purser_webhook_deliveries_total";

/// Tells the recorder what the names mean.
pub(super) fn describe() {
    describe_gauge!(PENDING, Unit::Count, "Events that were read and are not delivered");
    describe_gauge!(OLDEST, Unit::Seconds, "Age of the event that waits longest");
    describe_gauge!(PARKED, Unit::Count, "Accounts whose events wait because one has failed");
    describe_gauge!(DEAD, Unit::Count, "Events that nobody tries to deliver any more");
    describe_gauge!(DISABLED, Unit::Count, "1 where nothing is delivered, else 0");
    describe_counter!(DELIVERIES, Unit::Count, "Attempts to deliver an event, by outcome");
}

/// What one webhook records in one shard.
#[derive(Clone)]
pub(crate) struct WebhookMetrics {
    pending: Gauge,
    oldest: Gauge,
    parked: Gauge,
    dead: Gauge,
    disabled: Gauge,
    delivered: Counter,
    failed: Counter,
}

impl WebhookMetrics {
    /// The handles of a webhook.
    pub(super) fn new(node: &str, webhook: &str, shard: u32) -> Self {
        let labels = || {
            [
                ("node", node.to_owned()),
                ("webhook", webhook.to_owned()),
                ("shard", shard.to_string()),
            ]
        };
        let deliveries = |outcome: &str| {
            let labels = labels().into_iter().chain([("outcome", outcome.to_owned())]);
            counter!(DELIVERIES, &labels.collect::<Vec<_>>())
        };
        Self {
            pending: gauge!(PENDING, &labels()),
            oldest: gauge!(OLDEST, &labels()),
            parked: gauge!(PARKED, &labels()),
            dead: gauge!(DEAD, &labels()),
            disabled: gauge!(DISABLED, &labels()),
            delivered: deliveries("delivered"),
            failed: deliveries("failed"),
        }
    }

    /// Shows what waits at `now`.
    pub(crate) fn record_waiting<T: Clone>(
        &self,
        dispatch: &Dispatch<T>,
        sink: &Sink,
        now: LogTime,
    ) {
        let age = dispatch.oldest().map_or(0, |oldest| now.since(oldest).as_secs());
        self.pending.set(float(dispatch.pending()));
        self.oldest.set(float(age));
        self.record_kept(sink);
    }

    /// Shows what is kept of a webhook, also if nothing is delivered.
    pub(crate) fn record_kept(&self, sink: &Sink) {
        self.parked.set(float(sink.lines.len()));
        self.dead.set(float(sink.letters.len()));
        self.disabled.set(float(u64::from(sink.disabled.is_some())));
    }

    /// Shows nothing any more: another node delivers, or nobody.
    pub(crate) fn clear(&self) {
        let Self { pending, oldest, parked, dead, disabled, .. } = self;
        for gauge in [pending, oldest, parked, dead, disabled] {
            gauge.set(0.0);
        }
    }

    /// Counts an event that was delivered.
    pub(crate) fn record_delivered(&self) {
        self.delivered.increment(1);
    }

    /// Counts an attempt that failed.
    pub(crate) fn record_failed(&self) {
        self.failed.increment(1);
    }
}
