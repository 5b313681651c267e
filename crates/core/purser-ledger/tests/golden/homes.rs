//! What the golden tests pin about the home: moves, losses, tails.

use std::collections::BTreeMap;

use purser_ledger::Confirm;
use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    AccountName, Command, Departure, EntrylessDecision, HoldNumber, Import, ImportPart, Item,
    KeyMemory, Ledger, Open, Operation, Rejection, Stay, StepDown, Tail, TailPage, TakeHome, Way,
    WriteOffTail, codec,
};
use purser_types::{Epoch, Machine, Region, Span, Stamped, TenantId};

use super::{
    account, at, booked, charge, context, credits, hold_number, lot, owner, policy, sequence,
};

/// A region passes a call on to home.
pub(super) fn pass_on() -> Command {
    let item = Item::new(context(), Operation::Charge(charge()));
    let retention = Span::from_days(1);
    Command::PassOn { account: account(), item: Box::new(item), retention }
}

/// Those about the home, which come after the others.
pub(super) fn home_operations() -> Vec<Operation> {
    vec![
        Operation::Stop(departure()),
        Operation::Stay(Stay { epoch: Epoch(3) }),
        Operation::BookTail(TailPage {
            epoch: Epoch(2),
            entries: vec![vec![1, 2, 3].into()],
            is_last: true,
        }),
        Operation::WriteOffTail(WriteOffTail { epoch: Epoch(2), confirm: Confirm(sequence(9)) }),
    ]
}

/// One of each step of a move.
pub(super) fn moves() -> Vec<(&'static str, Command)> {
    let import = |part| Command::Import(Import { account: account(), part });
    let memory =
        |decision| KeyMemory { key: [1; 16], fingerprint: [2; 16], until: at(900), decision };
    let refused = EntrylessDecision::Refused(Box::new(Rejection::HoldNotFound));
    let lot = Box::new(lot());
    let existing = EntrylessDecision::Existing { entry: sequence(2), last: sequence(7), lot };
    let (pairs, complete_at) = (vec![memory(refused), memory(existing)], Some(sequence(9)));
    let (home, epoch) = (owner().region, Epoch(3));
    let take_home = |way| {
        let (account, head) = (account(), booked());
        Command::TakeHome(TakeHome { account, home, epoch, way, head })
    };
    let from = Region::parse("us").unwrap();
    vec![
        ("import_entries", import(ImportPart::Entries(vec![vec![1, 2, 3].into()]))),
        ("import_memory", import(ImportPart::Memory { pairs, complete_at })),
        ("import_abandon", import(ImportPart::Abandon)),
        ("take_home_moved", take_home(Way::Moved)),
        ("take_home_failed_over", take_home(Way::FailedOver { from })),
        ("step_down", Command::StepDown(StepDown { account: account(), home, epoch })),
    ]
}

/// Another account was here for a while, and its home is elsewhere now.
pub(super) fn depart(ledger: &mut Ledger, history: &mut MemoryHistory) {
    let account = AccountName { tenant: TenantId::parse("gone").unwrap(), ..account() };
    let home = owner().region;
    let open = Open { home, policy: policy(), epoch: None };
    let item = Item::new(context(), Operation::Open(open));
    let opening = Command::at_home(account.clone(), vec![item]);
    let leaving = Command::StepDown(StepDown { account, home, epoch: Epoch(2) });
    for (command, index) in [(opening, 101), (leaving, 102)] {
        let command = codec::encode(&command);
        let stamped = Stamped { index, ordinal: 0, at: at(70), command: &command };
        ledger.apply(stamped, history).unwrap();
    }
}

pub(super) fn departure() -> Departure {
    Departure { epoch: Epoch(2), to: owner().region }
}

/// A tail with something in every field.
pub(super) fn tail() -> Tail {
    Tail {
        from: owner().region,
        epoch: Epoch(2),
        forked_at: sequence(7),
        quarantine: credits(20),
        booked: booked(),
        counted: credits(15),
        debited: credits(5),
        matched: credits(4),
        unanswered: credits(3),
        held: credits(2),
        again: BTreeMap::from([(HoldNumber(sequence(8)), hold_number())]),
        stand_ins: BTreeMap::from([(hold_number(), 1)]),
    }
}
