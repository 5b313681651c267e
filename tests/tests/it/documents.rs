//! What the documents say of tests: whoever reads that a fault is shown by a test finds that test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The fewest words in a name that is meant to be a test's: other names in the documents have fewer.
const WORDS_MIN: usize = 4;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below a folder whose names end with `ending`.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

/// The rows of the tables in a document.
fn rows(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).expect("the document can be read");
    text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect()
}

/// The tests that rows name: in backquotes, as sentences.
fn named_tests(rows: &[String]) -> BTreeSet<String> {
    let quoted = rows.iter().flat_map(|row| row.split('`').skip(1).step_by(2));
    let is_name = |text: &&str| {
        let is_word = |word: &str| !word.is_empty() && word.chars().all(char::is_alphanumeric);
        text.split('_').count() >= WORDS_MIN && text.split('_').all(is_word)
    };
    quoted.filter(is_name).map(str::to_owned).collect()
}

/// The scenarios that rows name: a letter and a number, such as t08.
fn named_scenarios(rows: &[String]) -> BTreeSet<String> {
    let words = rows.iter().flat_map(|row| row.split(|it: char| !it.is_alphanumeric()));
    let is_scenario = |word: &&str| {
        let number = word.strip_prefix(['k', 's', 't', 'u']).unwrap_or_default();
        number.len() >= 2 && number.chars().all(|digit| digit.is_ascii_digit())
    };
    words.filter(is_scenario).map(str::to_owned).collect()
}

#[test]
fn each_test_that_a_table_of_faults_names_is_there() {
    let rows = [rows("docs/region-faults.md"), rows("docs/testing.md")].concat();
    let sources = ["crates", "tests"].map(|folder| files(&root().join(folder), ".rs")).concat();
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("the source can be read");
    let sources: String = sources.iter().map(read).collect();
    let tests = named_tests(&rows);
    assert!(tests.len() > 20, "the tables are found: {tests:?}");
    for test in tests {
        assert!(sources.contains(&format!("fn {test}(")), "no test is named {test}");
    }
    let folder = root().join("crates/core/purser-ledger/tests/scenarios");
    let name = |path: &PathBuf| path.file_name().map(|it| it.to_string_lossy().into_owned());
    let scenarios: Vec<String> = files(&folder, ".txt").iter().filter_map(name).collect();
    let named = named_scenarios(&rows);
    assert!(named.len() > 10, "the tables are found: {named:?}");
    for scenario in named {
        let prefix = format!("{scenario}_");
        assert!(scenarios.iter().any(|it| it.starts_with(&prefix)), "no scenario is {scenario}");
    }
}
