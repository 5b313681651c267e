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

/// The rows of the table of faults, without its head.
fn faults() -> Vec<String> {
    let rows =
        rows("docs/region-faults.md").into_iter().skip_while(|row| !row.starts_with("| fault |"));
    // The table of answers comes after it.
    rows.skip(2).take_while(|row| !row.starts_with("| answer |")).collect()
}

/// How many lines above its name say that a function is a test.
const ATTRIBUTE_LINES: usize = 5;

/// The functions of a source that a runner runs; those in `proptest!` are marked in the same way.
fn tests_in(source: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_mark = |line: &&str| *line == "#[test]" || line.starts_with("#[tokio::test");
    let is_end = |line: &&str| line.contains("fn ") || *line == "}";
    let tests = lines.iter().enumerate().filter_map(|(place, line)| {
        let (_, rest) = line.split_once("fn ")?;
        let (name, _) = rest.split_once('(')?;
        let above = lines[..place].iter().rev().take(ATTRIBUTE_LINES);
        let is_test = above.take_while(|line| !is_end(line)).any(is_mark);
        is_test.then(|| name.to_owned())
    });
    tests.collect()
}

#[test]
fn only_what_is_run_is_taken_for_a_test() {
    let source = "#[test]\nfn one() {}\nfn helper() {}\n#[tokio::test(flavor = \"x\")]\n\
                  #[expect(y)]\nasync fn two() {}\nproptest! {\n#[test]\nfn three(it in 0..9) {}\n}";
    assert_eq!(tests_in(source), ["one", "three", "two"].map(str::to_owned).into());
}

#[test]
fn each_row_of_the_table_of_faults_names_what_shows_it() {
    let faults = faults();
    assert!(faults.len() > 20, "the table is found: {faults:?}");
    for row in faults {
        let row = [row];
        let is_shown = !named_tests(&row).is_empty() || !named_scenarios(&row).is_empty();
        assert!(is_shown, "nothing shows {row:?}");
    }
}

#[test]
fn each_test_that_a_table_of_faults_names_is_there() {
    let rows = [rows("docs/region-faults.md"), rows("docs/testing.md")].concat();
    let sources = ["crates", "tests"].map(|folder| files(&root().join(folder), ".rs")).concat();
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("the source can be read");
    let there: BTreeSet<String> =
        sources.iter().flat_map(|source| tests_in(&read(source))).collect();
    let tests = named_tests(&rows);
    assert!(tests.len() > 20, "the tables are found: {tests:?}");
    for test in tests {
        assert!(there.contains(&test), "no test is named {test}");
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
