//! The comparison must be able to fail: each planted fault is found and named.

use purser_api::{
    AsOf, Buckets, DecidedBy, DeciderRole, HoldId, KeyText, LotId, OperationName, Posting,
    RegionName, SequenceNumber, SignedAmount, TenantName, Totals, UnitName,
};
use purser_types::{Credits, IdempotencyKey, OperationId, Owner, Region, Sequence, Span, TenantId};

use super::*;
use crate::replay::book::{Asked, Capturing, Granting, Opening};
use crate::replay::wire::{Receipt, Refusal, Verdict};

/// A tenant at a service without faults, and what was asked of it.
struct Case {
    journal: Journal,
    shown: Shown,
}

fn second(second: u64) -> LogTime {
    LogTime::ZERO.saturating_add(Span::from_secs(second))
}

fn owner() -> Owner {
    Owner::home(Region::parse("us").unwrap())
}

/// Grants 40 until second 50 and 60 for ever, holds 50, captures 45, and holds 30 until second 31,
/// for which nobody comes back; then asks for more than there is.
fn case() -> Case {
    let capture = Capturing {
        hold: 4,
        amount: Some(45),
        last: true,
        allow_debt: false,
        even_if_expired: false,
    };
    let calls = [
        ("open", 0, Asked::Open(Opening::default())),
        ("grant-1", 0, grant(40, Some(second(50)))),
        ("grant-2", 0, grant(60, None)),
        ("hold-1", 1, Asked::Authorize { amount: 50, ttl: Span::from_secs(600) }),
        ("capture", 2, Asked::Capture(capture)),
        ("hold-2", 30, Asked::Authorize { amount: 30, ttl: Span::from_secs(1) }),
    ];
    let (mut book, mut journal, mut keys) = (Book::default(), Journal::default(), Vec::new());
    for (key, at, asked) in calls {
        journal.open(key, asked.clone(), None);
        book.enter(&asked, second(at)).unwrap();
        let sequence = u64::try_from(book.lines().len()).unwrap();
        let balance = book.figures();
        let id = String::new();
        let receipt = Receipt { sequence, as_of: sequence, balance, id };
        journal.close(key, &Verdict::Done(receipt), None);
        keys.push(Some(key));
    }
    journal.open("refused", Asked::Authorize { amount: 100, ttl: Span::from_secs(1) }, None);
    let refusal = Refusal {
        code: "insufficient_credits".to_owned(),
        available: Some(25),
        short_by: Some(75),
    };
    journal.close("refused", &Verdict::Refused(refusal), None);
    book.let_pass(second(60));
    Case { journal, shown: shown(&book, &keys) }
}

fn grant(amount: u64, expires_at: Option<LogTime>) -> Asked {
    Asked::Grant(Granting {
        amount,
        promotional: false,
        priority: 100,
        effective_at: None,
        expires_at,
    })
}

/// A service that has the book's opinion of everything.
fn shown(book: &Book, keys: &[Option<&str>]) -> Shown {
    let entry =
        |(place, line): (usize, &Line)| entry(place, line, keys.get(place).copied().flatten());
    let hold = |(number, work): (&u64, &Work)| hold(*number, work);
    Shown {
        balance: balance(book),
        entries: book.lines().iter().enumerate().map(entry).collect(),
        lots: book.lots().iter().map(|(number, of)| lot(*number, of)).collect(),
        holds: book.works().iter().map(hold).collect(),
        charges: Vec::new(),
    }
}

fn entry(place: usize, line: &Line, key: Option<&str>) -> Entry {
    let sequence = u64::try_from(place).unwrap() + 1;
    let posting =
        |(bucket, amount)| Posting { bucket, amount: SignedAmount::from_number(amount).unwrap() };
    Entry {
        sequence: SequenceNumber(Sequence(sequence)),
        log_time: Moment(line.at),
        kind: line.kind,
        postings: postings_of(line).into_iter().map(posting).collect(),
        operation_id: OperationName(OperationId::default()),
        idempotency_key: key.map(|key| KeyText(IdempotencyKey::parse(key).unwrap())),
        hold_id: line.about.work.map(|hold| HoldId::new(Sequence(hold), owner())),
        job_id: None,
        charge_id: None,
        lot_id: line.about.lot.map(|lot| LotId::new(Sequence(lot), owner())),
        original_sequence: None,
        reason: None,
        actor: "test".to_owned(),
        metadata: Default::default(),
        prev_hash: format!("hash-{place}"),
        hash: format!("hash-{sequence}"),
    }
}

fn amount(amount: u64) -> purser_api::Amount {
    Credits::from_u64(amount).unwrap().into()
}

