//! Where the account's home was, as its entries tell, and what lost homes had decided.

use std::collections::BTreeMap;

use purser_types::Epoch;

use super::expect;
use crate::codec;
use crate::digest::{Digest32, hash_of};
use crate::entry::{Bucket, Entry, Fact};
use crate::home::{EpochBegan, HomeChange, Tail, TailRun};

/// The homes of one account, followed from entry to entry.
#[derive(Debug)]
pub(super) struct AuditedHomes {
    epoch: Epoch,
    is_stopped: bool,
    tails: BTreeMap<Epoch, AuditedTail>,
}

/// A tail that is neither booked nor given up.
#[derive(Debug)]
struct AuditedTail {
    /// The last entry that both homes have.
    forked_at: u64,
    /// The last entry of it, and its hash.
    last: (u64, Option<Digest32>),
    set_aside: i128,
    debited: i128,
}

impl Default for AuditedHomes {
    fn default() -> Self {
        Self { epoch: crate::moving::FIRST_EPOCH, is_stopped: false, tails: BTreeMap::new() }
    }
}

impl AuditedHomes {
    /// Follows an entry. `chain` has the hashes of those before it, see [`Audited`](super::Audited).
    pub(super) fn follow(&mut self, entry: &Entry, chain: &[Digest32]) -> Result<(), String> {
        let happens_by_itself = matches!(
            entry.fact,
            Fact::LotEffective(_)
                | Fact::LotExpired(_)
                | Fact::HoldExpired(_)
                | Fact::DebtRepaid(_)
                | Fact::CoverPaid(_)
        );
        let begins = matches!(entry.fact, Fact::HomeMoved(_));
        if self.is_stopped && !begins && !happens_by_itself {
            return Err("something was decided after the account had stopped".to_owned());
        }
        if let Fact::Opened { epoch, .. } = &entry.fact {
            self.epoch = epoch.unwrap_or(self.epoch);
        } else if let Fact::HomeStopped(stop) = &entry.fact {
            expect("the epoch that stops", stop.epoch, self.epoch)?;
            self.is_stopped = true;
        } else if let Fact::HomeMoved(change) = &entry.fact {
            self.begin(change, entry.sequence.0)?;
        } else if let Fact::TailBooked(run) = &entry.fact {
            self.book(run, entry, chain)?;
        } else if let Fact::TailWrittenOff(tail) = &entry.fact {
            self.tails.remove(&tail.epoch).ok_or("an unknown tail is written off")?;
        }
        Ok(())
    }

    fn begin(&mut self, change: &HomeChange, sequence: u64) -> Result<(), String> {
        expect("whether the epoch is new", change.epoch > self.epoch, true)?;
        match &change.began {
            EpochBegan::Kept => (),
            EpochBegan::Moved => expect("whether the home had stopped", self.is_stopped, true)?,
            EpochBegan::FailedOver(tail) => self.lose(tail, sequence)?,
        }
        self.epoch = change.epoch;
        self.is_stopped = false;
        Ok(())
    }

    fn lose(&mut self, tail: &Tail, sequence: u64) -> Result<(), String> {
        expect("whether the fork lies before", tail.forked_at.0 < sequence, true)?;
        let last = (tail.booked.sequence.0, tail.booked.hash);
        let set_aside = i128::from(tail.quarantine.get());
        let forked_at = tail.forked_at.0;
        self.tails.insert(tail.epoch, AuditedTail { forked_at, last, set_aside, debited: 0 });
        Ok(())
    }

    /// The entries of a tail are booked one after the other, each once, and take no more than was set
    /// aside.
    fn book(&mut self, run: &TailRun, entry: &Entry, chain: &[Digest32]) -> Result<(), String> {
        let tail = self.tails.get_mut(&run.tail.epoch).ok_or("an unknown tail is booked")?;
        if run.tail.forked_at.0 < tail.forked_at {
            // The lost home's log parted earlier. That shows before anything of it is booked.
            expect("the tail's last entry", tail.last.0, tail.forked_at)?;
            tail.forked_at = run.tail.forked_at.0;
            let common = usize::try_from(tail.forked_at).ok().and_then(|at| chain.get(at));
            tail.last = (tail.forked_at, common.copied());
        }
        for lost in &run.lost {
            let (sequence, hash) = tail.last;
            expect("the tail's sequence", lost.entry.sequence.0, sequence.saturating_add(1))?;
            expect("the tail's hash", Some(lost.entry.prev_hash), hash)?;
            tail.last = (lost.entry.sequence.0, Some(hash_of(&codec::encode(&lost.entry))));
        }
        let taken = entry.moves.iter().filter(|step| step.to == Bucket::Used);
        let taken = taken.fold(0_i128, |sum, step| sum.saturating_add(step.amount.get().into()));
        tail.debited = tail.debited.saturating_add(taken);
        expect("debits of the tail", run.tail.debited.get().into(), tail.debited)?;
        let covered = tail.debited <= tail.set_aside;
        expect("whether what was set aside covers the tail", covered, true)?;
        if run.is_last {
            self.tails.remove(&run.tail.epoch);
        }
        Ok(())
    }
}
