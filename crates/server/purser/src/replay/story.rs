//! One job from its first call to its last.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::book::{Asked, Capturing, Granting};
use super::desk::{Desk, Request};
use super::job::{self, Comeback, Job, Repeat, Story, Undo};
use super::plan::TopUp;
use super::wire::{Handle, Receipt, WorkHandle};

/// What a vanished client waits beyond its hold's TTL: more than clocks differ on one machine.
const COMEBACK_AFTER: Duration = Duration::from_millis(700);

/// A job at the desk.
struct Telling<'a> {
    desk: &'a Arc<Desk>,
    job: &'a Job,
    number: usize,
}

/// Makes the calls of a job that is due now. Stops where a call is refused or cannot be decided;
/// the journals know why.
pub(crate) async fn tell(desk: &Arc<Desk>, number: usize, job: &Job, due: Instant) {
    let telling = Telling { desk, job, number };
    match &job.story {
        Story::Captured { ttl, captures, allow_debt, undo } => {
            let asked = Asked::Authorize { amount: job.estimate, ttl: *ttl };
            let Some(hold) = telling.start(asked, due).await else { return };
            sleep(job.takes).await;
            if telling.capture_all(&hold, captures, *allow_debt).await {
                telling.undo(&hold, WorkHandle::Hold(hold.id.clone()), *undo).await;
            }
        }
        Story::Failed { ttl } => {
            let asked = Asked::Authorize { amount: job.estimate, ttl: *ttl };
            let Some(hold) = telling.start(asked, due).await else { return };
            sleep(job.takes).await;
            let release = Asked::Release { hold: hold.sequence };
            telling.about("release", release, WorkHandle::Hold(hold.id)).await;
        }
        Story::Vanished { ttl, comeback } => {
            let asked = Asked::Authorize { amount: job.estimate, ttl: *ttl };
            let Some(hold) = telling.start(asked, due).await else { return };
            sleep(Duration::from_micros(ttl.as_micros()) + COMEBACK_AFTER).await;
            telling.come_back(&hold, *comeback).await;
        }
        Story::Charged { amount, undo } => {
            let asked = Asked::Charge { amount: *amount, allow_debt: false };
            let Some(charge) = telling.start(asked, due).await else { return };
            sleep(job.takes).await;
            telling.undo(&charge, WorkHandle::Charge(charge.id.clone()), *undo).await;
        }
        Story::TooExpensive { amount } => {
            let asked = Asked::Authorize { amount: *amount, ttl: job::TTL_LEAST };
            // Sent again whatever the job says: a refusal is remembered, and that is the point.
            let repeat = Repeat::Afterwards;
            desk.ask(Request { repeat, due, ..telling.request("start", asked) }).await;
        }
    }
}

/// Grants a tenant what it buys on the way.
pub(crate) async fn top_up(desk: &Arc<Desk>, number: usize, top_up: TopUp, due: Instant) {
    let granting = Granting {
        amount: top_up.amount,
        promotional: false,
        priority: 100,
        effective_at: None,
        expires_at: None,
    };
    let request = Request {
        tenant: top_up.tenant,
        name: format!("top-up-{number}"),
        asked: Asked::Grant(granting),
        handle: Handle::None,
        repeat: Repeat::Never,
        due,
    };
    desk.ask(request).await;
}

impl Telling<'_> {
    async fn start(&self, asked: Asked, due: Instant) -> Option<Receipt> {
        self.desk.ask(Request { due, ..self.request("start", asked) }).await
    }

    async fn about(&self, step: &str, asked: Asked, work: WorkHandle) -> Option<Receipt> {
        let handle = Handle::Work(work);
        self.desk.ask(Request { handle, ..self.request(step, asked) }).await
    }

    /// A step of the job that is due now and about nothing.
    fn request(&self, step: &str, asked: Asked) -> Request {
        Request {
            tenant: self.job.tenant,
            name: format!("{}-{step}", self.number),
            asked,
            handle: Handle::None,
            repeat: self.job.repeat,
            due: Instant::now(),
        }
    }

    /// Captures in the given amounts, the last one final. Tells whether all were done.
    async fn capture_all(&self, hold: &Receipt, amounts: &[u64], allow_debt: bool) -> bool {
        for (place, amount) in amounts.iter().enumerate() {
            let last = place + 1 == amounts.len();
            let asked = Asked::Capture(Capturing {
                hold: hold.sequence,
                amount: Some(*amount),
                last,
                allow_debt,
                even_if_expired: false,
            });
            let step = format!("capture-{place}");
            let captured = self.about(&step, asked, WorkHandle::Hold(hold.id.clone())).await;
            if captured.is_some() {
                continue;
            }
            if last {
                // More than there is, or not decided: the hold is given back, which is refused if
                // the capture was done after all.
                let release = Asked::Release { hold: hold.sequence };
                self.about("release", release, WorkHandle::Hold(hold.id.clone())).await;
            }
            return false;
        }
        true
    }

    async fn come_back(&self, hold: &Receipt, comeback: Comeback) {
        let even_if_expired = match comeback {
            Comeback::Never => return,
            Comeback::Capture => false,
            Comeback::LateCapture => true,
        };
        let asked = Asked::Capture(Capturing {
            hold: hold.sequence,
            amount: Some(self.job.estimate),
            last: true,
            allow_debt: true,
            even_if_expired,
        });
        self.about("comeback", asked, WorkHandle::Hold(hold.id.clone())).await;
    }

    async fn undo(&self, work: &Receipt, handle: WorkHandle, undo: Undo) {
        let of = work.sequence;
        let refund = |amount| Asked::Refund { of, amount };
        match undo {
            Undo::Never => (),
            Undo::Refund => {
                self.about("refund", refund(None), handle.clone()).await;
                // A second failure signal under a key of its own: it must refund nothing.
                self.about("refund-again", refund(None), handle).await;
            }
            Undo::RefundInParts => {
                self.about("refund", refund(Some(1)), handle.clone()).await;
                self.about("refund-again", refund(None), handle).await;
            }
            Undo::RefundAndReclaim => {
                self.about("refund", refund(None), handle.clone()).await;
                self.about("reclaim", Asked::Reclaim { of }, handle.clone()).await;
                self.about("reclaim-again", Asked::Reclaim { of }, handle).await;
            }
            Undo::ReclaimOnly => {
                self.about("reclaim", Asked::Reclaim { of }, handle).await;
            }
        }
    }
}
