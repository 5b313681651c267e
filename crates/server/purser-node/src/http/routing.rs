//! From a call to whoever can decide it: this node's group, or the node that leads it.
//!
//! ```text
//!  propose / confirm ──▶ this node leads ──────────────────▶ answer
//!         ▲            ├─ another leads ── forward ────────▶ its answer
//!         │            │                     └ not sent ─┐
//!         └── wait ────┴─ nobody leads ◀─────────────────┘
//!               └ out of patience ─▶ 503, nothing happened
//! ```
//!
//! Waiting happens only where nothing can have happened: before anything was sent, or if the call
//! changes nothing in any case. A proposal or a forwarded request that may have changed something,
//! and whose outcome is unknown, ends here, as 504.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use purser_api::DeciderRole;
use purser_ledger::{
    Account, AccountName, AsOf, Command, Hold, HomeSpan, Item, Ledger, Outcome, Receipt, Rejection,
    codec,
};
use purser_raft::{Group, NodeId, ProposeError, ReadError};
use purser_types::{Epoch, Generation, HistoryReader, LogTime, Machine, Owner, Region, Sequence};

use crate::http::astray::Astray;
use crate::http::call::Call;
use crate::http::convert::{Shown, named_by};
use crate::http::forward::{ForwardError, HOPS_MAX};
use crate::http::problem::{Decided, NotDone, Refusal};
use crate::http::routes::Effect;
use crate::regions::Regions;
use crate::shards::Shard;

/// The part of a request's time that may go into waiting for a leader: elections take a second, and
/// a caller rather hears "nothing happened" than nothing.
const PATIENCE_PART: u32 = 4;

/// How long to wait at least between two attempts while nobody leads.
const PAUSE: Duration = Duration::from_millis(20);

/// What the ledger accepted.
pub(crate) struct Decision {
    /// What it did.
    pub(crate) receipt: Receipt,
    /// Who decided, and whether before, under the same key.
    pub(crate) decided: Decided,
    /// The homes that the account has had; none if it never had another.
    pub(crate) homes: Vec<HomeSpan>,
}

impl Decision {
    /// The decision in an outcome, of an account that has had `homes`; `decided` says by whom.
    pub(crate) fn of(
        outcome: Outcome,
        decided: Decided,
        homes: Vec<HomeSpan>,
    ) -> Result<Self, Refusal> {
        let decided = Decided { replayed: outcome.replayed, ..decided };
        match outcome.result {
            Ok(receipt) => {
                let decided = decided_by(decided, &receipt, &homes);
                Ok(Self { receipt, decided, homes })
            }
            Err(rejection) => {
                let owner = match &rejection {
                    Rejection::SourceRefConflict { lot, .. } => {
                        named_by(&decided.owner, &homes, lot.0)
                    }
                    _ => decided.owner,
                };
                Err(Refusal::of_rejection(&rejection, &owner).decided(decided))
            }
        }
    }

    /// Shows what belongs to its account.
    pub(crate) fn shown<'a>(&'a self, account: &'a AccountName) -> Shown<'a> {
        Shown::new(account, &self.decided.owner).with_homes(&self.homes)
    }
}

/// Who decided what `receipt` tells of, where `decided` answers: what is answered again was decided by
/// whoever was home then, or by a region whose allocation is closed since.
fn decided_by(decided: Decided, receipt: &Receipt, homes: &[HomeSpan]) -> Decided {
    if decided.role == DeciderRole::Allocation {
        return decided;
    }
    let owner = decided.owner;
    let own = |hold: &Hold| hold.allocation == Sequence::ZERO;
    if owner.generation != Generation::HOME && receipt.entry.fact.hold().is_some_and(own) {
        return Decided { region: owner.region, role: DeciderRole::Allocation, ..decided };
    }
    let by = named_by(&Owner::home(decided.region), homes, receipt.last.sequence);
    Decided { region: by.region, ..decided }
}

impl Call {
    /// Has items decided for an account, together or not at all, in the call's seat.
    pub(crate) async fn propose(
        &self,
        account: &AccountName,
        items: Vec<Item>,
    ) -> Result<Vec<Outcome>, NotDone> {
        self.propose_to(account, self.seat.generation(), items).await
    }

