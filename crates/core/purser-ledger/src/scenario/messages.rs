//! What home and a region tell each other, under names: so that a transcript can lose a message,
//! repeat it, or let another overtake it.

use std::collections::BTreeMap;

use minicbor::bytes::ByteVec;
use purser_types::{Epoch, HistoryError, Sequence};

use super::group::Group;
use super::line_error::LineError;
use super::names::Book;
use super::requests::Request;
use super::words::{Words, number};
use crate::account::Account;
use crate::codec;
use crate::command::{Context, Item, Operation};
use crate::protocol::{Report, Voucher};
use crate::region::BookPhase;

/// A message on its way.
#[derive(Debug, Clone)]
pub(super) enum Message {
    /// From home to a region.
    Voucher(Box<Voucher>),
    /// From a region to home.
    Report(Book, Report),
}

/// The messages of a transcript by their names.
pub(super) type Messages = BTreeMap<String, Message>;

impl Message {
    /// What the receiver is asked. The service's own requests have no key.
    pub(super) fn request(self) -> Request {
        let (book, operation) = match self {
            Self::Voucher(voucher) => {
                let book = Book { account: voucher.account.clone(), owner: Some(voucher.owner) };
                (book, Operation::Accept(voucher))
            }
            Self::Report(book, report) => (book, Operation::Settle(report)),
        };
        let item = Item::new(Context::default(), operation);
        Request { book, item, name: None, worker: None }
    }
}

/// Home's voucher as it is now; `epoch=` gives it as another home of the account would.
pub(super) fn voucher(
    home: Option<&Account>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Message, LineError> {
    let owner = book.owner.ok_or(LineError::NoAllocation)?;
    let voucher = home.and_then(|home| home.voucher(owner)).ok_or(LineError::NoAllocation)?;
    let epoch = number(words, "epoch")?.map_or(voucher.epoch, Epoch);
    Ok(Message::Voucher(Box::new(Voucher { epoch, ..voucher })))
}

/// Which of a book's entries a report carries; where it does not say, from the first that home has
/// not booked to the last there is.
#[derive(Debug, Default)]
pub(super) struct Extent {
    from: Option<Sequence>,
    to: Option<Sequence>,
}

impl Extent {
    /// Reads `from=` and `to=`.
    pub(super) fn of(words: &mut Words<'_>) -> Result<Self, LineError> {
        let (from, to) = (number(words, "from")?, number(words, "to")?);
        Ok(Self { from: from.map(Sequence), to: to.map(Sequence) })
    }
}

/// A report of a region's book; nothing if there is no such book.
pub(super) fn report(
    region: &Group,
    home: Option<&Account>,
    book: &Book,
    extent: &Extent,
) -> Result<Option<Message>, HistoryError> {
    let Some(account) = region.book(book) else { return Ok(None) };
    let Ok(own) = account.region_side() else { return Ok(None) };
    let known = home.and_then(|home| home.allocations().find(|known| known.owner == own.owner));
    let booked = known.map(|known| known.booked.sequence).unwrap_or_default();
    let from = extent.from.unwrap_or_else(|| booked.next());
    let to = extent.to.unwrap_or_else(|| account.head().sequence);
    let report = Report {
        owner: own.owner,
        epoch: own.epoch,
        entries: entries_between(region, account, from, to)?,
        is_sealed: own.phase == BookPhase::Sealed,
    };
    Ok(Some(Message::Report(Book::at_home(book.account.clone()), report)))
}

/// The bytes of a book's entries, oldest first.
fn entries_between(
    region: &Group,
    account: &Account,
    from: Sequence,
    to: Sequence,
) -> Result<Vec<ByteVec>, HistoryError> {
    let mut entries = Vec::new();
    for hashed in account.entries_back_from(to, &region.history)? {
        let entry = hashed?.entry;
        if entry.sequence < from {
            break;
        }
        entries.push(ByteVec::from(codec::encode(&entry)));
    }
    entries.reverse();
    Ok(entries)
}
