//! The words of a line: plain ones in order, named ones (`key=a1`) in any.

use std::collections::{BTreeMap, VecDeque};

use purser_types::Credits;

use super::line_error::LineError;

/// What is left of a line. Whoever reads takes words out; a word that nobody takes is an error, so
/// that a mistyped option cannot pass for one that was not given.
#[derive(Debug)]
pub(super) struct Words<'a> {
    plain: VecDeque<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    /// Takes a line apart.
    pub(super) fn of(line: &'a str) -> Result<Self, LineError> {
        let mut words = Self { plain: VecDeque::new(), named: BTreeMap::new() };
        for word in line.split_whitespace() {
            match word.split_once('=') {
                None => words.plain.push_back(word),
                Some((name, value)) => {
                    if words.named.insert(name, value).is_some() {
                        return Err(LineError::Unexpected(word.to_owned()));
                    }
                }
            }
        }
        Ok(words)
    }

    /// The next plain word.
    pub(super) fn plain(&mut self, what: &'static str) -> Result<&'a str, LineError> {
        self.plain.pop_front().ok_or(LineError::Missing(what))
    }

    /// The next plain word, if there is one.
    pub(super) fn plain_or_none(&mut self) -> Option<&'a str> {
        self.plain.pop_front()
    }

    /// Whether a plain word stands anywhere in what is left.
    pub(super) fn flag(&mut self, flag: &str) -> bool {
        let place = self.plain.iter().position(|word| *word == flag);
        place.and_then(|place| self.plain.remove(place)).is_some()
    }

    /// The value of a named word.
    pub(super) fn named(&mut self, name: &str) -> Option<&'a str> {
        self.named.remove(name)
    }

    /// The named words whose names start with `prefix`, without it.
    pub(super) fn named_with(&mut self, prefix: &str) -> Vec<(&'a str, &'a str)> {
        let starts = |name: &&str| name.starts_with(prefix);
        let found: Vec<&str> = self.named.keys().copied().filter(starts).collect();
        let taken = found
            .into_iter()
            .filter_map(|name| Some((name.strip_prefix(prefix)?, self.named.remove(name)?)));
        taken.collect()
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), LineError> {
        let named = self.named.into_keys().next();
        match self.plain.into_iter().next().or(named) {
            Some(word) => Err(LineError::Unexpected(word.to_owned())),
            None => Ok(()),
        }
    }
}

/// An amount that a call may name.
pub(super) fn call_amount(text: &str) -> Result<Credits, LineError> {
    let amount = Credits::parse(text)?;
    if amount.is_zero() || Credits::CALL_MAX < amount {
        return Err(LineError::AmountOutOfRange);
    }
    Ok(amount)
}

/// A named word that is a number.
pub(super) fn number(words: &mut Words<'_>, name: &'static str) -> Result<Option<u64>, LineError> {
    let number = words.named(name).map(str::parse).transpose();
    number.map_err(|_not_a_number| LineError::Choice { what: name, allowed: "a number" })
}
