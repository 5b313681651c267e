//! What is told, in a form that ledger and naive book share.

use std::collections::BTreeMap;

use crate::asking::Policy;
use crate::book::{Balance, Hold, LotParts, Standing};

/// Where credits can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bucket {
    Granted,
    Available,
    Held,
    Used,
    Expired,
    Voided,
    Debt,
}

/// Credits of a lot, or of none, that went from one place to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) lot: Option<usize>,
    pub(crate) from: Bucket,
    pub(crate) to: Bucket,
    pub(crate) amount: u64,
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) result: Result<Accepted, Figures>,
    pub(crate) replayed: bool,
}

/// What an accepted request did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Those of the request's own entry; of a grant's the lot tells.
    pub(crate) flows: BTreeMap<(Option<usize>, Bucket, Bucket), u64>,
    pub(crate) about: About,
    pub(crate) repaid: u64,
    pub(crate) balance: Balance,
}

/// What a request was about, as it stood when it was done and before debt was repaid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum About {
    /// Credits of no lot in particular.
    Credits,
    /// The account as a whole, and what its policy says by then.
    Account(Standing, Policy),
    /// A new lot.
    Lot(usize),
    /// A lot that was there before, with its parts and what it shows.
    KnownLot(usize, LotParts, &'static str),
    Hold(Hold),
}

/// A refusal: its code and the numbers in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) code: &'static str,
    pub(crate) numbers: Vec<u64>,
}

impl Figures {
    pub(crate) fn code(code: &'static str) -> Self {
        Self { code, numbers: Vec::new() }
    }

    pub(crate) fn with(mut self, number: u64) -> Self {
        self.numbers.push(number);
        self
    }
}

impl Told {
    pub(crate) fn refused(figures: Figures) -> Self {
        Self { result: Err(figures), replayed: false }
    }
}
