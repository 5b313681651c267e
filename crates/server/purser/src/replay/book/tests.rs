//! The book against balances worked out by hand.

use std::num::NonZeroU16;

use purser_types::Span;

use super::*;

const FOREVER: Span = Span::from_secs(600);

/// An account, and the second that each call is made in.
struct Account {
    book: Book,
}

impl Account {
    fn open(opening: Opening) -> Self {
        let mut book = Book::default();
        book.enter(&Asked::Open(opening), at(0)).unwrap();
        Self { book }
    }

    /// Enters a call and returns its sequence.
    fn enter(&mut self, second: u64, asked: &Asked) -> u64 {
        self.book.enter(asked, at(second)).unwrap();
        let own = |line: &Line| line.kind != EntryKind::DebtRepaid;
        u64::try_from(self.book.lines().iter().rposition(own).unwrap()).unwrap() + 1
    }

    fn refused(&mut self, second: u64, asked: &Asked) -> BookError {
        self.book.enter(asked, at(second)).unwrap_err()
    }

    /// available, held, used, expired, debt.
    #[track_caller]
    fn check(&mut self, second: u64, expected: [u64; 5]) {
        self.book.let_pass(at(second));
        let figures = self.book.figures();
        let Figures { available, held, used, expired, debt, .. } = figures;
        assert_eq!([available, held, used, expired, debt], expected, "{figures:?}");
        let sum = available + held + used + expired + figures.voided;
        assert_eq!(figures.granted + debt, sum, "{figures:?}");
    }
}

fn at(second: u64) -> LogTime {
    LogTime::ZERO.saturating_add(Span::from_secs(second))
}

fn grant(amount: u64, expires: Option<u64>) -> Asked {
    Asked::Grant(Granting {
        amount,
        promotional: false,
        priority: 100,
        effective_at: None,
        expires_at: expires.map(at),
    })
}

fn authorize(amount: u64) -> Asked {
    Asked::Authorize { amount, ttl: FOREVER }
}

fn capture(hold: u64, amount: u64) -> Asked {
    Asked::Capture(Capturing {
        hold,
        amount: Some(amount),
        last: true,
        allow_debt: false,
        even_if_expired: false,
    })
}

fn capture_or_owe(hold: u64, amount: u64) -> Asked {
    Asked::Capture(Capturing {
        hold,
        amount: Some(amount),
        last: true,
        allow_debt: true,
        even_if_expired: false,
    })
}

fn refund(of: u64, amount: u64) -> Asked {
    Asked::Refund { of, amount: Some(amount) }
}

/// K015.
#[test]
fn a_release_goes_back_to_the_lots_it_came_from() {
    let mut account = Account::open(Opening::default());
    let ending = account.enter(0, &grant(20, Some(100)));
    let lasting = account.enter(0, &grant(80, None));
    let hold = account.enter(0, &authorize(50));
    account.enter(10, &Asked::Release { hold });
    let free = |account: &Account, lot| account.book.lots()[&lot].free;
    assert_eq!((free(&account, ending), free(&account, lasting)), (20, 80));
    account.check(100, [80, 0, 0, 20, 0]);
}

/// K018.
#[test]
fn over_capture_is_refused_or_owed_and_a_grant_pays_debt_first() {
    let mut account = Account::open(Opening { debt_limit: 30, ..Opening::default() });
    account.enter(0, &grant(100, None));
    let hold = account.enter(1, &authorize(80));
    let refusal = account.refused(2, &capture(hold, 130));
    assert_eq!(refusal, BookError::TooFewCredits { asked: 50, available: 20, short_by: 30 });
    account.check(2, [20, 80, 0, 0, 0]);
    account.enter(3, &capture_or_owe(hold, 130));
    account.check(3, [0, 0, 130, 0, 30]);
    // One credit, and before it the thirty that are owed.
    let owing = BookError::TooFewCredits { asked: 1, available: 0, short_by: 31 };
    assert_eq!(account.refused(4, &authorize(1)), owing);
    account.enter(5, &grant(50, None));
    account.check(5, [20, 0, 130, 0, 0]);
    account.refused(6, &authorize(21));
    account.enter(7, &authorize(20));
    account.check(7, [0, 20, 130, 0, 0]);
}

#[test]
fn debt_beyond_the_limit_is_refused() {
    let mut account = Account::open(Opening { debt_limit: 29, ..Opening::default() });
    account.enter(0, &grant(100, None));
    let hold = account.enter(1, &authorize(80));
    account.refused(2, &capture_or_owe(hold, 130));
}

