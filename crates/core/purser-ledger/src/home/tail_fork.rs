//! Where the log of a lost home parts from what came over: the last entry that both homes have.
//!
//! ```text
//!  here   1 ─ 2 ─ 3 ─ 4 ─ 5 ─ home moved …        the lost home's leader had sent 4 and 5 to its standby,
//!  there  1 ─ 2 ─ 3 ─ 4'─ 5'─ 6'                  and the next one, who never had them, went on after 3
//! ```
//!
//! Entries are chained by their hashes, so one that is equal proves all before it.

use purser_types::{HistoryError, HistoryReader, Sequence};

use super::tail::Tail;
use crate::account::Account;
use crate::digest::Digest32;
use crate::entry::{Entry, genesis_hash};
use crate::protocol::Booked;

impl Account {
    /// The last entry that both homes have, as far as entries of the lost one tell, of which `first` is the
    /// first; nothing if that does not continue this chain.
    pub(super) fn common_with_lost(
        &self,
        tail: &Tail,
        (first, entries): (&Entry, &[(Entry, Digest32)]),
        history: &dyn HistoryReader,
    ) -> Result<Option<Booked>, HistoryError> {
        let before = Sequence(first.sequence.0.saturating_sub(1));
        let mut common = self.chained_at(before, history)?;
        if common.hash != Some(first.prev_hash) {
            return Ok(None);
        }
        for (entry, hash) in entries.iter().take_while(|(it, _)| it.sequence <= tail.forked_at) {
            let here = self.chained_at(entry.sequence, history)?;
            if here.hash != Some(*hash) {
                break;
            }
            common = here;
        }
        Ok(Some(common))
    }

    /// Entries by which a lost home finds out what it has in common with this one, the latest first: the
    /// last of its tail that is booked; and as long as nothing is, some before it, each twice as far back,
    /// down to the beginning.
    pub fn tail_marks(
        &self,
        tail: &Tail,
        history: &dyn HistoryReader,
    ) -> Result<Vec<Booked>, HistoryError> {
        let mut marks = vec![tail.booked];
        let (mut sequence, mut back) = (tail.forked_at, 1_u64);
        while tail.is_untouched() && sequence > Sequence::ZERO {
            sequence = Sequence(tail.forked_at.0.saturating_sub(back));
            back = back.saturating_mul(2);
            marks.push(self.chained_at(sequence, history)?);
        }
        Ok(marks)
    }

    /// An entry's place in the chain; that of the beginning for none.
    fn chained_at(
        &self,
        sequence: Sequence,
        history: &dyn HistoryReader,
    ) -> Result<Booked, HistoryError> {
        let hash = match sequence {
            Sequence::ZERO => Some(genesis_hash(&self.name)),
            sequence => self.hash_at(sequence, history)?,
        };
        Ok(Booked { sequence, hash })
    }
}
