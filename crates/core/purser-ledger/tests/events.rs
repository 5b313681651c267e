//! However often and in whichever order usage events are delivered, each counts once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use purser_ledger::scenario;

/// What is sent: how much each event is about, and then what is delivered when.
#[derive(Debug, Clone)]
struct Traffic {
    amounts: Vec<u64>,
    deliveries: Vec<usize>,
}

/// Each event 1 to 5 times, in any order.
fn traffic() -> impl Strategy<Value = Traffic> {
    prop::collection::vec((0_u64..30, 1_usize..=5), 1..12).prop_flat_map(|events| {
        let amounts = events.iter().map(|(amount, _)| *amount).collect::<Vec<_>>();
        let times = events.iter().enumerate();
        let all: Vec<usize> = times.flat_map(|(event, (_, times))| vec![event; *times]).collect();
        let deliveries = Just(all).prop_shuffle();
        (Just(amounts), deliveries)
            .prop_map(|(amounts, deliveries)| Traffic { amounts, deliveries })
    })
}

/// What happens between two deliveries.
fn between() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        6 => Just("@ later"),
        1 => Just("restart"),
        1 => Just("sweep"),
        1 => Just("charge acme 1 key=own"),
    ]
}

/// What an account has used and owes at the end.
fn figure(answered: &str, name: &str) -> u64 {
    let last = answered.rsplit("balance acme\n> ").next().unwrap().lines().next().unwrap();
    let figure = last.split(' ').find_map(|figure| figure.strip_prefix(name));
    figure.map_or(0, |figure| figure.parse().unwrap())
}

fn play(credits: u64, traffic: &Traffic, between: &[&str]) -> String {
    let mut transcript = format!("open acme debt_limit=1000\ngrant acme {credits}\n");
    let mut seconds = 0;
    for (place, event) in traffic.deliveries.iter().enumerate() {
        match between.get(place) {
            Some(&"@ later") => {
                seconds += 40;
                transcript.push_str(&format!("@ {seconds}s\n"));
            }
            Some(line) => transcript.push_str(&format!("{line}\n")),
            None => (),
        }
        let amount = traffic.amounts[*event];
        transcript.push_str(&format!("event acme meter e{event} {amount} time={event}s\n"));
    }
    transcript.push_str("balance acme\n");
    scenario::play(&transcript).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn each_event_counts_once_however_often_and_in_whichever_order_it_comes(
        traffic in traffic(),
        between in prop::collection::vec(between(), 0..60),
        credits in prop_oneof![Just(1_u64), Just(100), Just(1_000)],
    ) {
        let answered = play(credits, &traffic, &between);
        let own = between.iter().take(traffic.deliveries.len()).any(|line| line.starts_with("charge"));
        // The account's own charge may have been refused for too few credits.
        let used = figure(&answered, "U=");
        let sent: u64 = traffic.amounts.iter().sum();
        prop_assert!(used == sent || (own && used == sent + 1), "{used} of {sent}\n{answered}");
        prop_assert_eq!(answered.matches("conflict").count(), 0);
    }
}
