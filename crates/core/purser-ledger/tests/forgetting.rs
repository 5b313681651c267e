//! What is forgotten is forgotten at instants that do not depend on who looks, or when.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use purser_ledger::scenario;

/// The last answer of a transcript, with `line` put in the place of `@@`.
#[track_caller]
fn last_answer(transcript: &str, line: &str) -> Vec<String> {
    let answered = scenario::play(&transcript.replace("@@", line)).unwrap();
    let answers = answered.lines().rev().take_while(|line| line.starts_with('>'));
    answers.map(ToOwned::to_owned).collect()
}

/// Records are forgotten by the bucket, and a debtor's record moves on while it owes. That move
/// must not take the records along that share its new bucket.
#[test]
fn a_sweep_prolongs_no_record() {
    let transcript = "\
open acme debt_limit=100 record_retention=80s
@ 3s
charge acme 5 charge=owing allow_debt
@ 81s
charge acme 5 charge=c1 allow_debt
refund c1
@ 85s
@@
@ 163s
refund c1 1
";
    assert_eq!(last_answer(transcript, "sweep"), last_answer(transcript, "# no sweep"));
}

/// Who owes is remembered until the debt is paid, however short records live.
#[test]
fn a_debtor_is_not_forgotten() {
    for retention in ["0s", "0.000001s", "1s", "80s"] {
        let transcript = format!(
            "open acme debt_limit=100 record_retention={retention}
charge acme 5 charge=c1 allow_debt
@ 1000s
charge acme 5 charge=c2 allow_debt
@ 2000s
@@
grant acme 20
balance acme
"
        );
        for line in ["sweep", "# no sweep"] {
            assert_eq!(last_answer(&transcript, line), ["> A=10 U=10"], "{retention}");
        }
    }
}

/// A read shows what a decision would find, whether or not anybody has swept.
#[test]
fn a_read_forgets_what_decisions_have_forgotten() {
    let transcript = "\
open acme record_retention=80s
grant acme 10
charge acme 5 charge=c1
@ 80s
@@
hold c1
";
    assert_eq!(last_answer(transcript, "refund c1 1"), ["> not found"]);
    assert_eq!(last_answer(transcript, "sweep"), ["> not found"]);
    assert_eq!(last_answer(transcript, "# no sweep"), ["> not found"]);
}

/// A decision keeps the retention that it was made with: a change neither brings a key back nor
/// takes one away.
#[test]
fn a_change_of_retention_is_for_new_decisions() {
    let transcript = "\
open acme key_retention=30s
grant acme 100
charge acme 1 key=k1
@ 20s
policy acme key_retention=200s
charge acme 1 key=k2
@ 30s
charge acme 1 key=k1
@ 40s
policy acme key_retention=1s
@ 219s
charge acme 1 key=k2
balance acme
";
    // k1 was gone at 30 s and charged again; k2 is still remembered.
    assert_eq!(last_answer(transcript, "# nothing"), ["> A=97 U=3"]);
    let later = transcript.replace("@ 219s", "@ 220s");
    assert_eq!(last_answer(&later, "# nothing"), ["> A=96 U=4"]);
}
