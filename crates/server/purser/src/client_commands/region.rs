//! `purser region`: the regions, as a node knows them; draining one, and taking over from one that is lost.

use clap::Subcommand;
use purser_api::{FailedOver, NodeNumber, RegionName, RegionsAnswer};

use super::connection::Service;
use super::drain::{self, Drain};
use super::fail_over::{self, FailOver, at_stake, named};
use super::tables::{self, Column};
use crate::failure::CommandError;
use crate::output::Output;

/// Look at the regions, move all homes out of one, have one that is lost taken over.
#[derive(Debug, Subcommand)]
pub(crate) enum RegionAction {
    /// List the regions, as the node that is asked knows them.
    List,
    /// Move the homes of all tenants of a region elsewhere, and show how far that has come until it ends.
    Drain(Drain),
    /// Have a standby take over the homes of a region that is lost: shows how many that are, and asks.
    #[command(name = "failover")]
    FailOver(FailOver),
}

/// Runs a command about regions.
pub(super) async fn run(
    action: RegionAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    match action {
        RegionAction::List => {
            let found = service.admin().regions(&service.read()).await;
            output.answer(&service.found(found)?, show)?;
        }
        RegionAction::Drain(args) => drain::run(args, service, output).await?,
        RegionAction::FailOver(args) => fail_over::run(args, service, output).await?,
    }
    Ok(())
}

fn show(answer: &RegionsAnswer) -> String {
    let lines = [table(answer)].into_iter().chain(rule(answer));
    let done = answer.regions.iter().filter_map(|region| {
        region.failed_over.as_ref().map(|done| failed_over(&region.region, done))
    });
    lines.chain(done).collect::<Vec<_>>().join("\n")
}

fn table(answer: &RegionsAnswer) -> String {
    use Column::{Number, Text};
    const MICROS_PER_MILLI: u64 = 1_000;
    let columns = [
        Text("REGION"),
        Text("NODES"),
        Text("REACHABLE"),
        Number("HEARD"),
        Number("ROUND TRIP"),
        Text("LEADERS"),
    ];
    tables::table(
        &columns,
        answer.regions.iter().map(|region| {
            let is_own = region.region == answer.region;
            let name = &region.region;
            let round_trip = region.round_trip_us.map(|micros| micros / MICROS_PER_MILLI);
            vec![
                if is_own { format!("{name} (asked)") } else { name.to_string() },
                joined(region.nodes.iter().map(|node| Some(*node))),
                if region.is_reachable { "yes" } else { "no" }.to_owned(),
                tables::or_none(region.heard_age_ms.map(tables::seconds)),
                tables::or_none(round_trip.map(|millis| format!("{millis} ms"))),
                joined(region.leaders.iter().copied()),
            ]
        }),
    )
}

/// When a region is failed over without being asked, if it is, and who knows how near that is.
fn rule(answer: &RegionsAnswer) -> Option<String> {
    let after = answer.failover_after_ms.map(tables::seconds)?;
    let counts = match answer.placement_leader {
        Some(leader) if leader == answer.node => "counted here".to_owned(),
        Some(leader) => format!("counted by node {leader}"),
        None => "counted by whoever leads Placement".to_owned(),
    };
    let silent = answer.regions.iter().filter_map(|region| {
        let silent = tables::seconds(region.silent_ms?);
        Some(format!(", {} for {silent}", region.region))
    });
    let silent: String = silent.collect();
    Some(format!("failed over by itself after a silence of {after}, {counts}{silent}"))
}

fn failed_over(lost: &RegionName, done: &FailedOver) -> String {
    let [age, after] = [done.age_ms, done.after_ms].map(tables::seconds);
    let to: Vec<String> = done.to.iter().map(ToString::to_string).collect();
    let (to, taken_over, left) = (to.join(" "), done.taken_over, done.left);
    let at_stake = at_stake(done.at_stake.as_ref());
    let named = if left > 0 { format!(" ({})", named(&done.left_tenants)) } else { String::new() };
    format!(
        "{lost} was failed over {age} ago after a silence of {after}: {taken_over} tenants to {to}, \
         {left} left{named}, at stake {at_stake}"
    )
}

fn joined(nodes: impl Iterator<Item = Option<NodeNumber>>) -> String {
    let names: Vec<String> = nodes.map(tables::or_none).collect();
    names.join(" ")
}
