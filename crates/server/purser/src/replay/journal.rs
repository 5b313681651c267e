//! What a replay asked of one tenant, and what it was answered.

use std::collections::BTreeMap;

use super::book::Asked;
use super::wire::{Receipt, Refusal, Verdict};

/// The calls about one tenant, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The calls.
    pub(crate) calls: BTreeMap<String, Entered>,
    /// The last entry that any answer has shown.
    pub(crate) seen: u64,
    /// What was wrong with answers as they came.
    pub(crate) complaints: Vec<String>,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Entered {
    /// What it asked for.
    pub(crate) asked: Asked,
    /// The last entry that was known when it was sent first.
    pub(crate) seen_before: u64,
    /// How it was decided; nothing if it was given up.
    pub(crate) verdict: Option<Verdict>,
}

impl Journal {
    /// Notes that a call is about to be sent.
    pub(crate) fn open(&mut self, key: &str, asked: Asked) {
        let entered = Entered { asked, seen_before: self.seen, verdict: None };
        if self.calls.insert(key.to_owned(), entered).is_some() {
            self.complaints.push(format!("key {key} was used for two calls by this replay itself"));
        }
    }

    /// Notes how a call was decided. Every answer under one key must say the same.
    pub(crate) fn close(&mut self, key: &str, verdict: &Verdict) {
        if let Verdict::Done(Receipt { as_of, .. }) = verdict {
            self.seen = self.seen.max(*as_of);
        }
        let Some(entered) = self.calls.get_mut(key) else { return };
        match &entered.verdict {
            None => entered.verdict = Some(verdict.clone()),
            Some(first) if first == verdict => (),
            Some(first) => {
                self.complaints.push(format!("key {key}: answered {first:?}, then {verdict:?}"));
            }
        }
    }

    /// Notes something wrong.
    pub(crate) fn complain(&mut self, what: String) {
        self.complaints.push(what);
    }
}

impl Entered {
    /// What the call made, if it was done.
    pub(crate) const fn receipt(&self) -> Option<&Receipt> {
        match &self.verdict {
            Some(Verdict::Done(receipt)) => Some(receipt),
            Some(Verdict::Refused(_)) | None => None,
        }
    }

    /// Why it was not done, if it was refused.
    pub(crate) const fn refusal(&self) -> Option<&Refusal> {
        match &self.verdict {
            Some(Verdict::Refused(refusal)) => Some(refusal),
            Some(Verdict::Done(_)) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> Verdict {
        Verdict::Refused(Refusal { code: code.to_owned(), available: None, short_by: None })
    }

    #[test]
    fn two_answers_under_one_key_must_agree() {
        let mut journal = Journal::default();
        journal.open("k", Asked::Reclaim { of: 7 });
        journal.close("k", &refused("not_refunded"));
        journal.close("k", &refused("not_refunded"));
        assert!(journal.complaints.is_empty());
        journal.close("k", &refused("already_reclaimed"));
        assert_eq!(journal.complaints.len(), 1);
    }
}
