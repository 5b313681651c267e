//! How far a feed may be read: as far as every standby has the log.

use std::collections::VecDeque;

use purser_types::Position;

/// How many ends of the history are remembered until they are acknowledged. Beyond that the last one waits
/// for a later entry, and nothing is published too early.
const MARKS_MAX: usize = 4_096;

/// What the leader of a term knows.
#[derive(Debug, Default)]
pub(super) struct Reach {
    term: u64,
    /// With the index of an entry of the log, where the history ended by then; oldest first.
    marks: VecDeque<(u64, Position)>,
    /// Up to where everybody has it.
    end: Option<Position>,
}

impl Reach {
    /// Up to where the history may be published. `written` is how far the history goes, and the last entry
    /// of the log of which it may show something; `everywhere` the last entry that all standbys have.
    pub(super) fn advance(
        &mut self,
        term: u64,
        (index, written): (Option<u64>, Position),
        everywhere: Option<u64>,
    ) -> Option<Position> {
        if self.term != term {
            *self = Self { term, ..Self::default() };
        }
        let last = self.marks.back().map(|(_, end)| *end).or(self.end);
        if let Some(index) = index
            && last < Some(written)
        {
            if self.marks.len() == MARKS_MAX {
                self.marks.pop_back();
            }
            self.marks.push_back((index, written));
        }
        while let Some((index, end)) = self.marks.front().copied()
            && Some(index) <= everywhere
        {
            self.end = Some(end);
            self.marks.pop_front();
        }
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_published_that_a_standby_lacks_and_a_new_term_begins_anew() {
        let mut reach = Reach::default();
        let mut at = |term, index, written, everywhere| {
            reach.advance(term, (Some(index), Position(written)), everywhere).map(|end| end.0)
        };
        assert_eq!(at(1, 5, 100, None), None);
        assert_eq!(at(1, 7, 160, Some(6)), Some(100));
        assert_eq!(at(1, 7, 160, Some(6)), Some(100));
        assert_eq!(at(1, 8, 160, Some(7)), Some(160));
        assert_eq!(at(1, 9, 200, None), Some(160));
        // What the leader of another term was told says nothing.
        assert_eq!(at(2, 9, 200, Some(8)), None);
        assert_eq!(at(2, 9, 200, Some(9)), Some(200));
    }

    #[test]
    fn with_too_many_marks_it_is_published_later_and_not_too_early() {
        let mut reach = Reach::default();
        let marks = u64::try_from(MARKS_MAX).unwrap() + 10;
        for number in 1..=marks {
            reach.advance(1, (Some(number), Position(number * 10)), Some(0));
        }
        let near_the_end = reach.advance(1, (Some(marks), Position(marks * 10)), Some(marks - 1));
        assert!(near_the_end < Some(Position(marks * 10)));
        let all = reach.advance(1, (Some(marks), Position(marks * 10)), Some(marks));
        assert_eq!(all, Some(Position(marks * 10)));
    }
}
