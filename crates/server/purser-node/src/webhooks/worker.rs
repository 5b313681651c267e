//! Delivers the events of one webhook in one shard, as long as this node leads it.
//!
//! It starts from what is replicated, and whenever it is not sure what that is, it ends; whoever looks after
//! it starts it again. What was delivered since is delivered again then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use purser_api::WebhookSecret;
use purser_ledger::{
    Answer, Command, Dispatch, DispatchLimits, EntryName, Errand, ErrandWay, Offer, Sink, SinkAct,
    SinkCommand, codec,
};
use purser_types::{LogTime, OperationId, SinkName};

use super::LOOK_EVERY;
use super::event::{Event, Found, event_of};
use super::sender::{Letter, Sender};
use crate::feed::{Feed, FeedCursor, FeedError};
use crate::metrics::WebhookMetrics;
use crate::tasks::chain;

/// Events of the main line that are sent at once, each of another account.
pub(super) const MAIN_MAX: usize = 16;

/// Events that are tried again at once. They have places of their own, so that they never hold up the rest.
const RETRIES_MAX: usize = 4;

/// How many entries are read at once, and for how many there has to be room: a page costs more than what is
/// in it.
const PAGE_ITEMS: usize = 256;

/// How often progress is put into the log.
const ADVANCE_EVERY: Duration = Duration::from_secs(1);

/// After so many events it is put there earlier: as many would be delivered again.
const ADVANCE_AFTER: usize = 1_000;

/// How long an advance may take before nobody waits for it any more.
const ADVANCE_PATIENCE: Duration = Duration::from_secs(10);

/// How much of an error is kept.
const ERROR_BYTES_MAX: usize = 200;

/// See the module's documentation.
pub(super) struct Worker {
    name: SinkName,
    feed: Feed,
    sender: Sender,
    metrics: WebhookMetrics,
}

