//! The table of problem codes and the pages in `docs/problems/` say the same.

#![expect(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use purser_api::{Problem, ProblemCode};

fn pages() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/problems")
}

/// The JSON block of a page.
fn example(page: &str) -> &str {
    let (_, rest) = page.split_once("```json\n").unwrap();
    rest.split_once("\n```").unwrap().0
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let codes: BTreeSet<String> =
        ProblemCode::ALL.iter().map(|code| format!("{}.md", code.slug())).collect();
    let files: BTreeSet<String> = fs::read_dir(pages())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, codes);
}

#[test]
fn a_page_says_what_the_table_says() {
    for code in ProblemCode::ALL {
        let page = fs::read_to_string(pages().join(format!("{}.md", code.slug()))).unwrap();
        let head = format!(
            "# {}\n\nCode `{code}`, status {}, retry `{}`, outcome `{}`.\n\n",
            code.title(),
            code.status(),
            code.retry(),
            code.outcome(),
        );
        assert!(page.starts_with(&head), "{code}: the page does not start with\n{head}");
        for section in ["\n## When\n", "\n## Example\n", "\n## What to do\n"] {
            assert!(page.contains(section), "{code}: no section {section:?}");
        }
    }
}

#[test]
fn an_example_is_a_document_that_the_service_could_have_sent() {
    for code in ProblemCode::ALL {
        let page = fs::read_to_string(pages().join(format!("{}.md", code.slug()))).unwrap();
        let read: Problem = serde_json::from_str(example(&page)).unwrap();
        let expected = Problem::new(*code, read.detail.clone(), read.request_id.clone())
            .with_figures((*read.figures).clone());
        assert_eq!(read, expected);
        // Written again, nothing is lost: every figure of the example is one that exists.
        let again = serde_json::to_value(&read).unwrap();
        let example: serde_json::Value = serde_json::from_str(example(&page)).unwrap();
        assert_eq!(again, example, "{code}");
    }
}
