//! Entries about homes in words: where an account went, and what a lost home had decided.

use super::telling::{Teller, figures};
use crate::home::{EpochBegan, Fate, HomeChange, LostEntry, Tail, TailRun};
use crate::moving::{ImportProgress, MoveRefusal, MoveStep};

impl Teller<'_> {
    /// `#9 5 us/1 set_aside=20 debited=5 [7 charge(booked)]`.
    pub(super) fn tail_run(&self, run: &TailRun) -> String {
        let spend = run.spend.as_ref().map(|hold| {
            let total = if hold.changed_before.is_some() { " total=" } else { " " };
            format!(" {}{total}{}", self.hold_name(hold.number), hold.captured)
        });
        let lost = run.lost.iter().map(lost_text).collect::<Vec<_>>().join(" ");
        let end = if run.is_last { ", that is all" } else { "" };
        format!("{}{} [{lost}]{end}", spend.unwrap_or_default(), tail_text(&run.tail))
    }
}

/// ` us epoch=2`, and what is set aside for the home before.
pub(super) fn home_text(change: &HomeChange) -> String {
    let home = format!(" {} epoch={}", change.standing.home, change.epoch.0);
    match &change.began {
        EpochBegan::Moved | EpochBegan::Kept => home,
        EpochBegan::FailedOver(tail) => format!("{home}, lost{}", tail_text(tail)),
    }
}

/// ` us/1 after #6 set_aside=20`: a lost home, its last epoch, the last entry that came over, and the
/// figures.
pub(super) fn tail_text(tail: &Tail) -> String {
    let figures = figures(&[
        ("set_aside", tail.quarantine),
        ("debited", tail.debited),
        ("matched", tail.matched),
        ("unanswered", tail.unanswered),
        ("held", tail.held),
    ]);
    format!(" {}/{} after #{}{figures}", tail.from, tail.epoch.0, tail.forked_at.0)
}

fn lost_text(lost: &LostEntry) -> String {
    let fate = match lost.fate {
        Fate::Dropped => "dropped",
        Fate::Matched => "known",
        Fate::OtherUnderKey => "key used for another",
        Fate::Booked => "booked",
        Fate::Unanswered => "unanswered",
        Fate::HoldDropped => "hold dropped",
    };
    format!("{} {}({fate})", lost.entry.sequence.0, lost.entry.fact.kind())
}

/// What a step of a move did, or why not.
pub(super) fn step_text(step: &Result<MoveStep, MoveRefusal>) -> String {
    match step {
        Ok(MoveStep::Imported(progress)) => {
            let ImportProgress { head, memory_at, stopped } = progress;
            let memory = memory_at.map(|at| format!(", refusals up to #{}", at.0));
            let stopped = stopped.map(|stop| format!(", stopped for {}", stop.to));
            let (memory, stopped) = (memory.unwrap_or_default(), stopped.unwrap_or_default());
            format!("imported up to #{}{memory}{stopped}", head.sequence.0)
        }
        Ok(MoveStep::Abandoned) => "abandoned".to_owned(),
        Ok(MoveStep::AtHome { epoch }) => format!("at home since epoch {}", epoch.0),
        Ok(MoveStep::Away { home, epoch }) => format!("away in {home} since epoch {}", epoch.0),
        Err(refusal) => format!("refused: {refusal}"),
    }
}
