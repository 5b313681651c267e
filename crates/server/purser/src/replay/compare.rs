//! One tenant at the service against its own book and journal.
//!
//! The book decides what there must be; this file looks for the first thing that is otherwise. What
//! is compared: every entry's kind, instant, postings and subject, and that each names the hash of
//! the one before; every answer's balance; the balance with its lifetime totals; every lot; every
//! hold and charge. And of the journal: each key has at most one entry, each call that was accepted
//! has exactly the entry it was answered with, each call that was refused has none and had to be
//! refused ([`refusals`]), and no entry is left without an explanation.
//!
//! Not here: whether a hash is right. That needs the bytes of the entries, which `purser audit` has.

mod refusals;

use std::collections::{BTreeMap, BTreeSet};

use purser_api::{
    AsOf, Balance, Bucket, Charge, Entry, Hold, HoldStatus, Lot, LotCategory, LotShare, LotStatus,
    Moment, TotalAmount,
};
use purser_types::LogTime;

use self::refusals::Refusals;
use super::book::{About, Book, BookLot, Figures, Line, Part, Stage, Work, WorkState};
use super::difference::{Difference, same};
use super::journal::Journal;
use super::wire;

/// What the service says about one tenant, all as of one entry.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// The balance.
    pub(crate) balance: Balance,
    /// The entries, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// The lots.
    pub(crate) lots: Vec<Lot>,
    /// The holds, each asked for by its id.
    pub(crate) holds: Vec<Hold>,
    /// The charges, each asked for by its id.
    pub(crate) charges: Vec<Charge>,
}

/// How much was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) entries: u64,
    pub(crate) lots: u64,
    pub(crate) works: u64,
    pub(crate) answers: u64,
    pub(crate) refusals: u64,
    /// What regions have spent beyond what was granted.
    pub(crate) overspent: u64,
    /// Whether credits were out in regions, so that sums were compared and not lots.
    pub(crate) is_regional: bool,
}

/// Rebuilds a tenant's book in the order of its entries: the first half of [`compare`], which can
/// be done before the holds are known.
///
/// What was due between the last entry and `as_of` has taken effect and may not be written down yet.
pub(crate) fn rebuild(
    journal: &Journal,
    entries: &[Entry],
    as_of: &AsOf,
) -> Result<Book, Difference> {
    let mut book = Book::default();
    let mut refusals = Refusals::of(journal);
    let mut keys = BTreeSet::new();
    let mut checked = 0;
    for entry in entries {
        let Some(key) = &entry.idempotency_key else { continue };
        let key = key.0.as_str();
        let call = journal.calls.get(key);
        let call = call.ok_or_else(|| entry_differs(entry, "nobody sent its key", key))?;
        if let Some(refusal) = call.refusal() {
            return Err(entry_differs(entry, "its call was refused with", refusal));
        }
        if !keys.insert(key) {
            return Err(entry_differs(entry, "a second effect of key", key));
        }
        let at = entry.log_time.0;
        refusals.look_until(&mut book, at);
        book.enter(&call.asked, at)
            .map_err(|error| entry_differs(entry, "must have been refused", &error))?;
        // At once, because everything after an entry that is out of place would differ too.
        checked = check_lines(checked, &book, entries)?;
        refusals.look(&book, at);
    }
    refusals.look_until(&mut book, as_of.log_time.0);
    for (place, (line, entry)) in book.lines().iter().zip(entries).enumerate().skip(checked) {
        check_line(place, line, entry, entries)?;
    }
    if let Some(unexplained) = entries.get(book.lines().len()) {
        return Err(entry_differs(unexplained, "nothing explains it", unexplained.kind));
    }
    same("last entry of the balance", as_of.sequence.0.0, count(entries.len()))?;
    refusals.check_none_left()?;
    Ok(book)
}

/// Compares what the service shows with the book and the journal.
pub(crate) fn compare(
    journal: &Journal,
    book: &Book,
    shown: &Shown,
) -> Result<Compared, Difference> {
    if let Some(complaint) = journal.complaints.first() {
        return Err(Difference(complaint.clone()));
    }
    check_balance(book, &shown.balance)?;
    check_lots(book, &shown.lots)?;
    let works = check_works(book, shown)?;
    let (answers, refusals) = check_answers(journal, book, &shown.entries)?;
    Ok(Compared {
        entries: count(shown.entries.len()),
        lots: count(shown.lots.len()),
        works,
        answers,
        refusals,
        overspent: 0,
        is_regional: false,
    })
}

/// Compares the lines of the book from the place `from` on with the entries of the same sequence.
/// Returns how many have been compared now.
fn check_lines(from: usize, book: &Book, entries: &[Entry]) -> Result<usize, Difference> {
    for (place, line) in book.lines().iter().enumerate().skip(from) {
        let Some(entry) = entries.get(place) else {
            let sequence = place + 1;
            let (kind, at) = (line.kind, Moment(line.at));
            return Err(Difference(format!("entry {sequence}: missing; {kind} was due at {at}")));
        };
        check_line(place, line, entry, entries)?;
    }
    Ok(book.lines().len())
}

