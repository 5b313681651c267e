//! Nothing is left for later: no notes to oneself, no stubs, no tests that do not count.

use super::Complaint;
use crate::rust_source::RustSource;
use crate::tree::SourceFile;

/// Notes to oneself. Put together from halves, so that this table is not one of them.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Complains about notes that something is still to be done: an issue is the place for them.
pub(super) fn nothing_is_left_for_later(file: &SourceFile) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (line, number) in file.text.lines().zip(1..) {
        let mut words = line.split(|letter: char| !letter.is_ascii_alphanumeric());
        if let Some(note) = words.find(|word| NOTES.contains(word)) {
            let text = format!("`{note}`: do it, or open an issue and leave the note out");
            complaints.push(Complaint::at(&file.path, number, text));
        }
    }
    complaints
}

/// Complains about code that only says it is not there.
pub(super) fn no_code_is_a_stub(source: &RustSource<'_>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for name in ["todo", "unimplemented"] {
        for token in source.find(&[name, "!"]) {
            complaints.push(Complaint::at(source.path, token.line, format!("`{name}!` is a stub")));
        }
    }
    complaints
}

/// Complains about tests that do not run, or that pass by failing anywhere.
pub(super) fn tests_are_not_skipped(source: &RustSource<'_>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for name in ["ignore", "should_panic"] {
        for token in source.find(&["#", "[", name]) {
            let text = format!("`#[{name}]`: a test runs and says what it expects");
            complaints.push(Complaint::at(source.path, token.line, text));
        }
    }
    complaints
}

/// Complains about tests that wait for time to pass.
///
/// Paused time (`start_paused`) passes without waiting, so a file that uses it may sleep, though
/// never with its thread. Everything else waits for something it can observe, with a deadline.
pub(super) fn tests_do_not_sleep(source: &RustSource<'_>) -> Vec<Complaint> {
    let of_threads = source.find(&["thread", "::", "sleep", "("]);
    let of_tasks = source.find(&["sleep", "("]).filter(|_| !source.has_word("start_paused"));
    let mut lines: Vec<_> =
        of_threads.chain(of_tasks).filter(|token| token.in_test).map(|token| token.line).collect();
    lines.sort_unstable();
    // A sleeping thread is found by both patterns.
    lines.dedup();
    let text = "a test that sleeps is slow or wrong; wait for a state, with a deadline";
    lines.into_iter().map(|line| Complaint::at(source.path, line, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_file, check_rust};
    use super::*;

    #[test]
    fn a_note_to_oneself_is_refused() {
        let note = format!("fine\n// {}(#7): later\n", NOTES[0]);
        check_file(nothing_is_left_for_later, "docs/testing.md", &note, &[2]);
        check_file(nothing_is_left_for_later, "docs/testing.md", "mastodont\n", &[]);
    }

    #[test]
    fn a_stub_is_refused() {
        check_rust(no_code_is_a_stub, "a.rs", "fn f() {\n    todo![]\n}\n", &[2]);
        check_rust(no_code_is_a_stub, "a.rs", "fn f() { let todo = 1; }\n", &[]);
    }

    #[test]
    fn a_test_that_does_not_count_is_refused() {
        let text = "#[test]\n# [ignore]\nfn f() {}\n#[test]\n#[should_panic]\nfn g() {}\n";
        check_rust(tests_are_not_skipped, "a.rs", text, &[2, 5]);
    }

    #[test]
    fn a_test_that_sleeps_is_refused() {
        let sleep = "fn f() {\n    tokio::time::sleep(SECOND).await;\n}\n";
        check_rust(tests_do_not_sleep, "tests/src/a.rs", sleep, &[2]);
        check_rust(tests_do_not_sleep, "crates/server/purser-node/src/a.rs", sleep, &[]);
        let paused = format!("#[tokio::test(start_paused = true)]\nasync {sleep}");
        check_rust(tests_do_not_sleep, "tests/src/a.rs", &paused, &[]);
        let thread = format!("{paused}fn g() {{\n    std::thread::sleep(SECOND);\n}}\n");
        check_rust(tests_do_not_sleep, "tests/src/a.rs", &thread, &[6]);
    }
}
