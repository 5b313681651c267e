//! When a region is failed over although nobody asks: what the leader of Placement counts, and on what
//! evidence.
//!
//! Nothing is safe or unsafe because of it: a fail-over is the same statement, whoever makes it. It decides
//! only whether one is made needlessly, so it counts what it is sure of:
//!
//! - Only whoever leads Placement counts, and only while a majority says so at each look. Whoever is cut off
//!   himself counts nothing, and whoever leads anew begins at nothing.
//! - A look counts for no more than [`Vigil::STEP_MAX`]. A node that stood still was not listening.
//! - A region that anybody was heard to hear is not silent.

use std::collections::{BTreeMap, BTreeSet};

use purser_types::{Region, Span};

use super::pace::since;

/// For how long the leader of Placement has heard nothing of whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vigil {
    /// The latest look, if that was a leader's.
    latest: Option<Look>,
    /// Of each region that was silent at all looks since some earlier one.
    silences: BTreeMap<Region, Silence>,
}

/// A look of a leader's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    /// The term in which a majority has confirmed it.
    term: u64,
    at: Span,
}

/// The silence of one region.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Silence {
    counted: Span,
    /// Whether nothing is left to do about it.
    is_over: bool,
}

impl Vigil {
    /// The most that one look adds to a silence: looks are a second apart, and one may be late.
    pub const STEP_MAX: Span = Span::from_secs(2);

    /// Notes which regions were silent at a look at `at`, on a clock that only goes forward. `leading` is the
    /// term in which this node leads Placement, as a majority has confirmed after the look; nothing if none
    /// has.
    pub fn look(&mut self, (leading, at): (Option<u64>, Span), silent: &BTreeSet<Region>) {
        let before = self.latest.filter(|look| leading == Some(look.term));
        self.latest = leading.map(|term| Look { term, at });
        let Some(before) = before else {
            let begins = |region: &Region| (*region, Silence::default());
            let leads = leading.is_some();
            self.silences = silent.iter().filter(|_| leads).map(begins).collect();
            return;
        };
        let step = since(before.at, at).min(Self::STEP_MAX).as_micros();
        self.silences.retain(|region, _| silent.contains(region));
        for silence in self.silences.values_mut() {
            silence.counted = Span::from_micros(silence.counted.as_micros().saturating_add(step));
        }
        for region in silent {
            self.silences.entry(*region).or_default();
        }
    }

    /// The regions that are to be failed over: silent for `patience` or longer, and not done with.
    pub fn due(&self, patience: Span) -> BTreeSet<Region> {
        let due = self.silences.iter();
        let due = due.filter(|(_, silence)| !silence.is_over && silence.counted >= patience);
        due.map(|(region, _)| *region).collect()
    }

    /// Notes that nothing is left to do about a region for as long as it stays silent.
    pub fn note_over(&mut self, region: Region) {
        if let Some(silence) = self.silences.get_mut(&region) {
            silence.is_over = true;
        }
    }

    /// For how long a region is known to be silent; nothing if it was heard, or this node does not lead.
    pub fn silence(&self, region: Region) -> Option<Span> {
        self.silences.get(&region).map(|silence| silence.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Span = Span::from_secs(3);

    fn region(name: &str) -> Region {
        Region::parse(name).unwrap()
    }

    fn regions(names: &[&str]) -> BTreeSet<Region> {
        names.iter().map(|name| region(name)).collect()
    }

    type Names<'a> = &'a [&'a str];

    /// A leader's looks: its confirmed term, the second, who is silent, and who is due after that.
    #[track_caller]
    fn check(looks: &[(Option<u64>, u64, Names<'_>, Names<'_>)]) {
        let mut vigil = Vigil::default();
        for (leading, second, silent, due) in looks {
            vigil.look((*leading, Span::from_secs(*second)), &regions(silent));
            assert_eq!(vigil.due(PATIENCE), regions(due), "at {second}: {vigil:?}");
        }
    }

    #[test]
    fn a_region_that_is_silent_at_all_looks_is_due_after_its_patience() {
        check(&[
            (Some(1), 10, &["us"], &[]),
            (Some(1), 11, &["us"], &[]),
            (Some(1), 12, &["ap", "us"], &[]),
            (Some(1), 13, &["ap", "us"], &["us"]),
            (Some(1), 15, &["ap", "us"], &["ap", "us"]),
        ]);
    }

    #[test]
    fn a_region_that_is_heard_once_is_counted_anew() {
        check(&[
            (Some(1), 10, &["us"], &[]),
            (Some(1), 12, &["us"], &[]),
            (Some(1), 13, &[], &[]),
            (Some(1), 14, &["us"], &[]),
            (Some(1), 16, &["us"], &[]),
            (Some(1), 17, &["us"], &["us"]),
            (Some(1), 18, &[], &[]),
        ]);
    }

    #[test]
    fn whoever_leads_anew_begins_at_nothing() {
        check(&[
            (Some(1), 10, &["us"], &[]),
            (Some(1), 12, &["us"], &[]),
            (Some(2), 13, &["us"], &[]),
            (Some(2), 15, &["us"], &[]),
            (Some(2), 16, &["us"], &["us"]),
        ]);
    }

    #[test]
    fn whoever_no_majority_confirms_counts_nothing() {
        check(&[
            (Some(1), 10, &["us"], &[]),
            (None, 12, &["ap", "us"], &[]),
            (None, 99, &["ap", "us"], &[]),
            // The same term again: its majority did not hear of another one.
            (Some(1), 100, &["ap", "us"], &[]),
            (Some(1), 102, &["us"], &[]),
            (Some(1), 103, &["us"], &["us"]),
        ]);
    }

    #[test]
    fn a_node_that_stood_still_was_not_listening() {
        check(&[
            (Some(1), 10, &["us"], &[]),
            (Some(1), 99, &["us"], &[]),
            (Some(1), 100, &["us"], &["us"]),
        ]);
    }

    #[test]
    fn what_is_over_is_due_again_only_after_another_silence() {
        let mut vigil = Vigil::default();
        for (second, silent) in [(10, ["us"].as_slice()), (12, &["us"]), (14, &["us"])] {
            vigil.look((Some(1), Span::from_secs(second)), &regions(silent));
        }
        assert_eq!(vigil.silence(region("us")), Some(Span::from_secs(4)));
        vigil.note_over(region("us"));
        assert_eq!(vigil.due(PATIENCE), regions(&[]));
        vigil.look((Some(1), Span::from_secs(15)), &regions(&[]));
        assert_eq!(vigil.silence(region("us")), None);
        for second in [16, 18, 20] {
            vigil.look((Some(1), Span::from_secs(second)), &regions(&["us"]));
        }
        assert_eq!(vigil.due(PATIENCE), regions(&["us"]));
    }
}
