//! Covering what a region cannot pay for by itself.

use purser_ledger::{AccountName, Cover, Operation, Rejection};

use super::Desk;
use crate::metrics::HomeAct;
use crate::regions::messages::NotCovered;
use crate::tasks::chain;

impl Desk {
    /// Sets credits aside for operations of a region, and tells for which of them there are too few. What
    /// could be paid once other regions have given back is answered with neither: the region asks again.
    pub(super) async fn cover(&self, account: &AccountName, covers: Vec<Cover>) -> Vec<NotCovered> {
        let mut not_covered = Vec::new();
        for cover in covers {
            let (asked, region) = (cover.asked, cover.owner.region);
            match self.propose(account, Operation::Cover(cover)).await {
                Ok(Ok(_)) => self.links.metrics().record_act(HomeAct::Grant, region),
                Ok(Err(
                    refusal @ (Rejection::InsufficientCredits { .. } | Rejection::Stranded { .. }),
                )) => not_covered.push(NotCovered { asked, refusal }),
                Ok(Err(rejection)) => tracing::debug!(%rejection, "nothing was covered"),
                Err(error) => tracing::debug!(error = %chain(&error), "nothing was covered"),
            }
        }
        not_covered
    }
}
