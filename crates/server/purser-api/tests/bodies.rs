//! Bodies as they stand on the wire: which requests are refused, and how answers are spelled.
//!
//! The answers here are pinned: a test that has to change means that a client breaks.

#![expect(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use std::collections::BTreeMap;

use purser_api::{
    AsOf, AuthorizeRequest, Balance, BatchAnswer, BatchBody, BatchResult, Bucket, Buckets,
    CaptureRequest, Charge, ChargeRequest, ClockState, CloseRequest, ClusterAnswer, DecidedBy,
    DeciderRole, Entry, EntryKind, ExtendRequest, Figures, GrantRequest, GroupAnswer, GroupNumber,
    GroupRole, Hold, HoldAnswer, HoldStatus, IfExpired, LeaderRequest, List, Lot, LotCategory,
    LotShare, LotStatus, Metadata, NodeNumber, OpenTenantRequest, PolicyRequest, Posting, Problem,
    ProblemCode, ReclaimAnswer, RefundAnswer, RefundExpired, RefundRequest, ReleaseRequest,
    SignedAmount, Subject, TotalAmount, Totals, VoidRequest, VotersRequest, read_body,
    read_optional_body,
};
use purser_types::{Credits, LogTime, OperationId, Region, Sequence, TenantId, Unit};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Every body is refused as a request of type `T`.
#[track_caller]
fn check_refused<T: DeserializeOwned>(bodies: &[&str]) {
    for body in bodies {
        assert!(read_body::<T>(body.as_bytes()).is_err(), "{body} was read");
    }
}

/// The answer is spelled like this, and reads back the same.
#[track_caller]
fn check_pinned<T>(answer: &T, json: &str)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let json = json.split('\n').map(str::trim).collect::<String>();
    assert_eq!(serde_json::to_string(answer).unwrap(), json);
    assert_eq!(&serde_json::from_str::<T>(&json).unwrap(), answer);
}

fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).unwrap()
}

fn at(seconds: u64) -> LogTime {
    LogTime::from_unix_micros(1_785_542_400_000_000 + seconds * 1_000_000).unwrap()
}

fn tenant() -> TenantId {
    TenantId::parse("acme").unwrap()
}

fn decided_by() -> DecidedBy {
    DecidedBy { region: Region::parse("us").unwrap().into(), role: DeciderRole::Home }
}

fn hold() -> Hold {
    Hold {
        hold_id: "h7-0-us".parse().unwrap(),
        tenant: tenant().into(),
        unit: Unit::credits().into(),
        status: HoldStatus::Active,
        amount: credits(30).into(),
        captured_total: Credits::ZERO.into(),
        held_remaining: credits(30).into(),
        refunded_total: Credits::ZERO.into(),
        created_at: at(0).into(),
        expires_at: at(900).into(),
        lots: vec![LotShare { lot_id: "l3-0-us".parse().unwrap(), amount: credits(30).into() }],
        overdrawn: None,
        budgets: Vec::new(),
        reference: None,
        sequence: Sequence(7).into(),
        decided_by: decided_by(),
    }
}

const HOLD: &str = r#""hold_id":"h7-0-us","tenant":"acme","unit":"credits","status":"active",
    "amount":"30","captured_total":"0","held_remaining":"30","refunded_total":"0",
    "created_at":"2026-08-01T00:00:00Z","expires_at":"2026-08-01T00:15:00Z",
    "lots":[{"lot_id":"l3-0-us","amount":"30"}],"reference":null,"sequence":"7",
    "decided_by":{"region":"us","role":"home"}"#;

fn charge() -> Charge {
    Charge {
        charge_id: "c8-0-us".parse().unwrap(),
        tenant: tenant().into(),
        unit: Unit::credits().into(),
        status: HoldStatus::Captured,
        amount: credits(5).into(),
        captured_total: credits(5).into(),
        held_remaining: Credits::ZERO.into(),
        refunded_total: Credits::ZERO.into(),
        created_at: at(0).into(),
        lots: Vec::new(),
        overdrawn: None,
        budgets: Vec::new(),
        reference: "job-1".parse().ok(),
        sequence: Sequence(8).into(),
        decided_by: decided_by(),
    }
}

