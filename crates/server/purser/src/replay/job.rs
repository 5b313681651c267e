//! One request of the trace, and what becomes of it.
//!
//! Most are what a gateway does all day: authorized with the estimate, captured with the actual
//! cost. The rest is what goes wrong or comes late in real life, in the shares below.

use std::time::Duration;

use purser_types::Span;

use super::random::Random;
use super::trace::TraceRequest;

/// Requests in a thousand whose work fails, so that the hold is released.
const FAILED: u64 = 60;
/// Requests in a thousand whose client vanishes, so that the hold is left to its TTL.
const VANISHED: u64 = 20;
/// Requests in a thousand that are charged at once, without a hold.
const CHARGED: u64 = 100;
/// Requests in a thousand that ask for far more than there is.
const TOO_EXPENSIVE: u64 = 10;
/// Captured holds in a thousand that are captured in parts.
const IN_PARTS: u64 = 100;
/// Captured holds in a thousand that cost more than was estimated.
const OVER_ESTIMATE: u64 = 30;
/// Captured requests in a thousand that are refunded in some way.
const UNDONE: u64 = 60;
/// Requests in a thousand whose every call is sent twice.
const REPEATED: u64 = 40;

/// What no tenant here can pay: 10^17 credits.
const FAR_TOO_MUCH: u64 = 100_000_000_000_000_000;

/// How long a hold lives at least that nobody is meant to lose.
pub(crate) const TTL_LEAST: Span = Span::from_secs(900);

/// One request of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// When it is due, from the start of the jobs on.
    pub(crate) due: Duration,
    /// Who pays: a place in [`super::plan::Plan::tenants`].
    pub(crate) tenant: usize,
    /// What it is thought to cost.
    pub(crate) estimate: u64,
    /// How long the work takes.
    pub(crate) takes: Duration,
    /// What becomes of it.
    pub(crate) story: Story,
    /// Whether its calls are sent twice.
    pub(crate) repeat: Repeat,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Story {
    /// Authorized, and captured when the work is done: in these amounts, the last one final.
    Captured {
        /// How long the hold may live.
        ttl: Span,
        /// The amounts.
        captures: Vec<u64>,
        /// Whether a shortfall may become debt.
        allow_debt: bool,
        /// What happens to it afterwards.
        undo: Undo,
    },
    /// Authorized, and released because the work failed.
    Failed {
        /// How long the hold may live.
        ttl: Span,
    },
    /// Authorized, and never heard of again until the hold has expired.
    Vanished {
        /// How long the hold lives.
        ttl: Span,
        /// What comes after that.
        comeback: Comeback,
    },
    /// Charged at once.
    Charged {
        /// How much.
        amount: u64,
        /// What happens to it afterwards.
        undo: Undo,
    },
    /// Refused, because nobody has that much; and refused again under the same key.
    TooExpensive {
        /// How much.
        amount: u64,
    },
}

/// What happens to captured credits afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// Nothing.
    Never,
    /// All of it is refunded.
    Refund,
    /// Two parts are refunded.
    RefundInParts,
    /// It is refunded and then, because the job succeeded after all, reclaimed.
    RefundAndReclaim,
    /// A reclaim comes although nothing was refunded; it is refused.
    ReclaimOnly,
}

/// How a vanished client comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comeback {
    /// Not at all.
    Never,
    /// It tries to capture, and is refused because the hold has expired.
    Capture,
    /// It captures as a late capture.
    LateCapture,
}

/// How often a call is sent, with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Once, if it is answered.
    Never,
    /// Again after its answer.
    Afterwards,
    /// Twice at once.
    AtOnce,
}

impl Job {
    /// Decides what becomes of a request.
    pub(crate) fn plan(
        request: &TraceRequest,
        tenant: usize,
        speed: u32,
        random: &mut Random,
    ) -> Self {
        let story = story(request, random);
        let repeat = match random.below(2) {
            _ if !random.happens(REPEATED) => Repeat::Never,
            0 => Repeat::Afterwards,
            _ => Repeat::AtOnce,
        };
        Self {
            due: request.due / speed,
            tenant,
            estimate: request.estimate,
            takes: request.duration / speed,
            story,
            repeat,
        }
    }

    /// The most that the job can take from its tenant.
    pub(crate) fn demand(&self) -> u64 {
        match &self.story {
            Story::Captured { captures, .. } => {
                let total = captures.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
                total.max(self.estimate)
            }
            Story::Failed { .. } | Story::Vanished { .. } => self.estimate,
            Story::Charged { amount, .. } => *amount,
            Story::TooExpensive { .. } => 0,
        }
    }
}

fn story(request: &TraceRequest, random: &mut Random) -> Story {
    let ttl_seconds = request.duration.as_secs().saturating_mul(2).max(TTL_LEAST.as_secs());
    let ttl = Span::from_secs(ttl_seconds.min(Span::from_days(7).as_secs()));
    // One draw, so that the shares exclude each other.
    let lot = random.below(1_000);
    if lot < FAILED {
        Story::Failed { ttl }
    } else if lot < FAILED + VANISHED {
        let comeback = match random.below(3) {
            0 => Comeback::Never,
            1 => Comeback::Capture,
            _ => Comeback::LateCapture,
        };
        Story::Vanished { ttl: Span::from_secs(1 + random.below(2)), comeback }
    } else if lot < FAILED + VANISHED + CHARGED {
        Story::Charged { amount: request.actual.max(1), undo: undo(random) }
    } else if lot < FAILED + VANISHED + CHARGED + TOO_EXPENSIVE {
        Story::TooExpensive { amount: FAR_TOO_MUCH + random.below(FAR_TOO_MUCH) }
    } else {
        let captures = captures(request, random);
        Story::Captured { ttl, captures, allow_debt: random.happens(500), undo: undo(random) }
    }
}

fn captures(request: &TraceRequest, random: &mut Random) -> Vec<u64> {
    let actual = request.actual;
    if random.happens(OVER_ESTIMATE) {
        let beyond = 1 + random.below(request.estimate / 5 + 1);
        return vec![request.estimate.saturating_add(beyond)];
    }
    if actual > 2 && random.happens(IN_PARTS) {
        let first = 1 + random.below(actual - 2);
        let second = 1 + random.below(actual - first);
        let rest = actual - first - second;
        return [first, second, rest].into_iter().filter(|part| *part > 0).collect();
    }
    vec![actual]
}

fn undo(random: &mut Random) -> Undo {
    if !random.happens(UNDONE) {
        return Undo::Never;
    }
    match random.below(5) {
        0 | 1 => Undo::Refund,
        2 => Undo::RefundInParts,
        3 => Undo::RefundAndReclaim,
        _ => Undo::ReclaimOnly,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_capture_add_up_to_the_actual_cost() {
        let mut random = Random::from_seed(3);
        for number in 0..2_000 {
            let request = TraceRequest {
                due: Duration::ZERO,
                tenant: None,
                estimate: 3_000,
                actual: number,
                duration: Duration::ZERO,
            };
            let parts = captures(&request, &mut random);
            let total: u64 = parts.iter().sum();
            assert!(total == request.actual || total > request.estimate, "{parts:?}");
        }
    }
}
