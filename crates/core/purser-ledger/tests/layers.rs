//! Effectively once, by layers that each stand alone: what the ledger still catches when one of its checks
//! is taken away. What the database catches then is tested in `purser-postgres`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use purser_ledger::scenario;

/// What the account has at the end of a transcript.
fn at_the_end(transcript: &str) -> String {
    let lines: Vec<&str> = transcript.lines().map(str::trim).collect();
    let answered = scenario::play(&format!("{}\nbalance acme\n", lines.join("\n"))).unwrap();
    answered.lines().last().unwrap().to_owned()
}

/// Every call has a key of its own, as if nobody looked at keys: the names of jobs and of purchases decide.
#[test]
fn without_the_key_check_a_job_is_paid_once_by_its_name_and_a_purchase_granted_once_by_its_source()
{
    let found = at_the_end(
        "open acme
         grant acme 500 source=pay_1
         grant acme 500 source=pay_1
         job acme j1 40 hold=h1
         job acme j1 40
         outcome acme j1 succeeded
         job acme j1 40
         outcome acme j1 succeeded
         outcome acme j1 failed
         job acme j2 30 charged charge=c2
         job acme j2 30 charged
         outcome acme j2 failed
         outcome acme j2 failed for_good
         outcome acme j2 failed for_good",
    );
    assert_eq!(found, "> A=460 U=40");
}

/// Every delivery of an event has an id of its own, as if nobody looked whether it is known: the state of
/// what it names decides.
#[test]
fn without_the_dedupe_of_events_a_job_is_paid_once_by_its_state_and_a_hold_by_its_capture() {
    let found = at_the_end(
        "open acme debt_limit=1000
         grant acme 500
         job acme j1 40 hold=h1
         event acme s e1 job=j1 outcome=succeeded
         event acme s e2 job=j1 outcome=succeeded
         authorize acme 30 hold=h2
         event acme s e3 25 of=h2
         event acme s e4 25 of=h2
         event acme s e5 25 of=h2",
    );
    assert_eq!(found, "> A=435 U=65");
}

/// The other layers are what these tests say they are: with neither a key, nor a name, nor a source that
/// would tell them apart, two charges are two.
#[test]
fn nothing_but_its_key_tells_a_charge_from_its_repetition() {
    let found = at_the_end("open acme\ngrant acme 100\ncharge acme 5\ncharge acme 5");
    assert_eq!(found, "> A=90 U=10");
    let found = at_the_end("open acme\ngrant acme 100\ncharge acme 5 key=k\ncharge acme 5 key=k");
    assert_eq!(found, "> A=95 U=5");
}