fn balance(book: &Book) -> Balance {
    let (figures, through) = (book.figures(), book.throughput());
    Balance {
        tenant: TenantName(TenantId::parse("acme").unwrap()),
        unit: UnitName::default(),
        buckets: Buckets {
            granted: amount(figures.granted),
            available: amount(figures.available),
            held: amount(figures.held),
            used: amount(figures.used),
            expired: amount(figures.expired),
            voided: amount(figures.voided),
            debt: amount(figures.debt),
            allocated: BTreeMap::new(),
        },
        pending: amount(figures.pending),
        totals: Totals {
            granted: TotalAmount(u128::from(figures.granted)),
            authorized: TotalAmount(through.authorized),
            captured: TotalAmount(through.captured),
            released: TotalAmount(through.released),
            refunded: TotalAmount(through.refunded),
            reclaimed: TotalAmount(through.reclaimed),
            expired: TotalAmount(u128::from(figures.expired)),
        },
        as_of: AsOf {
            log_time: Moment(second(60)),
            sequence: SequenceNumber(Sequence(u64::try_from(book.lines().len()).unwrap())),
        },
        age_ms: 0,
    }
}

fn lot(number: u64, lot: &BookLot) -> Lot {
    let figures = lot_figures(lot);
    Lot {
        lot_id: LotId::new(Sequence(number), owner()),
        category: LotCategory::Paid,
        priority: lot.priority,
        amount: amount(lot.amount),
        free: amount(figures.free),
        held: amount(lot.held),
        used: amount(lot.used),
        effective_at: Moment(lot.effective_at),
        expires_at: lot.expires_at.map(Moment),
        status: figures.status,
        source_ref: None,
    }
}

fn hold(number: u64, work: &Work) -> Hold {
    let figures = work_figures(work);
    let share = |part: &Part| LotShare {
        lot_id: LotId::new(Sequence(part.lot), owner()),
        amount: amount(part.amount),
    };
    Hold {
        hold_id: HoldId::new(Sequence(number), owner()),
        tenant: TenantName(TenantId::parse("acme").unwrap()),
        unit: UnitName::default(),
        status: figures.status,
        amount: amount(work.amount),
        captured_total: amount(work.captured),
        held_remaining: amount(work.held()),
        refunded_total: amount(figures.refunded_total),
        created_at: Moment(work.created_at),
        expires_at: Moment(work.expires_at),
        lots: work.made_from.iter().map(share).collect(),
        overdrawn: None,
        budgets: Vec::new(),
        reference: None,
        sequence: SequenceNumber(Sequence(work.changed_by)),
        decided_by: DecidedBy {
            region: RegionName(Region::parse("us").unwrap()),
            role: DeciderRole::Home,
        },
    }
}

fn verdict(case: &Case) -> Result<Compared, Difference> {
    let book = rebuild(&case.journal, &case.shown.entries, &case.shown.balance.as_of)?;
    compare(&case.journal, &book, &case.shown)
}

