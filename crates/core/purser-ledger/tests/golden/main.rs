//! The bytes of commands, entries, rejections and snapshots, pinned.
//!
//! What a release has written, every later one reads: a released form gets a case of its own
//! beside the new one. `UPDATE_EXPECT=1` rewrites the files; before the first release that is a
//! change like any other, afterwards it is not allowed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocations;
mod budgets;
mod covers;
mod events;
mod homes;
mod jobs;
mod rejections;
mod webhooks;

use std::collections::BTreeMap;
use std::path::PathBuf;

use purser_expect::{check_bytes, check_chunks, check_unreadable, variant, variant_bytes};
use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    AccountName, AccountStatus, Adjust, Allocate, AllocatedLot, Allocation, AllocationStatus,
    Answer, Authorize, Balance, Booked, Bucket, Capture, Category, Charge, Close, Command, Confirm,
    Context, Entry, EpochBegan, Extend, Fact, Fate, Grant, Hold, HoldKind, HoldNumber, HoldState,
    HomeChange, IfExpired, Item, Ledger, LostEntry, Lot, LotNumber, LotPhase, LotTerms, Metadata,
    Mode, Move, OnExpiry, Open, Operation, Outcome, PassedOn, PendingTransfer, Policy,
    PolicyChange, Portion, Recall, Reclaim, Refund, RefundExpired, Rejection, Release, Report,
    Return, SameRequest, SetAllocation, Settlement, SettlementClass, Shipped, Shortage, Source,
    Spend, Standing, TailRun, TakeBack, Target, Transfer, Void, Voucher, WriteOff, codec,
};
use purser_types::{
    Credits, Epoch, Generation, IdempotencyKey, Life, LogTime, Machine, OperationId, Owner, Region,
    Sequence, Span, Stamped, TenantId, Unit,
};

use self::allocations::{allocation, booked, life, voucher};
use self::homes::{departure, home_operations, moves, pass_on, tail};

#[test]
fn the_bytes_of_commands_are_pinned() {
    let operations = operations().into_iter().chain(home_operations());
    let operations = operations.chain([covers::operation()]).chain(jobs::operations());
    let operations: Vec<Operation> = operations.chain(events::operations()).collect();
    let mut commands: Vec<(&str, Command)> = Vec::new();
    let numbered = operations.into_iter().zip((0..35).chain(36..));
    for (operation, number) in numbered.chain(budgets::operations()) {
        let (name, expected) = operation_number(&operation);
        assert_eq!((expected, variant(&operation)), (number, number), "{name}");
        commands.push((name, command(vec![Item::new(context(), operation)])));
    }
    let bare = Item::new(Context::default(), Operation::Freeze);
    let freeze = Item::new(context(), Operation::Freeze);
    commands.push(("batch", command(vec![bare, freeze])));
    commands.push(("sweep", Command::Sweep { accounts_max: 1_000 }));
    commands.push(("pass_on", pass_on()));
    commands.push(("begin_life", begin_life()));
    let regions = vec![owner().region];
    for shortage in [Shortage::Exhausted, Shortage::Stranded { amount: credits(40), regions }] {
        let item = Item::new(Context::default(), Operation::Charge(charge()));
        commands
            .push(("charge_when_short", command(vec![Item { shortage: Some(shortage), ..item }])));
    }
    commands.extend(moves());
    commands.extend(covers::commands().into_iter().chain(jobs::commands()));
    commands.extend(webhooks::commands());
    check_bytes(&file("commands.txt"), &commands);
}

#[test]
fn the_bytes_of_entries_are_pinned() {
    let mut entries: Vec<(&str, Entry)> = Vec::new();
    let numbered = facts().into_iter().chain(jobs::facts()).chain(events::facts()).zip(0..);
    for (fact, number) in numbered.chain(budgets::facts()) {
        let (name, expected) = fact_number(&fact);
        assert_eq!((expected, variant(&fact)), (number, number), "{name}");
        entries.push((name, entry(fact)));
    }
    entries.push(("voucher_with_cover", entry(covers::accepted())));
    entries.push(("authorized_under_budgets", entry(budgets::capped())));
    entries.push(("job_under_budgets", entry(budgets::named_by_job())));
    check_bytes(&file("entries.txt"), &entries);
}