const CHARGE: &str = r#""charge_id":"c8-0-us","tenant":"acme","unit":"credits",
    "status":"captured","amount":"5","captured_total":"5","held_remaining":"0",
    "refunded_total":"0","created_at":"2026-08-01T00:00:00Z","lots":[],"reference":"job-1",
    "sequence":"8","decided_by":{"region":"us","role":"home"}"#;

fn balance() -> Balance {
    let total = |amount: u128| TotalAmount(amount);
    Balance {
        tenant: tenant().into(),
        unit: Unit::credits().into(),
        buckets: Buckets {
            granted: credits(9_007_199_254_740_993).into(),
            available: credits(9_007_199_254_740_963).into(),
            held: credits(30).into(),
            used: Credits::ZERO.into(),
            expired: Credits::ZERO.into(),
            voided: Credits::ZERO.into(),
            debt: Credits::ZERO.into(),
            allocated: BTreeMap::new(),
        },
        pending: Credits::ZERO.into(),
        totals: Totals {
            granted: total(9_007_199_254_740_993),
            authorized: total(u128::MAX),
            captured: total(0),
            released: total(0),
            refunded: total(0),
            reclaimed: total(0),
            expired: total(0),
        },
        as_of: AsOf { log_time: at(1).into(), sequence: Sequence(7).into() },
        age_ms: 0,
    }
}

const BALANCE: &str = r#"{"tenant":"acme","unit":"credits","granted":"9007199254740993",
    "available":"9007199254740963","held":"30","used":"0","expired":"0","voided":"0","debt":"0",
    "allocated":{},"pending":"0","totals":{"granted":"9007199254740993",
    "authorized":"340282366920938463463374607431768211455","captured":"0","released":"0",
    "refunded":"0","reclaimed":"0","expired":"0"},"as_of":{"log_time":"2026-08-01T00:00:01Z",
    "sequence":"7"},"age_ms":0}"#;