    /// Has items decided by one of the books that are kept here.
    pub(crate) async fn propose_to(
        &self,
        account: &AccountName,
        generation: Generation,
        items: Vec<Item>,
    ) -> Result<Vec<Outcome>, NotDone> {
        let group = self.api.groups().of(account);
        let command = Command::Account { account: account.clone(), items, generation };
        let command = Bytes::from(codec::encode(&command));
        loop {
            match group.propose_indexed(command.clone(), self.meta.deadline).await {
                Ok((answer, index)) => {
                    let foreign = || Refusal::internal("items were answered like another command");
                    let outcomes = answer.into_outcomes().ok_or_else(foreign)?;
                    if generation == Generation::HOME {
                        self.secure(account, &outcomes, index).await?;
                    }
                    return Ok(outcomes);
                }
                Err(ProposeError::NotLeader { leader }) => {
                    self.elsewhere(group, leader, self.effect).await?;
                }
                // Only what was due anyway was to be written down.
                Err(ProposeError::OutcomeUnknown) if self.effect == Effect::None => {
                    return Err(Refusal::unanswered().into());
                }
                Err(error) => return Err(Refusal::of_propose(&error).into()),
            }
        }
    }

    /// Waits until what home has decided may be answered: no fail-over makes it undone then (R1, R6).
    pub(crate) async fn secure(
        &self,
        account: &AccountName,
        outcomes: &[Outcome],
        index: u64,
    ) -> Result<(), Refusal> {
        let Some(regions) = self.api.regions() else { return Ok(()) };
        let decided = (outcomes, index);
        let secured = regions.watch(account).secure_outcomes(account, decided, self.meta.deadline);
        secured.await.map_err(|error| Refusal::outcome_unknown().caused_by(&error.to_string()))
    }

    /// The nodes of another region that may be asked about an account, best first; none if the region
    /// is out of reach, or the call has come too far already.
    pub(crate) fn nodes_of(&self, region: Region, account: &AccountName) -> Vec<NodeId> {
        let regions = self.api.regions().filter(|it| it.links().is_reachable(region));
        let regions = regions.filter(|_| self.meta.hops < HOPS_MAX);
        let shard = self.api.groups().shard_of(account);
        regions.map(|regions| regions.links().nodes(region, Some(shard))).unwrap_or_default()
    }

    /// Has the whole call answered by another region. Nothing is sent twice that may have been heard
    /// once.
    pub(crate) async fn to_region(
        &self,
        regions: &Regions,
        region: Region,
        account: &AccountName,
    ) -> NotDone {
        let shard = Some(self.api.groups().shard_of(account));
        self.pass_to(regions, region, (shard, self.placed(&account.tenant))).await
    }

    /// The same, where no account is named, or which shard it is about is known.
    pub(crate) async fn to_shard(
        &self,
        regions: &Regions,
        region: Region,
        shard: Option<Shard>,
    ) -> NotDone {
        self.pass_to(regions, region, (shard, None)).await
    }

    async fn pass_to(
        &self,
        regions: &Regions,
        region: Region,
        (shard, placed): (Option<Shard>, Option<Epoch>),
    ) -> NotDone {
        if HOPS_MAX <= self.meta.hops {
            return Refusal::not_ready().into();
        }
        if !regions.links().is_reachable(region) {
            return Refusal::unreachable(region).into();
        }
        for node in regions.links().nodes(region, shard) {
            let Some(onward) = self.onward(node, placed) else { continue };
            match self.api.forwarder().relay(self, onward).await {
                Ok(response) => return NotDone::Relayed(Box::new(response)),
                Err(ForwardError::MaybeSent) if self.effect == Effect::Change => {
                    return Refusal::outcome_unknown().into();
                }
                Err(ForwardError::MaybeSent | ForwardError::NotSent) => (),
            }
        }
        Refusal::unreachable(region).into()
    }

    /// Makes sure that this node may answer a strict read of the group; else has the call, which
    /// changes nothing, answered by the one that may.
    pub(crate) async fn confirm(&self, group: &Group<Ledger>) -> Result<(), NotDone> {
        loop {
            match group.read_barrier(self.meta.deadline).await {
                Ok(()) => return Ok(()),
                Err(ReadError::NotLeader { leader }) => {
                    self.elsewhere(group, leader, Effect::None).await?;
                }
                Err(error) => return Err(Refusal::of_read(&error).into()),
            }
        }
    }

