//! Whatever is reported of a job, how often and in which order: it is paid once or not at all.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use purser_ledger::scenario;

/// A line about the one job, and whether it tells that the job was delivered.
fn line() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        2 => Just("outcome acme j succeeded"),
        2 => Just("outcome acme j succeeded by=w1"),
        4 => Just("outcome acme j failed"),
        4 => Just("outcome acme j failed by=w1"),
        2 => Just("outcome acme j failed by=w2"),
        1 => Just("outcome acme j failed for_good"),
        6 => Just("lease q for=10s as=w1"),
        4 => Just("lease q for=3s as=w2"),
        2 => Just("renew acme j by=w1 for=20s"),
        2 => Just("redrive acme j"),
        1 => Just("discard acme j"),
        6 => Just("@ later"),
        1 => Just("restart"),
        1 => Just("sweep"),
    ]
}

fn by_hand() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("release h"),
        Just("capture h 15 final=false"),
        Just("capture h"),
        Just("refund h 10"),
        Just("refund h"),
        Just("reclaim h"),
    ]
}

fn create() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("job acme j 40 hold=h queue=q as=w1 for=10s ttl=8s attempts=3"),
        Just("job acme j 40 hold=h queue=q enqueue ttl=8s attempts=2"),
        Just("job acme j 40 charged charge=h queue=q as=w1 for=10s attempts=3"),
    ]
}

/// Plays a job's story, a few seconds at a time. What the account has used after each line.
fn play(credits: u64, create: &str, lines: &[&str]) -> Vec<u64> {
    let mut transcript = format!("open acme\ngrant acme {credits}\n{create}\n");
    let mut seconds = 0;
    for line in lines {
        if *line == "@ later" {
            seconds += 4;
            transcript.push_str(&format!("@ {seconds}s\n"));
        } else {
            transcript.push_str(&format!("{line}\n"));
        }
        transcript.push_str("balance acme\n");
    }
    let answered = scenario::play(&transcript).unwrap();
    let after = answered.split("balance acme\n> ").skip(1);
    let used = |text: &str| {
        let balance = text.lines().next().unwrap();
        let used = balance.split(' ').find_map(|figure| figure.strip_prefix("U="));
        used.map_or(0, |used| used.parse().unwrap())
    };
    after.map(used).collect()
}

fn config() -> ProptestConfig {
    let regressions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proptest-regressions/jobs.txt");
    let persistence = FileFailurePersistence::Direct(regressions);
    ProptestConfig {
        failure_persistence: Some(Box::new(persistence)),
        ..ProptestConfig::with_cases(400)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_job_is_paid_once_if_it_was_delivered_and_not_at_all_if_it_was_not(
        create in create(),
        mut lines in prop::collection::vec(line(), 0..30),
        credits in prop_oneof![Just(40_u64), Just(60), Just(1_000)],
    ) {
        lines.push("outcome acme j failed for_good");
        lines.push("discard acme j");
        let delivered = lines.iter().any(|line| line.contains("succeeded"));
        let used = play(credits, create, &lines);
        prop_assert!(used.iter().all(|used| *used == 0 || *used == 40), "{used:?}");
        prop_assert_eq!(used.last().copied(), Some(if delivered { 40 } else { 0 }));
    }

    #[test]
    fn no_path_takes_a_job_twice_also_when_its_hold_is_used_by_hand(
        create in create(),
        lines in prop::collection::vec(prop_oneof![3 => line(), 1 => by_hand()], 0..40),
    ) {
        // More than two of these would capture more than the hold by hand.
        prop_assume!(lines.iter().filter(|line| line.starts_with("capture h 15")).count() <= 2);
        let used = play(1_000, create, &lines);
        prop_assert!(used.iter().all(|used| *used <= 40), "{used:?}");
    }
}
