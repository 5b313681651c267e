//! What the golden tests pin about allocations.

use super::*;

/// An allocation with something in every field.
pub(super) fn allocation() -> Allocation {
    Allocation {
        owner: owner(),
        opened_by: sequence(4),
        status: AllocationStatus::TakenBack,
        granted: credits(40),
        spent: credits(5),
        returned: credits(6),
        refunded: credits(2),
        taken_back: credits(9),
        proven: credits(1),
        held: credits(3),
        overdraft: credits(10),
        overdraft_worst: credits(11),
        mode: Mode::Ending,
        voucher: 7,
        recall: Recall { number: 3, keep: credits(5) },
        booked: booked(),
        lots: vec![AllocatedLot { lot: lot_number(), given: credits(40), out: credits(21) }],
        is_forced: true,
        on_expiry: OnExpiry::TakeBack,
        kept_by: Some(6),
        transfer: Some(PendingTransfer {
            to: Region::parse("us").unwrap(),
            amount: credits(9),
            recall: 3,
            life: Some(life()),
        }),
        covered: credits(0),
        covered_gone: credits(0),
        covers: Vec::new(),
        life: Some(life()),
    }
}

pub(super) fn life() -> Life {
    Life::from_bytes([7; 16])
}

pub(super) fn booked() -> Booked {
    Booked { sequence: sequence(8), hash: Some([8; 32]) }
}

/// A voucher with something in every field.
pub(super) fn voucher() -> Voucher {
    Voucher {
        owner: owner(),
        epoch: Epoch(2),
        number: 7,
        granted: credits(40),
        lots: vec![covers::no_cover()],
        overdraft: credits(10),
        mode: Mode::Frozen,
        recall: Recall { number: 3, keep: credits(5) },
        booked: booked(),
        key_retention: Span::from_days(1),
        record_retention: Span::from_days(400),
        account: account(),
        reversals: vec![hold_number()],
        on_expiry: OnExpiry::TakeBack,
        life: Some(life()),
    }
}
