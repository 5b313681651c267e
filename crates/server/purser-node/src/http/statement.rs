//! Statements: what an account had, what happened between two instants, what it had then.
//!
//! The first page fixes which entries the statement has; later pages only show more of them, even
//! if the account goes on.

use purser_api::{Moment, ProblemCode as Code, Statement, StatementQuery, paths};
use purser_ledger::{Account, Balance, Hashed};
use purser_types::{HistoryReader, LogTime, Sequence, Span};

use crate::http::call::Call;
use crate::http::convert::{Shown, buckets, totals_between};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::paging::{invalid_cursor, open_cursor};
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Get, paths::STATEMENT),
        Operation::GetStatement,
        Description::new(Access::READ, Tag::Read, "Shows what happened between two instants.")
            .query::<StatementQuery>()
            .answers::<Statement>(200)
            .refuses(&[Code::InvalidCursor]),
        statement,
    )
}

async fn statement(call: Call) -> Handled {
    let query: StatementQuery = call.query()?;
    let account = call.account(query.unit.0.clone())?;
    let scope = query.scope(&account.tenant);
    let opened = query.cursor.as_ref().map(|cursor| open_cursor(&scope, cursor)).transpose()?;
    let resumed = opened.as_deref().map(Place::read).transpose()?;
    let (from, to) = (query.from.map(|from| from.0), query.to.map(|to| to.0));
    let limit = u64::try_from(query.limit.get()).unwrap_or(u64::MAX);
    let owner = call.owner();
    let name = account.clone();
    let statement = call.study_written(&account, move |account, history, now| {
        let book = Book { account, history };
        let place = match resumed {
            Some(place) => place.within(account)?,
            None => book.place(from.unwrap_or(LogTime::ZERO), to, now)?,
        };
        let page = Place { next: place.end.min(place.next.saturating_add(limit)), ..place };
        let (opening, closing) =
            (book.balance_before(place.first)?, book.balance_before(place.end)?);
        let shown = Shown::new(&name, &owner).with_homes(account.homes());
        let items = book.entries(place.next, page.next)?;
        let items = items.iter().map(|entry| shown.entry(entry)).collect::<Result<_, _>>()?;
        let has_more = page.next < page.end;
        Ok(Statement {
            tenant: name.tenant.clone().into(),
            unit: name.unit.clone().into(),
            from: Moment(match from {
                Some(from) => from,
                None => book.entry(Sequence(1))?.entry.log_time,
            }),
            to: Moment(place.to),
            opening: buckets(&opening),
            closing: buckets(&closing),
            totals: totals_between(&opening, &closing),
            entry_count: place.end.saturating_sub(place.first),
            items,
            has_more,
            next_cursor: has_more.then(|| scope.seal(&page.write())),
        })
    });
    Ok(Reply::read(&statement.await?)?)
}

/// Where a statement's reader is: its entries are `first..end`, the next to show is `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    first: u64,
    next: u64,
    end: u64,
    to: LogTime,
}

impl Place {
    fn write(self) -> String {
        let Self { first, next, end, to } = self;
        format!("{first}.{next}.{end}.{}", to.as_unix_micros())
    }

    /// The same place, if the account has it. Whoever makes up a cursor may name any.
    fn within(self, account: &Account) -> Result<Self, Refusal> {
        let end = account.head().sequence.0.saturating_add(1);
        let ordered = [1, self.first, self.next, self.end, end].is_sorted();
        if ordered { Ok(self) } else { Err(invalid_cursor()) }
    }

    fn read(text: &str) -> Result<Self, Refusal> {
        let numbers: Option<Vec<u64>> = text.split('.').map(|part| part.parse().ok()).collect();
        let Some([first, next, end, to]) = numbers.as_deref() else { return Err(invalid_cursor()) };
        let to = LogTime::from_unix_micros(*to).map_err(|_out_of_range| invalid_cursor())?;
        Ok(Self { first: *first, next: *next, end: *end, to })
    }
}

/// An account's entries in the order in which they happened. Their log times never go down.
struct Book<'a> {
    account: &'a Account,
    history: &'a dyn HistoryReader,
}

impl Book<'_> {
    /// The entries from `from` up to `to`, itself not included; all there are if no end is named,
    /// also those that took effect at this very instant.
    fn place(&self, from: LogTime, to: Option<LogTime>, now: LogTime) -> Result<Place, Refusal> {
        let last = self.account.head().sequence;
        let (end, to) = match to {
            Some(to) => (self.first_since(to)?, to),
            None => {
                let last_at = self.entry(last)?.entry.log_time;
                let behind = last_at.saturating_add(Span::from_micros(1));
                (last.0.saturating_add(1), now.max(behind))
            }
        };
        if to < from {
            return Err(Refusal::invalid("`to` must not be before `from`"));
        }
        let first = self.first_since(from)?;
        Ok(Place { first, next: first, end, to })
    }

    /// The sequence of the first entry at or after an instant; behind the last if there is none.
    fn first_since(&self, instant: LogTime) -> Result<u64, Refusal> {
        let (mut low, mut high) = (1, self.account.head().sequence.0.saturating_add(1));
        while low < high {
            let middle = u64::midpoint(low, high);
            if self.entry(Sequence(middle))?.entry.log_time < instant {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn entry(&self, sequence: Sequence) -> Result<Hashed, Refusal> {
        let entry = self.account.entry(sequence, self.history);
        let entry = entry.map_err(|error| Refusal::of_history(&error))?;
        entry.ok_or_else(|| Refusal::internal(format!("entry {} is missing", sequence.0)))
    }

    /// The balance before the entry with this sequence.
    fn balance_before(&self, sequence: u64) -> Result<Balance, Refusal> {
        match sequence {
            0 | 1 => Ok(Balance::default()),
            sequence => Ok(self.entry(Sequence(sequence.saturating_sub(1)))?.entry.balance),
        }
    }

    /// The entries `from..to`, oldest first.
    fn entries(&self, from: u64, to: u64) -> Result<Vec<Hashed>, Refusal> {
        let failed = |error| Refusal::of_history(&error);
        let count = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        if count == 0 {
            return Ok(Vec::new());
        }
        let last = Sequence(to.saturating_sub(1));
        let entries = self.account.entries_back_from(last, self.history).map_err(failed)?;
        let mut entries = entries.take(count).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        entries.reverse();
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_as_it_is_written() {
        let to = LogTime::from_unix_micros(1_700_000_000_000_000).unwrap();
        let place = Place { first: 3, next: 5, end: 9, to };
        assert_eq!(Place::read(&place.write()).ok(), Some(place));
        for odd in ["", "1.2.3", "1.2.3.x", "1.2.3.4.5", "1.2.3.18446744073709551615"] {
            assert!(Place::read(odd).is_err(), "{odd:?}");
        }
    }
}
