//! The overspend bound over all accounts, summed up over groups, nodes and regions.
//!
//! ```text
//!  asked ─┬─ own region ─┬─ groups that this node leads: its ledgers
//!         │              └─ others: ?region=own&group=N, to whoever leads
//!         └─ each other region ── ?region=R, to a node there ── the same
//! ```
//!
//! Each group is read strictly, by its leader. A region of which any group cannot be read is not known,
//! and is named as such: it is never counted as nothing.

mod sums;

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use hyper::http::uri::PathAndQuery;
use purser_api::{OverspendAnswer, OverspendQuery, PageLimit, ProblemCode as Code, paths};
use purser_ledger::Ledger;
use purser_raft::{Group, GroupId, NodeId, ReadError};
use purser_types::{Machine, Region};

use self::sums::{Scope, merge, of_ledger};
use crate::http::call::Call;
use crate::http::describe::{Description, Tag};
use crate::http::forward::HOPS_MAX;
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::regions::Regions;

/// The part of what is left of a call's time that a node of another region gets for its answer: who waits
/// for all of it learns nothing about the others.
const REGION_PART: u32 = 2;

/// The same for a node that leads a group: less, because who asks for a region waits for all its groups.
const GROUP_PART: u32 = 4;

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Get, paths::ADMIN_OVERSPEND),
        Operation::GetOverspend,
        Description::new(
            Access::CLUSTER_READ,
            Tag::Regions,
            "Shows the most that can have been spent beyond what was granted, by cause, over all \
             accounts.",
        )
        .query::<OverspendQuery>()
        .answers::<OverspendAnswer>(200)
        .refuses(&[Code::RegionNotFound, Code::NotFound, Code::HomeUnreachable]),
        get,
    )
}

async fn get(call: Call) -> Handled {
    let query: OverspendQuery = call.query()?;
    let region = query.region.as_ref().map(|region| region.0);
    let own = *call.api.region();
    let regions = call.api.regions().filter(|_| region != Some(own));
    let answer = match (region, query.group, regions) {
        (Some(other), _, Some(regions)) => {
            if regions.links().others().all(|known| known != other) {
                return Err(no_such_region(other).into());
            }
            return Err(call.to_shard(regions, other, None).await);
        }
        (Some(other), _, None) if other != own => return Err(no_such_region(other).into()),
        (_, Some(group), _) => {
            let group = call.api.groups().numbered(GroupId(group.0));
            let missing = || Refusal::new(Code::NotFound, "the region has no such group");
            let group = group.ok_or_else(missing)?;
            call.confirm(group).await?;
            read(&call, group, query.limit).await?
        }
        (None, None, Some(regions)) => of_all(&call, regions, query.limit).await?,
        (_, None, _) => of_own(&call, query.limit).await?,
    };
    Ok(Reply::read(&answer)?)
}

fn no_such_region(region: Region) -> Refusal {
    Refusal::new(Code::RegionNotFound, format!("there is no region {region}"))
}

/// All regions. Those that do not answer are named.
async fn of_all(
    call: &Call,
    regions: &Regions,
    limit: PageLimit,
) -> Result<OverspendAnswer, NotDone> {
    let asking = regions
        .links()
        .others()
        .map(|region| async move { (region, of_other(call, regions, region, limit).await) });
    let (own, others) = join(of_own(call, limit), join_all(asking)).await;
    let own = match own {
        Ok(own) => Some(own),
        Err(refusal) => {
            tracing::debug!(code = refusal.code().name(), "the own region is not known");
            None
        }
    };
    let parts: BTreeMap<Region, Option<OverspendAnswer>> =
        others.into_iter().chain([(*call.api.region(), own)]).collect();
    let mut all = OverspendAnswer::default();
    for (region, part) in parts {
        match part {
            Some(part) => merge(&mut all, part, limit),
            None => all.unknown_regions.push(region.into()),
        }
    }
    Ok(all)
}

/// Another region, by one of its nodes; nothing if none answers.
async fn of_other(
    call: &Call,
    regions: &Regions,
    region: Region,
    limit: PageLimit,
) -> Option<OverspendAnswer> {
    if !regions.links().is_reachable(region) {
        return None;
    }
    let path = format!("{}?region={region}&limit={limit}", paths::ADMIN_OVERSPEND);
    for node in regions.links().nodes(region, None) {
        let answer = ask(call, node, &path, REGION_PART).await;
        if answer.is_some() {
            return answer;
        }
    }
    None
}

/// The own region: all of its groups, each by its leader.
async fn of_own(call: &Call, limit: PageLimit) -> Result<OverspendAnswer, Refusal> {
    let groups = call.api.groups().all().iter();
    let parts = join_all(groups.map(|group| of_group(call, group, limit))).await;
    let mut own = OverspendAnswer::default();
    for part in parts {
        merge(&mut own, part?, limit);
    }
    Ok(own)
}

async fn of_group(
    call: &Call,
    group: &Group<Ledger>,
    limit: PageLimit,
) -> Result<OverspendAnswer, Refusal> {
    let (region, number) = (call.api.region(), group.id().0);
    let path = format!("{}?region={region}&group={number}&limit={limit}", paths::ADMIN_OVERSPEND);
    loop {
        let leader = match group.read_barrier(call.meta.deadline).await {
            Ok(()) => return read(call, group, limit).await,
            Err(ReadError::NotLeader { leader }) => leader,
            Err(error) => return Err(Refusal::of_read(&error)),
        };
        if let Some(leader) = leader.filter(|leader| *leader != call.api.node())
            && let Some(answer) = ask(call, leader, &path, GROUP_PART).await
        {
            return Ok(answer);
        }
        if !call.wait_for_change(group).await {
            return Err(Refusal::not_ready());
        }
    }
}

/// Asks one node, in the caller's name, for a part of what is left of the call's time.
async fn ask(call: &Call, node: NodeId, path: &str, part: u32) -> Option<OverspendAnswer> {
    if HOPS_MAX <= call.meta.hops {
        return None;
    }
    let onward = call.onward(node, None)?;
    let path = PathAndQuery::try_from(path).ok()?;
    let left = call.meta.deadline.saturating_duration_since(Instant::now());
    let asking = call.api.forwarder().send(call, onward, (path, Bytes::new()));
    let answered = tokio::time::timeout(left / part, asking).await.ok()?;
    let (response, body) = answered.ok()?;
    if !response.status().is_success() {
        tracing::debug!(%node, status = %response.status(), "a node could not sum up");
        return None;
    }
    match serde_json::from_slice(&body) {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::warn!(%node, %error, "a node has summed up in a way that cannot be read");
            None
        }
    }
}

/// Reads a group that this node leads.
async fn read(
    call: &Call,
    group: &Group<Ledger>,
    limit: PageLimit,
) -> Result<OverspendAnswer, Refusal> {
    let reading = call.read_long(|| {
        let (ledger, now) = (group.machine(), group.now());
        let links = call.api.regions().map(|regions| regions.links());
        let others = links
            .into_iter()
            .flat_map(|links| links.others().filter(|region| !links.is_reachable(*region)));
        let out_of_reach = others.collect();
        let scope = Scope { home: *call.api.region(), out_of_reach, limit };
        move || Ok(of_ledger(&ledger, &scope, now.max(ledger.log_time())))
    });
    reading.await
}
