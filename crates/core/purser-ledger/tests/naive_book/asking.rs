//! What is asked in property tests: small numbers, few lots, times that meet on purpose.

use proptest::prelude::*;

use crate::book::Book;

/// A request with everything resolved: places instead of choices, instants instead of spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Grant(Terms),
    Authorize { amount: u64, ttl: u64 },
    Capture(Capture),
    Release { hold: Option<usize> },
    Extend { hold: Option<usize>, until: u64 },
    Charge { amount: u64, allow_debt: bool },
    Refund { target: Option<usize>, is_charge: bool, amount: Option<u64> },
    Reclaim { target: Option<usize>, is_charge: bool },
    Void { lot: Option<usize>, confirm: u64 },
    AdjustUp { amount: u64 },
    AdjustDown { amount: u64 },
    SetPolicy(PolicyChange),
    Freeze,
    Unfreeze,
    Close { confirm: u64 },
}

/// What a grant gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) amount: u64,
    pub(crate) promotional: bool,
    pub(crate) priority: u8,
    /// When it starts; now, if it does not say.
    pub(crate) start: Option<u64>,
    /// When it ends, if it does.
    pub(crate) exp: Option<u64>,
    pub(crate) source: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) hold: Option<usize>,
    pub(crate) amount: Option<u64>,
    pub(crate) is_final: bool,
    pub(crate) allow_debt: bool,
    pub(crate) late: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) debt_limit: u64,
    pub(crate) regrant_days: Option<u16>,
    /// In seconds.
    pub(crate) key_retention: u64,
    /// In seconds. The naive book forgets no record.
    pub(crate) record_retention: u64,
}

/// What is to be another way; the rest stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PolicyChange {
    pub(crate) debt_limit: Option<u64>,
    pub(crate) regrant_days: Option<Option<u16>>,
}

/// A request as it is drawn: which hold or lot is meant, and which instant, is found when it is its
/// turn, so that most requests mean something that exists.
#[derive(Debug, Clone)]
pub(crate) enum Draft {
    /// Starts and ends so many seconds from now.
    Grant(Terms),
    /// The others, except for who is meant.
    About { whom: u8, request: Request, until_in: u64 },
}

/// A key of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    /// Used by nobody before.
    Fresh,
    /// One of a few that many use.
    Shared(u8),
}

/// What happens next.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// So many seconds pass.
    Pass(u64),
    /// Requests, together or not at all.
    Ask(Vec<(Key, Draft)>),
    /// What was asked so many steps ago, under the same keys.
    Again(u8),
}

/// Between two instants that may meet.
const TICK: u64 = 10;
const DAY: u64 = 86_400;

pub(crate) fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let one = (key(), draft()).prop_map(|asked| Step::Ask(vec![asked]));
    let batch = prop::collection::vec((key(), draft()), 2..=4).prop_map(Step::Ask);
    let step = prop_oneof![
        14 => one,
        2 => batch,
        2 => (0..10_u8).prop_map(Step::Again),
        6 => pause().prop_map(Step::Pass),
    ];
    prop::collection::vec(step, count)
}

fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => (1..=3_u64).prop_map(|ticks| ticks * TICK),
        // One short of where instants meet, and one beyond.
        2 => Just(TICK - 1),
        2 => Just(1),
        1 => Just(DAY),
    ]
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![5 => Just(Key::Fresh), 1 => (0..4_u8).prop_map(Key::Shared)]
}

fn draft() -> impl Strategy<Value = Draft> {
    prop_oneof![
        4 => grant(),
        5 => about(authorize()),
        6 => about(capture()),
        2 => about(Just(Request::Release { hold: None })),
        2 => about(Just(Request::Extend { hold: None, until: 0 })),
        3 => about(charge()),
        4 => about(refund()),
        2 => about(any::<bool>().prop_map(|is_charge| Request::Reclaim { target: None, is_charge })),
        1 => about(confirm().prop_map(|confirm| Request::Void { lot: None, confirm })),
        1 => about(adjust()),
        1 => about(policy_change()),
        1 => about(standing()),
    ]
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(1_u64), 4 => 1..=20_u64]
}

/// Amounts that a capture may also leave out, or make nothing.
fn capture_amount() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 1 => Just(Some(0)), 6 => amount().prop_map(Some)]
}

/// How far what an operator confirms lies behind.
fn confirm() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0), 1 => Just(1)]
}

fn ticks() -> impl Strategy<Value = u64> {
    (0..=6_u64).prop_map(|ticks| ticks * TICK)
}

fn grant() -> impl Strategy<Value = Draft> {
    let when = (prop::option::weighted(0.3, ticks()), prop::option::weighted(0.6, ticks()));
    let source = prop::option::weighted(0.3, 0..3_u8);
    let priority = prop::sample::select(vec![100_u8, 100, 100, 1]);
    (amount(), any::<bool>(), priority, when, source).prop_map(
        |(amount, promotional, priority, (start, exp), source)| {
            Draft::Grant(Terms { amount, promotional, priority, start, exp, source })
        },
    )
}