/// Compares a line with the entry at the same place, from 0.
fn check_line(
    place: usize,
    line: &Line,
    entry: &Entry,
    entries: &[Entry],
) -> Result<(), Difference> {
    let sequence = place + 1;
    let what = |field: &str| format!("entry {sequence}, {field}");
    same(&what("sequence"), entry.sequence.0.0, count(sequence))?;
    same(&what("kind"), entry.kind, line.kind)?;
    same(&what("log time"), &entry.log_time, &Moment(line.at))?;
    let postings: BTreeMap<Bucket, i128> = entry
        .postings
        .iter()
        .map(|posting| (posting.bucket.clone(), i128::from(posting.amount.get())))
        .collect();
    same(&what("postings"), postings, postings_of(line))?;
    let hold = entry.hold_id.as_ref().map(|hold| hold.sequence.0);
    let charge = entry.charge_id.as_ref().map(|charge| charge.sequence.0);
    let lot = entry.lot_id.as_ref().map(|lot| lot.sequence.0);
    same(&what("subject"), About { work: hold.or(charge), lot }, line.about)?;
    let before = place.checked_sub(1).and_then(|before| entries.get(before));
    match before {
        Some(before) => same(&what("hash of the entry before"), &entry.prev_hash, &before.hash),
        None => Ok(()),
    }
}

/// What a line moved: the buckets after it minus those before it. Credits come out of `granted` and
/// `debt`, so those two count the other way around.
fn postings_of(line: &Line) -> BTreeMap<Bucket, i128> {
    let Line { before, after, .. } = line;
    let gain = |of: fn(&Figures) -> u64| i128::from(of(after)) - i128::from(of(before));
    let gains = [
        (Bucket::Granted, -gain(|figures| figures.granted)),
        (Bucket::Available, gain(|figures| figures.available)),
        (Bucket::Held, gain(|figures| figures.held)),
        (Bucket::Used, gain(|figures| figures.used)),
        (Bucket::Expired, gain(|figures| figures.expired)),
        (Bucket::Voided, gain(|figures| figures.voided)),
        (Bucket::Debt, -gain(|figures| figures.debt)),
    ];
    gains.into_iter().filter(|(_, gain)| *gain != 0).collect()
}

fn check_balance(book: &Book, balance: &Balance) -> Result<(), Difference> {
    let shown = wire::figures(&balance.buckets, balance.pending.0.get());
    same("balance", shown, book.figures())?;
    let through = book.throughput();
    let totals = &balance.totals;
    let check = |name: &str, shown: TotalAmount, expected: u128| {
        same(&format!("lifetime total {name}"), shown.0, expected)
    };
    check("granted", totals.granted, u128::from(book.figures().granted))?;
    check("authorized", totals.authorized, through.authorized)?;
    check("captured", totals.captured, through.captured)?;
    check("released", totals.released, through.released)?;
    check("refunded", totals.refunded, through.refunded)?;
    check("reclaimed", totals.reclaimed, through.reclaimed)?;
    check("expired", totals.expired, u128::from(book.figures().expired))?;
    // Nothing here is ever set aside for another region.
    same("allocated", &balance.buckets.allocated, &BTreeMap::new())
}

fn check_lots(book: &Book, lots: &[Lot]) -> Result<(), Difference> {
    same("number of lots", lots.len(), book.lots().len())?;
    let mut seen = BTreeSet::new();
    for lot in lots {
        let (id, number) = (&lot.lot_id, lot.lot_id.sequence.0);
        if !seen.insert(number) {
            return Err(Difference(format!("lot {id}: listed twice")));
        }
        let expected = book.lots().get(&number);
        let expected = expected.ok_or_else(|| Difference(format!("lot {id}: nothing made it")))?;
        let shown = LotFigures {
            amount: lot.amount.0.get(),
            free: lot.free.0.get(),
            held: lot.held.0.get(),
            used: lot.used.0.get(),
            priority: lot.priority,
            promotional: lot.category == LotCategory::Promotional,
            effective_at: lot.effective_at.0,
            expires_at: lot.expires_at.as_ref().map(|at| at.0),
            status: lot.status,
        };
        same(&format!("lot {id}"), shown, lot_figures(expected))?;
    }
    Ok(())
}

/// What the API shows of a lot. What lapsed and what was taken back it shows in the balance only.
#[derive(Debug, PartialEq, Eq)]
struct LotFigures {
    amount: u64,
    free: u64,
    held: u64,
    used: u64,
    priority: u8,
    promotional: bool,
    effective_at: LogTime,
    expires_at: Option<LogTime>,
    status: LotStatus,
}