#[test]
fn the_bytes_of_rejections_are_pinned() {
    let mut rejections: Vec<(String, Rejection)> = Vec::new();
    let numbered = rejections::in_order().into_iter().zip((0..59).chain(63..));
    for (rejection, number) in numbered.chain(budgets::rejections()) {
        assert_eq!(variant(&rejection), number, "{rejection:?}");
        rejections.push((rejection.to_string().replace(' ', "_"), rejection));
    }
    check_bytes(&file("rejections.txt"), &rejections);
}

#[test]
fn the_bytes_of_a_snapshot_are_pinned() {
    let (mut ledger, mut history) = lived_ledger();
    let kept = check_chunks(&file("snapshot.txt"), ledger.snapshot());
    let mut restored = Ledger::restore(&mut kept.into_iter()).unwrap();
    assert_eq!(restored.digest(), ledger.digest());
    // It goes on where it was: with its keys, its holds, and what will be due.
    let mut other_history = history.clone();
    for (operation, index) in lived().into_iter().chain([Operation::Freeze]).zip(1..) {
        let answer = apply(&mut ledger, &mut history, &operation, index, 500);
        assert_eq!(apply(&mut restored, &mut other_history, &operation, index, 500), answer);
        let replayed = |outcomes: &[Outcome]| outcomes.iter().all(|outcome| outcome.replayed);
        let again = matches!(&answer, Answer::Account(outcomes) if replayed(outcomes));
        assert_eq!(again, operation != Operation::Freeze, "{operation:?}");
    }
    assert_eq!(restored.digest(), ledger.digest());
    assert_eq!(other_history, history);
}

#[test]
fn an_unknown_variant_is_an_error_and_not_another_variant() {
    for number in [99_u32, 100, 70_000] {
        check_unreadable::<Command>(&variant_bytes(number));
        check_unreadable::<Operation>(&variant_bytes(number));
        check_unreadable::<Fact>(&variant_bytes(number));
        check_unreadable::<Rejection>(&variant_bytes(number));
        check_unreadable::<Target>(&variant_bytes(number));
        check_unreadable::<Source>(&variant_bytes(number));
        check_unreadable::<RefundExpired>(&variant_bytes(number));
        let bare = minicbor::to_vec(number).unwrap();
        check_unreadable::<Category>(&bare);
        check_unreadable::<Bucket>(&bare);
        check_unreadable::<HoldState>(&bare);
        check_unreadable::<HoldKind>(&bare);
        check_unreadable::<IfExpired>(&bare);
    }
}

#[test]
fn damaged_bytes_are_an_error() {
    let bytes = codec::encode(&command(vec![Item::new(context(), Operation::Freeze)]));
    for end in 0..bytes.len() {
        check_unreadable::<Command>(&bytes[..end]);
    }
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    check_unreadable::<Command>(&longer);
    // An amount beyond the largest there is.
    check_unreadable::<Credits>(&minicbor::to_vec(u64::MAX).unwrap());
}

/// A file of pinned bytes.
fn file(name: &str) -> PathBuf {
    purser_expect::path(env!("CARGO_MANIFEST_DIR"), &format!("golden/{name}"))
}

fn account() -> AccountName {
    AccountName { tenant: TenantId::parse("acme").unwrap(), unit: Unit::credits() }
}

fn command(items: Vec<Item>) -> Command {
    Command::at_home(account(), items)
}

fn charge() -> Charge {
    Charge { amount: credits(5), allow_debt: false, reference: None, budgets: Box::default() }
}

fn begin_life() -> Command {
    Command::BeginLife { known: vec![None, Some(Life::from_bytes([6; 16]))], life: life() }
}

