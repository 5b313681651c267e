//! What may be asked of jobs.

use minicbor::{Decode, Encode};
use purser_types::{BudgetName, Credits, JobId, QueueName, Span};

use super::{JobRetry, LeaseToken};
use crate::command::{Confirm, Context};

/// See [`Operation::CreateJob`](crate::Operation::CreateJob).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CreateJob {
    /// The caller's name for it.
    #[n(0)]
    pub job: JobId,
    /// What it costs. At least 1.
    #[n(1)]
    pub amount: Credits,
    /// Whether that is set aside or charged at once.
    #[n(2)]
    pub funding: JobFunding,
    /// Where workers find it.
    #[n(3)]
    pub queue: QueueName,
    /// How often and when it is tried again.
    #[n(4)]
    pub retry: JobRetry,
    /// Whose the first attempt is.
    #[n(5)]
    pub start: FirstAttempt,
    /// The caller's own name for the work.
    #[n(6)]
    pub reference: Option<Box<str>>,
    /// The budgets that are asked as well, in the order in which they are tried.
    #[n(7)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub budgets: Box<[BudgetName]>,
}

/// Where a job's credits come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum JobFunding {
    /// They are set aside, and captured once the job has succeeded.
    #[n(0)]
    Hold {
        /// How long the hold lives, from log time on.
        #[n(0)]
        ttl: Span,
    },
    /// They are charged, and given back if the job fails.
    #[n(1)]
    Charge {
        /// Whether a shortfall may become debt, within the account's limit.
        #[n(0)]
        allow_debt: bool,
    },
}

/// Whose the first attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum FirstAttempt {
    /// The caller's, who has a lease of this length.
    #[n(0)]
    Caller {
        /// How long, from log time on.
        #[n(0)]
        lease: Span,
    },
    /// A worker's: the job is due at once.
    #[n(1)]
    Queue,
}

/// See [`Operation::ReportOutcome`](crate::Operation::ReportOutcome).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReportOutcome {
    /// The job.
    #[n(0)]
    pub job: JobId,
    /// How it ended.
    #[n(1)]
    pub verdict: JobVerdict,
    /// The lease under which it was tried; the present one if none is named.
    #[n(2)]
    pub lease: Option<LeaseToken>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum JobVerdict {
    /// The work was delivered.
    #[n(0)]
    Succeeded,
    /// It was not.
    #[n(1)]
    Failed {
        /// Whether trying again may help.
        #[n(0)]
        retryable: bool,
    },
}

/// See [`Operation::RenewJob`](crate::Operation::RenewJob).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RenewJob {
    /// The job.
    #[n(0)]
    pub job: JobId,
    /// The lease.
    #[n(1)]
    pub lease: LeaseToken,
    /// How long it lasts from log time on. A lease that lasts longer already stays as it is.
    #[n(2)]
    pub term: Span,
}

/// See [`Operation::RedriveJob`](crate::Operation::RedriveJob).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RedriveJob {
    /// The job.
    #[n(0)]
    pub job: JobId,
}

/// See [`Operation::DiscardJob`](crate::Operation::DiscardJob).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DiscardJob {
    /// The job.
    #[n(0)]
    pub job: JobId,
    /// The entry that last changed the job, as the operator saw it.
    #[n(1)]
    pub confirm: Confirm,
}

/// Leases jobs that are due, of all accounts of a group.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LeaseJobs {
    /// From this queue.
    #[n(0)]
    pub queue: QueueName,
    /// At most so many.
    #[n(1)]
    pub max: u32,
    /// How long the leases last, from log time on.
    #[n(2)]
    pub term: Span,
    /// Who asked. Has no key: a lease that nobody heard of runs out.
    #[n(3)]
    pub context: Context,
}

impl LeaseJobs {
    /// The most jobs that are leased at a time.
    pub const COUNT_MAX: u32 = 1_000;
    /// The most jobs that one lease looks at: those that it gives out, and those that it finds dead.
    pub(crate) const STEPS_MAX: usize = 2_000;
    /// How long a lease lasts if nothing is said.
    pub const TERM_DEFAULT: Span = Span::from_secs(900);
    /// The shortest lease.
    pub const TERM_MIN: Span = Span::from_secs(1);
    /// The longest lease.
    pub const TERM_MAX: Span = Span::from_days(7);
}
