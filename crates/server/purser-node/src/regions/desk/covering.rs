//! Covering what a region cannot pay for by itself.

use futures_util::future::join_all;
use purser_ledger::{
    AccountName, Context, Cover, Covered, Item, OnCredit, Operation, Rejection, Shortage,
};
use purser_types::{Credits, Owner};

use super::Desk;
use crate::metrics::HomeAct;
use crate::regions::messages::NotCovered;
use crate::tasks::chain;

impl Desk {
    /// Sets credits aside for operations of a region, and tells which of them are not covered, and why.
    /// What could be paid once other regions have given back is answered with neither: the region asks
    /// again. They are decided at once, so that no other account's answer waits for them in turn.
    pub(super) async fn cover(
        &self,
        account: &AccountName,
        owner: Owner,
        covers: Vec<Cover>,
    ) -> Vec<NotCovered> {
        let (own, others): (Vec<Cover>, Vec<Cover>) =
            covers.into_iter().partition(|cover| cover.owner == owner);
        if !others.is_empty() {
            let (tenant, region, count) = (account.tenant.as_str(), owner.region, others.len());
            tracing::warn!(tenant, %region, count, "covers are asked for another allocation");
        }
        let own = own.into_iter().take(Covered::COUNT_MAX);
        let covering = own.map(|cover| self.cover_one(account, cover));
        join_all(covering).await.into_iter().flatten().collect()
    }

    async fn cover_one(&self, account: &AccountName, cover: Cover) -> Option<NotCovered> {
        let (asked, region) = (cover.asked, cover.owner.region);
        let mut item = Item::new(Context::default(), Operation::Cover(cover.clone()));
        let mut said = self.propose_item(account, item.clone()).await;
        if let Ok(Err(Rejection::CreditsOut { available, short_by, .. })) = &said {
            let needed = available.checked_add(*short_by).unwrap_or(Credits::MAX);
            item.shortage = self.shortage_for(account, &cover, needed);
            if item.shortage.is_some() {
                said = self.propose_item(account, item).await;
            }
        }
        match said {
            Ok(Ok(_)) => self.links.metrics().record_act(HomeAct::Grant, region),
            // As much is set aside, or credits are asked back for it.
            Ok(Err(Rejection::NothingNew | Rejection::CreditsOut { .. })) => (),
            Ok(Err(refusal)) => return Some(NotCovered { asked, refusal }),
            Err(error) => tracing::debug!(error = %chain(&error), "nothing was covered"),
        }
        None
    }

    /// Why nobody within reach can pay for a cover that takes `needed` of what home and other regions
    /// have; nothing while they may. What the call may owe need not be there.
    fn shortage_for(
        &self,
        account: &AccountName,
        cover: &Cover,
        needed: Credits,
    ) -> Option<Shortage> {
        let limit = self.group.view(|ledger, _| {
            ledger.account(account).map(|found| found.standing().policy.debt_limit)
        });
        let is_within_limit = cover.on_credit == OnCredit::WithinLimit;
        let owed = limit.filter(|_| is_within_limit).unwrap_or_default();
        self.shortage_beside(account, cover.owner.region, needed.saturating_sub(owed))
    }
}
