//! What home's leader remembers about one region between two decisions.

use purser_types::{Credits, Span};

use super::{
    DemandReport, IDLE_INTERVAL, RECALL_DEADLINE, REPORT_INTERVAL, REPORTS_IN_A_ROW, Share, Tuning,
};

/// See the module's documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// The last report that was looked at.
    seen: Option<u64>,
    /// How many reports in a row showed more than twice what the region should have.
    surplus_reports: u64,
    recall: Recall,
}

/// Where the last recall stands. One is in flight at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Recall {
    /// There was none, or it was given up.
    #[default]
    None,
    /// No answer yet.
    InFlight {
        /// When it was sent.
        asked_at: Span,
    },
    /// The region has given back what it could.
    Answered {
        /// When it was asked to.
        asked_at: Span,
    },
}

impl Member {
    /// Takes notice of a report; whether it is a new one.
    pub(super) fn look_at(&mut self, share: &Share) -> bool {
        let is_new = self.seen != Some(share.report);
        self.seen = Some(share.report);
        // A region that is heard from again may be asked again.
        if let Recall::InFlight { asked_at } = self.recall
            && is_new
            && later(asked_at, RECALL_DEADLINE) <= share.heard_at
        {
            self.recall = Recall::None;
        }
        is_new
    }

    /// The next report is a new one, whichever it is.
    pub(super) const fn forget_report(&mut self) {
        self.seen = None;
    }

    /// Counts reports that show more than twice what the region should have; whether it is time to ask
    /// for it.
    pub(super) fn counts_surplus(&mut self, share: &Share, should_have: Credits) -> bool {
        let is_surplus = exceeds_twice(share.lasting(), should_have);
        self.surplus_reports = if is_surplus { self.surplus_reports.saturating_add(1) } else { 0 };
        self.surplus_reports >= REPORTS_IN_A_ROW
    }

    /// Whether home can count on an answer: the region was heard from lately, and leaves no recall
    /// unanswered.
    pub(super) fn is_reachable(&self, share: &Share, now: Span) -> bool {
        let interval = with_jitter(share.demand.report_interval());
        let silence = Span::from_micros(interval.as_micros().saturating_mul(REPORTS_IN_A_ROW));
        let is_silent = later(share.heard_at, later(silence, share.refill)) < now;
        let is_mute = match self.recall {
            Recall::InFlight { asked_at } => later(asked_at, RECALL_DEADLINE) <= now,
            Recall::None | Recall::Answered { .. } => false,
        };
        !is_silent && !is_mute
    }

    /// A recall was sent.
    pub(super) fn ask(&mut self, now: Span) {
        self.surplus_reports = 0;
        self.recall = Recall::InFlight { asked_at: now };
    }

    /// The recall in flight was answered.
    pub(super) fn answer(&mut self) {
        if let Recall::InFlight { asked_at } = self.recall {
            self.recall = Recall::Answered { asked_at };
        }
    }

    pub(super) fn is_asked(&self) -> bool {
        matches!(self.recall, Recall::InFlight { .. })
    }

    /// Whether the region has answered a recall that was sent at or after `instant`.
    pub(super) fn has_answered_since(&self, instant: Span) -> bool {
        matches!(self.recall, Recall::Answered { asked_at } if asked_at >= instant)
    }
}

impl DemandReport {
    /// Whether there is demand: calls came within the time after which a region rests.
    pub(super) fn is_active(&self, tuning: Tuning) -> bool {
        self.idle < tuning.rest_after
    }

    /// How long a region waits after this report before it makes the next, a tenth more or less.
    pub fn report_interval(&self) -> Span {
        if self.idle < IDLE_INTERVAL { REPORT_INTERVAL } else { IDLE_INTERVAL }
    }
}

/// How much later than it should a report may come: a tenth of the interval.
pub(super) const fn with_jitter(interval: Span) -> Span {
    let late = interval.as_micros().wrapping_div(10);
    Span::from_micros(interval.as_micros().saturating_add(late))
}

/// The dead band: less than this is left alone.
pub(super) fn exceeds_twice(free: Credits, should_have: Credits) -> bool {
    free.saturating_sub(should_have) > should_have
}

fn later(instant: Span, span: Span) -> Span {
    Span::from_micros(instant.as_micros().saturating_add(span.as_micros()))
}