fn context() -> Context {
    let notes = BTreeMap::from([("ticket".into(), "T-1".into())]);
    Context {
        key: Some(IdempotencyKey::parse("key 1").unwrap()),
        actor: Some("kim".into()),
        reason: Some("because".into()),
        request_id: Some("request 1".into()),
        metadata: Metadata::from_pairs(notes).unwrap(),
    }
}

fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).unwrap()
}

fn at(seconds: u64) -> LogTime {
    LogTime::ZERO.saturating_add(Span::from_secs(seconds))
}

fn sequence(number: u64) -> Sequence {
    Sequence(number)
}

fn hold_number() -> HoldNumber {
    HoldNumber(sequence(3))
}

fn lot_number() -> LotNumber {
    LotNumber(sequence(2))
}

fn policy() -> Policy {
    Policy {
        debt_limit: credits(50),
        refund_expired: RefundExpired::Regrant { days: 7 },
        ..Policy::default()
    }
}

fn standing() -> Standing {
    Standing {
        status: AccountStatus::Open,
        home: Region::parse("us").unwrap(),
        policy: policy(),
        opened_at: at(1),
        shorter_age: None,
    }
}

fn lot() -> Lot {
    Lot {
        terms: terms(),
        phase: LotPhase::Voided,
        waiting: credits(0),
        free: credits(1),
        held: credits(2),
        used: credits(3),
        expired: credits(4),
        voided: credits(90),
        returned: credits(1),
        allocated: credits(2),
        only_for: None,
    }
}

/// One of each operation, in the order of their numbers.
fn operations() -> Vec<Operation> {
    let target = Target::Charge(hold_number());
    let until = at(900);
    vec![
        Operation::Open(Open {
            home: Region::parse("eu-1").unwrap(),
            policy: Policy { on_expiry: OnExpiry::TakeBack, ..policy() },
            epoch: None,
        }),
        Operation::Grant(grant()),
        Operation::Authorize(Authorize {
            amount: credits(40),
            ttl: Span::from_secs(60),
            reference: Some("frame-7".into()),
            budgets: Box::default(),
        }),
        Operation::Capture(Capture {
            hold: hold_number(),
            amount: Some(credits(25)),
            is_final: false,
            allow_debt: true,
            if_expired: IfExpired::Charge,
            away: None,
        }),
        Operation::Release(Release { hold: hold_number(), away: None }),
        Operation::Extend(Extend { hold: hold_number(), until, away: None }),
        Operation::Charge(charge()),
        Operation::Refund(Refund { target, amount: Some(credits(20)), away: Some(owner()) }),
        Operation::Reclaim(Reclaim { target: Target::Hold(hold_number()), away: None }),
        Operation::Void(Void { lot: lot_number(), confirm: Confirm(sequence(9)) }),
        Operation::Adjust(Adjust::Remove { amount: credits(5) }),
        Operation::SetPolicy(PolicyChange {
            debt_limit: Some(credits(50)),
            refund_expired: Some(RefundExpired::Lapse),
            key_retention: None,
            record_retention: None,
            takeback_cap: None,
            on_expiry: Some(OnExpiry::TakeBack),
            unacknowledged_max: Some(credits(20)),
            event_age: None,
        }),
        Operation::Freeze,
        Operation::Unfreeze,
        Operation::Close(Close { confirm: Confirm(sequence(9)) }),
        Operation::Allocate(allocate(40, Some(life()))),
        Operation::SetAllocation(SetAllocation {
            owner: owner(),
            overdraft: Some(credits(10)),
            mode: Some(Mode::Strict),
            keep: Some(credits(5)),
            on_expiry: Some(OnExpiry::TakeBack),
        }),
        Operation::Settle(Report {
            owner: owner(),
            epoch: Epoch(2),
            entries: vec![vec![1, 2, 3].into()],
            is_sealed: false,
        }),
        Operation::TakeBack(TakeBack { owner: owner(), forced: Some(Confirm(sequence(9))) }),
        Operation::Accept(Box::new(voucher())),
        Operation::Return(Return::free(credits(5), 3)),
        Operation::Finish,
        Operation::Seal,
        Operation::WriteOff(WriteOff { owner: owner(), confirm: Confirm(sequence(9)) }),
        Operation::Transfer(Transfer {
            from: owner(),
            to: Region::parse("us").unwrap(),
            amount: credits(9),
            life: Some(life()),
        }),
    ]
}

