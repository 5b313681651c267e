//! Whether the service was right to refuse what it refused.
//!
//! A refusal leaves no entry, so it has no place in the order of things. But it was decided at some
//! moment after its call was first sent, as the account stood then; and at one of those moments the
//! book must refuse the same call with the same code and the same figures.

use purser_types::LogTime;

use super::super::book::{Book, BookError};
use super::super::difference::Difference;
use super::super::journal::{Entered, Journal};
use super::super::wire::Refusal;

/// A refusal for which no moment was found yet.
struct Unexplained<'a> {
    key: &'a str,
    call: &'a Entered,
    refusal: &'a Refusal,
}

/// The refusals of a tenant, while its book is rebuilt.
pub(super) struct Refusals<'a> {
    /// Of calls that were sent later than the book has come, the last one first.
    later: Vec<Unexplained<'a>>,
    /// Of calls that had been sent by now.
    sent: Vec<Unexplained<'a>>,
}

impl<'a> Refusals<'a> {
    /// All refusals in a journal.
    pub(super) fn of(journal: &'a Journal) -> Self {
        let unexplained = |(key, call): (&'a String, &'a Entered)| {
            Some(Unexplained { key, call, refusal: call.refusal()? })
        };
        let mut later: Vec<_> = journal.calls.iter().filter_map(unexplained).collect();
        later.sort_by_key(|refused| std::cmp::Reverse(refused.call.seen_before));
        Self { later, sent: Vec::new() }
    }

    /// Lets the book's time pass up to `until`, and looks at every moment at which it changes.
    pub(super) fn look_until(&mut self, book: &mut Book, until: LogTime) {
        while let Some(at) = book.next_due().filter(|at| *at <= until) {
            book.let_pass(at);
            self.look(book, at);
        }
    }

    /// Takes out what the book refuses too, as it stands now.
    pub(super) fn look(&mut self, book: &Book, at: LogTime) {
        let entries = u64::try_from(book.lines().len()).unwrap_or(u64::MAX);
        while let Some(next) = self.later.pop_if(|next| next.call.seen_before <= entries) {
            self.sent.push(next);
        }
        self.sent.retain(|Unexplained { call, refusal, .. }| match book.refuse(&call.asked, at) {
            Ok(()) => true,
            Err(error) => !says_the_same(refusal, &error),
        });
    }

    /// Fails if any is left. Called when the book has come to its end.
    pub(super) fn check_none_left(self) -> Result<(), Difference> {
        let Some(Unexplained { key, call, refusal }) = self.later.iter().chain(&self.sent).next()
        else {
            return Ok(());
        };
        let asked = &call.asked;
        let text =
            format!("key {key}: {asked:?} was refused with {refusal}, which never was right");
        Err(Difference(text))
    }
}

fn says_the_same(refusal: &Refusal, error: &BookError) -> bool {
    let is_called_so = error.code().is_some_and(|code| code.name() == refusal.code);
    let has_the_figures = match error {
        BookError::TooFewCredits { available, short_by, .. } => {
            (refusal.available, refusal.short_by) == (Some(*available), Some(*short_by))
        }
        BookError::Unknown { .. }
        | BookError::Ended { .. }
        | BookError::NothingCaptured { .. }
        | BookError::NotRefundable { .. }
        | BookError::Reclaimed { .. }
        | BookError::NothingToReclaim { .. }
        | BookError::GrantExpired
        | BookError::Opening => true,
    };
    is_called_so && has_the_figures
}
