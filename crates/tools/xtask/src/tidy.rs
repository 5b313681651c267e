//! What the tree says about itself: checks over source and documents that no compiler makes.
//!
//! Each check is a function from text to complaints, with a test that it can fail. All of them run
//! over the real tree as a test of this crate, so whoever runs the tests runs them too.

mod documents;
mod layout;
mod places;
mod pure_core;
mod unfinished;
mod words;

use crate::bands;
use crate::rust_source::RustSource;
use crate::steps::{self, Outcome, StepError};
use crate::tree::{SourceFile, Tree};
use crate::workspace::Workspace;

/// Something that is not as it should be, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    path: String,
    /// From 1; nothing if the file as a whole is meant.
    line: Option<usize>,
    text: String,
}

impl Complaint {
    /// About a line of a file.
    fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), text: text.into() }
    }

    /// About a file as a whole.
    fn about(path: &str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, text: text.into() }
    }
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}: {}", self.path, self.text),
            None => write!(formatter, "{}: {}", self.path, self.text),
        }
    }
}

/// Checks of one text file.
const FILE_CHECKS: &[fn(&SourceFile) -> Vec<Complaint>] = &[
    documents::module_says_what_it_is,
    layout::file_is_short,
    places::sql_files_have_their_place,
    unfinished::nothing_is_left_for_later,
    words::no_path_of_a_machine,
];

/// Checks of one Rust file.
const RUST_CHECKS: &[fn(&RustSource<'_>) -> Vec<Complaint>] = &[
    places::metrics_have_their_place,
    places::sql_has_its_place,
    places::tasks_are_waited_for,
    pure_core::core_is_pure,
    unfinished::no_code_is_a_stub,
    unfinished::tests_are_not_skipped,
    unfinished::tests_do_not_sleep,
    words::identifiers_use_our_words,
];

/// Checks of the tree as a whole.
const TREE_CHECKS: &[fn(&Tree) -> Vec<Complaint>] = &[
    documents::invariants_are_written_down,
    documents::links_lead_somewhere,
    layout::ceilings_are_needed,
    layout::top_level_is_as_agreed,
];

/// Checks the real tree.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome, StepError> {
    steps::report(&findings(workspace)?)
}

fn findings(workspace: &Workspace) -> Result<Vec<String>, StepError> {
    let complaints = complaints(&Tree::read(workspace.root())?);
    let mut findings: Vec<_> = complaints.iter().map(Complaint::to_string).collect();
    findings.extend(bands::check(&workspace.metadata(&["--no-deps", "--offline"])?));
    Ok(findings)
}

/// Everything that is wrong with a tree, ordered by path.
fn complaints(tree: &Tree) -> Vec<Complaint> {
    let mut complaints: Vec<_> = TREE_CHECKS.iter().flat_map(|check| check(tree)).collect();
    for file in &tree.files {
        complaints.extend(FILE_CHECKS.iter().flat_map(|check| check(file)));
        if !file.path.ends_with(".rs") {
            continue;
        }
        match RustSource::parse(file) {
            Ok(source) => complaints.extend(RUST_CHECKS.iter().flat_map(|check| check(&source))),
            Err(error) => complaints.push(Complaint::about(&file.path, error)),
        }
    }
    complaints.sort_by(|left, right| (&left.path, left.line).cmp(&(&right.path, right.line)));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust_source::tests::lexed;

    /// The lines that a check of a file complains about; 0 for the file as a whole.
    #[track_caller]
    pub(super) fn check_file(
        check: fn(&SourceFile) -> Vec<Complaint>,
        path: &str,
        text: &str,
        expected: &[usize],
    ) {
        let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
        assert_eq!(lines(&check(&file)), expected, "{path}:\n{text}");
    }

    /// The lines that a check of a Rust file complains about.
    #[track_caller]
    pub(super) fn check_rust(
        check: fn(&RustSource<'_>) -> Vec<Complaint>,
        path: &str,
        text: &str,
        expected: &[usize],
    ) {
        assert_eq!(lines(&lexed(path, text, check)), expected, "{path}:\n{text}");
    }

    /// The paths that a check of the tree complains about.
    #[track_caller]
    pub(super) fn check_tree(
        check: fn(&Tree) -> Vec<Complaint>,
        files: &[(&str, &str)],
        expected: &[&str],
    ) {
        let complaints = check(&Tree::of(files));
        let paths: Vec<_> = complaints.iter().map(|complaint| complaint.path.as_str()).collect();
        assert_eq!(paths, expected, "{complaints:?}");
    }

    fn lines(complaints: &[Complaint]) -> Vec<usize> {
        complaints.iter().map(|complaint| complaint.line.unwrap_or(0)).collect()
    }

    #[test]
    fn the_tree_is_tidy() {
        let findings = findings(&Workspace::here()).unwrap();
        assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    }

    #[test]
    fn a_file_that_is_no_rust_is_a_complaint() {
        let tree = Tree::of(&[("crates/core/purser-types/src/odd.rs", "//! Odd.\nfn f( {")]);
        let complaints = complaints(&tree);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
    }
}