fn allocate(amount: u64, life: Option<Life>) -> Allocate {
    Allocate { life, ..Allocate::new(owner().region, credits(amount)) }
}

fn grant() -> Grant {
    Grant {
        amount: credits(100),
        category: Category::Promotional,
        priority: 7,
        effective_at: Some(at(10)),
        expires_at: Some(at(1_000)),
        source_ref: Some("pay_1".into()),
    }
}

/// An operation's name and number. Numbers are never used again.
fn operation_number(operation: &Operation) -> (&'static str, u32) {
    match operation {
        Operation::Open(_) => ("open", 0),
        Operation::Grant(_) => ("grant", 1),
        Operation::Authorize(_) => ("authorize", 2),
        Operation::Capture(_) => ("capture", 3),
        Operation::Release(_) => ("release", 4),
        Operation::Extend(_) => ("extend", 5),
        Operation::Charge(_) => ("charge", 6),
        Operation::Refund(_) => ("refund", 7),
        Operation::Reclaim(_) => ("reclaim", 8),
        Operation::Void(_) => ("void", 9),
        Operation::Adjust(_) => ("adjust", 10),
        Operation::SetPolicy(_) => ("set_policy", 11),
        Operation::Freeze => ("freeze", 12),
        Operation::Unfreeze => ("unfreeze", 13),
        Operation::Close(_) => ("close", 14),
        Operation::Allocate(_) => ("allocate", 15),
        Operation::SetAllocation(_) => ("set_allocation", 16),
        Operation::Settle(_) => ("settle", 17),
        Operation::TakeBack(_) => ("take_back", 18),
        Operation::Accept(_) => ("accept", 19),
        Operation::Return(_) => ("return", 20),
        Operation::Finish => ("finish", 21),
        Operation::Seal => ("seal", 22),
        Operation::WriteOff(_) => ("write_off", 23),
        Operation::Transfer(_) => ("transfer", 24),
        Operation::Stop(_) => ("stop", 25),
        Operation::Stay(_) => ("stay", 26),
        Operation::BookTail(_) => ("book_tail", 27),
        Operation::WriteOffTail(_) => ("write_off_tail", 28),
        Operation::Cover(_) => ("cover", 29),
        Operation::CreateJob(_) => ("create_job", 30),
        Operation::ReportOutcome(_) => ("report_outcome", 31),
        Operation::RenewJob(_) => ("renew_job", 32),
        Operation::RedriveJob(_) => ("redrive_job", 33),
        Operation::DiscardJob(_) => ("discard_job", 34),
        Operation::RecordEvent(_) | Operation::ResolveEvent(_) | Operation::DiscardEvent(_) => {
            events::operation_number(operation)
        }
        Operation::SetBudget(_) => ("set_budget", 39),
        Operation::RemoveBudget(_) => ("remove_budget", 40),
    }
}

