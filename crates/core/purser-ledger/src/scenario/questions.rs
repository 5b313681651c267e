//! Lines that ask and change nothing. Each looks at the account as of now, with everything applied
//! that was due by then, swept or not.

use std::ops::Bound;

use purser_types::{BudgetName, HistoryError, LogTime, Sequence};

use super::allocation_texts::{bound_text, region_text};
use super::budgets::{self, view_text};
use super::group::Group;
use super::jobs::job_text;
use super::line_error::LineError;
use super::moment::instant_text;
use super::names::{Book, Names, Place};
use super::requests::book;
use super::telling::Teller;
use super::words::{Words, call_amount};
use crate::account::{Account, AsOf};
use crate::balance::Balance;
use crate::chain::Hashed;
use crate::command::Target;

/// Where questions are asked.
pub(super) struct Desk<'a> {
    pub(super) place: Place,
    pub(super) group: &'a Group,
    pub(super) names: &'a Names,
    /// The book of the command before.
    pub(super) book_before: Option<&'a Book>,
    pub(super) now: LogTime,
}

/// A question about a book.
enum Question<'a> {
    Balance,
    Totals,
    Lots,
    Entries,
    Allocations,
    Bound,
    Jobs,
    Parked,
    Budgets,
    Check(&'a str, Box<[BudgetName]>),
    Hold(Target),
    History(Target),
}

/// What is told, or why history could not be read.
type Told = Result<Vec<String>, HistoryError>;

impl Desk<'_> {
    /// Whether `verb` is a question.
    pub(super) fn answers(verb: &str) -> bool {
        let of_a_book = [
            "balance",
            "totals",
            "lots",
            "entries",
            "check",
            "allocations",
            "bound",
            "jobs",
            "parked",
            "budgets",
        ];
        of_a_book.contains(&verb) || ["hold", "history"].contains(&verb)
    }

    /// Answers a question.
    pub(super) fn answer(&self, verb: &str, mut words: Words<'_>) -> Result<Told, LineError> {
        let (book, question) = match verb {
            "hold" | "history" => {
                let word = words.plain("hold or charge")?;
                let (book, target) = self.names.target(self.place, word, self.book_before)?;
                let history = verb == "history";
                (book, if history { Question::History(target) } else { Question::Hold(target) })
            }
            "balance" => (self.book(&mut words)?, Question::Balance),
            "totals" => (self.book(&mut words)?, Question::Totals),
            "lots" => (self.book(&mut words)?, Question::Lots),
            "entries" => (self.book(&mut words)?, Question::Entries),
            "allocations" => (self.book(&mut words)?, Question::Allocations),
            "bound" => (self.book(&mut words)?, Question::Bound),
            "jobs" => (self.book(&mut words)?, Question::Jobs),
            "parked" => (self.book(&mut words)?, Question::Parked),
            "budgets" => (self.book(&mut words)?, Question::Budgets),
            "check" => {
                let (book, budgets) = (self.book(&mut words)?, budgets::named(&mut words)?);
                (book, Question::Check(words.plain("amount")?, budgets))
            }
            unknown => return Err(LineError::UnknownCommand(unknown.to_owned())),
        };
        words.end()?;
        let found = self.group.book(&book).ok_or(LineError::NoAccount)?;
        let teller = Teller { names: self.names, book: &book };
        match found.at(self.now, &self.group.history) {
            Ok(view) => tell(&view, &question, &teller),
            Err(error) => Ok(Err(error)),
        }
    }

    fn book(&self, words: &mut Words<'_>) -> Result<Book, LineError> {
        book(self.place, self.group, words)
    }
}

fn tell(view: &AsOf<'_>, question: &Question<'_>, teller: &Teller<'_>) -> Result<Told, LineError> {
    let account = view.account();
    Ok(match question {
        Question::Balance => Ok(vec![teller.balance(account.balance())]),
        Question::Totals => Ok(vec![totals(account.balance())]),
        Question::Lots => {
            let lots = account.lots_from(Bound::Unbounded);
            Ok(lots.map(|(number, lot)| teller.lot(*number, lot)).collect())
        }
        Question::Entries => entries(view, teller),
        Question::Allocations => Ok(allocations(account, teller)),
        Question::Bound => Ok(vec![bound_text(account)]),
        Question::Jobs => Ok(account.jobs_from(Bound::Unbounded).map(job_text).collect()),
        Question::Parked => {
            let parked = account.parked_events_from(Bound::Unbounded);
            Ok(parked.map(|parked| teller.parked_event(parked)).collect())
        }
        Question::Budgets => Ok(view.budgets().map(|budget| view_text(&budget)).collect()),
        Question::Check(amount, budgets) => {
            Ok(vec![check(view, teller, (*amount, budgets.as_ref()))?])
        }
        Question::Hold(target) => hold(view, teller, *target),
        Question::History(target) => history(view, teller, *target),
    })
}

/// Home's allocations, or the one whose book this is.
fn allocations(account: &Account, teller: &Teller<'_>) -> Vec<String> {
    match account.region_side() {
        Ok(region) => vec![region_text(account, region)],
        Err(_at_home) => account.allocations().map(|known| teller.allocation(known)).collect(),
    }
}

/// What has passed through the account.
fn totals(balance: &Balance) -> String {
    format!(
        "granted={} authorized={} captured={} released={} refunded={} reclaimed={}",
        balance.granted,
        balance.authorized,
        balance.captured,
        balance.released,
        balance.refunded,
        balance.reclaimed,
    )
}

fn check(
    view: &AsOf<'_>,
    teller: &Teller<'_>,
    (amount, budgets): (&str, &[BudgetName]),
) -> Result<String, LineError> {
    let verdict = view.check(call_amount(amount)?, budgets);
    let lots = teller.portions(&verdict.lots);
    Ok(match verdict.refusal {
        None => format!("allowed{lots}"),
        Some(refusal) => format!("rejected {}", teller.rejection(&refusal)),
    })
}

fn hold(view: &AsOf<'_>, teller: &Teller<'_>, target: Target) -> Told {
    let hold = view.hold(target)?;
    Ok(vec![hold.map_or_else(|| "not found".to_owned(), |hold| teller.hold(&hold))])
}

/// What happened to a hold or charge, oldest first.
fn history(view: &AsOf<'_>, teller: &Teller<'_>, target: Target) -> Told {
    let Some(hold) = view.hold(target)? else {
        return Ok(vec!["not found".to_owned()]);
    };
    let entries = view.account().hold_entries(&hold, view.history())?;
    Ok(entries.iter().rev().map(|hashed| numbered(hashed, teller)).collect())
}

/// All entries, oldest first.
fn entries(view: &AsOf<'_>, teller: &Teller<'_>) -> Told {
    let last: Sequence = view.account().head().sequence;
    let backwards = view.account().entries_back_from(last, view.history())?;
    let entries: Vec<Hashed> = backwards.collect::<Result<_, _>>()?;
    Ok(entries.iter().rev().map(|hashed| numbered(hashed, teller)).collect())
}

/// An entry with its place, its time, and who wanted it and why.
fn numbered(hashed: &Hashed, teller: &Teller<'_>) -> String {
    let entry = &hashed.entry;
    let at = instant_text(entry.log_time);
    let mut text = format!("{} @{at} {}", entry.sequence.0, teller.entry(entry));
    for (name, value) in [("actor", &entry.actor), ("reason", &entry.reason)] {
        if let Some(value) = value {
            text.push_str(&format!(", {name}={value}"));
        }
    }
    for (name, value) in entry.metadata.iter() {
        text.push_str(&format!(", meta.{name}={value}"));
    }
    text
}
