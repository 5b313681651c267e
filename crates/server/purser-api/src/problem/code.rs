//! The table of problem codes.
//!
//! A row is a promise: a code is never renamed, and never used for something else. Each has its
//! page in `docs/problems/`, and a test holds the pages and the table together.

use crate::spelled::spelled_enum;

spelled_enum! {
    /// Whether to send the request again, and under which idempotency key.
    Retry, "a kind of retry" {
        /// The answer will not change; the request has to.
        Never "never",
        /// Something may have happened, or is happening: the same key finds out.
        SameKey "same_key",
        /// The refusal is remembered under the key. Once its reason is gone, a new key asks anew.
        NewKey "new_key",
        /// Nothing happened and nothing is remembered: the same request, same key, after a pause.
        Later "later",
    }
}

spelled_enum! {
    /// What the service knows about the effect of the request.
    Outcome, "an outcome" {
        /// No credits moved and nothing else changed.
        NothingHappened "nothing_happened",
        /// It may have happened, or may yet.
        Unknown "unknown",
    }
}

/// One row for each code: variant, name, status, retry, outcome, title.
macro_rules! problem_codes {
    ($($variant:ident $name:literal $status:literal $retry:ident $outcome:ident $title:literal;)+) => {
        /// Why a request was not done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProblemCode {
            $(#[doc = concat!($title, " (", $status, ").")] $variant,)+
        }

        impl ProblemCode {
            /// Every code, in the order of their statuses.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The HTTP status.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }

            /// Whether to send the request again, and how.
            pub const fn retry(self) -> Retry {
                match self { $(Self::$variant => Retry::$retry,)+ }
            }

            /// What is known about the effect.
            pub const fn outcome(self) -> Outcome {
                match self { $(Self::$variant => Outcome::$outcome,)+ }
            }

            /// What it means, in one line; the same for every occurrence.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }

            /// The code of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

problem_codes! {
    InvalidRequest "invalid_request" 400 Never NothingHappened "The request cannot be read";
    InvalidId "invalid_id" 400 Never NothingHappened "An id in the path cannot be read";
    InvalidCursor "invalid_cursor" 400 Never NothingHappened "The cursor does not belong to this list";
    MissingIdempotencyKey "missing_idempotency_key" 400 Never NothingHappened "The Idempotency-Key header is required";
    InvalidIdempotencyKey "invalid_idempotency_key" 400 Never NothingHappened "The idempotency key cannot be read";
    GrantAlreadyExpired "grant_already_expired" 400 Never NothingHappened "The grant would never be effective";
    ConfirmationRequired "confirmation_required" 400 Never NothingHappened "The act needs the confirmation of its dry run";
    Unauthenticated "unauthenticated" 401 Never NothingHappened "A valid token is required";
    InsufficientCredits "insufficient_credits" 402 NewKey NothingHappened "There are too few credits";
    BudgetExceeded "budget_exceeded" 402 NewKey NothingHappened "A budget has too little left";
    Stranded "stranded" 402 NewKey NothingHappened "The credits are in regions that cannot be reached";
    Forbidden "forbidden" 403 Never NothingHappened "The token does not allow this";
    NotFound "not_found" 404 Never NothingHappened "There is nothing at this path";
    TenantNotFound "tenant_not_found" 404 Never NothingHappened "There is no such tenant, or no account in this unit";
    HoldNotFound "hold_not_found" 404 Never NothingHappened "There is no such hold";
    ChargeNotFound "charge_not_found" 404 Never NothingHappened "There is no such charge";
    EventNotParked "event_not_parked" 404 Never NothingHappened "No such event is parked";
    BudgetNotFound "budget_not_found" 404 Never NothingHappened "There is no such budget";
    JobNotFound "job_not_found" 404 Never NothingHappened "There is no such job";
    LotNotFound "lot_not_found" 404 Never NothingHappened "There is no such lot";
    TailNotFound "tail_not_found" 404 Never NothingHappened "No such tail of a lost home is open";
    AllocationNotFound "allocation_not_found" 404 Never NothingHappened "There is no such allocation";
    RegionNotFound "region_not_found" 404 Never NothingHappened "There is no such region";
    WebhookNotFound "webhook_not_found" 404 Never NothingHappened "There is no such webhook";
    SequenceNotFound "sequence_not_found" 404 Never NothingHappened "The account has no such entry";
    MethodNotAllowed "method_not_allowed" 405 Never NothingHappened "The path does not allow this method";
    BodyIncomplete "body_incomplete" 408 Later NothingHappened "The body did not arrive whole in time";
    HoldExpired "hold_expired" 409 Never NothingHappened "The hold has expired";
    AlreadyCaptured "already_captured" 409 Never NothingHappened "The hold was captured before";
    AlreadyReleased "already_released" 409 Never NothingHappened "The hold was released before";
    ExtendNotLater "extend_not_later" 409 Never NothingHappened "The new deadline is not later than the current one";
    ExtendTooLong "extend_too_long" 409 Never NothingHappened "The hold would live too long";
    NothingCaptured "nothing_captured" 409 NewKey NothingHappened "Nothing was captured";
    RefundExceedsCaptured "refund_exceeds_captured" 409 Never NothingHappened "The refund is more than is left to refund";
    NotRefunded "not_refunded" 409 NewKey NothingHappened "Nothing was refunded";
    AlreadyReclaimed "already_reclaimed" 409 Never NothingHappened "The refund was reclaimed before";
    JobIdConflict "job_id_conflict" 409 Never NothingHappened "The job_id belongs to another job";
    JobNotDead "job_not_dead" 409 Never NothingHappened "The job is no dead letter";
    JobEnded "job_ended" 409 Never NothingHappened "The job has ended";
    LeaseLost "lease_lost" 409 Never NothingHappened "The lease of the job is over";
    BudgetParentFixed "budget_parent_fixed" 409 Never NothingHappened "A budget keeps its parent";
    BudgetHasChildren "budget_has_children" 409 NewKey NothingHappened "Budgets are below this one";
    TooManyBudgets "too_many_budgets" 409 NewKey NothingHappened "The account has as many budgets as it may";
    BudgetTooDeep "budget_too_deep" 409 Never NothingHappened "Too many budgets are above this one";
    TooManyQueues "too_many_queues" 409 NewKey NothingHappened "The account has jobs in too many queues";
    EventConflict "event_conflict" 409 Never NothingHappened "Another event of the same source and id was taken";
    SourceRefConflict "source_ref_conflict" 409 Never NothingHappened "The source_ref belongs to another grant";
    GrantExceedsCeiling "grant_exceeds_ceiling" 409 Never NothingHappened "The account cannot be granted so much";
    AmountOverflow "amount_overflow" 409 Never NothingHappened "A total would pass the largest amount";
    LotAlreadyVoided "lot_already_voided" 409 Never NothingHappened "The lot was voided before";
    TenantExists "tenant_exists" 409 Never NothingHappened "The tenant has an account in this unit already";
    AccountFrozen "account_frozen" 409 NewKey NothingHappened "The account is frozen";
    AccountClosed "account_closed" 409 Never NothingHappened "The account is closed";
    TooManyParts "too_many_parts" 409 Never NothingHappened "More than 1,024 lots and debts would pay";
    AlreadyFrozen "already_frozen" 409 Never NothingHappened "The account is frozen already";
    NotFrozen "not_frozen" 409 Never NothingHappened "The account is not frozen";
    CloseBlocked "close_blocked" 409 NewKey NothingHappened "The account has something open";
    StaleConfirmation "stale_confirmation" 409 NewKey NothingHappened "The account changed after the dry run";
    BatchAborted "batch_aborted" 409 Never NothingHappened "Another item of the atomic batch was refused";
    AllocationEnded "allocation_ended" 409 Never NothingHappened "The allocation has ended";
    AllocationOpen "allocation_open" 409 NewKey NothingHappened "The allocation is open";
    TransferToItself "transfer_to_itself" 409 Never NothingHappened "The credits are in that region already";
    TransferToUnknown "transfer_to_unknown" 409 Never NothingHappened "The region cannot have an allocation of this account";
    TransferBeyondRight "transfer_beyond_right" 409 NewKey NothingHappened "The region has fewer free credits";
    TransferUnderWay "transfer_under_way" 409 Later NothingHappened "Another transfer from the region is under way";
    PlacementRefused "placement_refused" 409 Later NothingHappened "Placement refuses the change";
    WebhookRefused "webhook_refused" 409 Never NothingHappened "There cannot be such a webhook";
    ChangeRefused "change_refused" 409 Later NothingHappened "The group refuses the change";
    InProgress "in_progress" 409 SameKey Unknown "A request with this key is still running";
    BodyTooLarge "body_too_large" 413 Never NothingHappened "The body is larger than 1 MiB";
    UnsupportedMediaType "unsupported_media_type" 415 Never NothingHappened "The body must be JSON";
    Moved "moved" 421 Later NothingHappened "The account's home is elsewhere";
    KeyReused "key_reused" 422 NewKey NothingHappened "The idempotency key belongs to another request";
    TooManyRequests "too_many_requests" 429 Later NothingHappened "The tenant sends too many requests";
    InternalError "internal_error" 500 SameKey Unknown "The service failed";
    TooManyEventsParked "too_many_events_parked" 503 Later NothingHappened "Too many events of the account are parked";
    NotReady "not_ready" 503 Later NothingHappened "The service is not ready";
    Overloaded "overloaded" 503 Later NothingHappened "The service is overloaded";
    HomeUnreachable "home_unreachable" 503 Later NothingHappened "The account's home cannot be reached";
    OutcomeUnknown "outcome_unknown" 504 SameKey Unknown "Whether it happened is not known";
}

impl ProblemCode {
    /// The code as it stands in addresses and file names: dashes for underscores.
    pub fn slug(self) -> String {
        self.name().replace('_', "-")
    }

    /// The address of the page that explains it; the `type` of its problem documents.
    pub fn documentation_url(self) -> String {
        format!("https://purser.dev/problems/{}", self.slug())
    }
}

impl std::fmt::Display for ProblemCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_code_is_known_by_one_name() {
        let names: BTreeSet<&str> = ProblemCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), ProblemCode::ALL.len());
        for code in ProblemCode::ALL {
            assert_eq!(ProblemCode::from_name(code.name()), Some(*code));
        }
        assert_eq!(ProblemCode::from_name("no_such_code"), None);
    }

    /// A caller may rely on the status alone: 408, 429 and 503 mean that nothing happened, 500 and
    /// 504 that it may have.
    #[test]
    fn status_retry_and_outcome_agree() {
        for code in ProblemCode::ALL {
            let (retry, outcome) = (code.retry(), code.outcome());
            match code.status() {
                408 | 429 | 503 => {
                    assert_eq!((retry, outcome), (Retry::Later, Outcome::NothingHappened));
                }
                500 | 504 => assert_eq!((retry, outcome), (Retry::SameKey, Outcome::Unknown)),
                400 | 401 | 403 | 405 | 413 | 415 => assert_eq!(retry, Retry::Never, "{code}"),
                _ => {}
            }
            assert_eq!(retry == Retry::SameKey, outcome == Outcome::Unknown, "{code}");
        }
    }
}