fn about(request: impl Strategy<Value = Request>) -> impl Strategy<Value = Draft> {
    let until_in = prop_oneof![8 => ticks(), 1 => Just(7 * DAY), 1 => Just(7 * DAY - TICK)];
    (any::<u8>(), request, until_in).prop_map(|(whom, request, until_in)| Draft::About {
        whom,
        request,
        until_in,
    })
}

fn authorize() -> impl Strategy<Value = Request> {
    let ttl = (1..=6_u64).prop_map(|ticks| ticks * TICK);
    (amount(), ttl).prop_map(|(amount, ttl)| Request::Authorize { amount, ttl })
}

fn capture() -> impl Strategy<Value = Request> {
    let options = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.4));
    (capture_amount(), options).prop_map(|(amount, (is_final, allow_debt, late))| {
        Request::Capture(Capture { hold: None, amount, is_final, allow_debt, late })
    })
}

fn charge() -> impl Strategy<Value = Request> {
    (amount(), any::<bool>())
        .prop_map(|(amount, allow_debt)| Request::Charge { amount, allow_debt })
}

fn refund() -> impl Strategy<Value = Request> {
    let amount = prop_oneof![1 => Just(None), 3 => amount().prop_map(Some)];
    (any::<bool>(), amount).prop_map(|(is_charge, amount)| Request::Refund {
        target: None,
        is_charge,
        amount,
    })
}

fn adjust() -> impl Strategy<Value = Request> {
    prop_oneof![
        amount().prop_map(|amount| Request::AdjustUp { amount }),
        amount().prop_map(|amount| Request::AdjustDown { amount }),
    ]
}

/// A policy under which no record is forgotten.
pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let debt_limit = prop::sample::select(vec![0_u64, 5, 30, 1_000]);
    let regrant_days = prop::sample::select(vec![None, Some(1), Some(7)]);
    let key_retention = prop::sample::select(vec![20_u64, 40, 200]);
    (debt_limit, regrant_days, key_retention).prop_map(
        |(debt_limit, regrant_days, key_retention)| Policy {
            debt_limit,
            regrant_days,
            key_retention,
            record_retention: 10_000 * DAY,
        },
    )
}

/// A policy under which records are soon forgotten.
pub(crate) fn forgetful_policy() -> impl Strategy<Value = Policy> {
    let record_retention = prop::sample::select(vec![10_u64, 80, 160]);
    (policy(), record_retention)
        .prop_map(|(policy, record_retention)| Policy { record_retention, ..policy })
}

fn policy_change() -> impl Strategy<Value = Request> {
    (policy(), any::<[bool; 2]>()).prop_map(|(policy, [limit, regrant])| {
        Request::SetPolicy(PolicyChange {
            debt_limit: limit.then_some(policy.debt_limit),
            regrant_days: regrant.then_some(policy.regrant_days),
        })
    })
}

fn standing() -> impl Strategy<Value = Request> {
    prop_oneof![
        4 => Just(Request::Freeze),
        8 => Just(Request::Unfreeze),
        1 => confirm().prop_map(|confirm| Request::Close { confirm }),
    ]
}

impl Draft {
    /// The request, given what there is.
    pub(crate) fn resolve(&self, book: &Book, now: u64) -> Request {
        match self {
            Self::Grant(terms) => Request::Grant(Terms {
                start: terms.start.map(|start| now + start),
                exp: terms.exp.map(|exp| now + exp),
                ..*terms
            }),
            Self::About { whom, request, until_in } => {
                let mut request = request.clone();
                resolve_about(&mut request, *whom, now + until_in, book);
                request
            }
        }
    }
}

fn resolve_about(request: &mut Request, whom: u8, instant: u64, book: &Book) {
    // Recent ones are meant more often than old ones, and one in many means nobody.
    let pick = |count: usize| {
        let back = usize::from(whom % 32).checked_sub(1)? % 8;
        count.checked_sub(1).map(|last| last.saturating_sub(back))
    };
    match request {
        Request::Capture(Capture { hold, .. }) | Request::Release { hold } => {
            *hold = pick(book.holds.len());
        }
        Request::Extend { hold, until } => {
            *hold = pick(book.holds.len());
            *until = instant;
        }
        Request::Refund { target, is_charge, .. } | Request::Reclaim { target, is_charge } => {
            *target = pick(book.holds.len());
            // Mostly what it is; sometimes the other, which is then not found.
            let is = target.is_some_and(|target| book.holds[target].is_charge);
            *is_charge = if whom < 240 { is } else { *is_charge };
        }
        Request::Void { lot, confirm } => {
            *lot = pick(book.lots.len());
            *confirm = book.entries - *confirm;
        }
        Request::Close { confirm } => *confirm = book.entries - *confirm,
        Request::Grant(_)
        | Request::Authorize { .. }
        | Request::Charge { .. }
        | Request::AdjustUp { .. }
        | Request::AdjustDown { .. }
        | Request::SetPolicy(_)
        | Request::Freeze
        | Request::Unfreeze => (),
    }
}