#[track_caller]
fn check_found(plant: impl FnOnce(&mut Case), expected: &str) {
    let mut case = case();
    plant(&mut case);
    let Difference(text) = verdict(&case).expect_err("a planted fault is found");
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_service_without_faults_is_equal() {
    let expected =
        Compared { entries: 8, lots: 2, works: 2, answers: 6, refusals: 1, ..Compared::default() };
    assert_eq!(verdict(&case()), Ok(expected));
}

#[test]
fn a_wrong_figure_is_found() {
    check_found(|case| case.shown.balance.buckets.used = amount(44), "balance");
    check_found(|case| case.shown.balance.totals.released = TotalAmount(0), "released");
    check_found(|case| case.shown.balance.totals.expired = TotalAmount(1), "expired");
    check_found(|case| case.shown.lots[0].free = amount(1), "lot l2-0-us");
    let twice = |case: &mut Case| case.shown.lots[1] = case.shown.lots[0].clone();
    check_found(twice, "lot l2-0-us: listed twice");
    check_found(|case| case.shown.lots[1].used = amount(6), "lot l3-0-us");
    check_found(|case| case.shown.holds[0].captured_total = amount(50), "hold 4");
    check_found(|case| case.shown.holds[1].status = HoldStatus::Released, "hold 6");
    check_found(|case| drop(case.shown.holds.pop()), "number of holds");
    let twice = |case: &mut Case| case.shown.holds[1] = case.shown.holds[0].clone();
    check_found(twice, "number of holds");
}

#[test]
fn a_wrong_entry_is_found() {
    let too_much = |case: &mut Case| {
        let amount = SignedAmount::out_of_bucket(Credits::from_u64(51).unwrap());
        case.shown.entries[3].postings[0].amount = amount;
    };
    check_found(too_much, "entry 4, postings");
    check_found(|case| case.shown.entries[6].log_time = Moment(second(32)), "entry 7, log time");
    check_found(|case| drop(case.shown.entries.pop()), "last entry of the balance");
    let other_hold = |case: &mut Case| {
        case.shown.entries[4].hold_id = Some(HoldId::new(Sequence(6), owner()));
    };
    check_found(other_hold, "entry 5, subject");
    check_found(|case| case.shown.entries[2].hash.clear(), "entry 4, hash of the entry before");
    check_found(|case| drop(case.shown.entries.remove(6)), "entry 7, sequence");
    let twice = |case: &mut Case| {
        let mut again = case.shown.entries[7].clone();
        again.sequence = SequenceNumber(Sequence(9));
        case.shown.entries.push(again);
    };
    check_found(twice, "nothing explains it");
}

#[test]
fn a_call_with_two_effects_is_found() {
    let twice = |case: &mut Case| {
        let key = case.shown.entries[3].idempotency_key.clone();
        case.shown.entries[5].idempotency_key = key;
    };
    check_found(twice, "a second effect of key: hold-1");
}

#[test]
fn an_accepted_call_that_is_not_there_is_found() {
    let lost = |case: &mut Case| {
        let hold = case.journal.calls["hold-2"].verdict.clone();
        case.journal.open("lost", Asked::Authorize { amount: 1, ttl: Span::from_secs(1) }, None);
        case.journal.close("lost", &hold.unwrap(), None);
    };
    check_found(lost, "entry of key lost");
}

#[test]
fn an_entry_that_nobody_asked_for_is_found() {
    check_found(|case| drop(case.journal.calls.remove("hold-2")), "nobody sent its key");
}

#[test]
fn a_refused_call_with_an_effect_is_found() {
    let paid = |case: &mut Case| {
        let refusal = case.journal.calls["refused"].verdict.clone();
        case.journal.calls.get_mut("hold-2").unwrap().verdict = refusal;
    };
    check_found(paid, "its call was refused");
}

/// Refuses a call that was sent after the fifth entry, with this code.
fn refuse(case: &mut Case, asked: Asked, code: &str) {
    case.journal.open("wrong", asked, None);
    case.journal.calls.get_mut("wrong").unwrap().seen_before = 5;
    let refusal = Refusal { code: code.to_owned(), available: None, short_by: None };
    case.journal.close("wrong", &Verdict::Refused(refusal), None);
}

#[test]
fn a_refusal_that_never_was_right_is_found() {
    let figures = |available, short_by| {
        move |case: &mut Case| {
            let code = "insufficient_credits".to_owned();
            let refusal = Refusal { code, available: Some(available), short_by: Some(short_by) };
            let call = case.journal.calls.get_mut("refused").unwrap();
            call.verdict = Some(Verdict::Refused(refusal));
        }
    };
    check_found(figures(26, 74), "which never was right");
    check_found(figures(25, 74), "which never was right");
    let release =
        |code: &'static str| move |case: &mut Case| refuse(case, Asked::Release { hold: 4 }, code);
    check_found(release("already_released"), "already_released, which never was right");
    check_found(release("hold_expired"), "hold_expired, which never was right");
    check_found(release("key_reused"), "key_reused, which never was right");
    let refund = Asked::Refund { of: 4, amount: Some(1) };
    let refund = |case: &mut Case| refuse(case, refund, "refund_exceeds_captured");
    check_found(refund, "refund_exceeds_captured, which never was right");
}

#[test]
fn a_refusal_that_was_right_at_some_time_since_its_call_was_sent_is_none() {
    let mut case = case();
    refuse(&mut case, Asked::Release { hold: 6 }, "hold_expired");
    assert!(verdict(&case).is_ok());
    let mut case = self::case();
    refuse(&mut case, Asked::Release { hold: 4 }, "already_captured");
    assert!(verdict(&case).is_ok());
}

/// What is due and not written down yet counts in the figures and has no entry.
#[test]
fn the_last_due_events_need_not_be_written_down() {
    let mut case = case();
    case.shown.entries.truncate(6);
    case.shown.balance.as_of.sequence = SequenceNumber(Sequence(6));
    let expected =
        Compared { entries: 6, lots: 2, works: 2, answers: 6, refusals: 1, ..Compared::default() };
    assert_eq!(verdict(&case), Ok(expected));
}

#[test]
fn a_call_that_was_given_up_may_have_happened_or_not() {
    let mut case = case();
    case.journal.calls.get_mut("hold-2").unwrap().verdict = None;
    assert!(verdict(&case).is_ok());
}