/// Why a worker ends.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// The webhook is gone, or disabled, or was changed by somebody else.
    #[error("the webhook has changed")]
    Changed,
    /// Nobody knows whether the last advance was kept.
    #[error("its progress could not be put into the log: {0}")]
    NotKept(String),
    /// There is nothing to read here.
    #[error("the feed could not be read")]
    Feed(#[from] FeedError),
    /// An entry cannot be told.
    #[error(transparent)]
    Event(#[from] super::event::Unreadable),
}

/// How an errand ended.
enum Outcome {
    Delivered,
    Unwanted,
    Gone,
    Failed(String),
}

type Sending = FuturesUnordered<BoxFuture<'static, (Errand<Event>, Outcome)>>;

/// What a worker has under way.
struct Course {
    sink: Arc<Sink>,
    dispatch: Dispatch<Event>,
    step: OperationId,
    main: Sending,
    retries: Sending,
    advanced: Instant,
}

impl Worker {
    pub(super) fn new(
        (name, feed): (SinkName, Feed),
        sender: Sender,
        metrics: WebhookMetrics,
    ) -> Self {
        Self { name, feed, sender, metrics }
    }

    /// Delivers until it cannot go on.
    pub(super) async fn run(self) {
        match self.run_now().await {
            Err(Ended::Feed(FeedError::NotLeading) | Ended::Changed) | Ok(()) => (),
            Err(error) => {
                tracing::warn!(webhook = %self.name, error = %chain(&error), "webhook begins anew");
                // What is wrong now may be so for a while.
                tokio::time::sleep(ADVANCE_EVERY).await;
            }
        }
        self.metrics.clear();
    }

    async fn run_now(&self) -> Result<(), Ended> {
        let sink = self.sink().ok_or(Ended::Changed)?;
        let dispatch = Dispatch::resume(&sink, DispatchLimits::STANDARD);
        let (step, advanced) = (sink.step, Instant::now());
        let (main, retries) = (Sending::new(), Sending::new());
        let mut course = Course { sink, dispatch, step, main, retries, advanced };
        loop {
            self.follow(&mut course)?;
            let has_more = self.read(&mut course).await?;
            self.send(&mut course);
            let is_time = course.advanced.elapsed() >= ADVANCE_EVERY;
            if is_time || course.dispatch.settled() >= ADVANCE_AFTER {
                self.metrics.record_waiting(
                    &course.dispatch,
                    &course.sink,
                    self.feed.group().now(),
                );
                self.advance(&mut course).await?;
            }
            let pause = if has_more { Duration::ZERO } else { LOOK_EVERY };
            tokio::select! {
                Some(ended) = course.main.next() => self.settle(&mut course.dispatch, ended),
                Some(ended) = course.retries.next() => self.settle(&mut course.dispatch, ended),
                () = tokio::time::sleep(pause) => (),
            }
        }
    }

    /// The webhook, if there is one and it is enabled.
    fn sink(&self) -> Option<Arc<Sink>> {
        let sink = self.feed.group().view(|ledger, _| ledger.sink(&self.name).cloned());
        sink.filter(|sink| sink.disabled.is_none())
    }

    /// Takes note of what operators have changed, and of another leader.
    fn follow(&self, course: &mut Course) -> Result<(), Ended> {
        // Two who send would mix up the order, so this is looked at before anything is sent.
        if !self.feed.is_leading() {
            return Err(FeedError::NotLeading.into());
        }
        let sink = self.sink().ok_or(Ended::Changed)?;
        if !Arc::ptr_eq(&sink, &course.sink) {
            if sink.step != course.step {
                return Err(Ended::Changed);
            }
            course.dispatch.follow(&sink);
            course.sink = sink;
        }
        Ok(())
    }

    /// Reads on if there is room. Whether there may be more at once.
    async fn read(&self, course: &mut Course) -> Result<bool, Ended> {
        if course.dispatch.room() < PAGE_ITEMS {
            return Ok(false);
        }
        let after = FeedCursor(course.dispatch.reads_from());
        let page = self.feed.page(after, PAGE_ITEMS).await?;
        let mut offers = Vec::with_capacity(page.items.len());
        // Behind an event is where the next one stands.
        let behind = page.items.iter().skip(1).map(|item| item.at).chain([page.next.0]);
        for (item, cursor) in page.items.iter().zip(behind) {
            let (account, sequence) = (item.account.clone(), item.entry.entry.sequence);
            offers.push(Offer {
                event: EntryName { account, sequence },
                at: item.entry.entry.log_time,
                cursor,
                content: event_of(item, &course.sink)?,
            });
        }
        course.dispatch.offer(offers, page.next.0);
        Ok(page.next != after)
    }

    /// Sends what may be sent now.
    fn send(&self, course: &mut Course) {
        let now = self.feed.group().now();
        while course.main.len() < MAIN_MAX
            && let Some(errand) = course.dispatch.take()
        {
            course.main.push(self.begin(errand, &course.sink, now));
        }
        while course.retries.len() < RETRIES_MAX
            && let Some(errand) = course.dispatch.take_due(now)
        {
            course.retries.push(self.begin(errand, &course.sink, now));
        }
    }

    fn begin(
        &self,
        errand: Errand<Event>,
        sink: &Arc<Sink>,
        now: LogTime,
    ) -> BoxFuture<'static, (Errand<Event>, Outcome)> {
        let (sender, feed) = (self.sender.clone(), self.feed.clone());
        let sink = Arc::clone(sink);
        Box::pin(async move {
            let found = match &errand.way {
                ErrandWay::Main(event) => Ok(Found::Event(event.clone())),
                ErrandWay::Line | ErrandWay::Redriven => find(feed, &errand.event, &sink).await,
            };
            let outcome = match found {
                Ok(Found::Event(event)) => {
                    let letter = letter(&sink, event, now);
                    let sent = sender.send(&letter).await;
                    sent.map_or_else(
                        |error| Outcome::Failed(chain(&error)),
                        |()| Outcome::Delivered,
                    )
                }
                Ok(Found::Unwanted) => Outcome::Unwanted,
                Ok(Found::Gone) => Outcome::Gone,
                Err(error) => Outcome::Failed(error),
            };
            (errand, outcome)
        })
    }

    fn settle(&self, dispatch: &mut Dispatch<Event>, (errand, outcome): (Errand<Event>, Outcome)) {
        let now = self.feed.group().now();
        match outcome {
            Outcome::Delivered => {
                self.metrics.record_delivered();
                dispatch.done(errand, now);
            }
            Outcome::Unwanted => dispatch.done(errand, now),
            Outcome::Gone => dispatch.gone(errand, now),
            Outcome::Failed(error) => {
                self.metrics.record_failed();
                let EntryName { account, sequence } = &errand.event;
                let (tenant, sequence) = (&account.tenant, sequence.0);
                tracing::debug!(webhook = %self.name, %tenant, sequence, error, "not delivered");
                // Without randomness from the system what failed together is tried together again.
                let luck = getrandom::u32().unwrap_or_default();
                dispatch.failed(errand, shortened(&error), (now, luck));
            }
        }
    }

    /// Puts the progress into the log.
    async fn advance(&self, course: &mut Course) -> Result<(), Ended> {
        course.advanced = Instant::now();
        let Some(advance) = course.dispatch.advance(course.step) else { return Ok(()) };
        if let Some(why) = &advance.disable {
            tracing::warn!(webhook = %self.name, %why, "webhook is disabled");
        }
        let act = SinkAct::Advance(advance);
        let command = SinkCommand { sink: self.name.clone(), act, actor: None, reason: None };
        let command = Bytes::from(codec::encode(&Command::Sink(Box::new(command))));
        let proposed = self.feed.group().propose(command, Instant::now() + ADVANCE_PATIENCE);
        match proposed.await {
            Ok(Answer::Sink(Ok(done))) => {
                course.step = done.step;
                course.sink = self.sink().ok_or(Ended::Changed)?;
                if course.sink.step != course.step {
                    return Err(Ended::Changed);
                }
                course.dispatch.kept(&course.sink);
                Ok(())
            }
            Ok(Answer::Sink(Err(_))) => Err(Ended::Changed),
            Ok(
                Answer::Account(_)
                | Answer::Swept { .. }
                | Answer::Move(_)
                | Answer::PassedOn(_)
                | Answer::Life(_)
                | Answer::Leased(_),
            ) => Err(Ended::NotKept("it was answered as something else".to_owned())),
            Err(error) => Err(Ended::NotKept(chain(&error))),
        }
    }
}

/// Reads the event of an errand that does not bring it along.
async fn find(feed: Feed, event: &EntryName, sink: &Sink) -> Result<Found, String> {
    let item = feed.again(&event.account, event.sequence).await;
    let Some(item) = item.map_err(|error| chain(&error))? else { return Ok(Found::Gone) };
    let event = event_of(&item, sink).map_err(|error| chain(&error))?;
    Ok(event.map_or(Found::Unwanted, Found::Event))
}

fn letter(sink: &Sink, event: Event, now: LogTime) -> Letter {
    const MICROS_PER_SECOND: u64 = 1_000_000;
    let keys = sink.signing(now).filter_map(|text| text.parse::<WebhookSecret>().ok());
    Letter {
        url: sink.terms.url.clone(),
        keys: keys.map(|secret| secret.key()).collect(),
        seconds: now.as_unix_micros() / MICROS_PER_SECOND,
        event,
    }
}

/// The beginning of an error, cut between characters.
fn shortened(error: &str) -> &str {
    error.get(..error.floor_char_boundary(ERROR_BYTES_MAX)).unwrap_or(error)
}
