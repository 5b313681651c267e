//! Failing a lost region over, and what its homes had decided besides.
//!
//! A fail-over is a statement of who is home from now on: a repeat changes nothing, and it carries no
//! idempotency key.

use hyper::StatusCode;
use purser_api::{
    FailOverAnswer, FailOverRequest, ProblemCode as Code, RegionName, SequenceNumber, TailAnswer,
    TailsAnswer, TenantName, TotalAmount, UnitQuery, WriteOffTailAnswer, WriteOffTailRequest,
    paths,
};
use purser_ledger::{Fact, Operation as Asked, Tail, WriteOffTail};
use purser_types::{Epoch, Sequence};

use super::lifecycle::confirmed;
use super::rehearsal::{Rehearsed, rehearse};
use crate::http::call::{Call, Remarks};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::Decision;
use crate::regions::Word;

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes
        .call(
            (Verb::Post, paths::ADMIN_FAILOVER),
            Operation::FailOver,
            Description::new(
                Access::CLUSTER,
                Tag::Cluster,
                "Has a standby take over the homes of a region that is lost. A dry run shows how many, \
                 and what to confirm.",
            )
            .body::<FailOverRequest>()
            .answers::<FailOverAnswer>(200)
            .refuses(&[Code::PlacementRefused, Code::ConfirmationRequired, Code::StaleConfirmation]),
            fail_over,
        )
        .call(
            (Verb::Get, paths::ADMIN_TAILS),
            Operation::GetTails,
            Description::new(
                Access::ADMIN_READ,
                Tag::Tenants,
                "Shows what lost homes had decided besides, as far as it is not booked to its end.",
            )
            .query::<UnitQuery>()
            .answers::<TailsAnswer>(200),
            tails,
        )
        .call(
            (Verb::Post, paths::ADMIN_TAIL_WRITE_OFF),
            Operation::WriteOffTail,
            Description::new(
                Access::ADMIN,
                Tag::Tenants,
                "Gives up on what a lost home had decided besides. A dry run shows the effect and what \
                 to confirm.",
            )
            .query::<UnitQuery>()
            .body::<WriteOffTailRequest>()
            .answers::<WriteOffTailAnswer>(200)
            .refuses(&[Code::TailNotFound, Code::ConfirmationRequired, Code::StaleConfirmation]),
            write_off,
        )
}

async fn fail_over(call: Call) -> Handled {
    call.no_query()?;
    let request: FailOverRequest = call.json()?;
    let RegionName(lost) = call.id("region")?;
    let alone = "the cluster stands in one region: nobody can take over from it";
    let regions = call.api.regions().ok_or_else(|| Refusal::new(Code::PlacementRefused, alone))?;
    let planned = regions.standbys_of(lost);
    let to = request.to.map(|to| to.0).or_else(|| planned.iter().next().copied());
    let to = to.filter(|to| planned.contains(to)).ok_or_else(|| {
        let detail = format!("no such region stands by for {lost} in this service");
        Refusal::new(Code::PlacementRefused, detail)
    })?;
    let deadline = call.meta.deadline;
    let failed = |error| Refusal::of_directory(&error);
    let loss = regions.loss_of((lost, to), deadline).await.map_err(failed)?;
    let seen = Sequence(loss.seen.0);
    let promotable = loss.promotable();
    let mut answer = FailOverAnswer {
        dry_run: request.dry_run,
        confirm: Some(SequenceNumber(seen)),
        region: lost.into(),
        to: to.into(),
        is_reachable: regions.links().is_reachable(lost),
        taken_over: promotable,
        left: loss.left.count,
        left_tenants: loss.left.first.iter().cloned().map(TenantName::from).collect(),
        at_stake: loss.at_stake.map(TotalAmount),
    };
    if request.dry_run {
        return Ok(Reply::read(&answer)?);
    }
    if confirmed(request.confirm)?.0 != seen {
        return Err(stale().into());
    }
    let word = Word { by: &call.caller.name, reason: "asked for" };
    let done = regions.fail_over((lost, to), loss, word, deadline).await;
    answer.taken_over = done.map_err(failed)?;
    answer.left = answer.left.saturating_add(promotable.saturating_sub(answer.taken_over));
    answer.confirm = None;
    Ok(Reply::read(&answer)?)
}

fn stale() -> Refusal {
    let detail = "a home of the region has changed since the dry run; look again";
    Refusal::new(Code::StaleConfirmation, detail)
}

async fn tails(call: Call) -> Handled {
    let account = call.account(call.unit()?)?;
    let look = call.look(&account, |settled, _, _| {
        let tails = settled.account().tails().map(show).collect();
        Ok(TailsAnswer { tails })
    });
    Ok(Reply::read(&look.await?)?)
}

async fn write_off(call: Call) -> Handled {
    let request: WriteOffTailRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let epoch: Epoch = call.id::<purser_api::EpochNumber>("epoch")?.0;
    let act = move |confirm| Asked::WriteOffTail(WriteOffTail { epoch, confirm });
    if request.dry_run {
        let Rehearsed { confirm, done } = rehearse(&call, &account, act).await?;
        let balance = done.shown(&account).balance_after(&done.receipt);
        let (confirm, tail) = (Some(SequenceNumber(confirm.0)), written_off(&done)?);
        return Ok(Reply::read(&WriteOffTailAnswer { dry_run: true, confirm, tail, balance })?);
    }
    let asked = act(confirmed(request.confirm)?);
    let done = call.decide(&account, call.item(asked)?.because(&request.reason)).await?;
    if let Some(regions) = call.api.regions() {
        // Placement is to know that nothing more is waited for.
        regions.directory().look_again(&account.tenant);
    }
    let balance = done.shown(&account).balance_after(&done.receipt);
    let tail = written_off(&done)?;
    let answer = WriteOffTailAnswer { dry_run: false, confirm: None, tail, balance };
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

/// The tail as it was before it was written off.
fn written_off(done: &Decision) -> Result<TailAnswer, Refusal> {
    match &done.receipt.entry.fact {
        Fact::TailWrittenOff(tail) => Ok(show(tail)),
        _ => Err(Refusal::internal("a write-off of a tail was answered like something else")),
    }
}

fn show(tail: &Tail) -> TailAnswer {
    TailAnswer {
        region: tail.from.into(),
        epoch: tail.epoch.into(),
        set_aside: tail.quarantine.into(),
        forked_at: tail.forked_at.into(),
        booked: tail.booked.sequence.into(),
        spent: tail.debited.into(),
        matched: tail.matched.into(),
        unanswered: tail.unanswered.into(),
        held: tail.held.into(),
    }
}
