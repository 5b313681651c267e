//! Failing a region's tenants over to one of its standbys: a statement to Placement, by whoever is asked.
//! The rest is done where the tenants are taken over.

use std::time::Instant;

use purser_placement::{ChangeNumber, Operation, Request};
use purser_types::Region;

use crate::regions::Regions;
use crate::regions::placement::DirectoryError;

/// The tenants whose home is in a region, as far as its loss concerns them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    /// What makes the standby home of those that it can take over.
    requests: Vec<Request>,
    /// How many it can not take over: it does not have all that they were answered.
    pub(crate) left: u64,
    /// The latest change of any of them: what an operator has seen.
    pub(crate) seen: ChangeNumber,
}

impl Loss {
    /// How many can be taken over by the standby.
    pub(crate) fn promotable(&self) -> u64 {
        u64::try_from(self.requests.len()).unwrap_or(u64::MAX)
    }
}

impl Regions {
    /// What it would mean to fail a region over, as Placement has it now.
    pub(crate) async fn loss_of(
        &self,
        (lost, to): (Region, Region),
        deadline: Instant,
    ) -> Result<Loss, DirectoryError> {
        self.directory.confirm(deadline).await?;
        let homes = self.directory.tenants(|_, placement| placement.home == lost);
        let mut loss = Loss { requests: Vec::new(), left: 0, seen: ChangeNumber::NONE };
        for (tenant, placement) in homes {
            loss.seen = loss.seen.max(placement.change);
            if placement.is_promotable_to(to) {
                let operation = Operation::FailOver { epoch: placement.epoch, to };
                loss.requests.push(Request { tenant, operation });
            } else {
                loss.left = loss.left.saturating_add(1);
            }
        }
        Ok(loss)
    }

    /// Makes a standby the home of every tenant of a region that it can take over. Gives how many those
    /// were; the region's nodes bring them home. It may end in the middle, as unknown: asked again, it
    /// finds the rest.
    pub(crate) async fn fail_over(
        &self,
        (lost, to): (Region, Region),
        loss: Loss,
        deadline: Instant,
    ) -> Result<u64, DirectoryError> {
        let count = loss.requests.len();
        let refused = self.change_all(loss.requests, || deadline).await?;
        for refusal in &refused {
            tracing::warn!(%lost, %to, %refusal, "a tenant was not failed over");
        }
        let done = count.saturating_sub(refused.len());
        tracing::warn!(%lost, %to, done, "a region is failed over");
        Ok(u64::try_from(done).unwrap_or(u64::MAX))
    }
}