/// One of each fact, in the order of their numbers.
fn facts() -> Vec<Fact> {
    let home = Region::parse("eu-1").unwrap();
    vec![
        Fact::Opened { epoch: None, account: account(), standing: Standing { home, ..standing() } },
        Fact::Granted(terms()),
        Fact::LotEffective(lot_number()),
        Fact::LotExpired(lot_number()),
        Fact::Authorized(hold()),
        Fact::Captured(hold()),
        Fact::Released(hold()),
        Fact::HoldExpired(hold()),
        Fact::Extended(hold()),
        Fact::Charged(hold()),
        Fact::LateCaptured(hold()),
        Fact::Refunded { hold: hold(), regrant: Some(terms()) },
        Fact::Reclaimed(hold()),
        Fact::DebtRepaid(hold()),
        Fact::Voided { number: lot_number(), lot: lot() },
        Fact::AdjustedUp(terms()),
        Fact::AdjustedDown,
        Fact::PolicySet(standing()),
        Fact::Frozen(Standing { status: AccountStatus::Frozen, ..standing() }),
        Fact::Unfrozen(standing()),
        Fact::Closed(Standing { status: AccountStatus::Closed, ..standing() }),
        Fact::Allocated(Box::new(allocation())),
        Fact::AllocationSet(Box::new(allocation())),
        Fact::Settled(Box::new(Settlement {
            class: SettlementClass::Refund,
            allocation: allocation(),
            shipped: vec![Shipped {
                entry: entry(Fact::RefundPromised { hold: hold(), amount: credits(10) }),
                spent: hold().spent,
                same: SameRequest::Duplicate,
            }],
            regrant: Some(terms()),
        })),
        Fact::TakenBack(Box::new(allocation())),
        Fact::VoucherAccepted(Box::new(voucher())),
        Fact::ReturnedHome { recall: 3 },
        Fact::RefundPromised { hold: hold(), amount: credits(10) },
        Fact::AllocationSealed,
        Fact::AllocationFinished,
        Fact::WrittenOff(Box::new(allocation())),
        Fact::HomeStopped(departure()),
        Fact::HomeMoved(Box::new(HomeChange {
            standing: standing(),
            epoch: Epoch(3),
            began: EpochBegan::FailedOver(Box::new(tail())),
        })),
        Fact::TailBooked(Box::new(TailRun {
            tail: tail(),
            lost: vec![LostEntry { entry: entry(Fact::Charged(hold())), fate: Fate::Booked }],
            spend: Some(hold()),
            is_last: true,
        })),
        Fact::TailWrittenOff(Box::new(tail())),
        Fact::Covered(Box::new(covers::allocation())),
        Fact::CoverPaid(Box::new(covers::allocation())),
    ]
}

/// A fact's name and number. Numbers are never used again.
fn fact_number(fact: &Fact) -> (&'static str, u32) {
    match fact {
        Fact::Opened { .. } => ("opened", 0),
        Fact::Granted(_) => ("granted", 1),
        Fact::LotEffective(_) => ("lot_effective", 2),
        Fact::LotExpired(_) => ("lot_expired", 3),
        Fact::Authorized(_) => ("authorized", 4),
        Fact::Captured(_) => ("captured", 5),
        Fact::Released(_) => ("released", 6),
        Fact::HoldExpired(_) => ("hold_expired", 7),
        Fact::Extended(_) => ("extended", 8),
        Fact::Charged(_) => ("charged", 9),
        Fact::LateCaptured(_) => ("late_captured", 10),
        Fact::Refunded { .. } => ("refunded", 11),
        Fact::Reclaimed(_) => ("reclaimed", 12),
        Fact::DebtRepaid(_) => ("debt_repaid", 13),
        Fact::Voided { .. } => ("voided", 14),
        Fact::AdjustedUp(_) => ("adjusted_up", 15),
        Fact::AdjustedDown => ("adjusted_down", 16),
        Fact::PolicySet(_) => ("policy_set", 17),
        Fact::Frozen(_) => ("frozen", 18),
        Fact::Unfrozen(_) => ("unfrozen", 19),
        Fact::Closed(_) => ("closed", 20),
        Fact::Allocated(_) => ("allocated", 21),
        Fact::AllocationSet(_) => ("allocation_set", 22),
        Fact::Settled(_) => ("settled", 23),
        Fact::TakenBack(_) => ("taken_back", 24),
        Fact::VoucherAccepted(_) => ("voucher_accepted", 25),
        Fact::ReturnedHome { .. } => ("returned_home", 26),
        Fact::RefundPromised { .. } => ("refund_promised", 27),
        Fact::AllocationSealed => ("allocation_sealed", 28),
        Fact::AllocationFinished => ("allocation_finished", 29),
        Fact::WrittenOff(_) => ("written_off", 30),
        Fact::HomeStopped(_) => ("home_stopped", 31),
        Fact::HomeMoved(_) => ("home_moved", 32),
        Fact::TailBooked(_) => ("tail_booked", 33),
        Fact::TailWrittenOff(_) => ("tail_written_off", 34),
        Fact::Covered(_) => ("covered", 35),
        Fact::CoverPaid(_) => ("cover_paid", 36),
        Fact::JobCreated(_) => ("job_created", 37),
        Fact::JobOutcome(_) => ("job_outcome", 38),
        Fact::JobLeased(_) => ("job_leased", 39),
        Fact::JobRenewed(_) => ("job_renewed", 40),
        Fact::JobRedriven(_) => ("job_redriven", 41),
        Fact::JobDiscarded(_) => ("job_discarded", 42),
        Fact::EventApplied(_) | Fact::EventParked(_) | Fact::EventDiscarded(_) => {
            events::fact_number(fact)
        }
        Fact::BudgetSet(_) => ("budget_set", 47),
        Fact::BudgetRemoved(_) => ("budget_removed", 48),
    }
}

