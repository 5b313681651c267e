//! Things that have one place: SQL, metrics, and the start of tasks.

use super::Complaint;
use crate::rust_source::{RustSource, TokenKind};
use crate::tree::SourceFile;

/// The only crate that speaks SQL. Nothing decides from the read model, so nothing else has to.
const SQL_PLACE: &str = "crates/server/purser-postgres/";

/// Two words that make a string SQL if it has both.
const SQL_WORDS: &[(&str, &str)] = &[
    ("SELECT ", " FROM "),
    ("INSERT ", " INTO "),
    ("UPDATE ", " SET "),
    ("DELETE ", " FROM "),
    ("CREATE ", " TABLE "),
];

const METRIC_MACROS: &[&str] = &["counter", "gauge", "histogram"];

/// Complains about statements in strings outside the read model. Tests may look into a database.
pub(super) fn sql_has_its_place(source: &RustSource<'_>) -> Vec<Complaint> {
    if source.path.starts_with(SQL_PLACE) {
        return Vec::new();
    }
    let literals = source.tokens.iter().filter(|token| token.kind == TokenKind::Literal);
    let statements = literals.filter(|token| {
        // `INSERT INTO` shares one space between its two words.
        let text = token.text.replace(' ', "  ");
        !token.in_test && SQL_WORDS.iter().any(|(a, b)| text.contains(a) && text.contains(b))
    });
    statements
        .map(|token| Complaint::at(source.path, token.line, "SQL belongs to purser-postgres"))
        .collect()
}

/// Complains about files of statements outside the read model.
pub(super) fn sql_files_have_their_place(file: &SourceFile) -> Vec<Complaint> {
    if !file.path.ends_with(".sql") || file.path.starts_with(SQL_PLACE) {
        return Vec::new();
    }
    vec![Complaint::about(&file.path, "SQL belongs to purser-postgres")]
}

/// Complains about metrics outside the one module of a crate that names and describes them.
pub(super) fn metrics_have_their_place(source: &RustSource<'_>) -> Vec<Complaint> {
    if source.path.ends_with("/src/metrics.rs") || source.path.contains("/src/metrics/") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for name in METRIC_MACROS {
        for token in source.find(&[name, "!"]) {
            let text = format!("`{name}!` outside metrics.rs; call a `record_` function there");
            complaints.push(Complaint::at(source.path, token.line, text));
        }
    }
    complaints
}

/// Complains about tasks that nobody waits for.
///
/// Clippy refuses `tokio::spawn` by its path; this check sees the same function under its other
/// name. A file that says `#[expect(clippy::disallowed_methods, reason = "…")]` has said why.
pub(super) fn tasks_are_waited_for(source: &RustSource<'_>) -> Vec<Complaint> {
    if source.has_word("disallowed_methods") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for module in ["tokio", "task"] {
        for token in source.find(&[module, "::", "spawn"]) {
            let text = "a task that nobody waits for; start it through `Tasks`, or expect \
                        clippy::disallowed_methods with a reason";
            complaints.push(Complaint::at(source.path, token.line, text));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_file, check_rust};
    use super::*;

    const NODE: &str = "crates/server/purser-node/src/node.rs";

    #[test]
    fn sql_outside_the_read_model_is_refused() {
        let statement = "const Q: &str = \"SELECT free FROM lot\";\n";
        check_rust(sql_has_its_place, NODE, statement, &[1]);
        check_rust(sql_has_its_place, NODE, "const Q: &str =\n    \"INSERT INTO lot\";\n", &[2]);
        check_rust(sql_has_its_place, "crates/server/purser-postgres/src/a.rs", statement, &[]);
        check_rust(sql_has_its_place, "tests/src/read_model.rs", statement, &[]);
        check_rust(sql_has_its_place, NODE, "// SELECT a FROM b\nconst T: &str = \"FROM\";", &[]);
        check_file(sql_files_have_their_place, "deploy/lot.sql", "", &[0]);
    }

    #[test]
    fn a_metric_outside_its_file_is_refused() {
        let text = "fn f() {\n    counter!(\"purser_captures_total\").increment(1);\n}\n";
        check_rust(metrics_have_their_place, NODE, text, &[2]);
        check_rust(metrics_have_their_place, "crates/server/purser-node/src/metrics.rs", text, &[]);
    }

    #[test]
    fn a_task_on_its_own_is_refused() {
        let text = "fn f() {\n    tokio::spawn(g());\n    tokio::task::spawn(g());\n}\n";
        check_rust(tasks_are_waited_for, NODE, text, &[2, 3]);
        let explained = format!("#[expect(clippy::disallowed_methods, reason = \"…\")]\n{text}");
        check_rust(tasks_are_waited_for, NODE, &explained, &[]);
        check_rust(tasks_are_waited_for, NODE, "fn f() { tasks.spawn_vital(g); }\n", &[]);
    }
}