/// K030.
#[test]
fn a_refund_gives_the_last_consumed_back_first() {
    let mut account = Account::open(Opening::default());
    account.enter(0, &grant(17, Some(100)));
    account.enter(0, &grant(100, None));
    let hold = account.enter(1, &authorize(50));
    account.enter(2, &capture(hold, 50));
    account.check(2, [67, 0, 50, 0, 0]);
    account.enter(3, &refund(hold, 10));
    account.check(3, [77, 0, 40, 0, 0]);
    account.enter(4, &refund(hold, 30));
    account.check(4, [107, 0, 10, 0, 0]);
    account.check(100, [100, 0, 10, 7, 0]);
    account.refused(101, &refund(hold, 11));
}

/// K036 and the refund after it: the part that was owed and then paid returns to the lot that paid.
#[test]
fn a_reclaim_takes_what_there_is_and_owes_the_rest() {
    let mut account = Account::open(Opening::default());
    account.enter(0, &grant(50, None));
    let first = account.enter(1, &authorize(40));
    account.enter(2, &capture(first, 40));
    account.enter(3, &refund(first, 40));
    let second = account.enter(4, &authorize(45));
    account.enter(5, &capture(second, 45));
    account.enter(6, &Asked::Reclaim { of: first });
    account.check(6, [0, 0, 85, 0, 35]);
    let lot = account.enter(7, &grant(100, None));
    account.check(7, [65, 0, 85, 0, 0]);
    account.enter(8, &refund(first, 40));
    assert_eq!(account.book.lots()[&lot].free, 100);
    account.refused(9, &Asked::Reclaim { of: first });
}

/// K038.
#[test]
fn a_reclaim_after_the_refund_lapsed_takes_from_other_lots() {
    let mut account = Account::open(Opening::default());
    account.enter(0, &grant(40, Some(100)));
    account.enter(0, &grant(100, None));
    let hold = account.enter(50, &authorize(40));
    account.enter(50, &capture(hold, 40));
    account.enter(90, &refund(hold, 40));
    account.check(90, [140, 0, 0, 0, 0]);
    account.check(100, [100, 0, 0, 40, 0]);
    account.enter(110, &Asked::Reclaim { of: hold });
    account.check(110, [60, 0, 40, 40, 0]);
}

#[test]
fn a_refund_into_an_expired_lot_is_regranted_where_the_policy_says_so() {
    let mut account =
        Account::open(Opening { regrant_days: NonZeroU16::new(7), ..Opening::default() });
    account.enter(0, &grant(40, Some(100)));
    let charge = account.enter(50, &Asked::Charge { amount: 40, allow_debt: false });
    let lot = account.enter(110, &refund(charge, 40));
    account.check(110, [40, 0, 0, 40, 0]);
    let expected = at(110).saturating_add(Span::from_days(7));
    assert_eq!(account.book.lots()[&lot].expires_at, Some(expected));
}

#[test]
fn due_events_come_in_the_order_of_their_instants() {
    let mut account = Account::open(Opening::default());
    account.enter(0, &grant(40, Some(10)));
    account.enter(1, &Asked::Authorize { amount: 30, ttl: Span::from_secs(9) });
    let waiting = Granting {
        amount: 5,
        promotional: true,
        priority: 0,
        effective_at: Some(at(10)),
        expires_at: Some(at(20)),
    };
    account.enter(2, &Asked::Grant(waiting));
    account.check(30, [0, 0, 0, 45, 0]);
    let kinds: Vec<EntryKind> = account.book.lines()[4..].iter().map(|line| line.kind).collect();
    let expected = [
        EntryKind::HoldExpired,
        EntryKind::LotExpired,
        EntryKind::LotEffective,
        EntryKind::LotExpired,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_hold_that_expired_can_only_be_captured_late() {
    let mut account = Account::open(Opening::default());
    account.enter(0, &grant(40, None));
    let hold = account.enter(1, &Asked::Authorize { amount: 30, ttl: Span::from_secs(1) });
    let ended = BookError::Ended { hold, state: WorkState::Expired };
    assert_eq!(account.refused(2, &capture(hold, 30)), ended);
    let late =
        Capturing { hold, amount: Some(25), last: true, allow_debt: false, even_if_expired: true };
    account.enter(3, &Asked::Capture(late));
    account.check(3, [15, 0, 25, 0, 0]);
}

#[test]
fn a_voided_lot_takes_back_what_returns_to_it() {
    let mut account = Account::open(Opening::default());
    let lot = account.enter(0, &grant(40, None));
    let hold = account.enter(1, &authorize(30));
    account.enter(2, &Asked::Void { lot });
    account.enter(3, &Asked::Release { hold });
    account.check(3, [0, 0, 0, 0, 0]);
    assert_eq!(account.book.figures().voided, 40);
}
