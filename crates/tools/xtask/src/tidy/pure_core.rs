//! The core band computes and does nothing else: no IO, no clock, no threads, no async, no floats,
//! no order that differs between replicas.
//!
//! Clippy refuses some of this by type (`crates/core/.clippy.toml`). This check sees what a type
//! does not show, such as a module that is imported and an `async fn`.

use super::Complaint;
use crate::rust_source::{RustSource, Token, TokenKind};

/// Words that may not occur at all, and why.
const REFUSED_WORDS: &[(&str, &str)] = &[
    ("HashMap", "iteration order differs between replicas; use BTreeMap"),
    ("HashSet", "iteration order differs between replicas; use BTreeSet"),
    ("SystemTime", "the core has no clock; take the log time of the command"),
    ("f32", "credits are whole numbers"),
    ("f64", "credits are whole numbers"),
    ("async", "the core waits for nothing"),
    ("tokio", "the core waits for nothing"),
];

/// Parts of the standard library that may not be used, and why.
const REFUSED_IN_STD: &[(&str, &str)] = &[
    ("Instant", "the core has no clock; take the log time of the command"),
    ("env", "the core reads nothing from outside"),
    ("fs", "the core reads and writes no files"),
    ("net", "the core knows no network"),
    ("process", "the core starts and ends no process"),
    ("thread", "the core is single-threaded"),
];

/// Complains about anything in core, outside of tests, that is more than computation.
pub(super) fn core_is_pure(source: &RustSource<'_>) -> Vec<Complaint> {
    if !source.path.starts_with("crates/core/") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        if token.in_test || token.kind != TokenKind::Word {
            continue;
        }
        if token.text == "std" {
            complaints.extend(
                path_after(&source.tokens[at + 1..])
                    .filter_map(|word| refuse(source.path, word, REFUSED_IN_STD)),
            );
        }
        complaints.extend(refuse(source.path, token, REFUSED_WORDS));
    }
    complaints
}

fn refuse(path: &str, token: &Token, refused: &[(&str, &str)]) -> Option<Complaint> {
    let (word, why) = refused.iter().find(|(word, _)| token.text == *word)?;
    Some(Complaint::at(path, token.line, format!("`{word}` in core: {why}")))
}

/// The words of the path that goes on at `tokens`, with those in braces if it is an import.
fn path_after(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    let mut depth = 0_usize;
    let mut after_separator = false;
    let belongs_to_path = move |token: &&Token| {
        let goes_on = token.text == "::" || after_separator || depth > 0;
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ => (),
        }
        after_separator = token.text == "::";
        goes_on
    };
    tokens.iter().take_while(belongs_to_path).filter(|token| token.kind == TokenKind::Word)
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_rust;
    use super::*;

    const CORE: &str = "crates/core/purser-ledger/src/lot.rs";

    #[test]
    fn core_may_not_reach_outside_itself() {
        check_rust(core_is_pure, CORE, "use std::fs;\n", &[1]);
        check_rust(core_is_pure, CORE, "use std::time::{Duration, Instant};\n", &[1]);
        check_rust(
            core_is_pure,
            CORE,
            "use std::{\n    mem,\n    io::Read, net::TcpStream,\n};\n",
            &[3],
        );
        check_rust(core_is_pure, CORE, "fn f() {\n    std::thread::yield_now();\n}\n", &[2]);
        check_rust(core_is_pure, CORE, "async fn f() {}\n", &[1]);
        check_rust(core_is_pure, CORE, "struct Rate(f64);\n", &[1]);
    }

    #[test]
    fn core_may_compute_and_tests_may_do_more() {
        let pure = "use std::collections::BTreeMap;\nfn f(fs: BTreeMap<u64, u64>) { net(fs) }\n";
        check_rust(core_is_pure, CORE, pure, &[]);
        check_rust(core_is_pure, CORE, "#[cfg(test)]\nmod tests { use std::fs; }\n", &[]);
        check_rust(core_is_pure, "crates/core/purser-ledger/tests/golden.rs", "use std::fs;", &[]);
        check_rust(core_is_pure, "crates/server/purser-node/src/main.rs", "use std::fs;", &[]);
    }
}
