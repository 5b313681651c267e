//! `purser-sim --seed 7`: one history aloud. `purser-sim --seeds 1000`: as many, counted.
//! `purser-sim --model`: every history of small worlds, or of one of them by its name.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is what the program is for")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use purser_sim::model::{Search, Small};
use purser_sim::story::{Plan, Tale, Wrong, tell, tell_aloud};
use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model};

const USAGE: &str = "usage: purser-sim [--calm|--moving|--losing] (--seed N | --seeds COUNT) | \
                     purser-sim --model [NAME]";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = arguments.first().and_then(|first| plan_of(first));
    let kind = if named.is_some() { format!("{} ", arguments.remove(0)) } else { String::new() };
    if let [first, names @ ..] = &arguments[..]
        && first == "--model"
    {
        return search(names);
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

/// The worlds that take minutes, by their names.
fn worlds() -> [(&'static str, Small); 5] {
    let small = Small::TWO_REGIONS;
    [
        ("everything", Small::EVERYTHING),
        ("two-orders", Small { calls: 1, orders: 2, ..Small::EVERYTHING }),
        ("two-late-messages", Small { wire: 2, comes_home: true, ..small.clone() }),
        ("take-back", Small { orders: 3, takeback_cap: 2, credits: 2, ..small.clone() }),
        ("overdraft", Small { orders: 3, overdraft: 1, credits: 2, is_forced: true, ..small }),
    ]
}

/// Searches the worlds of these names, or all of them.
fn search(names: &[String]) -> ExitCode {
    let worlds = worlds();
    let known = |name: &String| worlds.iter().any(|(known, _)| known == name);
    if !names.iter().all(known) {
        eprintln!("the worlds are {}", worlds.map(|(name, _)| name).join(", "));
        return ExitCode::from(2);
    }
    let is_asked = |name: &str| names.is_empty() || names.iter().any(|asked| asked == name);
    let mut result = ExitCode::SUCCESS;
    for (name, small) in worlds.into_iter().filter(|(name, _)| is_asked(name)) {
        println!("{name}: {small:?}");
        if !is_searched_in_vain(small) {
            result = ExitCode::FAILURE;
        }
    }
    result
}

/// Says now and then how far a search has come.
struct Progress;

impl Reporter<Search> for Progress {
    fn report_checking(&mut self, data: ReportData) {
        let ReportData { total_states, unique_states, max_depth, duration, .. } = data;
        let seconds = duration.as_secs();
        eprintln!(
            "  {seconds} s: {total_states} states, {unique_states} different, depth {max_depth}"
        );
    }

    fn report_discoveries(
        &mut self,
        _: &Search,
        _: BTreeMap<&'static str, ReportDiscovery<Search>>,
    ) {
        // Whoever asked for the search tells what it found.
    }

    fn delay(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Searches a whole world, with a line of progress every few seconds. Whether nothing is wrong there.
fn is_searched_in_vain(small: Small) -> bool {
    let begun = Instant::now();
    let search = small.search().checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let found = search.spawn_bfs().report(&mut Progress);
    let (states, unique) = (found.state_count(), found.unique_state_count());
    let (depth, seconds) = (found.max_depth(), begun.elapsed().as_secs());
    println!("  {states} states, {unique} of them different, depth {depth}, {seconds} s");
    let [homes, regions, messages, steps, both] = found.model().counts();
    println!("  {homes} homes, {regions} regions, {messages} messages");
    println!("  {steps} steps of one ledger, {both} of two");
    let mut is_in_vain = true;
    for (property, path) in found.discoveries() {
        println!("  {property}: {:?}", path.into_actions());
        is_in_vain &= property == purser_sim::model::OVERSPENT;
    }
    is_in_vain
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