/// An entry with something in every field.
fn entry(fact: Fact) -> Entry {
    let Context { key, actor, reason, request_id, metadata } = context();
    let step = |lot, from, to| Move { lot, from, to, amount: credits(30) };
    Entry {
        sequence: sequence(7),
        log_time: at(60),
        operation: OperationId { index: 12, ordinal: 1 },
        fact,
        moves: vec![
            step(Some(lot_number()), Bucket::Held, Bucket::Used),
            step(None, Bucket::Debt, Bucket::Used),
        ],
        balance: Balance {
            granted: credits(100),
            available: credits(1),
            held: credits(2),
            used: credits(3),
            expired: credits(4),
            voided: credits(5),
            debt: credits(6),
            pending: credits(7),
            ..Balance::default()
        },
        key,
        actor,
        reason,
        request_id,
        metadata,
        prev_hash: [0xab; 32],
        fingerprint: Some([0xcd; 16]),
    }
}

fn terms() -> LotTerms {
    LotTerms {
        amount: credits(100),
        category: Category::Paid,
        priority: 100,
        effective_at: at(10),
        expires_at: Some(at(1_000)),
        source_ref: Some("pay_1".into()),
    }
}

/// A hold with something in every field.
fn hold() -> Hold {
    Hold {
        number: hold_number(),
        kind: HoldKind::Hold,
        state: HoldState::Active,
        amount: credits(80),
        captured: credits(50),
        refunded: credits(10),
        reclaimed: Some(credits(5)),
        created_at: at(1),
        expires_at: at(901),
        lots: [Portion { lot: lot_number(), amount: credits(80) }].into(),
        held: credits(30),
        spent: vec![
            Spend { source: Source::Lot(lot_number()), amount: credits(40) },
            Spend { source: Source::Debt(sequence(5)), amount: credits(5) },
        ],
        reference: Some("frame-7".into()),
        changed_by: sequence(6),
        changed_before: Some(sequence(5)),
        ended_by: Some(sequence(6)),
        allocation: sequence(4),
        caps: Box::default(),
    }
}

fn owner() -> Owner {
    Owner { region: Region::parse("ap-2").unwrap(), generation: Generation(3) }
}