    /// Goes on where the leader is: relays its answer, or returns when it is worth asking this
    /// node's group again.
    pub(crate) async fn elsewhere(
        &self,
        group: &Group<Ledger>,
        leader: Option<NodeId>,
        effect: Effect,
    ) -> Result<(), NotDone> {
        let mut refusal = Refusal::not_ready();
        if let Some(node) = leader.filter(|node| *node != self.api.node())
            && self.meta.hops < HOPS_MAX
            && let placed = self.tenant().ok().and_then(|tenant| self.placed(tenant))
            && let Some(onward) = self.onward(node, placed)
        {
            match self.api.forwarder().relay(self, onward).await {
                Ok(response) => return Err(NotDone::Relayed(Box::new(response))),
                Err(ForwardError::MaybeSent) if effect == Effect::Change => {
                    return Err(Refusal::outcome_unknown().into());
                }
                Err(ForwardError::MaybeSent) => refusal = Refusal::unanswered(),
                Err(ForwardError::NotSent) => (),
            }
        }
        if self.wait_for_change(group).await { Ok(()) } else { Err(refusal.into()) }
    }

    /// Waits until the group may have another leader. Whether this call has the patience to ask
    /// again.
    pub(crate) async fn wait_for_change(&self, group: &Group<Ledger>) -> bool {
        let whole = self.meta.deadline.duration_since(self.meta.received);
        let patience_ends = self.meta.received + whole / PATIENCE_PART;
        if patience_ends <= Instant::now() {
            return false;
        }
        // What changed before this line is not noticed; the pause is short for that reason.
        let mut status = group.watch();
        match tokio::time::timeout(PAUSE, status.changed()).await {
            Ok(Ok(())) | Err(_) => true,
            // The group has ended.
            Ok(Err(_)) => false,
        }
    }

    /// Looks at an account as it is now, strictly. `look` also gets the last entry that is written
    /// down: what is due besides has no place in the ledger yet that could be named.
    pub(crate) async fn look<T>(
        &self,
        account: &AccountName,
        look: impl FnOnce(&AsOf<'_>, LogTime, Sequence) -> Result<T, Refusal>,
    ) -> Result<T, NotDone> {
        let group = self.api.groups().of(account);
        self.confirm_home(account).await?;
        let now = group.now();
        let seen = group.view(|ledger, history| {
            let now = now.max(ledger.log_time());
            let of = (account, self.seat.generation());
            let book = ledger.book(account, self.seat.generation());
            let written = book.ok_or_else(|| not_found_in(ledger, of))?.head().sequence;
            look_at(ledger, history, of, now, |settled, now| look(settled, now, written))
        });
        Ok(seen?)
    }
}

/// Looks at one book of an account as of `now`.
pub(crate) fn look_at<T>(
    ledger: &Ledger,
    history: &dyn HistoryReader,
    (account, generation): (&AccountName, Generation),
    now: LogTime,
    look: impl FnOnce(&AsOf<'_>, LogTime) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let book: Option<&Arc<Account>> = ledger.book(account, generation);
    let account = book.ok_or_else(|| not_found_in(ledger, (account, generation)))?;
    let settled = account.at(now, history).map_err(|error| Refusal::of_history(&error))?;
    look(&settled, now)
}

/// Why there is nothing to look at: there is no such book, or the account has just left.
pub(crate) fn not_found_in(
    ledger: &Ledger,
    (account, generation): (&AccountName, Generation),
) -> Refusal {
    match generation {
        Generation::HOME if Astray::of(ledger, account).is_some() => Refusal::home_moves(),
        Generation::HOME => tenant_not_found(),
        _ => Refusal::not_found(purser_api::ProblemCode::HoldNotFound),
    }
}

/// The tenant has no account in the unit that was asked for.
pub(crate) fn tenant_not_found() -> Refusal {
    Refusal::new(
        purser_api::ProblemCode::TenantNotFound,
        format!("{}, or it has no account in this unit", Rejection::TenantNotFound),
    )
}
