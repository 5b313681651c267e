//! Allocations: what home has set aside for regions, and what operators do about it.
//!
//! A call names a region, and by that its newest allocation that is not closed. Which one that is, the
//! ledger finds: a repeat asks the same whatever has been opened or closed meanwhile. What home decides
//! is told to the region at once; what the region then does is seen when the allocations are listed.

use hyper::StatusCode;
use purser_api as api;
use purser_api::{
    AllocationAnswer, AllocationRequest, GenerationNumber, ProblemCode as Code, Reason,
    RecallRequest, RegionName, TakeBackAnswer, TakeBackRequest, TransferRequest, UnitQuery, paths,
};
use purser_ledger::{AccountName, Confirm, Operation as Asked, TakeBack, WriteOff};
use purser_types::{Generation, Owner, Region};

use super::lifecycle::confirmed;
use super::rehearsal::{Rehearsed, rehearse};
use crate::http::call::{Call, Remarks};
use crate::http::convert::{self, Shown};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::Decision;
use crate::metrics::HomeAct;

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let act = |summary| Description::new(Access::ADMIN, Tag::Regions, summary).query::<UnitQuery>();
    let named = |summary| act(summary).refuses(&[Code::AllocationNotFound, Code::AllocationEnded]);
    let routes = routes.call(
        (Verb::Get, paths::ADMIN_ALLOCATIONS),
        Operation::ListAllocations,
        Description::new(
            Access::ADMIN_READ,
            Tag::Regions,
            "Lists what is set aside for regions: all allocations that are not closed.",
        )
        .query::<UnitQuery>()
        .answers_list::<api::Allocation>(),
        list,
    );
    let routes = routes
        .call(
            (Verb::Post, paths::ADMIN_ALLOCATION),
            Operation::SetAllocation,
            named("Changes what a region may do with its allocation.")
                .body::<AllocationRequest>()
                .answers::<AllocationAnswer>(200)
                .refuses(&[Code::AmountOverflow]),
            set,
        )
        .call(
            (Verb::Post, paths::ADMIN_ALLOCATION_RECALL),
            Operation::RecallAllocation,
            named("Asks credits back from a region.")
                .body::<RecallRequest>()
                .answers::<AllocationAnswer>(200),
            recall,
        )
        .call(
            (Verb::Post, paths::ADMIN_TRANSFER),
            Operation::Transfer,
            named("Asks credits back from one region for another.")
                .body::<TransferRequest>()
                .answers::<AllocationAnswer>(200)
                .refuses(&[Code::TransferToItself, Code::TransferToUnknown])
                .refuses(&[Code::TransferBeyondRight, Code::TransferUnderWay])
                .refuses(&[Code::AccountFrozen, Code::AccountClosed]),
            transfer,
        );
    let unseen = |summary| {
        named(summary)
            .body::<TakeBackRequest>()
            .answers::<TakeBackAnswer>(200)
            .refuses(&[Code::ConfirmationRequired, Code::StaleConfirmation])
    };
    routes
        .call(
            (Verb::Post, paths::ADMIN_ALLOCATION_TAKE_BACK),
            Operation::TakeBack,
            unseen(
                "Takes back what is out in a region without hearing from it, whatever the policy \
                 says. A dry run shows the effect and what to confirm.",
            )
            .refuses(&[Code::AmountOverflow]),
            take_back,
        )
        .call(
            (Verb::Post, paths::ADMIN_ALLOCATION_WRITE_OFF),
            Operation::WriteOff,
            unseen(
                "Ends an allocation of which nothing more will be heard. A dry run shows the \
                 effect and what to confirm.",
            )
            .refuses(&[Code::AllocationOpen, Code::AmountOverflow]),
            write_off,
        )
}

async fn list(call: Call) -> Handled {
    let account = call.account(call.unit()?)?;
    let owner = call.api.owner();
    let items = call.look(&account, |settled, _, _| {
        let seen = settled.account();
        let shown = Shown::new(&account, owner).with_homes(seen.homes());
        let desk = call.api.regions().map(|regions| regions.desk(&account));
        let heard = desk.map(|desk| desk.heard_of(seen)).unwrap_or_default();
        let show = |it: &_| shown.allocation(it, heard.get(&it.owner).copied());
        Ok(seen.allocations().map(show).collect())
    });
    let items: Vec<api::Allocation> = items.await?;
    Ok(Reply::read(&api::List { items, has_more: false, next_cursor: None })?)
}

