//! The comparison by sums must be able to fail: each planted fault is found and named.

use std::time::Duration;

use purser_api::{
    Amount, AsOf, Bucket, Buckets, DecidedBy, DeciderRole, EntryKind, HoldId, HoldStatus, KeyText,
    LotCategory, LotId, LotShare, LotStatus, Moment, OperationName, Posting, SequenceNumber,
    SignedAmount, TenantName, TotalAmount, Totals, UnitName,
};
use purser_types::{
    Credits, Generation, IdempotencyKey, LogTime, OperationId, Owner, Region, Sequence, Span,
    TenantId,
};

use super::*;
use crate::replay::book::{Asked, Capturing, Figures, Granting, Opening};
use crate::replay::caller::Decider;
use crate::replay::wire::{Receipt, Refusal, Verdict};

/// A tenant with 1,000 credits at home in `us`, of which `eu` held 50, captured 30 and refunded 10.
struct Case {
    journal: Journal,
    shown: ShownAtHome,
    cuts: CutTimes,
}

fn by(region: &str, role: DeciderRole) -> Option<Decider> {
    Some(Decider { region: Region::parse(region).unwrap(), role })
}

fn home() -> Option<Decider> {
    by("us", DeciderRole::Home)
}

fn eu() -> Option<Decider> {
    by("eu", DeciderRole::Allocation)
}

fn done(id: &str, sequence: u64) -> Verdict {
    let (balance, id) = (Figures::default(), id.to_owned());
    Verdict::Done(Receipt { sequence, as_of: sequence, balance, id })
}

fn refused(code: &str, available: Option<u64>) -> Verdict {
    Verdict::Refused(Refusal { code: code.to_owned(), available, short_by: None })
}

fn authorize(amount: u64) -> Asked {
    Asked::Authorize { amount, ttl: Span::from_secs(900) }
}

fn capture(amount: u64) -> Asked {
    Asked::Capture(Capturing {
        hold: 4,
        amount: Some(amount),
        last: true,
        allow_debt: false,
        even_if_expired: false,
    })
}

impl Case {
    fn new() -> Self {
        let granting = Granting {
            amount: 1_000,
            promotional: false,
            priority: 100,
            effective_at: None,
            expires_at: None,
        };
        let mut journal = Journal::default();
        let mut enter = |key: &str, asked: Asked, about: Option<&str>, (verdict, by)| {
            journal.open(key, asked, about.map(str::to_owned));
            journal.close(key, &verdict, by);
        };
        enter("open", Asked::Open(Opening::default()), None, (done("", 1), home()));
        enter("grant", Asked::Grant(granting), None, (done("l2-0-us", 2), home()));
        let hold = Some("h4-1-eu");
        enter("start", authorize(50), None, (done("h4-1-eu", 4), eu()));
        enter("capture", capture(30), hold, (done("h4-1-eu", 5), eu()));
        let refund = Asked::Refund { of: 4, amount: Some(10) };
        enter("refund", refund, hold, (done("h4-1-eu", 6), eu()));
        enter("late", capture(1), hold, (refused("already_captured", None), eu()));
        let too_much = (refused("insufficient_credits", Some(880)), home());
        enter("much", authorize(5_000), None, too_much);
        Self { journal, shown: shown(), cuts: Vec::new() }
    }

    fn verdict(&self) -> Result<Compared, Difference> {
        compare_home(&self.journal, &self.shown, &self.cuts)
    }

    /// Enters one more call.
    fn enter(&mut self, key: &str, asked: Asked, verdict: &Verdict) {
        self.journal.open(key, asked, None);
        self.journal.close(key, verdict, home());
    }
}

fn amount(amount: u64) -> Amount {
    Credits::from_u64(amount).unwrap().into()
}

