//! What to answer a call that home cannot serve with what it has.

use purser_types::{Credits, Region, Span};

use super::arithmetic::{credits, wide};
use super::{Known, Pool};

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortfall {
    /// Wait: regions within reach might pay.
    Recalling,
    /// Refuse: nobody could pay.
    Exhausted,
    /// Refuse: only regions out of reach could pay.
    Stranded {
        /// What is out there.
        amount: Credits,
        /// Where.
        regions: Vec<Region>,
    },
}

impl Pool {
    /// Whether a call for `cost` that came at `since` should wait, or how it is refused.
    ///
    /// A region's report may be older than the call, and holds may have ended since. So all that is out
    /// counts as if it were free, until the region has answered a recall that was sent after the call
    /// came. A region that does not answer by the recall's deadline is out of reach.
    pub fn shortfall(&self, known: &Known, cost: Credits, since: Span) -> Shortfall {
        self.shortfall_among(known, cost, since, |_| true)
    }

    /// The same where the caller knows besides which regions are within reach: where no recall is sent,
    /// none shows it.
    pub fn shortfall_among(
        &self,
        known: &Known,
        cost: Credits,
        since: Span,
        is_reached: impl Fn(Region) -> bool,
    ) -> Shortfall {
        let mut within_reach = wide(known.available);
        let mut out_of_reach = 0_u128;
        let mut regions = Vec::new();
        for (region, share) in &known.shares {
            let member = self.members.get(region);
            let answers = member.is_none_or(|member| member.is_reachable(share, known.now));
            if answers && is_reached(*region) {
                let is_exact = member.is_some_and(|member| member.has_answered_since(since));
                let could_pay = if is_exact { share.free() } else { share.outstanding };
                within_reach = within_reach.saturating_add(wide(could_pay));
            } else if !share.outstanding.is_zero() {
                out_of_reach = out_of_reach.saturating_add(wide(share.outstanding));
                regions.push(*region);
            }
        }
        let cost = wide(cost);
        if within_reach >= cost {
            Shortfall::Recalling
        } else if within_reach.saturating_add(out_of_reach) >= cost {
            Shortfall::Stranded { amount: credits(out_of_reach), regions }
        } else {
            Shortfall::Exhausted
        }
    }
}
