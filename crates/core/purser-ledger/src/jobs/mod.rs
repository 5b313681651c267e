//! Jobs: a hold or charge with the caller's name, an outcome, and a place in a queue.
//!
//! ```text
//!            create                    failed, attempts left
//!              │                ┌──────────────────────────────┐
//!              ▼                ▼                              │
//!           leased ◀── lease ── queued ◀── redrive ── dead ◀───┤ failed, none left
//!              │                                               │
//!              └── outcome ────────────────────────────────────┼──▶ failed      (for good)
//!                                                              └──▶ succeeded   (from any state)
//!           discard: from queued, leased and dead ────────────────▶ discarded
//! ```
//!
//! A job's number is that of its hold or charge. What an outcome does to the credits follows from that
//! record alone (`credits`), so whatever is reported how often, in which order:
//!
//! - INV-18: the queues list each job that is queued or leased once, at the instant at which it is due.
//! - INV-19: a job has taken what it costs once, or nothing.
//!
//! Not here: who works on jobs; the queues of a group (`ledger/queues.rs`).

mod asked;
mod credits;
mod decide;
mod lease;
mod state;

use minicbor::{Decode, Encode};
use purser_types::{BudgetName, Credits, JobId, LogTime, QueueName, Sequence, Span};

pub use self::asked::{
    CreateJob, DiscardJob, FirstAttempt, JobFunding, JobVerdict, LeaseJobs, RedriveJob, RenewJob,
    ReportOutcome,
};
pub(crate) use self::state::{Heads, Jobs, LiveJob};
use crate::command::{HoldNumber, Target};
use crate::digest::{Digest16, digest16};
use crate::hold::{Hold, HoldKind};
use crate::lot::LotTerms;

/// A job as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Job {
    /// The caller's name for it.
    #[n(0)]
    pub id: JobId,
    /// The number of its hold or charge: the sequence of the entry that made both.
    #[n(1)]
    pub number: HoldNumber,
    /// Whether its credits were set aside or charged at once.
    #[n(2)]
    pub kind: HoldKind,
    /// What it costs.
    #[n(3)]
    pub cost: Credits,
    /// Where workers find it.
    #[n(4)]
    pub queue: QueueName,
    /// How often and when it is tried again.
    #[n(5)]
    pub retry: JobRetry,
    /// The caller's own name for the work.
    #[n(6)]
    pub reference: Option<Box<str>>,
    /// Where it stands.
    #[n(7)]
    pub state: JobState,
    /// Attempts that have begun since the last success or redrive.
    #[n(8)]
    pub attempts: u32,
    /// How often it was redriven.
    #[n(9)]
    pub redriven: u32,
    /// What was said of the last failure.
    #[n(10)]
    pub failure: Option<Box<str>>,
    /// When it was created.
    #[n(11)]
    pub created_at: LogTime,
    /// Of what was asked for when it was created.
    #[n(12)]
    #[cbor(with = "minicbor::bytes")]
    pub content: Digest16,
    /// The entry that last changed it.
    #[n(13)]
    pub changed_by: Sequence,
    /// The entry that changed it before that one.
    #[n(14)]
    pub changed_before: Option<Sequence>,
    /// The budgets that its call named. In which periods of which its hold or charge counts, that says.
    #[n(15)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub budgets: Box<[BudgetName]>,
    /// What its hold still held when an attempt failed: it goes with what was captured, if the job is
    /// delivered after all.
    #[n(16)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub freed: Credits,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum JobState {
    /// It waits for a worker.
    #[n(0)]
    Queued {
        /// Not before this instant.
        #[n(0)]
        due_at: LogTime,
    },
    /// Somebody works on it, or did so until the lease ran out.
    #[n(1)]
    Leased {
        /// From this instant on it is due again.
        #[n(0)]
        until: LogTime,
        /// What the worker knows the lease by.
        #[n(1)]
        token: LeaseToken,
    },
    /// It was delivered.
    #[n(2)]
    Succeeded {
        /// Since when that is known.
        #[n(0)]
        at: LogTime,
    },
    /// It failed, and trying again is of no use.
    #[n(3)]
    Failed {
        /// Since when that is known.
        #[n(0)]
        at: LogTime,
    },
    /// It failed as often as it may: people decide what becomes of it.
    #[n(4)]
    Dead {
        /// Since when.
        #[n(0)]
        at: LogTime,
    },
    /// Somebody decided that nothing becomes of it.
    #[n(5)]
    Discarded {
        /// Since when.
        #[n(0)]
        at: LogTime,
    },
}

/// What a worker knows its lease by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct LeaseToken(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub Digest16,
);

/// How often a job is tried, and how long it waits in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct JobRetry {
    /// After this many attempts in a row it is dead. At least 1.
    #[n(0)]
    pub max_attempts: u32,
    /// The wait after the first failed attempt; it doubles with each further one.
    #[n(1)]
    pub base: Span,
    /// The longest wait.
    #[n(2)]
    pub max: Span,
}

