//! Which of an account's calls may be answered before a standby has them: those that stay within X (R6).
//!
//! One of these is kept for each account with an X that was asked in this term: some hundred bytes.

use std::collections::{BTreeMap, VecDeque};

use purser_ledger::{AccountName, Entry, Fact, Ledger, Outcome, Unacknowledged, codec};
use purser_raft::Group;
use purser_types::{Credits, HistoryError, Sequence};

/// See the module's documentation.
pub(super) struct Answerable {
    /// What is unacknowledged; nothing until everything is acknowledged that there was at first.
    unacknowledged: Option<Unacknowledged>,
    /// The last entry that is noted, or that there was at first.
    noted: Sequence,
    /// The limit after that one.
    limit: Credits,
    /// With the index of an entry of the log, how far the account had come by then.
    marks: VecDeque<(u64, Sequence)>,
}

impl Answerable {
    /// Whether everything in `outcomes` that was accepted may be answered, when the standbys have the log
    /// up to `acknowledged`.
    pub(super) fn may_answer(
        known: &mut BTreeMap<AccountName, Self>,
        group: &Group<Ledger>,
        account: &AccountName,
        (outcomes, acknowledged): (&[Outcome], Option<u64>),
    ) -> Result<bool, HistoryError> {
        let limit = group.view(|ledger, _| ledger.account(account).map(|it| it.answer_limit()));
        let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
            // Whatever the limit will be next, the standbys have to know that it was nothing.
            known.remove(account);
            return Ok(false);
        };
        let known = known.entry(account.clone()).or_insert_with(|| Self::new(limit));
        if known.unacknowledged.is_none() && !known.begin(group, account, acknowledged) {
            return Ok(false);
        }
        known.note_new(group, account)?;
        known.acknowledge(acknowledged);
        let Some(unacknowledged) = &known.unacknowledged else { return Ok(false) };
        let may = |outcome: &Outcome| match &outcome.result {
            // What was decided before is told when everybody has it.
            Ok(receipt) => !outcome.replayed && unacknowledged.may_answer(&receipt.entry),
            Err(_) => true,
        };
        Ok(outcomes.iter().all(may))
    }

    const fn new(limit: Credits) -> Self {
        Self { unacknowledged: None, noted: Sequence::ZERO, limit, marks: VecDeque::new() }
    }

    /// Waits for what there is at first, of which nothing is known. Whether the standbys have that.
    fn begin(
        &mut self,
        group: &Group<Ledger>,
        account: &AccountName,
        acknowledged: Option<u64>,
    ) -> bool {
        match self.marks.front().copied() {
            Some((index, sequence)) if Some(index) <= acknowledged => {
                self.unacknowledged = Some(Unacknowledged::none(sequence, self.limit));
                self.noted = sequence;
                self.marks.clear();
                return true;
            }
            Some(_) => (),
            None => {
                let seen = group.view(|ledger, _| {
                    let account = ledger.account(account)?;
                    Some((account.head().sequence, account.answer_limit()))
                });
                // Order matters: the index is read after the account, so it is not too low.
                if let Some(((sequence, limit), index)) = seen.zip(group.shown_index()) {
                    self.limit = limit;
                    self.marks.push_back((index, sequence));
                }
            }
        }
        false
    }

    /// Notes the account's entries since the last time. If they are many, because nobody had to wait for
    /// long, it begins anew.
    fn note_new(
        &mut self,
        group: &Group<Ledger>,
        account: &AccountName,
    ) -> Result<(), HistoryError> {
        let seen = group.view(|ledger, history| {
            let Some(account) = ledger.account(account) else { return Ok(None) };
            let entries = account.entries_after(self.noted, history)?;
            Ok(Some((entries, account.head().sequence)))
        });
        let Some((entries, head)) = seen? else { return Ok(()) };
        // Order matters: the index is read after the entries, so it is not too low.
        let Some(index) = group.shown_index().filter(|_| !entries.is_empty()) else {
            return Ok(());
        };
        let Some(unacknowledged) = &mut self.unacknowledged else { return Ok(()) };
        for bytes in &entries {
            let entry: Entry = codec::decode(bytes).map_err(|error| HistoryError::Damaged {
                position: purser_types::Position(index),
                detail: error.to_string(),
            })?;
            if let Fact::PolicySet(standing) = &entry.fact {
                self.limit = standing.policy.unacknowledged_max;
            }
            self.noted = entry.sequence;
            unacknowledged.note(&entry, self.limit);
        }
        if self.noted < head {
            *self = Self::new(self.limit);
        } else {
            self.marks.push_back((index, self.noted));
        }
        Ok(())
    }

    fn acknowledge(&mut self, acknowledged: Option<u64>) {
        while let Some((index, sequence)) = self.marks.front().copied()
            && Some(index) <= acknowledged
        {
            self.marks.pop_front();
            if let Some(unacknowledged) = &mut self.unacknowledged {
                unacknowledged.acknowledge(sequence);
            }
        }
    }
}
