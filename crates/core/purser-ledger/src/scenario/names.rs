//! The transcript's names for books, and for the lots, holds and charges in them.

use std::collections::BTreeMap;

use purser_types::{JobId, Owner, Region, Sequence};

use super::jobs::NO_LEASE;
use super::line_error::LineError;
use crate::command::{AccountName, HoldNumber, LotNumber, Target};
use crate::entry::{Entry, Fact};
use crate::hold::HoldKind;
use crate::jobs::{Job, LeaseToken};

/// Where a group plays: a region of allocations, or home if none is named.
pub(super) type Place = Option<Region>;

/// A sequence of entries: an account's at home, or that of one of its allocations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Book {
    pub(super) account: AccountName,
    /// The allocation; none at home.
    pub(super) owner: Option<Owner>,
}

impl Book {
    /// An account's book at home.
    pub(super) fn at_home(account: AccountName) -> Self {
        Self { account, owner: None }
    }

    /// The group that keeps it.
    pub(super) fn place(&self) -> Place {
        self.owner.map(|owner| owner.region)
    }
}

/// Which name stands for what. Each region has names of its own, and so has home.
#[derive(Debug, Default)]
pub(super) struct Names {
    meanings: BTreeMap<(Place, String), Meaning>,
    /// The first name that each thing was given.
    names: BTreeMap<(Book, Sequence), String>,
    /// The allocations by the entries of home that opened them.
    allocations: BTreeMap<(AccountName, Sequence), Owner>,
    /// The last lease that each worker had of each job.
    leases: BTreeMap<(String, AccountName, JobId), LeaseToken>,
}

#[derive(Debug, Clone)]
struct Meaning {
    book: Book,
    sequence: Sequence,
    is_charge: bool,
}

impl Names {
    /// Gives what an entry made a name.
    pub(super) fn give(&mut self, name: &str, book: &Book, entry: &Entry) {
        let is_charge = entry.fact.hold().is_some_and(|hold| hold.kind == HoldKind::Charge);
        let meaning = Meaning { book: book.clone(), sequence: entry.sequence, is_charge };
        self.meanings.insert((book.place(), name.to_owned()), meaning);
        let thing = (book.clone(), entry.sequence);
        self.names.entry(thing).or_insert_with(|| name.to_owned());
    }

    /// Notes which allocation an entry of home opened, if it opened one.
    pub(super) fn note(&mut self, book: &Book, entry: &Entry) {
        if let Fact::Allocated(allocation) = &entry.fact {
            let opening = (book.account.clone(), allocation.opened_by);
            self.allocations.insert(opening, allocation.owner);
        }
    }

    /// Notes the lease of a job that a worker has.
    pub(super) fn note_lease(&mut self, worker: &str, account: &AccountName, job: &Job) {
        if let Some(token) = job.state.token() {
            let key = (worker.to_owned(), account.clone(), job.id.clone());
            self.leases.insert(key, token);
        }
    }

    /// The last lease that a worker had of a job.
    pub(super) fn lease(&self, worker: &str, book: &Book, job: &JobId) -> LeaseToken {
        let key = (worker.to_owned(), book.account.clone(), job.clone());
        self.leases.get(&key).copied().unwrap_or(NO_LEASE)
    }

    /// What an answer calls the lot, hold or charge with this number.
    pub(super) fn of(&self, book: &Book, sequence: Sequence) -> String {
        let name = self.names.get(&(book.clone(), sequence));
        name.cloned().unwrap_or_else(|| format!("#{}", sequence.0))
    }

    /// The allocation that an entry of home opened.
    pub(super) fn allocation(&self, account: &AccountName, opening: Sequence) -> Option<Owner> {
        self.allocations.get(&(account.clone(), opening)).copied()
    }

    /// Forgets the names at `place` of what is not there any more.
    pub(super) fn retain(&mut self, place: Place, exists: impl Fn(&Book, Sequence) -> bool) {
        let stays = |book: &Book, sequence| book.place() != place || exists(book, sequence);
        self.meanings.retain(|_, meaning| stays(&meaning.book, meaning.sequence));
        self.names.retain(|(book, sequence), _| stays(book, *sequence));
    }

    /// The hold or charge that a word means at `place`, and its book.
    pub(super) fn target(
        &self,
        place: Place,
        word: &str,
        book_before: Option<&Book>,
    ) -> Result<(Book, Target), LineError> {
        let meaning = self.meaning(place, word, book_before)?;
        let number = HoldNumber(meaning.sequence);
        let target = if meaning.is_charge { Target::Charge(number) } else { Target::Hold(number) };
        Ok((meaning.book, target))
    }

    /// The lot that a word means, and the book it was granted in.
    pub(super) fn lot(
        &self,
        place: Place,
        word: &str,
        book_before: Option<&Book>,
    ) -> Result<(Book, LotNumber), LineError> {
        let meaning = self.meaning(place, word, book_before)?;
        Ok((meaning.book, LotNumber(meaning.sequence)))
    }

    /// A name, or a number of the book of the command before. A name that was never given means
    /// number 0 of that book, which nothing has: what becomes of a request about nothing is for the
    /// ledger to say.
    fn meaning(
        &self,
        place: Place,
        word: &str,
        book_before: Option<&Book>,
    ) -> Result<Meaning, LineError> {
        if let Some(meaning) = self.meanings.get(&(place, word.to_owned())) {
            return Ok(meaning.clone());
        }
        let book = book_before.cloned().ok_or(LineError::NoAccount)?;
        let sequence = match word.strip_prefix('#').map(str::parse) {
            Some(Ok(number)) => Sequence(number),
            Some(Err(_)) => return Err(LineError::Unexpected(word.to_owned())),
            None => Sequence::ZERO,
        };
        Ok(Meaning { book, sequence, is_charge: false })
    }
}
