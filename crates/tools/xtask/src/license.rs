//! Reads license expressions as crates state them (SPDX) and decides whether the policy allows one.
//!
//! It compares names and knows nothing about what a license says.

/// Whether an expression can be met with allowed licenses alone; `None` if it cannot be read.
///
/// `A/B` is the old way to write `A OR B`. A license with an exception is a name of its own.
pub(crate) fn is_allowed(expression: &str, allowed: &[String]) -> Option<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let verdict = any_of(&mut words, allowed)?;
    words.next().is_none().then_some(verdict)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>, allowed: &[String]) -> Option<bool> {
    let mut verdict = all_of(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        verdict |= all_of(words, allowed)?;
    }
    Some(verdict)
}

fn all_of(words: &mut Words<'_>, allowed: &[String]) -> Option<bool> {
    let mut verdict = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        verdict &= one(words, allowed)?;
    }
    Some(verdict)
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let verdict = any_of(words, allowed)?;
        return words.next_if_eq(&")").map(|_| verdict);
    }
    if matches!(word, ")" | "AND" | "OR" | "WITH") {
        return None;
    }
    let mut name = word.to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        name = format!("{word} WITH {}", words.next()?);
    }
    Some(allowed.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_expression(expression: &str, expected: Option<bool>) {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned);
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression:?}");
    }

    #[test]
    fn one_allowed_choice_is_enough_and_every_part_counts() {
        check_expression("MIT", Some(true));
        check_expression("GPL-3.0", Some(false));
        check_expression("GPL-3.0 OR MIT", Some(true));
        check_expression("GPL-3.0/MIT", Some(true));
        check_expression("GPL-3.0 AND MIT", Some(false));
        check_expression("(MIT OR GPL-3.0) AND Unicode-3.0", Some(true));
        // AND binds closer than OR.
        check_expression("MIT OR GPL-3.0 AND LGPL-3.0", Some(true));
    }

    #[test]
    fn an_exception_makes_another_license() {
        check_expression("Apache-2.0 WITH LLVM-exception", Some(false));
        check_expression("Apache-2.0 WITH LLVM-exception OR MIT", Some(true));
    }

    #[test]
    fn what_cannot_be_read_is_not_allowed() {
        for odd in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "AND MIT"] {
            check_expression(odd, None);
        }
    }
}