#[test]
fn requests_refuse_what_they_do_not_know() {
    check_refused::<AuthorizeRequest>(&[
        "",
        "null",
        "[]",
        "{}",
        r#"{"amount":null}"#,
        r#"{"amount":"5","amount":"5"}"#,
        r#"{"amount":"5","budget":"team"}"#,
        r#"{"amount":"5","reference":null}"#,
        r#"{"amount":"5","metadata":null}"#,
        r#"{"amount":"5","consistency":"eventual"}"#,
        r#"{"amount":"5","consistency":"Strict"}"#,
        r#"{"amount":"5","ttl_seconds":0}"#,
        r#"{"amount":"5","ttl_seconds":604801}"#,
        r#"{"amount":"5","ttl_seconds":60.0}"#,
        r#"{"amount":"5","ttl_seconds":"60"}"#,
        r#"{"amount":"5"} {}"#,
    ]);
    check_refused::<CaptureRequest>(&[
        r#"{"amount":"-1"}"#,
        r#"{"amount":null}"#,
        r#"{"final":null}"#,
        r#"{"final":1}"#,
        r#"{"if_expired":"ignore"}"#,
        r#"{"reserved":500}"#,
    ]);
    check_refused::<ChargeRequest>(&["{}", r#"{"amount":0}"#, r#"{"amount":"5","ttl_seconds":9}"#]);
    check_refused::<ExtendRequest>(&["{}", r#"{"until":"2026-08-01T00:00:00"}"#]);
    check_refused::<RefundRequest>(&["{}", r#"{"amount":"0","reason":"r"}"#, r#"{"reason":""}"#]);
}

#[test]
fn admin_requests_refuse_what_they_do_not_know() {
    check_refused::<GrantRequest>(&[
        "{}",
        r#"{"amount":"1000000000000000001"}"#,
        r#"{"amount":"5","priority":256}"#,
        r#"{"amount":"5","priority":-1}"#,
        r#"{"amount":"5","category":"free"}"#,
        r#"{"amount":"5","expires_at":"never"}"#,
        r#"{"amount":"5","effective_at":null}"#,
        r#"{"amount":"5","source_ref":"a\u0000b"}"#,
    ]);
    check_refused::<OpenTenantRequest>(&[
        "{}",
        r#"{"tenant":"a/b"}"#,
        r#"{"tenant":"acme","unit":"Credits"}"#,
    ]);
    check_refused::<PolicyRequest>(&[
        r#"{"debt_limit":"-1"}"#,
        r#"{"debt_limit":null}"#,
        r#"{"refund_expired":"regrant"}"#,
        r#"{"refund_expired":{"regrant_days":0}}"#,
        r#"{"refund_expired":{"regrant_days":1,"days":2}}"#,
    ]);
    check_refused::<VoidRequest>(&["{}", r#"{"reason":"r","confirm":"01"}"#]);
    check_refused::<CloseRequest>(&[r#"{"reason":"r","force":true}"#]);
}

#[test]
fn what_is_left_out_has_its_default() {
    let capture: CaptureRequest = read_optional_body(b"").unwrap();
    assert_eq!(capture, read_body(b"{}").unwrap());
    assert!(capture.amount.is_none() && capture.r#final && !capture.allow_debt);
    assert_eq!(capture.if_expired, IfExpired::Refuse);
    assert_eq!(read_optional_body::<ReleaseRequest>(b"").unwrap(), ReleaseRequest::default());

    let grant: GrantRequest = read_body(br#"{"amount":5}"#).unwrap();
    assert_eq!(grant, read_body(br#"{"amount":"5","expires_at":null}"#).unwrap());
    assert_eq!((grant.priority, grant.category), (100, LotCategory::Paid));
    let policy: PolicyRequest =
        read_body(br#"{"refund_expired":{"regrant_days":30},"debt_limit":0}"#).unwrap();
    assert!(
        matches!(policy.refund_expired, Some(RefundExpired::RegrantDays(days)) if days.0.get() == 30)
    );
    let open: OpenTenantRequest = read_body(br#"{"tenant":"acme"}"#).unwrap();
    assert_eq!(open.unit.0, Unit::credits());
}

#[test]
fn holds_and_balances_are_spelled_like_this() {
    let answer = HoldAnswer { hold: hold(), balance: balance() };
    check_pinned(&answer, &format!(r#"{{{HOLD},"balance":{BALANCE}}}"#));
    let list = List { items: vec![hold()], has_more: false, next_cursor: None };
    let json = format!(r#"{{"items":[{{{HOLD}}}],"has_more":false,"next_cursor":null}}"#);
    check_pinned(&list, &json);
}

#[test]
fn a_refund_stands_beside_its_hold_or_charge() {
    let refund = |subject| RefundAnswer {
        subject,
        refunded: credits(5).into(),
        lapsed: credits(2).into(),
        regranted_lot: None,
        debt_cancelled: Credits::ZERO.into(),
        refundable: Credits::ZERO.into(),
        balance: balance(),
    };
    let rest = r#""refunded":"5","lapsed":"2","regranted_lot":null,"debt_cancelled":"0",
        "refundable":"0","balance":"#;
    check_pinned(&refund(Subject::Hold(hold())), &format!("{{{HOLD},{rest}{BALANCE}}}"));
    check_pinned(&refund(Subject::Charge(charge())), &format!("{{{CHARGE},{rest}{BALANCE}}}"));
}

#[test]
fn entries_and_lots_are_spelled_like_this() {
    let entry = Entry {
        sequence: Sequence(7).into(),
        log_time: at(0).into(),
        kind: EntryKind::Authorize,
        postings: vec![
            Posting { bucket: Bucket::Available, amount: SignedAmount::out_of_bucket(credits(30)) },
            Posting { bucket: Bucket::Held, amount: SignedAmount::into_bucket(credits(30)) },
        ],
        operation_id: OperationId { index: 12, ordinal: 0 }.into(),
        idempotency_key: "k1".parse().ok(),
        hold_id: "h7-0-us".parse().ok(),
        job_id: None,
        charge_id: None,
        lot_id: None,
        original_sequence: None,
        reason: None,
        actor: "gateway".to_owned(),
        metadata: Metadata::default(),
        prev_hash: "00".to_owned(),
        hash: "ff".to_owned(),
    };
    check_pinned(
        &entry,
        r#"{"sequence":"7","log_time":"2026-08-01T00:00:00Z","kind":"authorize",
        "postings":[{"bucket":"available","amount":"-30"},{"bucket":"held","amount":"30"}],
        "operation_id":"12.0","idempotency_key":"k1","hold_id":"h7-0-us","actor":"gateway",
        "metadata":{},"prev_hash":"00","hash":"ff"}"#,
    );
    let lot = Lot {
        lot_id: "l3-0-us".parse().unwrap(),
        category: LotCategory::Promotional,
        priority: 100,
        amount: credits(50).into(),
        free: credits(20).into(),
        held: credits(30).into(),
        used: Credits::ZERO.into(),
        effective_at: at(0).into(),
        expires_at: None,
        status: LotStatus::Active,
        source_ref: "pay_1".parse().ok(),
    };
    check_pinned(
        &lot,
        r#"{"lot_id":"l3-0-us","category":"promotional","priority":100,"amount":"50","free":"20",
        "held":"30","used":"0","effective_at":"2026-08-01T00:00:00Z","expires_at":null,
        "status":"active","source_ref":"pay_1"}"#,
    );
}

#[test]
fn groups_are_spelled_like_this() {
    let nodes = |numbers: [u64; 2]| numbers.map(NodeNumber).into();
    let group = GroupAnswer {
        group: GroupNumber(1),
        role: GroupRole::Leader,
        term: 3,
        leader: Some(NodeNumber(2)),
        last_index: 9,
        committed_index: 9,
        applied_index: 8,
        snapshot_index: 0,
        voters: nodes([1, 2]),
        learners: nodes([3, 10]),
        lag_entries: [(NodeNumber(1), 0), (NodeNumber(10), 7)].into(),
        clock: ClockState::Good,
    };
    let cluster = ClusterAnswer {
        cluster: "test".to_owned(),
        region: Region::parse("us").unwrap().into(),
        node: NodeNumber(2),
        groups: vec![group],
    };
    check_pinned(
        &cluster,
        r#"{"cluster":"test","region":"us","node":2,"groups":[{"group":1,"role":"leader","term":3,
        "leader":2,"last_index":9,"committed_index":9,"applied_index":8,"snapshot_index":0,
        "voters":[1,2],"learners":[3,10],"lag_entries":{"1":0,"10":7},"clock":"good"}]}"#,
    );
    check_refused::<VotersRequest>(&["{}", r#"{"voters":[]}"#, r#"{"voters":["1"]}"#]);
    check_refused::<LeaderRequest>(&["{}", r#"{"node":-1}"#, r#"{"node":1,"force":true}"#]);
}

#[test]
fn a_problem_names_its_figures_beside_the_rest() {
    let figures = Figures {
        available: Some(credits(10).into()),
        short_by: Some(credits(20).into()),
        ..Figures::default()
    };
    let problem = Problem::new(ProblemCode::InsufficientCredits, "20 credits are missing", "r1");
    check_pinned(
        &problem.with_figures(figures),
        r#"{"type":"https://purser.dev/problems/insufficient-credits",
        "title":"There are too few credits","status":402,"detail":"20 credits are missing",
        "code":"insufficient_credits","retry":"new_key","outcome":"nothing_happened",
        "request_id":"r1","available":"10","short_by":"20"}"#,
    );
}

#[test]
fn a_problem_of_a_later_release_can_be_read() {
    let json = r#"{"type":"https://purser.dev/problems/marooned","title":"t","status":402,
        "detail":"d","code":"marooned","retry":"new_key","outcome":"nothing_happened",
        "request_id":"r1","stranded":"30","regions":["eu"]}"#;
    let problem: Problem = serde_json::from_str(json).unwrap();
    assert_eq!((problem.known_code(), problem.status), (None, 402));
}

#[test]
fn a_batch_result_is_read_as_what_it_is() {
    let reclaim = ReclaimAnswer {
        subject: Subject::Charge(charge()),
        reclaimed: credits(5).into(),
        debt_added: Credits::ZERO.into(),
        balance: balance(),
    };
    let problem = Problem::new(ProblemCode::HoldNotFound, "there is no such hold", "r1");
    let bodies = [
        BatchBody::Hold(HoldAnswer { hold: hold(), balance: balance() }),
        BatchBody::Reclaim(reclaim),
        BatchBody::Problem(problem),
    ];
    let result = |body| BatchResult { status: 200, replayed: false, body };
    let answer = BatchAnswer { results: bodies.map(result).into() };
    let written = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<BatchAnswer>(&written).unwrap(), answer);
}