/// A job as an entry leaves it that looked at its credits, and what the entry did to them.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JobChange {
    /// The job.
    #[n(0)]
    pub job: Job,
    /// Its hold or charge.
    #[n(1)]
    pub hold: Hold,
    /// What happened to the credits.
    #[n(2)]
    pub effect: JobEffect,
    /// The lot that makes up for lapsed credits of a refund. Its number is the entry's sequence.
    #[n(3)]
    pub regrant: Option<LotTerms>,
}

/// What happened to a job's credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum JobEffect {
    /// They were set aside, or charged.
    #[n(0)]
    Began,
    /// What was set aside was captured.
    #[n(1)]
    Captured,
    /// What had been released or had expired was taken after all.
    #[n(2)]
    CapturedLate,
    /// What had been refunded was charged again.
    #[n(3)]
    Reclaimed,
    /// What was set aside went back.
    #[n(4)]
    Released,
    /// What was captured was given back.
    #[n(5)]
    Refunded,
    /// They were where they belong.
    #[n(6)]
    Nothing,
}

impl Job {
    /// Its hold or charge.
    pub const fn target(&self) -> Target {
        match self.kind {
            HoldKind::Hold => Target::Hold(self.number),
            HoldKind::Charge => Target::Charge(self.number),
        }
    }

    /// When a worker may take it; never for one that has ended or is dead.
    pub const fn due(&self) -> Option<LogTime> {
        match self.state {
            JobState::Queued { due_at: at } | JobState::Leased { until: at, .. } => Some(at),
            JobState::Succeeded { .. }
            | JobState::Failed { .. }
            | JobState::Dead { .. }
            | JobState::Discarded { .. } => None,
        }
    }
}

impl JobState {
    /// Its name in answers and transcripts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued { .. } => "queued",
            Self::Leased { .. } => "leased",
            Self::Succeeded { .. } => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Dead { .. } => "dead",
            Self::Discarded { .. } => "discarded",
        }
    }

    /// Whether it has ended: nothing but a success that comes late changes it.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded { .. } | Self::Failed { .. } | Self::Discarded { .. })
    }
}

impl JobEffect {
    /// The kind of an entry that reports an outcome.
    pub(crate) const fn kind(self, hold: HoldKind) -> &'static str {
        match (self, hold) {
            (Self::Began, HoldKind::Hold) => "authorize",
            (Self::Began, HoldKind::Charge) => "charge",
            (Self::Captured, _) => "capture",
            (Self::CapturedLate, _) => "late_capture",
            (Self::Reclaimed, _) => "reclaim",
            (Self::Released, _) => "release",
            (Self::Refunded, _) => "refund",
            (Self::Nothing, _) => "outcome",
        }
    }
}

impl JobRetry {
    /// How it is tried if nothing is said: five attempts, after 1, 2, 4 and 8 seconds.
    pub const DEFAULT: Self =
        Self { max_attempts: 5, base: Span::from_secs(1), max: Span::from_secs(3_600) };
    /// The most attempts.
    pub const ATTEMPTS_MAX: u32 = 1_000;
    /// The longest that a wait may be.
    pub const WAIT_MAX: Span = Span::from_days(7);

    /// How long a job waits after `attempts` failed ones: less up to an eighth, by its name, so that jobs
    /// that fail together do not come back together. Never longer, so that whoever polls at the instants
    /// that base and maximum make finds it.
    pub fn wait(&self, job: &JobId, attempts: u32) -> Span {
        let doubled = 2_u64.checked_pow(attempts.saturating_sub(1));
        let whole = doubled.and_then(|times| self.base.as_micros().checked_mul(times));
        let whole = whole.unwrap_or(u64::MAX).min(self.max.as_micros());
        let part = u64::from(*digest16(job.as_str().as_bytes()).first().unwrap_or(&0));
        // Less than an eighth: 256 parts of it, of which at most 255 are left out.
        let less = whole.checked_div(PARTS).unwrap_or(0).saturating_mul(part);
        Span::from_micros(whole.saturating_sub(less))
    }
}

/// An eighth in 256 parts.
const PARTS: u64 = 8 * 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_doubles_up_to_its_maximum_and_is_never_longer_and_at_most_an_eighth_shorter() {
        let retry = JobRetry { max: Span::from_secs(10), ..JobRetry::DEFAULT };
        for (attempts, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (64, 10), (1_000, 10)]
        {
            let whole = Span::from_secs(seconds).as_micros();
            for name in ["a", "b", "job-17", "zz"] {
                let wait = retry.wait(&JobId::parse(name).unwrap(), attempts).as_micros();
                assert!(wait <= whole && wait > whole / 8 * 7, "{name} {attempts}: {wait}");
            }
        }
        let waits = ["a", "b", "c"].map(|name| retry.wait(&JobId::parse(name).unwrap(), 4));
        assert!(waits[0] != waits[1] && waits[1] != waits[2], "{waits:?}");
    }
}