fn lot_figures(lot: &BookLot) -> LotFigures {
    let status = match lot.stage {
        Stage::Waiting => LotStatus::Pending,
        Stage::Usable if lot.free == 0 && lot.held == 0 => LotStatus::Spent,
        Stage::Usable => LotStatus::Active,
        Stage::Expired => LotStatus::Expired,
        Stage::Voided => LotStatus::Voided,
    };
    LotFigures {
        amount: lot.amount,
        free: lot.free + lot.waiting,
        held: lot.held,
        used: lot.used,
        priority: lot.priority,
        promotional: lot.promotional,
        effective_at: lot.effective_at,
        expires_at: lot.expires_at,
        status,
    }
}

/// What the API shows of a hold or a charge.
#[derive(Debug, PartialEq, Eq)]
struct WorkFigures {
    status: HoldStatus,
    amount: u64,
    captured_total: u64,
    held_remaining: u64,
    refunded_total: u64,
    created_at: LogTime,
    expires_at: Option<LogTime>,
    lots: Vec<Part>,
    changed_by: u64,
}

fn check_works(book: &Book, shown: &Shown) -> Result<u64, Difference> {
    let mut seen = BTreeSet::new();
    for hold in &shown.holds {
        let figures = WorkFigures {
            status: hold.status,
            amount: hold.amount.0.get(),
            captured_total: hold.captured_total.0.get(),
            held_remaining: hold.held_remaining.0.get(),
            refunded_total: hold.refunded_total.0.get(),
            created_at: hold.created_at.0,
            expires_at: Some(hold.expires_at.0),
            lots: parts(&hold.lots),
            changed_by: hold.sequence.0.0,
        };
        let number = hold.hold_id.sequence.0;
        check_work(book, number, false, &figures)?;
        seen.insert(number);
    }
    for charge in &shown.charges {
        let figures = WorkFigures {
            status: charge.status,
            amount: charge.amount.0.get(),
            captured_total: charge.captured_total.0.get(),
            held_remaining: charge.held_remaining.0.get(),
            refunded_total: charge.refunded_total.0.get(),
            created_at: charge.created_at.0,
            expires_at: None,
            lots: parts(&charge.lots),
            changed_by: charge.sequence.0.0,
        };
        let number = charge.charge_id.sequence.0;
        check_work(book, number, true, &figures)?;
        seen.insert(number);
    }
    same("number of holds and charges", seen.len(), book.works().len())?;
    Ok(count(seen.len()))
}

fn parts(lots: &[LotShare]) -> Vec<Part> {
    let part =
        |share: &LotShare| Part { lot: share.lot_id.sequence.0, amount: share.amount.0.get() };
    lots.iter().map(part).collect()
}

fn check_work(
    book: &Book,
    number: u64,
    is_charge: bool,
    shown: &WorkFigures,
) -> Result<(), Difference> {
    let what = format!("{} {number}", if is_charge { "charge" } else { "hold" });
    let work = book.works().get(&number).filter(|work| work.is_charge == is_charge);
    let work = work.ok_or_else(|| Difference(format!("{what}: nothing made it")))?;
    same(&what, shown, &work_figures(work))
}

fn work_figures(work: &Work) -> WorkFigures {
    let status = match work.state {
        WorkState::Active => HoldStatus::Active,
        WorkState::Captured => HoldStatus::Captured,
        WorkState::Released => HoldStatus::Released,
        WorkState::Expired => HoldStatus::Expired,
    };
    WorkFigures {
        status,
        amount: work.amount,
        captured_total: work.captured,
        held_remaining: work.held(),
        refunded_total: work.given_back(),
        created_at: work.created_at,
        expires_at: (!work.is_charge).then_some(work.expires_at),
        lots: work.made_from.clone(),
        changed_by: work.changed_by,
    }
}

/// Checks the answer of each call that was accepted against the entry and the balance it named.
/// Returns how many of them there were, and how many refusals.
fn check_answers(
    journal: &Journal,
    book: &Book,
    entries: &[Entry],
) -> Result<(u64, u64), Difference> {
    let by_key: BTreeMap<&str, &Entry> = entries
        .iter()
        .filter_map(|entry| Some((entry.idempotency_key.as_ref()?.0.as_str(), entry)))
        .collect();
    let (mut answers, mut refusals) = (0, 0);
    for (key, call) in &journal.calls {
        refusals += u64::from(call.refusal().is_some());
        let Some(receipt) = call.receipt() else { continue };
        let sequence = by_key.get(key.as_str()).map(|entry| entry.sequence.0.0);
        same(&format!("entry of key {key}"), sequence, Some(receipt.sequence))?;
        let line = usize::try_from(receipt.as_of).ok().and_then(|as_of| as_of.checked_sub(1));
        let line = line.and_then(|place| book.lines().get(place));
        let expected = line.map(|line| line.after);
        same(&format!("balance answered to key {key}"), Some(receipt.balance), expected)?;
        answers += 1;
    }
    Ok((answers, refusals))
}

/// A length as the number that it is elsewhere.
fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn entry_differs(entry: &Entry, what: &str, detail: impl std::fmt::Display) -> Difference {
    let (sequence, kind) = (entry.sequence.0.0, entry.kind);
    Difference(format!("entry {sequence} ({kind}): {what}: {detail}"))
}

#[cfg(test)]
mod tests;
