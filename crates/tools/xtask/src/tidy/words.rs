//! One thing, one word: identifiers use the glossary's words, and files speak of the product alone.

use super::Complaint;
use crate::rust_source::{RustSource, TokenKind};
use crate::tree::SourceFile;

/// Other systems' words for things that have a word here. Prose may use them to explain.
const REFUSED_WORDS: &[(&str, &str)] = &[
    ("reservation", "hold"),
    ("encumbrance", "hold"),
    ("withdraw", "void, or capture"),
    ("withdrawal", "void, or capture"),
    ("wallet", "account"),
    ("deposit", "grant"),
    ("topup", "grant"),
    ("debit", "charge"),
    ("escrow", "allocation"),
    ("rehome", "move"),
    ("customer", "tenant"),
];

/// Top folders of a machine where checkouts lie. Not `home`: it is a word of the product.
const MACHINE_FOLDERS: &[&str] = &["Users", "builds", "root", "work", "workspace"];

/// Complains about identifiers that use another system's word.
pub(super) fn identifiers_use_our_words(source: &RustSource<'_>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for token in source.tokens.iter().filter(|token| token.kind == TokenKind::Word) {
        for word in words(&token.text) {
            if let Some((_, ours)) = REFUSED_WORDS.iter().find(|(refused, _)| *refused == word) {
                let text = format!("`{}`: our word for `{word}` is {ours}", token.text);
                complaints.push(Complaint::at(source.path, token.line, text));
            }
        }
    }
    complaints
}

/// The words of an identifier, in lower case and in the singular: `WalletIds` has `wallet`, `id`.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in identifier.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        let word = words.last_mut().expect("never empty");
        word.extend(letter.to_lowercase().filter(|letter| *letter != '_'));
    }
    words.iter().map(|word| word.strip_suffix('s').unwrap_or(word).to_owned()).collect()
}

/// Complains about absolute paths of the machine on which a file was written.
pub(super) fn no_path_of_a_machine(file: &SourceFile) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (line, number) in file.text.lines().zip(1..) {
        if let Some(folder) = MACHINE_FOLDERS.iter().find(|folder| names_folder(line, folder)) {
            let text = format!("a path below `/{folder}` exists on one machine only");
            complaints.push(Complaint::at(&file.path, number, text));
        }
    }
    complaints
}

/// Whether a line has a path that starts with this top folder.
fn names_folder(line: &str, folder: &str) -> bool {
    let path = format!("/{folder}/");
    line.match_indices(&path).any(|(at, _)| {
        // In the middle of another path it is a folder of the project or a part of an address.
        let before = line[..at].chars().next_back();
        before.is_none_or(|letter| !letter.is_alphanumeric() && !"._-}/".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_file, check_rust};
    use super::*;

    #[test]
    fn an_identifier_with_another_word_is_refused() {
        let text = "struct WalletIds;\nfn open_reservation() {}\nenum DebitKind {}\n";
        check_rust(identifiers_use_our_words, "a.rs", text, &[1, 2, 3]);
        let fine = "// A wallet elsewhere is an account here.\nstruct Account(&'static str);\n";
        check_rust(identifiers_use_our_words, "a.rs", fine, &[]);
    }

    #[test]
    fn a_path_of_a_machine_is_refused() {
        let path = |folder: &str| format!("see `/{folder}/purser/notes`\n");
        check_file(no_path_of_a_machine, "docs/testing.md", &path(MACHINE_FOLDERS[3]), &[1]);
        check_file(no_path_of_a_machine, "docs/testing.md", &path("etc"), &[]);
        let address = format!("https://purser.dev{}", path(MACHINE_FOLDERS[3]));
        check_file(no_path_of_a_machine, "a.md", &address.replace("see `", ""), &[]);
    }
}
