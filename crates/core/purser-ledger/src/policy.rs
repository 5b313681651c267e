//! What an account's operator may choose.

use minicbor::{Decode, Encode};
use purser_types::{Credits, Span};

use crate::events::EVENT_AGE;

/// The rules of one account that its operator may set.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Policy {
    /// How much debt captures and charges that allow debt may make. Reclaims are booked beyond it.
    #[n(0)]
    pub debt_limit: Credits,
    /// What happens to credits that are refunded into an expired lot.
    #[n(1)]
    pub refund_expired: RefundExpired,
    /// How long a decision is remembered under its idempotency key, from commit. A change is for
    /// decisions to come.
    #[n(2)]
    pub key_retention: Span,
    /// How long an ended hold or a charge can still be refunded or reclaimed, from its last change. A
    /// change is for what ends or changes from then on.
    #[n(3)]
    pub record_retention: Span,
    /// How much may be taken back from regions that are not heard of, without an operator's word.
    #[n(4)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub takeback_cap: Credits,
    /// What becomes of an allocation that is not renewed in time, where nothing else is said of it: a
    /// change is for allocations to come.
    #[n(5)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub on_expiry: OnExpiry,
    /// X: how many credits of authorizes, charges, captures and reclaims home may answer before every
    /// promotable standby has them. That much may be overspent if home is lost.
    #[n(6)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub unacknowledged_max: Credits,
    /// How long a usage event is accepted after its time, and remembered: 72 hours if none is named. A
    /// longer one is for events whose time is after the change, a shorter one for all.
    #[n(7)]
    pub event_age: Option<Span>,
}

/// A change of policy: what it does not name stays as it is, whatever that is by then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct PolicyChange {
    /// See [`Policy::debt_limit`].
    #[n(0)]
    pub debt_limit: Option<Credits>,
    /// See [`Policy::refund_expired`].
    #[n(1)]
    pub refund_expired: Option<RefundExpired>,
    /// See [`Policy::key_retention`].
    #[n(2)]
    pub key_retention: Option<Span>,
    /// See [`Policy::record_retention`].
    #[n(3)]
    pub record_retention: Option<Span>,
    /// See [`Policy::takeback_cap`].
    #[n(4)]
    pub takeback_cap: Option<Credits>,
    /// See [`Policy::unacknowledged_max`].
    #[n(6)]
    pub unacknowledged_max: Option<Credits>,
    /// See [`Policy::on_expiry`].
    #[n(5)]
    pub on_expiry: Option<OnExpiry>,
    /// See [`Policy::event_age`].
    #[n(7)]
    pub event_age: Option<Span>,
}

/// What becomes of an allocation whose lease has run out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum OnExpiry {
    /// The region keeps it, and may spend what it has. Home takes nothing back without a report.
    #[n(0)]
    #[default]
    Keep,
    /// The region spends nothing more, and home takes it back, within the policy's cap.
    #[n(1)]
    TakeBack,
}

impl OnExpiry {
    /// How long a lease lasts. A region that is to stop at its end is heard of more often, and given up
    /// sooner.
    pub const fn term(self) -> Span {
        match self {
            Self::Keep => Span::from_secs(300),
            Self::TakeBack => Span::from_secs(60),
        }
    }
}

impl Policy {
    /// The longest that an event may be accepted after its time.
    pub const EVENT_AGE_MAX: Span = Span::from_days(400);

    /// How long a usage event is accepted after its time.
    pub fn events_accepted_for(&self) -> Span {
        self.event_age.unwrap_or(EVENT_AGE)
    }

    /// The policy after a change.
    pub fn changed(&self, change: &PolicyChange) -> Self {
        Self {
            debt_limit: change.debt_limit.unwrap_or(self.debt_limit),
            refund_expired: change.refund_expired.unwrap_or(self.refund_expired),
            key_retention: change.key_retention.unwrap_or(self.key_retention),
            record_retention: change.record_retention.unwrap_or(self.record_retention),
            takeback_cap: change.takeback_cap.unwrap_or(self.takeback_cap),
            on_expiry: change.on_expiry.unwrap_or(self.on_expiry),
            unacknowledged_max: change.unacknowledged_max.unwrap_or(self.unacknowledged_max),
            event_age: change.event_age.or(self.event_age),
        }
    }
}

/// What happens to credits that are refunded into an expired lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum RefundExpired {
    /// They lapse.
    #[n(0)]
    Lapse,
    /// The tenant gets as many in a promotional lot that lives so many days.
    #[n(1)]
    Regrant {
        /// The new lot's life.
        #[n(0)]
        days: u16,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            debt_limit: Credits::ZERO,
            refund_expired: RefundExpired::Lapse,
            key_retention: Span::from_days(1),
            record_retention: Span::from_days(400),
            takeback_cap: Credits::ZERO,
            on_expiry: OnExpiry::Keep,
            unacknowledged_max: Credits::ZERO,
            event_age: None,
        }
    }
}
