//! What a replay asked of one tenant, and what it was answered.

use std::collections::{BTreeMap, BTreeSet};

use purser_api::DeciderRole;
use tokio::time::Instant;

use super::book::Asked;
use super::caller::Decider;
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
    /// Keys under which an operator changed what regions may do, and moved no credits.
    pub(crate) operators: BTreeSet<String>,
    /// How many calls that spend were sent to each region, by its place.
    pub(crate) spends_at: BTreeMap<usize, u64>,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Entered {
    /// What it asked for.
    pub(crate) asked: Asked,
    /// The id of the hold or charge that it was about.
    pub(crate) about: Option<String>,
    /// How many calls were sent before it.
    pub(crate) number: usize,
    /// When it was sent first.
    pub(crate) sent_at: Instant,
    /// When its first answer came.
    pub(crate) decided_at: Option<Instant>,
    /// Who decided it.
    pub(crate) by: Option<Decider>,
    /// The last entry that was known when it was sent first.
    pub(crate) seen_before: u64,
    /// How it was decided; nothing if it was given up.
    pub(crate) verdict: Option<Verdict>,
}

impl Journal {
    /// Notes that a call is about to be sent, and which hold or charge it is about.
    pub(crate) fn open(&mut self, key: &str, asked: Asked, about: Option<String>) {
        let entered = Entered {
            asked,
            about,
            number: self.calls.len(),
            sent_at: Instant::now(),
            decided_at: None,
            by: None,
            seen_before: self.seen,
            verdict: None,
        };
        if self.calls.insert(key.to_owned(), entered).is_some() {
            self.complaints.push(format!("key {key} was used for two calls by this replay itself"));
        }
    }

    /// Notes how a call was decided, and by whom. Every answer under one key must say the same.
    pub(crate) fn close(&mut self, key: &str, verdict: &Verdict, by: Option<Decider>) {
        // The entries of a region's book are counted apart from home's.
        let is_home = by.is_none_or(|by| by.role == DeciderRole::Home);
        if let Verdict::Done(Receipt { as_of, .. }) = verdict
            && is_home
        {
            self.seen = self.seen.max(*as_of);
        }
        let Some(entered) = self.calls.get_mut(key) else { return };
        match &entered.verdict {
            None => {
                entered.verdict = Some(verdict.clone());
                entered.decided_at = Some(Instant::now());
                entered.by = by;
            }
            Some(_) if entered.by != by => {
                let who = |by: Option<Decider>| {
                    by.map_or_else(|| "nobody".to_owned(), |it| it.to_string())
                };
                let (first, then) = (who(entered.by), who(by));
                self.complaints.push(format!("key {key}: decided by {first}, then by {then}"));
            }
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
        journal.open("k", Asked::Reclaim { of: 7 }, None);
        journal.close("k", &refused("not_refunded"), None);
        journal.close("k", &refused("not_refunded"), None);
        assert!(journal.complaints.is_empty());
        journal.close("k", &refused("already_reclaimed"), None);
        assert_eq!(journal.complaints.len(), 1);
    }

    #[test]
    fn one_key_has_one_decider() {
        let by = |region: &str| {
            let region = purser_types::Region::parse(region).unwrap();
            Some(Decider { region, role: DeciderRole::Allocation })
        };
        let mut journal = Journal::default();
        journal.open("k", Asked::Reclaim { of: 7 }, None);
        journal.close("k", &refused("not_refunded"), by("eu"));
        journal.close("k", &refused("not_refunded"), by("eu"));
        assert!(journal.complaints.is_empty());
        journal.close("k", &refused("not_refunded"), by("ap"));
        assert_eq!(
            journal.complaints,
            ["key k: decided by eu as allocation, then by ap as allocation"]
        );
    }
}