async fn set(call: Call) -> Handled {
    let request: AllocationRequest = call.json()?;
    let owner = named_owner(&call, request.generation.as_ref())?;
    let AllocationRequest { mode, overdraft, on_expiry, .. } = &request;
    if mode.is_none() && overdraft.is_none() && on_expiry.is_none() {
        let detail = "one of `mode`, `overdraft` and `on_expiry` must be named";
        return Err(Refusal::invalid(detail).into());
    }
    change(&call, convert::set_allocation(owner, &request), &request.reason).await
}

async fn recall(call: Call) -> Handled {
    let request: RecallRequest = call.json()?;
    let owner = named_owner(&call, request.generation.as_ref())?;
    change(&call, convert::recall(owner, &request), &request.reason).await
}

async fn transfer(call: Call) -> Handled {
    let request: TransferRequest = call.json()?;
    if request.from != request.to {
        refuse_unknown(&call, request.to.0)?;
    }
    let shard = call.api.groups().shard_of(&call.account(call.unit()?)?);
    let life = call.api.regions().and_then(|regions| regions.links().life(request.to.0, shard));
    // Before its leader is heard, an allocation might be made for a life that is over.
    let life = life.ok_or_else(Refusal::not_ready)?;
    change(&call, convert::transfer(&request, life), &request.reason).await
}

/// Refuses a region that is not there, and home itself: credits get there by a recall.
fn refuse_unknown(call: &Call, region: Region) -> Result<(), Refusal> {
    let others = call.api.regions().into_iter().flat_map(|regions| regions.links().others());
    if others.into_iter().any(|other| other == region) {
        return Ok(());
    }
    let detail = if region == *call.api.region() {
        format!("the account's home is in {region}: a recall brings credits home")
    } else {
        format!("there is no region {region}")
    };
    Err(Refusal::new(Code::TransferToUnknown, detail))
}

async fn take_back(call: Call) -> Handled {
    end(call, |owner, confirm| Asked::TakeBack(TakeBack { owner, forced: Some(confirm) })).await
}

async fn write_off(call: Call) -> Handled {
    end(call, |owner, confirm| Asked::WriteOff(WriteOff { owner, confirm })).await
}

/// Does, or only shows, what ends an allocation without its region.
async fn end(call: Call, act: fn(Owner, Confirm) -> Asked) -> Handled {
    let request: TakeBackRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let owner = named_owner(&call, request.generation.as_ref())?;
    if request.dry_run {
        let act = move |confirm| act(owner, confirm);
        let Rehearsed { confirm, done } = rehearse(&call, &account, act).await?;
        let answer = done.shown(&account).take_back_answer(&done.receipt, Some(confirm))?;
        return Ok(Reply::read(&answer)?);
    }
    let asked = act(owner, confirmed(request.confirm)?);
    let done = decide(&call, &account, asked, &request.reason).await?;
    let answer = done.shown(&account).take_back_answer(&done.receipt, None)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn change(call: &Call, asked: Asked, reason: &Reason) -> Handled {
    let account = call.account(call.unit()?)?;
    let done = decide(call, &account, asked, reason).await?;
    let answer = done.shown(&account).allocation_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

/// Has the ledger decide, and the region told.
async fn decide(
    call: &Call,
    account: &AccountName,
    asked: Asked,
    reason: &Reason,
) -> Result<Decision, NotDone> {
    let act = HomeAct::of(&asked);
    let done = call.decide(account, call.item(asked)?.because(reason)).await?;
    if let Some(regions) = call.api.regions().filter(|_| !done.decided.replayed) {
        let owner = convert::allocation_of(&done.receipt)?.owner;
        regions.desk(account).tell_soon(account, owner);
        if let Some(act) = act {
            regions.links().metrics().record_act(act, owner.region);
        }
    }
    Ok(done)
}

/// The allocation that a call names: the region's newest unless it names a generation.
fn named_owner(call: &Call, generation: Option<&GenerationNumber>) -> Result<Owner, Refusal> {
    let RegionName(region) = call.id("region")?;
    let generation = generation.map_or(Generation::HOME, |generation| generation.0);
    Ok(Owner { region, generation })
}
