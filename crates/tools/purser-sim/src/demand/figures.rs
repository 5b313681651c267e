//! What a run came to.

use std::fmt;

use purser_types::Span;

/// See the module's documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls that were accepted, wherever they were made.
    pub accepted: u64,
    /// Those of them that were made outside the home region and were not their account's first there.
    pub accepted_away: u64,
    /// Those of them that their own region decided.
    pub local: u64,
    /// Those of them that waited for credits to arrive.
    pub waited: u64,
    /// Calls that were refused for want of credits.
    pub refused: u64,
    /// Those of them that were told that credits are out of reach.
    pub stranded: u64,
    /// Those of them that could have been served: from their coming to their refusal there were credits
    /// enough at home and in the regions that could be reached.
    pub refused_falsely: u64,
    /// Calls that found home out of reach.
    pub unavailable: u64,
    /// Requests between the home region and others.
    pub messages: u64,
    /// Grants to regions.
    pub grants: u64,
    /// Recalls.
    pub recalls: u64,
    /// Changes of mode.
    pub modes: u64,
    /// Credits that were captured.
    pub used: u64,
    /// Credits that were not, wherever they are.
    pub left: u64,
    /// Those of them that lie in regions at the end.
    pub at_rest: u64,
    /// From a top-up of who had nothing left until the last region decided its first call of its own.
    pub woken_after: Option<Span>,
}

impl Figures {
    /// The table's head.
    pub const HEAD: &str = "accepted | local | of them at once | messages per 1,000 | refused | falsely \
                            | stranded | 503 | grants, recalls, modes | left | at rest | woken after";

    /// How many of 10,000 accepted calls outside the home region were decided there, but for each
    /// account's first.
    pub fn local_of_10_000(&self) -> u64 {
        (self.local * 10_000).checked_div(self.accepted_away).unwrap_or(10_000)
    }

    /// The same, but for those that waited for credits to arrive.
    pub fn at_once_of_10_000(&self) -> u64 {
        let at_once = self.local - self.waited;
        (at_once * 10_000).checked_div(self.accepted_away).unwrap_or(10_000)
    }

    /// Requests between regions for each thousand calls that were accepted.
    pub fn messages_per_1_000(&self) -> u64 {
        (self.messages * 1_000).div_ceil(self.accepted.max(1))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.local_of_10_000();
        let at_once = self.at_once_of_10_000();
        let percent = |of_10_000: u64| format!("{}.{:02} %", of_10_000 / 100, of_10_000 % 100);
        write!(formatter, "{} | {} | {}", self.accepted, percent(local), percent(at_once))?;
        write!(formatter, " | {} | {}", self.messages_per_1_000(), self.refused)?;
        write!(formatter, " | {} | {}", self.refused_falsely, self.stranded)?;
        write!(formatter, " | {} | {}", self.unavailable, self.grants)?;
        write!(formatter, ", {}, {}", self.recalls, self.modes)?;
        write!(formatter, " | {} | {}", self.left, self.at_rest)?;
        match self.woken_after {
            Some(time) => write!(formatter, " | {} ms", time.as_micros() / 1_000),
            None => write!(formatter, " | "),
        }
    }
}
