//! Two tables of the same kind, read side by side in the order of their keys.

use std::cmp::Ordering;
use std::collections::VecDeque;

use deadpool_postgres::Transaction;
use tokio_postgres::Portal;

use super::tables::{Key, Table, View};
use super::{AlteredColumn, Difference, TableVerdict, Tally, Wrong};
use crate::error::DatabaseError;

/// How many rows are read at a time.
const ROWS_AT_A_TIME: i32 = 1_000;

/// A row as texts: its key, then its columns.
struct TextRow {
    values: Vec<Option<String>>,
    keys: usize,
}

/// Rows of one side, in the order of their keys.
struct Side<'a> {
    transaction: &'a Transaction<'a>,
    portal: Portal,
    keys: usize,
    read: VecDeque<TextRow>,
    is_done: bool,
}

/// Compares `found` with `expected`, but for accounts that are left out.
pub(super) async fn compare(
    (table, view): (&Table, &View),
    expected: &Transaction<'_>,
    found: &Transaction<'_>,
) -> Result<TableVerdict, DatabaseError> {
    let mut expected = Side::open((table, view), expected).await?;
    let mut found = Side::open((table, view), found).await?;
    let mut verdict = TableVerdict { table: table.name, ..TableVerdict::default() };
    let mut last: Option<TextRow> = None;
    loop {
        expected.fill().await?;
        found.fill().await?;
        let order = match (expected.read.front(), found.read.front()) {
            (None, None) => return Ok(verdict),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(expected), Some(found)) => table.order(expected, found),
        };
        let row = if order.is_le() { expected.read.pop_front() } else { None };
        let other = if order.is_ge() { found.read.pop_front() } else { None };
        match (row, other) {
            (Some(row), Some(other)) => {
                verdict.rows = verdict.rows.saturating_add(1);
                verdict.note_altered(table, &row, &other);
                last = Some(other);
            }
            (Some(row), None) => {
                verdict.rows = verdict.rows.saturating_add(1);
                verdict.note(table, &row, Wrong::Missing, table.about(&row));
            }
            (None, Some(other)) => {
                let again = last.as_ref().is_some_and(|last| last.key() == other.key());
                let wrong = if again { Wrong::Doubled } else { Wrong::Unexpected };
                verdict.note(table, &other, wrong, table.about(&other));
                last = Some(other);
            }
            (None, None) => return Ok(verdict),
        }
    }
}

impl<'a> Side<'a> {
    async fn open(
        (table, view): (&Table, &View),
        transaction: &'a Transaction<'a>,
    ) -> Result<Self, DatabaseError> {
        let portal = transaction.bind(table.query(view).as_str(), &[]).await?;
        let keys = table.key.len();
        Ok(Self { transaction, portal, keys, read: VecDeque::new(), is_done: false })
    }

    /// Reads on if nothing that was read is left.
    async fn fill(&mut self) -> Result<(), DatabaseError> {
        if !self.read.is_empty() || self.is_done {
            return Ok(());
        }
        for row in self.transaction.query_portal(&self.portal, ROWS_AT_A_TIME).await? {
            self.read.push_back(TextRow { values: row.try_get(0)?, keys: self.keys });
        }
        self.is_done = self.read.is_empty();
        Ok(())
    }
}

impl TextRow {
    fn key(&self) -> &[Option<String>] {
        self.values.get(..self.keys).unwrap_or_default()
    }

    fn columns(&self) -> &[Option<String>] {
        self.values.get(self.keys..).unwrap_or_default()
    }

    fn name(&self) -> String {
        let parts = self.key().iter().map(|part| part.as_deref().unwrap_or("null"));
        parts.collect::<Vec<_>>().join("/")
    }
}

impl Table {
    fn order(&self, left: &TextRow, right: &TextRow) -> Ordering {
        let pairs = left.key().iter().zip(right.key());
        let mut orders = self.key.iter().zip(pairs).map(|(key, (left, right))| match key {
            Key::Text(_) => left.cmp(right),
            Key::Number(_) => number(left).cmp(&number(right)),
        });
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn is_amount(&self, column: &str) -> bool {
        self.amounts.contains(&column)
    }

    /// The credits that a row is about.
    fn about(&self, row: &TextRow) -> u128 {
        let main = self.amounts.first();
        let place = self.columns.iter().position(|column| Some(column) == main);
        let value = place.and_then(|place| row.columns().get(place));
        value.map_or(0, |value| number(value).unsigned_abs())
    }
}

impl TableVerdict {
    fn note_altered(&mut self, table: &Table, expected: &TextRow, found: &TextRow) {
        let pairs = expected.columns().iter().zip(found.columns());
        let mut credits = 0_u128;
        let mut altered = Vec::new();
        for (column, (expected, found)) in table.columns.iter().copied().zip(pairs) {
            if expected == found {
                continue;
            }
            if table.is_amount(column) {
                credits = credits.saturating_add(number(expected).abs_diff(number(found)));
            }
            let (expected, found) = (expected.clone(), found.clone());
            altered.push(AlteredColumn { column, expected, found });
        }
        if !altered.is_empty() {
            self.note(table, expected, Wrong::Altered(altered), credits);
        }
    }

    fn note(&mut self, table: &Table, row: &TextRow, what: Wrong, credits: u128) {
        let tally = match &what {
            Wrong::Missing => &mut self.missing,
            Wrong::Altered(_) => &mut self.altered,
            Wrong::Doubled => &mut self.doubled,
            Wrong::Unexpected => &mut self.unexpected,
        };
        tally.add(credits);
        let (table, row) = (table.name, row.name());
        self.first.get_or_insert(Difference { table, row, what, credits });
    }
}

impl Tally {
    fn add(&mut self, credits: u128) {
        self.rows = self.rows.saturating_add(1);
        self.credits = self.credits.saturating_add(credits);
    }
}

/// A column of numbers has whole ones; NULL counts as none.
fn number(value: &Option<String>) -> i128 {
    value.as_deref().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