/// What a service without faults shows: 100 were set aside for `eu`, and 20 are used after all.
fn shown() -> ShownAtHome {
    let allocated = || Bucket::Allocated("eu".parse().unwrap());
    let entries = vec![
        entry(1, EntryKind::Open, Some("open"), vec![]),
        entry(
            2,
            EntryKind::Grant,
            Some("grant"),
            vec![(Bucket::Granted, -1_000), (Bucket::Available, 1_000)],
        ),
        entry(3, EntryKind::Allocate, None, vec![(Bucket::Available, -100), (allocated(), 100)]),
        entry(4, EntryKind::Settle, None, vec![(allocated(), -30), (Bucket::Used, 30)]),
        entry(5, EntryKind::Settle, None, vec![(Bucket::Used, -10), (Bucket::Available, 10)]),
    ];
    ShownAtHome { balance: balance(), entries, lots: vec![lot()] }
}

fn entry(number: u64, kind: EntryKind, key: Option<&str>, postings: Vec<(Bucket, i128)>) -> Entry {
    let posting =
        |(bucket, amount)| Posting { bucket, amount: SignedAmount::from_number(amount).unwrap() };
    Entry {
        sequence: SequenceNumber(Sequence(number)),
        log_time: Moment(LogTime::ZERO.saturating_add(Span::from_secs(number))),
        kind,
        postings: postings.into_iter().map(posting).collect(),
        operation_id: OperationName(OperationId::default()),
        idempotency_key: key.map(|key| KeyText(IdempotencyKey::parse(key).unwrap())),
        hold_id: None,
        job_id: None,
        charge_id: None,
        lot_id: None,
        original_sequence: None,
        reason: None,
        actor: "test".to_owned(),
        metadata: Default::default(),
        prev_hash: format!("hash-{}", number - 1),
        hash: format!("hash-{number}"),
    }
}

fn balance() -> Balance {
    let total = TotalAmount;
    Balance {
        tenant: TenantName(TenantId::parse("acme").unwrap()),
        unit: UnitName::default(),
        buckets: Buckets {
            granted: amount(1_000),
            available: amount(910),
            held: amount(0),
            used: amount(20),
            expired: amount(0),
            voided: amount(0),
            debt: amount(0),
            allocated: BTreeMap::from([("eu".to_owned(), amount(70))]),
        },
        pending: amount(0),
        totals: Totals {
            granted: total(1_000),
            authorized: total(50),
            captured: total(30),
            released: total(20),
            refunded: total(10),
            reclaimed: total(0),
            expired: total(0),
        },
        as_of: AsOf {
            log_time: Moment(LogTime::ZERO.saturating_add(Span::from_secs(60))),
            sequence: SequenceNumber(Sequence(5)),
        },
        age_ms: 0,
    }
}

fn lot() -> Lot {
    Lot {
        lot_id: LotId::new(Sequence(2), Owner::home(Region::parse("us").unwrap())),
        category: LotCategory::Paid,
        priority: 100,
        amount: amount(1_000),
        free: amount(910),
        held: amount(0),
        used: amount(20),
        effective_at: Moment(LogTime::ZERO),
        expires_at: None,
        status: LotStatus::Active,
        source_ref: None,
    }
}

