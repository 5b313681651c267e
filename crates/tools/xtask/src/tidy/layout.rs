//! Where things lie and how long they may get.

use super::Complaint;
use crate::tree::{SourceFile, Tree};

/// Lines after which a Rust file has to be split, or listed below with the reason.
const LINES_MAX: usize = 700;

/// Files that may be longer, each with its own ceiling. A ceiling only ever goes down.
const CEILINGS: &[(&str, usize)] = &[];

/// Complains about a Rust file that nobody reads to its end.
pub(super) fn file_is_short(file: &SourceFile) -> Vec<Complaint> {
    let ceiling = CEILINGS.iter().find(|(path, _)| *path == file.path);
    let ceiling = ceiling.map_or(LINES_MAX, |(_, ceiling)| *ceiling);
    let lines = file.text.lines().count();
    if !file.path.ends_with(".rs") || lines <= ceiling {
        return Vec::new();
    }
    let text = format!("has {lines} lines, and {ceiling} are allowed; split it by what it does");
    vec![Complaint::about(&file.path, text)]
}

/// Complains about ceilings that nothing reaches any more.
pub(super) fn ceilings_are_needed(tree: &Tree) -> Vec<Complaint> {
    let needed = |path: &str| tree.text(path).is_some_and(|text| text.lines().count() > LINES_MAX);
    let idle = CEILINGS.iter().filter(|(path, _)| !needed(path));
    idle.map(|(path, _)| Complaint::about(path, "needs no ceiling any more")).collect()
}

/// Complains about additions at the top.
pub(super) fn top_level_is_as_agreed(tree: &Tree) -> Vec<Complaint> {
    tree.strays.iter().map(|name| Complaint::about(name, "does not belong at the top")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_file;
    use super::*;

    #[test]
    fn a_long_file_is_refused() {
        check_file(file_is_short, "a.rs", &"\n".repeat(LINES_MAX), &[]);
        check_file(file_is_short, "a.rs", &"\n".repeat(LINES_MAX + 1), &[0]);
        check_file(file_is_short, "Cargo.lock", &"\n".repeat(LINES_MAX + 1), &[]);
    }

    #[test]
    fn an_addition_at_the_top_is_refused() {
        let mut tree = Tree::default();
        assert_eq!(top_level_is_as_agreed(&tree), []);
        tree.strays.insert("scripts".to_owned());
        assert_eq!(top_level_is_as_agreed(&tree).len(), 1);
    }
}