/// What a ledger lived through whose snapshot has some of every kind of piece: a pinned lot, a
/// pending one, one that expired, a live hold, an ended one, a debt, an allocation, a job that runs and one
/// that has ended, and keys of every kind.
fn lived() -> Vec<Operation> {
    let grant = |amount, effective_at, expires_at, source_ref| Grant {
        amount: credits(amount),
        effective_at,
        expires_at,
        source_ref,
        ..grant()
    };
    let authorize = |amount, ttl| Authorize {
        amount: credits(amount),
        ttl: Span::from_secs(ttl),
        reference: Some("frame-7".into()),
        budgets: Box::default(),
    };
    let mut lived = vec![
        Operation::Open(Open {
            home: Region::parse("eu-1").unwrap(),
            policy: policy(),
            epoch: None,
        }),
        Operation::Grant(grant(10, None, Some(at(5)), None)),
        Operation::Grant(grant(100, None, Some(at(1_000)), Some("pay_1".into()))),
        Operation::Grant(grant(50, Some(at(600)), None, Some("pay_2".into()))),
        Operation::Grant(grant(100, None, Some(at(1_000)), Some("pay_1".into()))),
        Operation::Authorize(authorize(60, 300)),
        Operation::Authorize(authorize(20, 60)),
        Operation::Allocate(allocate(5, None)),
        jobs::running(),
        jobs::small("job-2"),
        jobs::succeeded("job-2"),
        budgets::top(),
        budgets::under_it(),
        Operation::Charge(Charge { amount: credits(70), allow_debt: true, ..charge() }),
        Operation::Charge(Charge { amount: credits(1_000), ..charge() }),
    ];
    lived.extend(events::lived());
    // Enough entries for the account to remember where one of them stands.
    let limits = (0..64).map(|limit| PolicyChange {
        debt_limit: Some(credits(1_000 + limit)),
        ..PolicyChange::default()
    });
    lived.splice(1..1, limits.map(Operation::SetPolicy));
    lived
}

fn lived_ledger() -> (Ledger, MemoryHistory) {
    let (mut ledger, mut history) = (Ledger::default(), MemoryHistory::default());
    for (operation, index) in lived().into_iter().zip(1..) {
        let answer = apply(&mut ledger, &mut history, &operation, index, 2);
        let accepted = matches!(&answer, Answer::Account(outcomes) if outcomes[0].result.is_ok());
        let refused = matches!(&operation, Operation::Charge(charge) if !charge.allow_debt);
        assert_eq!(accepted, !refused, "{operation:?}: {answer:?}");
    }
    // The short-lived hold ends, and the lot that was due to.
    let sweep = codec::encode(&Command::Sweep { accounts_max: 1 });
    let stamped = Stamped { index: 99, ordinal: 0, at: at(70), command: &sweep };
    assert_eq!(ledger.apply(stamped, &mut history).unwrap(), Answer::Swept { accounts: 1 });
    // A region's group keeps this besides.
    let command = codec::encode(&pass_on());
    let stamped = Stamped { index: 100, ordinal: 0, at: at(70), command: &command };
    let noted = Answer::PassedOn(PassedOn::ToHome);
    assert_eq!(ledger.apply(stamped, &mut history).unwrap(), noted);
    // As a region's group does that was restored.
    let command = codec::encode(&begin_life());
    let stamped = Stamped { index: 101, ordinal: 0, at: at(70), command: &command };
    assert_eq!(ledger.apply(stamped, &mut history).unwrap(), Answer::Life(Some(life())));
    homes::depart(&mut ledger, &mut history);
    webhooks::tell(&mut ledger, &mut history);
    (ledger, history)
}

/// Applies an operation under a key that belongs to its index.
fn apply(
    ledger: &mut Ledger,
    history: &mut MemoryHistory,
    operation: &Operation,
    index: u64,
    seconds: u64,
) -> Answer {
    let key = Some(IdempotencyKey::parse(&format!("key-{index}")).unwrap());
    let context = Context { key, ..context() };
    // Credits are out, and whether a call that is short is refused for good is for the leader to say.
    let shortage = Some(Shortage::Exhausted);
    let item = Item { shortage, ..Item::new(context, operation.clone()) };
    let command = codec::encode(&command(vec![item]));
    let stamped = Stamped { index, ordinal: 0, at: at(seconds), command: &command };
    ledger.apply(stamped, history).unwrap()
}
