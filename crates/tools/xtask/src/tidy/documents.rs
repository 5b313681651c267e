//! Documents and code say the same: module documentation, invariant numbers, links.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::Complaint;
use crate::tree::{SourceFile, Tree};

/// Where each invariant is stated, with its number.
const INVARIANTS: &str = "docs/invariants.md";
/// Folders whose code and transcripts refer to invariants.
const CODE: &[&str] = &["crates/", "tests/"];
/// This crate checks numbers and names some as examples; it keeps none of the invariants.
const NO_CODE: &str = "crates/tools/xtask/";

/// Complains about a Rust file that does not begin with what it is.
pub(super) fn module_says_what_it_is(file: &SourceFile) -> Vec<Complaint> {
    if !file.path.ends_with(".rs") || file.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![Complaint::about(&file.path, "begins without module documentation (`//! …`)")]
}

/// Complains about invariants that only the code or only the document knows.
pub(super) fn invariants_are_written_down(tree: &Tree) -> Vec<Complaint> {
    let mut in_code = BTreeMap::new();
    for file in &tree.files {
        let is_code = CODE.iter().any(|folder| file.path.starts_with(folder));
        if is_code && !file.path.starts_with(NO_CODE) {
            numbers(&file.text).for_each(|number| _ = in_code.entry(number).or_insert(&file.path));
        }
    }
    let stated: BTreeMap<_, _> = tree
        .text(INVARIANTS)
        .map(|text| numbers(text).map(|number| (number, ())).collect())
        .unwrap_or_default();

    let unstated = in_code.iter().filter(|(number, _)| !stated.contains_key(*number));
    let unstated = unstated.map(|(number, path)| {
        Complaint::about(path, format!("INV-{number} is not stated in {INVARIANTS}"))
    });
    let unkept = stated.keys().filter(|number| !in_code.contains_key(*number));
    let unkept =
        unkept.map(|number| Complaint::about(INVARIANTS, format!("no code names INV-{number}")));
    unstated.chain(unkept).collect()
}

/// The numbers of the invariants that a text names.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split("INV-").skip(1).filter_map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// Complains about links in Markdown to files that do not exist.
pub(super) fn links_lead_somewhere(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = Path::new(&file.path).parent().unwrap_or_else(|| Path::new(""));
        for (line, target) in links(&file.text) {
            let target_path = target.split('#').next().unwrap_or_default();
            let leaves = target.contains("://") || target.starts_with("mailto:");
            if leaves || target_path.is_empty() || exists(tree, &folder.join(target_path)) {
                continue;
            }
            let text = format!("the link to `{target}` leads nowhere");
            complaints.push(Complaint::at(&file.path, line, text));
        }
    }
    complaints
}

/// The targets of the inline links of a Markdown text, with their lines; not those in code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_block = false;
    for (line, number) in text.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        // Every other piece between back quotes is code, but a link's text may have some: so it is
        // the piece with the link's end that counts.
        for prose in line.split('`').step_by(2) {
            for rest in prose.split("](").skip(1) {
                links.extend(rest.split([')', ' ']).next().map(|target| (number, target)));
            }
        }
    }
    links
}

/// Whether the tree has a file or folder there, after `..` is resolved.
fn exists(tree: &Tree, path: &Path) -> bool {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = resolved.pop(),
            Component::Normal(name) => resolved.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => (),
        }
    }
    resolved.as_os_str().is_empty() || tree.paths.contains(&*resolved.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_file, check_tree};
    use super::*;

    #[test]
    fn a_file_without_module_documentation_is_refused() {
        check_file(module_says_what_it_is, "a.rs", "use std::mem;\n//! Late.\n", &[0]);
        check_file(module_says_what_it_is, "a.rs", "//! What it is.\n", &[]);
        check_file(module_says_what_it_is, "a.sh", "", &[]);
    }

    #[test]
    fn an_invariant_is_stated_and_kept() {
        let code = ("crates/core/a/src/lib.rs", "assert!(ok, \"INV-12: conserved\"); // INV-3");
        check_tree(invariants_are_written_down, &[code, (INVARIANTS, "INV-12, INV-3.")], &[]);
        check_tree(invariants_are_written_down, &[code, (INVARIANTS, "INV-12")], &[code.0]);
        check_tree(
            invariants_are_written_down,
            &[code, (INVARIANTS, "INV-12, INV-3, INV-4")],
            &[INVARIANTS],
        );
    }

    #[test]
    fn a_link_to_nothing_is_refused() {
        let target = ("docs/adr/2026-01-01-log.md", "");
        let check = |text| check_tree(links_lead_somewhere, &[target, ("docs/a.md", text)], &[]);
        check("[a](adr/2026-01-01-log.md#why) [`b`](../docs/adr/) [c](#here) [d](https://a.b/c)");
        check("`[code](nowhere.md)`\n```\n[code](nowhere.md)\n```\n");
        let broken = ("docs/a.md", "[a](adr/2026-01-02-log.md)");
        check_tree(links_lead_somewhere, &[target, broken], &["docs/a.md"]);
    }
}
