//! Rust source as a flat list of tokens, each with its line.
//!
//! Checks look at tokens and not at text, so that a comment or a string that mentions `HashMap`
//! is no use of one. It knows no grammar beyond this: which tokens stand in code that is compiled
//! for tests only.

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use crate::tree::SourceFile;

/// One token.
#[derive(Debug)]
pub(crate) struct Token {
    /// As written. `::` is one token, every other operator is one token for each character.
    pub(crate) text: String,
    /// What it is.
    pub(crate) kind: TokenKind,
    /// Where it stands, from 1.
    pub(crate) line: usize,
    /// Whether it is compiled for tests only.
    pub(crate) in_test: bool,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or a keyword.
    Word,
    /// A number, a character or a string, with its quotes.
    Literal,
    /// An operator, or a bracket.
    Sign,
}

/// A Rust file.
#[derive(Debug)]
pub(crate) struct RustSource<'a> {
    /// From the top folder.
    pub(crate) path: &'a str,
    /// All tokens, without comments and documentation.
    pub(crate) tokens: Vec<Token>,
}

impl<'a> RustSource<'a> {
    /// Splits a file into tokens, or says why it is no Rust.
    pub(crate) fn parse(file: &'a SourceFile) -> Result<Self, String> {
        let stream: TokenStream = file.text.parse().map_err(|error| format!("{error}"))?;
        let mut source = Self { path: &file.path, tokens: Vec::new() };
        source.flatten(stream, is_test_file(&file.path));
        Ok(source)
    }

    /// Where the texts in `pattern` stand one after the other.
    pub(crate) fn find<'b>(&'b self, pattern: &'b [&str]) -> impl Iterator<Item = &'b Token> {
        self.tokens.windows(pattern.len()).filter_map(move |window| {
            let matches = window.iter().zip(pattern).all(|(token, text)| token.text == *text);
            matches.then(|| &window[0])
        })
    }

    /// Whether the word occurs.
    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.tokens.iter().any(|token| token.kind == TokenKind::Word && token.text == word)
    }

    fn flatten(&mut self, stream: TokenStream, in_test: bool) {
        // From `#[cfg(test)]` to the end of the item it stands at: a block in braces, or `;`.
        let mut in_test_item = false;
        // The first half of `::`; the second joins it to one token.
        let mut half_separator = false;
        for tree in stream {
            let in_test = in_test || in_test_item;
            match tree {
                TokenTree::Group(group) => {
                    let is_block = group.delimiter() == Delimiter::Brace;
                    in_test_item = (in_test_item && !is_block) || is_test_attribute(&group);
                    self.flatten_group(&group, in_test);
                }
                TokenTree::Punct(sign) => {
                    in_test_item = in_test_item && sign.as_char() != ';';
                    let is_second_half = half_separator && sign.as_char() == ':';
                    let is_joint = sign.spacing() == Spacing::Joint;
                    half_separator = sign.as_char() == ':' && is_joint && !is_second_half;
                    if is_second_half && let Some(first_half) = self.tokens.last_mut() {
                        first_half.text.push(':');
                        continue;
                    }
                    let line = sign.span().start().line;
                    self.push(sign.to_string(), TokenKind::Sign, line, in_test);
                }
                TokenTree::Ident(word) => {
                    let line = word.span().start().line;
                    self.push(word.to_string(), TokenKind::Word, line, in_test);
                }
                TokenTree::Literal(literal) => {
                    let line = literal.span().start().line;
                    self.push(literal.to_string(), TokenKind::Literal, line, in_test);
                }
            }
        }
    }

    fn flatten_group(&mut self, group: &Group, in_test: bool) {
        if is_documentation(group) {
            return;
        }
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        let (first, last) = (group.span_open().start().line, group.span_close().start().line);
        self.push(open.to_owned(), TokenKind::Sign, first, in_test);
        self.flatten(group.stream(), in_test);
        self.push(close.to_owned(), TokenKind::Sign, last, in_test);
    }

    fn push(&mut self, text: String, kind: TokenKind, line: usize, in_test: bool) {
        self.tokens.push(Token { text, kind, line, in_test });
    }
}

/// Whether a whole file is compiled for tests only.
fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

fn is_documentation(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket
        && matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(word)) if word == "doc")
}

fn is_test_attribute(group: &Group) -> bool {
    let text: String = group.stream().to_string().split_whitespace().collect();
    group.delimiter() == Delimiter::Bracket && text == "cfg(test)"
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs a check over a file that exists in the test alone.
    pub(crate) fn lexed<T>(path: &str, text: &str, check: impl FnOnce(&RustSource<'_>) -> T) -> T {
        let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
        check(&RustSource::parse(&file).unwrap())
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "//! HashMap\n/// HashMap\nfn f() { /* HashMap */ g(\"HashMap\"); }\n";
        assert!(lexed("a.rs", text, |source| !source.has_word("HashMap")));
    }

    #[test]
    fn a_pattern_is_found_with_its_line() {
        let text = "fn f() {\n    a::b::c();\n    a : b\n}\nuse a::*;\n";
        let lines = lexed("a.rs", text, |source| {
            source.find(&["a", "::", "b"]).map(|token| token.line).collect::<Vec<_>>()
        });
        assert_eq!(lines, [2]);
        assert_eq!(lexed("a.rs", text, |source| source.find(&["a", "::", "*"]).count()), 1);
    }

    #[track_caller]
    fn check_in_test(path: &str, text: &str, expected: &[(&str, bool)]) {
        lexed(path, text, |source| {
            for (word, in_test) in expected {
                let token = source.tokens.iter().find(|token| token.text == *word).unwrap();
                assert_eq!(token.in_test, *in_test, "{word}");
            }
        });
    }

    #[test]
    fn code_for_tests_ends_with_its_item() {
        let text = "fn a() {}\n#[cfg(test)]\nuse b::B;\nfn c() {}\n\
                    #[cfg(test)]\nmod tests { fn d() {} }\nfn e() {}\n";
        let expected = [("a", false), ("b", true), ("c", false), ("d", true), ("e", false)];
        check_in_test("src/lib.rs", text, &expected);
        check_in_test("crates/core/x/tests/golden.rs", "fn a() {}", &[("a", true)]);
    }
}
