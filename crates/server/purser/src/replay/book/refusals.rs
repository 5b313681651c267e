//! Every way for the book to say no, in one place: what a call must be refused with, if anything.
//!
//! Both directions count. What the service did and the book refuses is wrong, and so is what the
//! service refused and the book would have done.

use purser_api::ProblemCode;
use purser_types::LogTime;

use super::{Asked, Book, Capturing, Figures, Work, WorkState};

/// Why the rules refuse a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BookError {
    /// Too few credits.
    #[error("{asked} credits were asked for and only {available} were available")]
    TooFewCredits {
        /// What was asked for beyond what was held.
        asked: u64,
        /// What was available.
        available: u64,
        /// What would have to be granted, so that it can be paid in full. Debt is paid first.
        short_by: u64,
    },
    /// There is no such hold, charge or lot.
    #[error("there is no {what} {number}")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// The hold had ended.
    #[error("hold {hold} had ended ({state:?})")]
    Ended {
        /// The hold.
        hold: u64,
        /// How it had ended.
        state: WorkState,
    },
    /// Nothing was ever captured, so nothing can be given back.
    #[error("nothing of {of} was captured")]
    NothingCaptured {
        /// The hold.
        of: u64,
    },
    /// More was to be given back than was taken.
    #[error("{asked} credits of {of} were asked back and only {refundable} could be refunded")]
    NotRefundable {
        /// The hold or charge.
        of: u64,
        /// What was asked for.
        asked: u64,
        /// What could be given back.
        refundable: u64,
    },
    /// It was reclaimed before, and that can happen once.
    #[error("{of} was reclaimed before")]
    Reclaimed {
        /// The hold or charge.
        of: u64,
    },
    /// Nothing was refunded.
    #[error("there was nothing to reclaim of {of}")]
    NothingToReclaim {
        /// The hold or charge.
        of: u64,
    },
    /// The lot's end had come before it started.
    #[error("the grant had expired before it was made")]
    GrantExpired,
    /// The account was open, or not open yet.
    #[error("the account was opened twice, or used before it was opened")]
    Opening,
}

impl BookError {
    /// What the service must call it. Nothing for what no replay asks for.
    pub(crate) const fn code(&self) -> Option<ProblemCode> {
        Some(match self {
            Self::TooFewCredits { .. } => ProblemCode::InsufficientCredits,
            Self::Ended { state: WorkState::Captured, .. } => ProblemCode::AlreadyCaptured,
            Self::Ended { state: WorkState::Released, .. } => ProblemCode::AlreadyReleased,
            Self::Ended { state: WorkState::Expired, .. } => ProblemCode::HoldExpired,
            Self::NothingCaptured { .. } => ProblemCode::NothingCaptured,
            Self::NotRefundable { .. } => ProblemCode::RefundExceedsCaptured,
            Self::Reclaimed { .. } => ProblemCode::AlreadyReclaimed,
            Self::NothingToReclaim { .. } => ProblemCode::NotRefunded,
            Self::GrantExpired => ProblemCode::GrantAlreadyExpired,
            Self::Ended { state: WorkState::Active, .. } | Self::Unknown { .. } | Self::Opening => {
                return None;
            }
        })
    }
}

impl Book {
    /// Whether the rules refuse a call at `at`. Everything that was due by then must have taken
    /// effect ([`Book::let_pass`]).
    pub(crate) fn refuse(&self, asked: &Asked, at: LogTime) -> Result<(), BookError> {
        if self.is_open() == matches!(asked, Asked::Open(_)) {
            return Err(BookError::Opening);
        }
        match asked {
            Asked::Open(_) => Ok(()),
            Asked::Grant(granting) => {
                let start = granting.effective_at.map_or(at, |start| start.max(at));
                match granting.expires_at {
                    Some(end) if end <= start => Err(BookError::GrantExpired),
                    Some(_) | None => Ok(()),
                }
            }
            Asked::Authorize { amount, .. } => self.refuse_unpayable(*amount, false),
            Asked::Capture(capturing) => self.refuse_capture(capturing),
            Asked::Release { hold } => self.refuse_ended(*hold),
            Asked::Charge { amount, allow_debt } => self.refuse_unpayable(*amount, *allow_debt),
            Asked::Refund { of, amount } => self.refuse_refund(*of, *amount),
            Asked::Reclaim { of } => {
                let work = self.known_work(*of)?;
                if work.reclaimed.is_some() {
                    return Err(BookError::Reclaimed { of: *of });
                }
                if work.refunded == 0 {
                    Err(BookError::NothingToReclaim { of: *of })
                } else {
                    Ok(())
                }
            }
            Asked::Void { lot } => {
                let unknown = BookError::Unknown { what: "lot", number: *lot };
                self.lots().get(lot).map(drop).ok_or(unknown)
            }
        }
    }

    fn refuse_capture(&self, asked: &Capturing) -> Result<(), BookError> {
        let work = self.known_hold(asked.hold)?;
        if work.state == WorkState::Expired && asked.even_if_expired {
            let amount = work.late_amount(asked.amount);
            if amount > 0 {
                return self.refuse_unpayable(amount, asked.allow_debt);
            }
        }
        self.refuse_ended(asked.hold)?;
        let held = work.held();
        let beyond = asked.amount.unwrap_or(held).saturating_sub(held);
        self.refuse_unpayable(beyond, asked.allow_debt)
    }

    fn refuse_ended(&self, hold: u64) -> Result<(), BookError> {
        let state = self.known_hold(hold)?.state;
        if state == WorkState::Active { Ok(()) } else { Err(BookError::Ended { hold, state }) }
    }

    fn refuse_refund(&self, of: u64, amount: Option<u64>) -> Result<(), BookError> {
        let work = self.known_work(of)?;
        if work.captured == 0 {
            return Err(BookError::NothingCaptured { of });
        }
        let refundable = work.refundable();
        let asked = amount.unwrap_or(refundable);
        if asked == 0 || asked > refundable {
            return Err(BookError::NotRefundable { of, asked, refundable });
        }
        Ok(())
    }

    fn refuse_unpayable(&self, asked: u64, allow_debt: bool) -> Result<(), BookError> {
        let Figures { available, debt, .. } = self.figures();
        let missing = asked.saturating_sub(available);
        if missing == 0 || (allow_debt && debt + missing <= self.debt_limit()) {
            return Ok(());
        }
        Err(BookError::TooFewCredits { asked, available, short_by: missing + debt })
    }

    fn known_hold(&self, number: u64) -> Result<&Work, BookError> {
        let found = self.works().get(&number).filter(|work| !work.is_charge);
        found.ok_or(BookError::Unknown { what: "hold", number })
    }

    fn known_work(&self, number: u64) -> Result<&Work, BookError> {
        self.works().get(&number).ok_or(BookError::Unknown { what: "hold or charge", number })
    }
}
