//! `purser-sim --seed 7`: one history aloud. `purser-sim --seeds 1000`: as many, counted.
//! `purser-sim --model`: every history of small worlds.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is what the program is for")]

use std::collections::BTreeMap;
use std::process::ExitCode;

use purser_sim::model::Small;
use purser_sim::story::{Plan, Tale, Wrong, tell, tell_aloud};
use stateright::{Checker, HasDiscoveries, Model};

const USAGE: &str =
    "usage: purser-sim [--calm|--moving|--losing] (--seed N | --seeds COUNT) | purser-sim --model";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = arguments.first().and_then(|first| plan_of(first));
    let kind = if named.is_some() { format!("{} ", arguments.remove(0)) } else { String::new() };
    if arguments == ["--model"] {
        return search();
    }
    let plan = named.unwrap_or(Plan::WILD);
    let number = arguments.get(1).and_then(|number| number.parse().ok());
    let (told, count) = match (arguments.first().map(String::as_str), number) {
        (Some("--seed"), Some(seed)) => (aloud(seed, &plan), 1),
        (Some("--seeds"), Some(count)) => (sweep(count, &plan), count),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match told {
        Ok(counts) => {
            counts.iter().for_each(|(name, count)| println!("{count:>9} {name}"));
            println!("{count} histories, nothing wrong");
            ExitCode::SUCCESS
        }
        Err(Wrong { seed, step, detail }) => {
            println!("step {step}: {detail}\nagain: purser-sim {kind}--seed {seed}");
            ExitCode::FAILURE
        }
    }
}

/// What may happen, by the argument that asks for it.
fn plan_of(argument: &str) -> Option<Plan> {
    match argument {
        "--calm" => Some(Plan::CALM),
        "--moving" => Some(Plan::MOVING),
        "--losing" => Some(Plan::LOSING),
        _ => None,
    }
}

/// Searches worlds that take minutes.
fn search() -> ExitCode {
    let small = Small::TWO_REGIONS;
    let models = [
        ("escrow", Small { wire: 2, comes_home: true, ..small.clone() }),
        ("take back", Small { orders: 3, takeback_cap: 2, credits: 2, ..small.clone() }),
        ("overdraft", Small { orders: 3, overdraft: 1, credits: 2, is_forced: true, ..small }),
    ];
    let mut result = ExitCode::SUCCESS;
    for (name, model) in models {
        let begun = std::time::Instant::now();
        let search = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
        let found = search.spawn_bfs().join();
        let (states, unique) = (found.state_count(), found.unique_state_count());
        let (depth, seconds) = (found.max_depth(), begun.elapsed().as_secs());
        println!("{name}: {states} states, {unique} of them different, depth {depth}, {seconds} s");
        for (property, path) in found.discoveries() {
            println!("  {property}: {:?}", path.into_actions());
            if property != purser_sim::model::OVERSPENT {
                result = ExitCode::FAILURE;
            }
        }
    }
    result
}

type Counts = BTreeMap<&'static str, u64>;

fn aloud(seed: u64, plan: &Plan) -> Result<Counts, Wrong> {
    let listener = Box::new(|happened: &str| println!("{happened}"));
    Ok(tell_aloud(seed, plan, Some(listener))?.counts)
}

/// Many histories, with a line of progress every hundred.
fn sweep(count: u64, plan: &Plan) -> Result<Counts, Wrong> {
    let mut counts = Counts::new();
    for seed in 0..count {
        let Tale { counts: happened, .. } = tell(seed, plan)?;
        for (name, times) in happened {
            let sum = counts.entry(name).or_default();
            *sum = sum.saturating_add(times);
        }
        if seed % 100 == 99 {
            eprintln!("{} of {count}", seed.saturating_add(1));
        }
    }
    Ok(counts)
}
