//! Pages of lists that are ordered by sequence, newest first.
//!
//! A cursor holds the sequence below which the next page starts, so a later page never shows what
//! came after the first one was read, nor anything twice. It is bound to its list and filters by the
//! contract's codec.

use purser_api::{Cursor, CursorScope, List, PageLimit, ProblemCode};
use purser_types::Sequence;

use crate::http::problem::Refusal;

/// What a caller asks for: so many items below a sequence.
pub(crate) struct Page {
    scope: CursorScope,
    limit: usize,
    /// Only what is below; everything if there is none.
    below: Option<Sequence>,
}

/// What was found for a page.
pub(crate) struct Found<T> {
    /// The items, newest first; no more than the page's limit.
    pub(crate) items: Vec<T>,
    /// The next page starts below this; there is none if there is nothing more.
    pub(crate) next: Option<Sequence>,
}

impl Page {
    /// Reads what is asked for.
    pub(crate) fn open(
        scope: CursorScope,
        limit: PageLimit,
        cursor: Option<&Cursor>,
    ) -> Result<Self, Refusal> {
        let below = match cursor {
            Some(cursor) => Some(Sequence(position(&scope, cursor)?)),
            None => None,
        };
        Ok(Self { scope, limit: limit.get(), below })
    }

    /// How many items at most.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Whether an item with this sequence can stand on the page.
    pub(crate) fn admits(&self, sequence: Sequence) -> bool {
        self.below.is_none_or(|below| sequence < below)
    }

    /// The newest sequence that can stand on the page, of those up to `last`; none if all are above.
    pub(crate) fn newest(&self, last: Sequence) -> Option<Sequence> {
        let newest = match self.below {
            Some(below) => last.min(Sequence(below.0.checked_sub(1)?)),
            None => last,
        };
        (newest != Sequence::ZERO).then_some(newest)
    }

    /// The page as a body.
    pub(crate) fn close<T, B>(
        &self,
        found: &Found<T>,
        show: impl Fn(&T) -> Result<B, Refusal>,
    ) -> Result<List<B>, Refusal> {
        let items = found.items.iter().map(show).collect::<Result<_, _>>()?;
        let next_cursor = found.next.map(|next| self.scope.seal(&next.0.to_string()));
        Ok(List { items, has_more: next_cursor.is_some(), next_cursor })
    }
}

impl<T> Found<T> {
    /// The first `limit` of `items`, which are in order and may be more.
    pub(crate) fn first(
        items: impl IntoIterator<Item = T>,
        limit: usize,
        sequence_of: impl Fn(&T) -> Sequence,
    ) -> Self {
        let mut items: Vec<T> = items.into_iter().take(limit.saturating_add(1)).collect();
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(sequence_of);
        Self { items, next }
    }
}

/// The number in a cursor of this list.
fn position(scope: &CursorScope, cursor: &Cursor) -> Result<u64, Refusal> {
    let position = open_cursor(scope, cursor)?;
    position.parse().map_err(|_not_a_number| invalid_cursor())
}

/// The position in a cursor of this list.
pub(crate) fn open_cursor(scope: &CursorScope, cursor: &Cursor) -> Result<String, Refusal> {
    scope.open(cursor).map_err(|error| Refusal::new(ProblemCode::InvalidCursor, error.to_string()))
}

/// A cursor that no page of this service was closed with.
pub(crate) fn invalid_cursor() -> Refusal {
    Refusal::new(ProblemCode::InvalidCursor, purser_api::InvalidCursor.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(below: Option<u64>) -> Page {
        let scope = CursorScope::new("/things");
        Page { scope, limit: 2, below: below.map(Sequence) }
    }

    #[test]
    fn a_page_starts_below_the_one_before() {
        assert_eq!(page(None).newest(Sequence(9)), Some(Sequence(9)));
        assert_eq!(page(Some(5)).newest(Sequence(9)), Some(Sequence(4)));
        assert_eq!(page(Some(5)).newest(Sequence(3)), Some(Sequence(3)));
        assert_eq!(page(Some(1)).newest(Sequence(9)), None);
        assert_eq!(page(None).newest(Sequence(0)), None);
    }

    #[test]
    fn the_last_page_has_no_cursor() {
        let numbers = |items: &[u64]| {
            let found = Found::first(items.iter().copied(), 2, |number| Sequence(*number));
            (found.items, found.next)
        };
        assert_eq!(numbers(&[9, 8, 7]), (vec![9, 8], Some(Sequence(8))));
        assert_eq!(numbers(&[9, 8]), (vec![9, 8], None));
        assert_eq!(numbers(&[]), (vec![], None));
    }
}
