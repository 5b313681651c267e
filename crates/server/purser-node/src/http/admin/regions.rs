//! The regions of the cluster, as the node that is asked knows them.

use purser_api::{
    FailedOver, NodeNumber, RegionAnswer, RegionName, RegionsAnswer, TenantName, TotalAmount, paths,
};
use purser_raft::NodeId;
use purser_types::{Region, Span};

use crate::http::call::Call;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::regions::Regions;

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Get, paths::ADMIN_REGIONS),
        Operation::ListRegions,
        Description::new(
            Access::CLUSTER_READ,
            Tag::Cluster,
            "Shows the regions as the asked node knows them.",
        )
        .answers::<RegionsAnswer>(200),
        get,
    )
}

async fn get(call: Call) -> Handled {
    call.no_query()?;
    let others = call
        .api
        .regions()
        .into_iter()
        .flat_map(|regions| regions.links().others().map(move |region| other(regions, region)));
    let mut regions: Vec<RegionAnswer> = others.chain([own(&call)]).collect();
    regions.sort_unstable_by(|one, next| one.region.cmp(&next.region));
    let known = call.api.regions();
    let placement_leader = known.and_then(|it| it.directory().leader()).map(number_of);
    let placement_change = known.map_or(0, |it| it.directory().as_of().0);
    let failover_after_ms = known.and_then(|it| it.automatic().after()).map(millis);
    let (node, region) = (number_of(call.api.node()), (*call.api.region()).into());
    Ok(Reply::read(&RegionsAnswer {
        node,
        region,
        placement_leader,
        placement_change,
        failover_after_ms,
        regions,
    })?)
}

fn own(call: &Call) -> RegionAnswer {
    let region = *call.api.region();
    let groups = call.api.groups().all().iter();
    RegionAnswer {
        region: region.into(),
        nodes: call.api.nodes_in(region).into_iter().map(number_of).collect(),
        is_reachable: true,
        heard_age_ms: None,
        round_trip_us: None,
        leaders: groups.map(|group| group.leader().map(number_of)).collect(),
        silent_ms: None,
        failed_over: None,
    }
}

fn other(regions: &Regions, region: Region) -> RegionAnswer {
    let links = regions.links();
    let age = links.heard_at(region).map(|at| links.clock().since(at));
    let leaders = links.leaders(region).into_iter();
    let mut nodes: Vec<NodeNumber> = links.nodes(region, None).into_iter().map(number_of).collect();
    nodes.sort_unstable();
    RegionAnswer {
        region: region.into(),
        nodes,
        is_reachable: links.is_reachable(region),
        heard_age_ms: age.map(millis),
        round_trip_us: links.measured_round_trip(region).map(Span::as_micros),
        leaders: leaders.map(|leader| leader.map(number_of)).collect(),
        silent_ms: regions.automatic().silence(region).map(millis),
        failed_over: regions.automatic().done(region).map(|done| FailedOver {
            age_ms: millis(links.clock().since(done.at)),
            after_ms: millis(done.silence),
            to: done.to.into_iter().map(RegionName::from).collect(),
            taken_over: done.taken_over,
            left: done.left.count,
            left_tenants: done.left.first.into_iter().map(TenantName::from).collect(),
            at_stake: done.at_stake.map(TotalAmount),
        }),
    }
}

const fn millis(span: Span) -> u64 {
    const MICROS_PER_MILLI: u64 = 1_000;
    span.as_micros() / MICROS_PER_MILLI
}

const fn number_of(node: NodeId) -> NodeNumber {
    NodeNumber(node.0)
}
