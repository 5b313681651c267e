//! What a caller asked for, in the book's own words.
//!
//! Lots, holds and charges are named by the sequence of the entry that made them, which is also how
//! the service numbers them.

use std::num::NonZeroU16;

use purser_types::{LogTime, Span};

/// One call that changes an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Open the account.
    Open(Opening),
    /// Give credits.
    Grant(Granting),
    /// Set credits aside.
    Authorize {
        /// How many.
        amount: u64,
        /// For how long.
        ttl: Span,
    },
    /// Take credits of a hold.
    Capture(Capturing),
    /// Give a hold back.
    Release {
        /// The hold.
        hold: u64,
    },
    /// Take credits at once.
    Charge {
        /// How many.
        amount: u64,
        /// Whether a shortfall may become debt.
        allow_debt: bool,
    },
    /// Give captured credits back.
    Refund {
        /// The hold or charge.
        of: u64,
        /// How many; all that can be refunded if none is named.
        amount: Option<u64>,
    },
    /// Take refunded credits again.
    Reclaim {
        /// The hold or charge.
        of: u64,
    },
    /// Take a lot back.
    Void {
        /// The lot.
        lot: u64,
    },
}

/// See [`Asked::Open`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    /// How much debt captures and charges may make.
    pub(crate) debt_limit: u64,
    /// How many days a lot lives that makes up for a refund into an expired one; none is made if
    /// there is no number.
    pub(crate) regrant_days: Option<NonZeroU16>,
    /// How much home may take back from regions that are not heard of; none do if it is zero.
    pub(crate) takeback_cap: u64,
    /// How much home may answer before its standby has it.
    pub(crate) unacknowledged_max: u64,
}

/// See [`Asked::Grant`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Granting {
    /// How many credits.
    pub(crate) amount: u64,
    /// Whether they are given away, not bought.
    pub(crate) promotional: bool,
    /// Lower spends first.
    pub(crate) priority: u8,
    /// From when on they can be used; at once if there is no instant.
    pub(crate) effective_at: Option<LogTime>,
    /// From when on they cannot be used any more.
    pub(crate) expires_at: Option<LogTime>,
}

/// See [`Asked::Capture`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capturing {
    /// The hold.
    pub(crate) hold: u64,
    /// How many credits; all that is held if none is named.
    pub(crate) amount: Option<u64>,
    /// Whether it is the last capture.
    pub(crate) last: bool,
    /// Whether a shortfall may become debt.
    pub(crate) allow_debt: bool,
    /// Whether to take the credits even if the hold has expired.
    pub(crate) even_if_expired: bool,
}
