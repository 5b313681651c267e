//! Which of an account's entries some promotable standby may lack, and what that is worth (R1, R6).
//!
//! Home's leader keeps one of these for each account with a promotable standby. It notes every entry
//! of the account and every acknowledgment, and asks before it answers. Not here: waiting, and how a
//! log index is known to be acknowledged.

use std::collections::VecDeque;

use purser_types::{Credits, Sequence};

use crate::entry::{Bucket, Entry, Fact};

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unacknowledged {
    /// Up to here, every promotable standby has the entries.
    acknowledged: Sequence,
    /// The limit that the account had then.
    limit: Credits,
    /// The entries after that, oldest first.
    entries: VecDeque<Noted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Noted {
    sequence: Sequence,
    /// What the entry counts for.
    credits: Credits,
    /// The account's limit after it.
    limit: Credits,
}

impl Unacknowledged {
    /// Of an account whose entries have all been acknowledged. `limit` is its
    /// [`answer_limit`](crate::Account::answer_limit).
    pub fn none(head: Sequence, limit: Credits) -> Self {
        Self { acknowledged: head, limit, entries: VecDeque::new() }
    }

    /// Notes the account's next entry, and its [`answer_limit`](crate::Account::answer_limit) after it.
    pub fn note(&mut self, entry: &Entry, limit: Credits) {
        let credits = counted(entry).unwrap_or(Credits::ZERO);
        self.entries.push_back(Noted { sequence: entry.sequence, credits, limit });
    }

    /// Notes that every promotable standby has the entries up to `sequence`.
    pub fn acknowledge(&mut self, sequence: Sequence) {
        self.acknowledged = self.acknowledged.max(sequence);
        while let Some(first) = self.entries.front().copied()
            && first.sequence <= sequence
        {
            self.limit = first.limit;
            self.entries.pop_front();
        }
    }

    /// Whether every promotable standby has the entry: the one question for whatever [`counted`]
    /// does not count, and for vouchers.
    pub fn has(&self, sequence: Sequence) -> bool {
        sequence <= self.acknowledged
    }

    /// What the entries up to `sequence` count for that some promotable standby may lack.
    pub fn credits_up_to(&self, sequence: Sequence) -> u128 {
        let until = self.entries.iter().take_while(|noted| noted.sequence <= sequence);
        until.fold(0, |sum, noted| sum.saturating_add(noted.credits.get().into()))
    }

    /// Whether the answer to the operation that made `entry` may go out now: every promotable standby
    /// has it, or it is counted and the sum of all that is not acknowledged up to it stays within X.
    ///
    /// A limit that was raised holds once that is acknowledged, a lowered one at once: a standby that
    /// is promoted sets aside what *it* knows the limit to be.
    pub fn may_answer(&self, entry: &Entry) -> bool {
        if self.has(entry.sequence) {
            return true;
        }
        let limits = self.entries.iter().map(|noted| noted.limit);
        let limit = limits.fold(self.limit, Credits::min);
        let within = self.credits_up_to(entry.sequence) <= u128::from(limit.get());
        counted(entry).is_some() && within
    }
}

/// What an entry counts for under X: authorizes, charges, captures, late captures and reclaims of holds
/// that home itself decides about, where they take anything. Nothing for an entry whose answer always
/// waits.
pub fn counted(entry: &Entry) -> Option<Credits> {
    let is_counted = matches!(
        entry.fact,
        Fact::Authorized(_)
            | Fact::Charged(_)
            | Fact::Captured(_)
            | Fact::LateCaptured(_)
            | Fact::Reclaimed(_)
    );
    let hold = entry.fact.hold().filter(|_| is_counted)?;
    if hold.allocation != Sequence::ZERO {
        return None;
    }
    if matches!(entry.fact, Fact::Authorized(_)) {
        return Some(hold.amount);
    }
    let used = entry.moves.iter().filter(|step| step.to == Bucket::Used);
    let used = used.map(|step| step.amount).try_fold(Credits::ZERO, Credits::checked_add);
    // A capture of nothing would be dropped with a lost home, so nobody is to be told before.
    Some(used.unwrap_or(Credits::MAX)).filter(|used| !used.is_zero())
}
