//! Lines about allocations: what home and a region ask of their own books.

use purser_types::{Credits, Epoch, Region};

use super::line_error::LineError;
use super::names::Book;
use super::requests::{Read, Reader, instant};
use super::words::{Words, call_amount, number};
use crate::command::{Allocate, Operation, Return, SetAllocation, TakeBack, Transfer, WriteOff};
use crate::moving::{Departure, FIRST_EPOCH, Stay, WriteOffTail};
use crate::policy::OnExpiry;
use crate::protocol::Mode;

/// How a line with `verb` is read.
pub(super) fn reader(verb: &str) -> Result<Read, LineError> {
    Ok(match verb {
        "allocate" => |_, _, words| allocate(words),
        "recall" => recall,
        "overdraft" => overdraft,
        "mode" => mode,
        "on_expiry" => on_expiry,
        "take_back" => take_back,
        "transfer" => transfer,
        "write_off" => write_off,
        "return" => give_back,
        "finish" => |_, _, _| Ok(Operation::Finish),
        "seal" => |_, _, _| Ok(Operation::Seal),
        "stop" => |_, _, words| stop(words),
        "stay" => |_, _, words| Ok(Operation::Stay(Stay { epoch: epoch(words)? })),
        "write_off_tail" => write_off_tail,
        unknown => return Err(LineError::UnknownCommand(unknown.to_owned())),
    })
}

fn allocate(words: &mut Words<'_>) -> Result<Operation, LineError> {
    let region = Region::parse(words.plain("region")?)?;
    let amount = Credits::parse(words.plain("amount")?)?;
    let lasting = instant(words, "lasting")?;
    Ok(Operation::Allocate(Allocate { lasting, ..Allocate::new(region, amount) }))
}

fn recall(reader: &Reader<'_>, book: &Book, words: &mut Words<'_>) -> Result<Operation, LineError> {
    let unchanged = unchanged(reader, book, words)?;
    let keep = Some(keep(words)?);
    Ok(Operation::SetAllocation(SetAllocation { keep, ..unchanged }))
}

fn overdraft(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let unchanged = unchanged(reader, book, words)?;
    let overdraft = Some(Credits::parse(words.plain("amount")?)?);
    Ok(Operation::SetAllocation(SetAllocation { overdraft, ..unchanged }))
}

fn mode(reader: &Reader<'_>, book: &Book, words: &mut Words<'_>) -> Result<Operation, LineError> {
    let unchanged = unchanged(reader, book, words)?;
    let mode = match words.plain("mode")? {
        "local" => Mode::Local,
        "strict" => Mode::Strict,
        "frozen" => Mode::Frozen,
        "ending" => Mode::Ending,
        _ => {
            let allowed = "local, strict, frozen or ending";
            return Err(LineError::Choice { what: "mode", allowed });
        }
    };
    Ok(Operation::SetAllocation(SetAllocation { mode: Some(mode), ..unchanged }))
}

fn on_expiry(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let unchanged = unchanged(reader, book, words)?;
    let on_expiry = Some(expiry_choice(words.plain("on_expiry")?)?);
    Ok(Operation::SetAllocation(SetAllocation { on_expiry, ..unchanged }))
}

/// What becomes of an allocation whose lease has run out.
pub(super) fn expiry_choice(word: &str) -> Result<OnExpiry, LineError> {
    match word {
        "keep" => Ok(OnExpiry::Keep),
        "take_back" => Ok(OnExpiry::TakeBack),
        _ => Err(LineError::Choice { what: "on_expiry", allowed: "keep or take_back" }),
    }
}

/// A change of the allocation that a line names, and of nothing about it yet.
fn unchanged(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<SetAllocation, LineError> {
    let owner = reader.owner(&book.account, words)?;
    Ok(SetAllocation::of(owner))
}

fn take_back(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let forced = words.flag("forced");
    let owner = reader.owner(&book.account, words)?;
    let forced = if forced { Some(reader.confirm(book, words)?) } else { None };
    Ok(Operation::TakeBack(TakeBack { owner, forced }))
}

fn transfer(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let from = reader.owner(&book.account, words)?;
    let to = Region::parse(words.plain("the other region")?)?;
    let amount = call_amount(words.plain("amount")?)?;
    Ok(Operation::Transfer(Transfer { from, to, amount, life: None }))
}

fn write_off(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let owner = reader.owner(&book.account, words)?;
    Ok(Operation::WriteOff(WriteOff { owner, confirm: reader.confirm(book, words)? }))
}

fn stop(words: &mut Words<'_>) -> Result<Operation, LineError> {
    let to = Region::parse(words.plain("region")?)?;
    Ok(Operation::Stop(Departure { to, epoch: epoch(words)? }))
}

fn write_off_tail(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let epoch = epoch(words)?;
    let confirm = reader.confirm(book, words)?;
    Ok(Operation::WriteOffTail(WriteOffTail { epoch, confirm }))
}

/// The epoch that a line names: the first if it names none.
pub(super) fn epoch(words: &mut Words<'_>) -> Result<Epoch, LineError> {
    Ok(number(words, "epoch")?.map_or(FIRST_EPOCH, Epoch))
}

/// What is free goes back, or with `covers` what is left of all covers.
fn give_back(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let recall = number(words, "recall")?.unwrap_or(0);
    if words.flag("covers") {
        let account = reader.group.book(book).ok_or(LineError::NoAllocation)?;
        let covers = account.open_covers().map(|(number, ..)| number).collect();
        return Ok(Operation::Return(Return { keep: Credits::MAX, recall, covers }));
    }
    Ok(Operation::Return(Return::free(keep(words)?, recall)))
}

/// How much the region keeps; nothing if the line does not say.
fn keep(words: &mut Words<'_>) -> Result<Credits, LineError> {
    Ok(words.named("keep").map(Credits::parse).transpose()?.unwrap_or(Credits::ZERO))
}
