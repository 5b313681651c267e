//! A region's group that is restored from a backup (R9).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Allocate, AllocationStatus, Answer, BookPhase, Charge, Command, Context, Item, Ledger, Open,
    Operation, Outcome, Policy, Rejection, Voucher,
};
use purser_types::{Generation, Life, LogTime, Machine, OperationId, Owner, Region};

use self::support::{account, credits, paid};

/// A group that plays one part.
#[derive(Default, Clone)]
struct Group {
    ledger: Ledger,
    history: MemoryHistory,
}

impl Group {
    fn apply(&mut self, command: &Command) -> Answer {
        let id = OperationId::default();
        self.ledger.apply_command(command, LogTime::ZERO, id, &mut self.history).unwrap()
    }

    fn ask(&mut self, generation: Generation, operation: Operation) -> Outcome {
        let items = vec![Item::new(Context::default(), operation)];
        let answer = self.apply(&Command::Account { account: account(), items, generation });
        answer.into_outcomes().unwrap().pop().unwrap()
    }

    /// Has the group restored: one of its nodes finds out, and the backup was of one of the lives `known`.
    fn begin_life(&mut self, known: &[Option<Life>], life: Life) -> Option<Life> {
        let answer = self.apply(&Command::BeginLife { known: known.to_vec(), life });
        let Answer::Life(life) = answer else { unreachable!("a life is answered with one") };
        assert_eq!(self.ledger.life(), life);
        life
    }

    fn phase(&self, generation: u64) -> Option<BookPhase> {
        self.ledger.book(&account(), Generation(generation))?.book_phase()
    }
}

fn life(name: u8) -> Life {
    Life::from_bytes([name; 16])
}

fn eu(generation: u64) -> Owner {
    Owner { region: Region::parse("eu").unwrap(), generation: Generation(generation) }
}

/// Home with 100 credits, of which `eu` gets 40.
fn home() -> Group {
    let mut home = Group::default();
    let open = Open { home: Region::parse("us").unwrap(), policy: Policy::default(), epoch: None };
    let grant = paid(100);
    home.ask(Generation::HOME, Operation::Open(open)).result.unwrap();
    home.ask(Generation::HOME, Operation::Grant(grant)).result.unwrap();
    allocate(&mut home, None);
    home
}

fn allocate(home: &mut Group, life: Option<Life>) {
    let allocate = Allocate { life, ..Allocate::new(eu(1).region, credits(40)) };
    home.ask(Generation::HOME, Operation::Allocate(allocate)).result.unwrap();
}

fn voucher(home: &Group, generation: u64) -> Voucher {
    home.ledger.account(&account()).unwrap().voucher(eu(generation)).unwrap()
}

fn accept(region: &mut Group, voucher: &Voucher) -> Result<(), Rejection> {
    let accept = Operation::Accept(Box::new(voucher.clone()));
    region.ask(voucher.owner.generation, accept).result.map(|_| ())
}

fn charge(region: &mut Group, generation: u64) -> Result<(), Rejection> {
    let charge = Charge { amount: credits(40), allow_debt: false, reference: None };
    region.ask(Generation(generation), Operation::Charge(charge)).result.map(|_| ())
}

fn status(home: &Group, generation: u64) -> AllocationStatus {
    let mut allocations = home.ledger.account(&account()).unwrap().allocations();
    allocations.find(|found| found.owner == eu(generation)).unwrap().status
}

#[test]
fn a_restored_region_spends_nothing_under_an_allocation_of_which_home_had_booked_nothing() {
    let (mut home, mut region) = (home(), Group::default());
    let before_the_book = region.clone();
    let first = voucher(&home, 1);
    accept(&mut region, &first).unwrap();
    let with_the_book = region.clone();
    charge(&mut region, 1).unwrap();

    // From before the allocation: its voucher, which may come late or again, begins no book.
    let mut restored = before_the_book;
    restored.begin_life(&[None], life(1));
    assert_eq!(accept(&mut restored, &first), Err(Rejection::AllocationEnded));
    assert_eq!(charge(&mut restored, 1), Err(Rejection::AllocationUnknown));
    let told = restored.ledger.lost_report(&account(), &first).unwrap();
    assert!(told.is_sealed && told.entries.is_empty());

    // With the book as it was before the charge: it is sealed, and says so itself.
    let mut restored = with_the_book;
    restored.begin_life(&[None], life(2));
    assert_eq!(restored.phase(1), Some(BookPhase::Sealed));
    assert_eq!(charge(&mut restored, 1), Err(Rejection::AllocationEnded));
    assert_eq!(restored.ledger.lost_report(&account(), &first), None);

    // Home keeps what is out, and makes a new one for the life that it hears of.
    home.ask(Generation::HOME, Operation::Settle(told)).result.unwrap();
    assert_eq!(status(&home, 1), AllocationStatus::Sealed);
    allocate(&mut home, Some(life(2)));
    accept(&mut restored, &voucher(&home, 2)).unwrap();
    charge(&mut restored, 2).unwrap();
    let bound = home.ledger.account(&account()).unwrap().bound();
    assert_eq!(bound.total(), 0, "what may have been spent is out still, so nothing is overspent");
}

#[test]
fn a_life_begins_once_whichever_nodes_find_out_that_they_were_restored() {
    let (home, mut region) = (home(), Group::default());
    accept(&mut region, &voucher(&home, 1)).unwrap();
    assert_eq!(region.begin_life(&[None], life(1)), Some(life(1)));
    let begun = region.ledger.digest();

    // The same node once more, because it was stopped before it had noted that this is done; and another
    // voter, which was restored from a backup of the same life.
    assert_eq!(region.begin_life(&[None], life(1)), Some(life(1)));
    assert_eq!(region.begin_life(&[None], life(2)), Some(life(1)));
    assert_eq!(region.ledger.digest(), begun);

    // The group goes on from its own snapshot.
    let restored = Ledger::restore(&mut region.ledger.snapshot()).unwrap();
    assert_eq!((restored.life(), restored.digest()), (Some(life(1)), begun));

    // A later restore, of a backup that knew this life.
    assert_eq!(region.begin_life(&[None, Some(life(1))], life(3)), Some(life(3)));
}

#[test]
fn an_allocation_made_for_a_life_that_is_over_is_told_to_be_sealed_and_not_begun() {
    let (mut home, mut region) = (home(), Group::default());
    // Home has not heard of the restore yet when it makes one.
    region.begin_life(&[None], life(1));
    let late = voucher(&home, 1);
    assert_eq!(accept(&mut region, &late), Err(Rejection::AllocationEnded));
    let told = region.ledger.lost_report(&account(), &late).unwrap();
    home.ask(Generation::HOME, Operation::Settle(told.clone())).result.unwrap();
    assert_eq!(status(&home, 1), AllocationStatus::Sealed);
    // It says so as often as it is told of it.
    let again = home.ask(Generation::HOME, Operation::Settle(told)).result;
    assert_eq!(again.unwrap_err(), Rejection::NothingNew);
}
