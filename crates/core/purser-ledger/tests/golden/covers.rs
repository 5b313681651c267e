//! What the golden tests pin about covers.

use purser_ledger::{
    Allocation, Capture, Command, Cover, Covered, Fact, HoldNumber, Identity, IfExpired, Item,
    LotNumber, OnCredit, Operation, Rejection, Return, Shortage, Source, Spend, Voucher,
    VoucherLot,
};

use super::{command, context, credits, hold_number, lot_number, owner, sequence, terms, voucher};

fn identity() -> Identity {
    Identity { key: [1; 16], fingerprint: [2; 16] }
}

fn number() -> LotNumber {
    LotNumber(sequence(6))
}

/// A lot of a voucher that is none.
pub(super) fn no_cover() -> VoucherLot {
    VoucherLot { lot: lot_number(), terms: terms(), given: credits(40), only_for: None }
}

/// Home is asked for one.
pub(super) fn operation() -> Operation {
    let (hold, amount) = (HoldNumber(sequence(3)), credits(14));
    let on_credit = OnCredit::WithinLimit;
    Operation::Cover(Cover { owner: owner(), asked: identity(), hold, amount, on_credit })
}

/// A region gives one back, and hears that home gives none.
pub(super) fn commands() -> Vec<(&'static str, Command)> {
    let back = Return { covers: vec![number()], ..Return::free(credits(5), 3) };
    let capture = Operation::Capture(Capture {
        hold: hold_number(),
        amount: Some(credits(25)),
        is_final: true,
        allow_debt: false,
        if_expired: IfExpired::Charge,
        away: None,
    });
    let refusal = Rejection::InsufficientCredits {
        available: credits(4),
        short_by: credits(2),
        debt: credits(0),
        debt_limit: None,
    };
    let shortage = Some(Shortage::NotCovered(Box::new(refusal)));
    let item = |operation| Item::new(context(), operation);
    vec![
        ("return_of_covers", command(vec![item(Operation::Return(back))])),
        ("capture_not_covered", command(vec![Item { shortage, ..item(capture) }])),
    ]
}

/// An allocation with one.
pub(super) fn allocation() -> Allocation {
    let part = |source, amount| Spend { source, amount: credits(amount) };
    let out = vec![part(Source::Lot(lot_number()), 4), part(Source::Debt(sequence(6)), 7)];
    let cover = Covered {
        number: number(),
        asked: identity(),
        hold: hold_number(),
        given: credits(14),
        booked: credits(3),
        out,
    };
    Allocation {
        covered: credits(20),
        covered_gone: credits(9),
        covers: vec![cover],
        ..super::allocation()
    }
}

/// A region takes one up.
pub(super) fn accepted() -> Fact {
    let cover = VoucherLot { lot: number(), only_for: Some(identity()), ..no_cover() };
    Fact::VoucherAccepted(Box::new(Voucher { lots: vec![no_cover(), cover], ..voucher() }))
}
