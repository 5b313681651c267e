//! Moving all homes out of a region, how far that has come, and stopping it.
//!
//! Each call is a statement of what shall be, so it carries no idempotency key. The leader of the
//! region's first shard answers; it goes on when the caller has gone.

use purser_api::{
    DrainAnswer, DrainFailure, DrainRequest, DrainStatus, ProblemCode as Code, RegionName, paths,
};
use purser_types::Region;

use crate::http::call::Call;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::regions::{DrainPhase, DrainProgress, FIRST_SHARD, Regions};

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes
        .call(
            (Verb::Post, paths::ADMIN_REGION_DRAIN),
            Operation::DrainRegion,
            Description::new(
                Access::CLUSTER,
                Tag::Cluster,
                "Has the homes of all tenants of a region moved elsewhere, and shows how far that has come.",
            )
            .body::<DrainRequest>()
            .answers::<DrainAnswer>(200)
            .refuses(&[Code::RegionNotFound, Code::PlacementRefused, Code::HomeUnreachable]),
            drain,
        )
        .call(
            (Verb::Get, paths::ADMIN_REGION_DRAIN),
            Operation::GetDrain,
            Description::new(
                Access::CLUSTER_READ,
                Tag::Cluster,
                "Shows how far moving all homes out of a region has come.",
            )
            .answers::<DrainAnswer>(200)
            .refuses(&[Code::RegionNotFound, Code::PlacementRefused, Code::HomeUnreachable]),
            get,
        )
        .call(
            (Verb::Post, paths::ADMIN_REGION_DRAIN_STOP),
            Operation::StopDrain,
            Description::new(
                Access::CLUSTER,
                Tag::Cluster,
                "Stops moving homes out of a region; moves that have begun come to their end.",
            )
            .answers::<DrainAnswer>(200)
            .refuses(&[Code::RegionNotFound, Code::PlacementRefused, Code::HomeUnreachable]),
            stop,
        )
}

async fn drain(call: Call) -> Handled {
    call.no_query()?;
    let request: DrainRequest = call.json_or_default()?;
    let regions = lead(&call).await?;
    let to = request.to.map(|to| to.0);
    if let Some(to) = to {
        refuse_unknown(regions, to)?;
        if to == *call.api.region() {
            return Err(refused(format!("the homes are in {to} already")).into());
        }
    }
    // Begun on half of what Placement knows, it would end too early.
    if !regions.directory().is_followed() {
        let detail = "who is home of whom is not all known to the node yet; nothing happened";
        return Err(Refusal::new(Code::NotReady, detail).into());
    }
    match regions.begin_drain(to) {
        Ok(()) => show(&call, regions),
        Err(Some(other)) => Err(refused(format!("a drain to {other} is under way")).into()),
        Err(None) => Err(refused("a drain to no region in particular is under way").into()),
    }
}

async fn get(call: Call) -> Handled {
    call.no_query()?;
    let regions = lead(&call).await?;
    show(&call, regions)
}

async fn stop(call: Call) -> Handled {
    call.no_query()?;
    let regions = lead(&call).await?;
    regions.stop_drain();
    show(&call, regions)
}

/// Goes on where the region is drained: on the leader of its first shard.
async fn lead(call: &Call) -> Result<&Regions, NotDone> {
    let detail = "the cluster stands in one region: there is nowhere to move homes to";
    let regions = call.api.regions().ok_or_else(|| refused(detail))?;
    let region = call.id::<RegionName>("region")?.0;
    if region != *call.api.region() {
        refuse_unknown(regions, region)?;
        return Err(call.to_shard(regions, region, Some(FIRST_SHARD)).await);
    }
    let no_shard = || Refusal::internal("there is no first shard");
    let group = call.api.groups().of_shard(FIRST_SHARD).ok_or_else(no_shard)?;
    loop {
        if group.is_leading() {
            return Ok(regions);
        }
        call.elsewhere(group, group.leader(), call.effect).await?;
    }
}

fn refuse_unknown(regions: &Regions, region: Region) -> Result<(), Refusal> {
    let links = regions.links();
    if region == links.own() || links.others().any(|other| other == region) {
        return Ok(());
    }
    Err(Refusal::new(Code::RegionNotFound, format!("there is no region {region}")))
}

fn refused(detail: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    Refusal::new(Code::PlacementRefused, detail)
}

fn show(call: &Call, regions: &Regions) -> Handled {
    let unknown = "what is left to move cannot be counted, because who is home of whom is not all known to \
                   the node yet; a drain that was to stop has stopped";
    let unknown = || Refusal::new(Code::NotReady, unknown);
    let DrainProgress { phase, to, moved, left, failed_count, failed } =
        regions.drain_progress().ok_or_else(unknown)?;
    let failed = failed.into_iter();
    let failed =
        failed.map(|(tenant, reason)| DrainFailure { tenant: tenant.into(), reason }).collect();
    Ok(Reply::read(&DrainAnswer {
        region: (*call.api.region()).into(),
        state: match phase {
            DrainPhase::Idle => DrainStatus::Idle,
            DrainPhase::Draining => DrainStatus::Draining,
            DrainPhase::Stopped => DrainStatus::Stopped,
            DrainPhase::Ended => DrainStatus::Ended,
        },
        to: to.map(RegionName::from),
        total: moved.saturating_add(left),
        moved,
        left,
        failed_count,
        failed,
    })?)
}
