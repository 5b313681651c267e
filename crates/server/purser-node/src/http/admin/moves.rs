//! Where a tenant's home is, and moving it.
//!
//! A move is a statement of where the home shall be, so a repeat changes nothing, and it carries no
//! idempotency key. It goes on when the caller has gone.

use purser_api::{
    MoveRequest, PlacementAnswer, PlacementStatus, ProblemCode as Code, StandbyOf, paths,
};
use purser_placement::{PlacementState, Standby, TenantPlacement};
use purser_types::TenantId;

use crate::http::call::Call;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::tenant_not_found;
use crate::regions::{MoveEnd, Regions};

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes
        .call(
            (Verb::Get, paths::ADMIN_MOVE),
            Operation::GetMove,
            Description::new(
                Access::ADMIN_READ,
                Tag::Tenants,
                "Shows where a tenant's home is, and whether it moves.",
            )
            .answers::<PlacementAnswer>(200)
            .refuses(&[Code::PlacementRefused]),
            get,
        )
        .call(
            (Verb::Post, paths::ADMIN_MOVE),
            Operation::Move,
            Description::new(
                Access::ADMIN_STATE,
                Tag::Tenants,
                "Says where a tenant's home shall be, and waits until it is there.",
            )
            .body::<MoveRequest>()
            .answers::<PlacementAnswer>(200)
            .refuses(&[Code::PlacementRefused, Code::OutcomeUnknown]),
            move_home,
        )
}

async fn get(call: Call) -> Handled {
    call.no_query()?;
    let placement = placement_of(&call, call.tenant()?).await?;
    Ok(Reply::read(&show(call.tenant()?, &placement))?)
}

async fn move_home(call: Call) -> Handled {
    call.no_query()?;
    let request: MoveRequest = call.json()?;
    let (to, tenant) = (request.to.0, call.tenant()?);
    lead(&call, tenant).await?;
    let regions = regions_of(&call)?;
    let placement = placement_of(&call, tenant).await?;
    let is_settled = !placement.is_moving();
    if placement.home == to && is_settled {
        return Ok(Reply::read(&show(tenant, &placement))?);
    }
    if placement.home != *call.api.region() {
        let account = Regions::first_account(tenant);
        return Err(call.to_region(regions, placement.home, &account).await);
    }
    let moving = regions.move_home(tenant, (placement.epoch, to), call.meta.deadline);
    match moving.await.map_err(|error| Refusal::of_directory(&error))? {
        MoveEnd::Moved(placement) => Ok(Reply::read(&show(tenant, &placement))?),
        MoveEnd::GivenUp(reason) => {
            let detail = "the move was given up, and the home stays where it was; the cause is in the \
                          service's log, under the request's id";
            Err(Refusal::new(Code::PlacementRefused, detail).caused_by(&reason).into())
        }
        MoveEnd::Unknown => {
            let detail =
                "the move goes on, or is given up; GET of the same path tells how it ended";
            Err(Refusal::new(Code::OutcomeUnknown, detail).into())
        }
    }
}

/// Goes on where the tenant is tended: on the leader of its first shard.
async fn lead(call: &Call, tenant: &TenantId) -> Result<(), NotDone> {
    let group = call.api.groups().of(&Regions::first_account(tenant));
    loop {
        if group.is_leading() {
            return Ok(());
        }
        call.elsewhere(group, group.leader(), call.effect).await?;
    }
}

/// What Placement shows of a tenant now.
async fn placement_of(call: &Call, tenant: &TenantId) -> Result<TenantPlacement, Refusal> {
    let found = regions_of(call)?.directory().refresh(tenant, call.meta.deadline).await;
    let found = found.map_err(|error| Refusal::of_directory(&error))?;
    found.ok_or_else(tenant_not_found)
}

fn regions_of(call: &Call) -> Result<&Regions, Refusal> {
    let detail = "the cluster stands in one region: there is nowhere to move a home to";
    let regions = call.api.regions().ok_or_else(|| Refusal::new(Code::PlacementRefused, detail));
    regions.map(|regions| &**regions)
}

fn shown(standby: &Standby) -> StandbyOf {
    StandbyOf { region: standby.region.into(), promotable: standby.promotable }
}

fn show(tenant: &TenantId, placement: &TenantPlacement) -> PlacementAnswer {
    let (state, to) = match placement.state {
        PlacementState::Settled => (PlacementStatus::Settled, None),
        PlacementState::Moving { to } => (PlacementStatus::Moving, Some(to.into())),
        PlacementState::FailedOver { .. } => (PlacementStatus::FailedOver, None),
    };
    PlacementAnswer {
        tenant: tenant.clone().into(),
        home: placement.home.into(),
        epoch: placement.epoch.into(),
        state,
        standbys: placement.standbys.iter().map(shown).collect(),
        lost: placement.tails().iter().map(|tail| tail.from.into()).collect(),
        to,
    }
}