#[track_caller]
fn check_found(plant: impl FnOnce(&mut Case), expected: &str) {
    let mut case = Case::new();
    plant(&mut case);
    let text = case.verdict().expect_err("a planted fault is found").to_string();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_service_without_faults_is_equal() {
    let expected = Compared {
        entries: 5,
        lots: 1,
        works: 1,
        answers: 5,
        refusals: 2,
        overspent: 0,
        is_regional: true,
    };
    assert_eq!(Case::new().verdict(), Ok(expected));
}

#[test]
fn a_figure_that_the_answers_do_not_explain_is_found() {
    let booked_twice = |case: &mut Case| {
        let postings = &mut case.shown.entries[3].postings;
        postings[0].amount = SignedAmount::from_number(-60).unwrap();
        postings[1].amount = SignedAmount::from_number(60).unwrap();
        case.shown.balance.buckets.used = amount(50);
        case.shown.balance.buckets.allocated.insert("eu".to_owned(), amount(40));
        case.shown.lots[0].used = amount(50);
    };
    check_found(booked_twice, "used");
    check_found(|case| case.shown.balance.totals.released = TotalAmount(50), "released");
    check_found(|case| case.shown.balance.totals.refunded = TotalAmount(0), "refunded");
    check_found(|case| case.shown.balance.buckets.available = amount(911), "available");
    check_found(|case| case.shown.balance.buckets.allocated.clear(), "allocated");
    check_found(|case| case.shown.lots[0].used = amount(30), "used of all lots");
    check_found(|case| case.shown.lots[0].priority = 1, "priority");
    check_found(|case| case.shown.lots.clear(), "not shown");
}

#[test]
fn an_entry_out_of_place_is_found() {
    check_found(|case| drop(case.shown.entries.remove(2)), "sequence");
    check_found(|case| case.shown.entries[3].hash.clear(), "entry 5, hash");
    let below = |case: &mut Case| {
        case.shown.entries[3].postings[0].amount = SignedAmount::from_number(-130).unwrap();
        case.shown.entries[3].postings[1].amount = SignedAmount::from_number(130).unwrap();
    };
    check_found(below, "allocated:eu is -30");
    let key = |text: &str| Some(KeyText(IdempotencyKey::parse(text).unwrap()));
    check_found(|case| case.shown.entries[3].idempotency_key = key("x"), "nobody sent it");
    check_found(|case| case.shown.entries[3].idempotency_key = key("much"), "was refused");
    check_found(|case| case.shown.entries[3].idempotency_key = key("grant"), "had it before");
    // What a region decided has its entry in the region's book, and none of home's own.
    check_found(|case| case.shown.entries[3].idempotency_key = key("start"), "home's entry");
}

#[test]
fn what_regions_spent_beyond_what_was_granted_is_counted() {
    let mut case = Case::new();
    let postings = &mut case.shown.entries[3].postings;
    postings[0].amount = SignedAmount::from_number(-25).unwrap();
    postings.push(Posting { bucket: Bucket::Debt, amount: SignedAmount::from_number(-5).unwrap() });
    case.shown.entries[4].postings[1].amount = SignedAmount::from_number(5).unwrap();
    let debt = Posting { bucket: Bucket::Debt, amount: SignedAmount::from_number(5).unwrap() };
    case.shown.entries[4].postings.push(debt);
    case.shown.balance.buckets.available = amount(905);
    case.shown.balance.buckets.allocated.insert("eu".to_owned(), amount(75));
    case.shown.lots[0].free = amount(905);
    assert_eq!(case.verdict().map(|compared| compared.overspent), Ok(5));
}

#[test]
fn a_debt_that_neither_home_allowed_nor_a_region_made_is_found() {
    let owed = |case: &mut Case| {
        let postings = vec![(Bucket::Debt, -5), (Bucket::Used, 5)];
        case.shown.entries.push(entry(6, EntryKind::Capture, None, postings));
        case.shown.balance.as_of.sequence = SequenceNumber(Sequence(6));
        case.shown.balance.buckets.debt = amount(5);
        case.shown.balance.buckets.used = amount(25);
    };
    check_found(owed, "a debt of 5, of which 0 was allowed and 0 settled");
}

#[test]
fn an_answer_that_its_hold_does_not_explain_is_found() {
    let reclaim = |verdict: Verdict| {
        move |case: &mut Case| {
            let about = Some("h4-1-eu".to_owned());
            case.journal.open("reclaim", Asked::Reclaim { of: 4 }, about);
            case.journal.close("reclaim", &verdict, eu());
        }
    };
    check_found(reclaim(refused("not_refunded", None)), "refused with not_refunded");
    check_found(reclaim(refused("insufficient_credits", None)), "insufficient_credits");
    let capture_again = |case: &mut Case| {
        let about = Some("h4-1-eu".to_owned());
        case.journal.open("again", capture(1), about);
        case.journal.close("again", &done("h4-1-eu", 9), eu());
    };
    check_found(capture_again, "not already_captured");
    let made_twice = |case: &mut Case| {
        case.journal.open("twice", authorize(50), None);
        case.journal.close("twice", &done("h4-1-eu", 4), eu());
    };
    check_found(made_twice, "made twice");
}

#[test]
fn a_hold_that_its_owner_shows_otherwise_is_found() {
    let check = |plant: fn(&mut Hold, &mut Vec<Entry>)| {
        let (mut hold, mut history) = shown_hold();
        plant(&mut hold, &mut history);
        let work = ShownWork::Hold(Box::new(hold), history);
        let works = BTreeMap::from([("h4-1-eu".to_owned(), work)]);
        let works = ShownWorks { works, may_be_closed: true };
        compare_works(&Case::new().journal, &works, Instant::now())
    };
    assert_eq!(check(|_, _| ()), Ok(()));
    assert!(check(|hold, _| hold.captured_total = amount(31)).is_err());
    assert!(check(|hold, _| hold.status = HoldStatus::Active).is_err());
    assert!(check(|hold, _| hold.decided_by.role = DeciderRole::Home).is_err());
    let captured_twice = |_: &mut Hold, history: &mut Vec<Entry>| history.push(history[1].clone());
    assert!(check(captured_twice).is_err());
    assert!(check(|_, history| drop(history.pop())).is_err());
    let nothing = |may_be_closed| {
        let shown = ShownWorks { works: BTreeMap::new(), may_be_closed };
        compare_works(&Case::new().journal, &shown, Instant::now())
    };
    assert!(nothing(false).is_err());
    // What a region made under an allocation that was taken back, nobody shows.
    assert_eq!(nothing(true), Ok(()));
}

/// The hold of the case, as a service without faults shows it.
fn shown_hold() -> (Hold, Vec<Entry>) {
    let owner = Owner { region: Region::parse("eu").unwrap(), generation: Generation(1) };
    let created_at = Moment(LogTime::ZERO);
    let hold = Hold {
        hold_id: HoldId::new(Sequence(4), owner),
        tenant: TenantName(TenantId::parse("acme").unwrap()),
        unit: UnitName::default(),
        status: HoldStatus::Captured,
        amount: amount(50),
        captured_total: amount(30),
        held_remaining: amount(0),
        refunded_total: amount(10),
        created_at,
        expires_at: Moment(LogTime::ZERO.saturating_add(Span::from_secs(900))),
        lots: vec![LotShare { lot_id: LotId::new(Sequence(2), owner), amount: amount(50) }],
        overdrawn: None,
        budgets: Vec::new(),
        reference: None,
        sequence: SequenceNumber(Sequence(6)),
        decided_by: DecidedBy { region: "eu".parse().unwrap(), role: DeciderRole::Allocation },
    };
    let told = [
        entry(4, EntryKind::Authorize, Some("start"), vec![]),
        entry(5, EntryKind::Capture, Some("capture"), vec![]),
        entry(6, EntryKind::Refund, Some("refund"), vec![]),
    ];
    (hold, told.to_vec())
}

#[test]
fn a_refusal_while_the_credits_were_there_is_found() {
    let short = |cost, available| {
        move |case: &mut Case| {
            case.enter("short", authorize(cost), &refused("insufficient_credits", available));
        }
    };
    // Of 1,000 granted, 30 were captured; that 10 were refunded may not count.
    check_found(short(970, None), "though 970 were there all the time");
    check_found(short(971, Some(971)), "though that is enough");
    let mut case = Case::new();
    short(971, None)(&mut case);
    assert!(case.verdict().is_ok());
}

#[test]
fn nothing_is_stranded_unless_a_region_is_cut_off() {
    let stranded = |case: &mut Case| {
        case.enter("stranded", authorize(900), &refused("stranded", Some(10)));
    };
    check_found(stranded, "while no region was cut off");
    let mut case = Case::new();
    stranded(&mut case);
    let now = Instant::now();
    case.cuts.push((now - Duration::from_secs(5), now));
    assert!(case.verdict().is_ok());
}

#[test]
fn a_call_that_was_given_up_leaves_sums_open_and_nothing_else() {
    let mut case = Case::new();
    case.journal.calls.get_mut("refund").unwrap().verdict = None;
    case.shown.balance.totals.refunded = TotalAmount(0);
    assert!(case.verdict().is_ok());
    case.shown.lots[0].free = amount(1);
    assert!(case.verdict().is_err());
}
