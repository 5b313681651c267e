//! A region's group that is restored from a backup (R9).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Allocate, Allocation, AllocationStatus, Answer, BookPhase, Charge, Command, Context, Grant,
    Item, Ledger, Open, Operation, Outcome, Policy, Rejection, Report, SinkAct, SinkCommand,
    SinkTerms, Voucher,
};
use purser_types::{
    Credits, Generation, Life, LogTime, Machine, OperationId, Owner, Position, Region, Sequence,
    SinkName, Span,
};

use self::support::{account, credits, paid};

/// A group that plays one part.
#[derive(Default, Clone)]
struct Group {
    ledger: Ledger,
    history: MemoryHistory,
    now: LogTime,
}

impl Group {
    fn apply(&mut self, command: &Command) -> Answer {
        let id = OperationId::default();
        self.ledger.apply_command(command, self.now, id, &mut self.history).unwrap()
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

    fn report(&self, generation: u64) -> Report {
        let book = self.ledger.book(&account(), Generation(generation)).unwrap();
        book.report(Sequence::ZERO, &self.history).unwrap().unwrap()
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

/// When the credits of [`home`] lapse.
const EXPIRY: LogTime = LogTime::ZERO.saturating_add(Span::from_secs(100));

/// Home with 100 credits, of which `eu` gets 40.
fn home() -> Group {
    let mut home = Group::default();
    let open = Open { home: Region::parse("us").unwrap(), policy: Policy::default(), epoch: None };
    let grant = Grant { expires_at: Some(EXPIRY), ..paid(100) };
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
    let charge =
        Charge { amount: credits(40), allow_debt: false, reference: None, budgets: Box::default() };
    region.ask(Generation(generation), Operation::Charge(charge)).result.map(|_| ())
}

fn allocation(home: &Group, generation: u64) -> &Allocation {
    let mut allocations = home.ledger.account(&account()).unwrap().allocations();
    allocations.find(|found| found.owner == eu(generation)).unwrap()
}

fn status(home: &Group, generation: u64) -> AllocationStatus {
    allocation(home, generation).status
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
fn a_restored_region_gives_nothing_back_that_it_may_have_spent_before() {
    let (home, mut region) = (home(), Group::default());
    accept(&mut region, &voucher(&home, 1)).unwrap();
    let backup = region.clone();
    charge(&mut region, 1).unwrap();

    // The credits lapse after the book was sealed, or before that and nobody has written it down.
    for restored_at in [LogTime::ZERO, EXPIRY] {
        let mut restored = backup.clone();
        restored.now = restored_at;
        restored.begin_life(&[None], life(1));
        restored.now = EXPIRY;
        assert_eq!(
            restored.apply(&Command::Sweep { accounts_max: 1 }),
            Answer::Swept { accounts: 0 }
        );
        assert_eq!(charge(&mut restored, 1), Err(Rejection::AllocationEnded));

        // By home's clock they have not lapsed: it would spend again what comes back.
        let mut home = home.clone();
        home.ask(Generation::HOME, Operation::Settle(restored.report(1))).result.unwrap();
        let Allocation { status, returned, .. } = allocation(&home, 1);
        assert_eq!((*status, *returned), (AllocationStatus::Sealed, Credits::ZERO));
        assert_eq!(allocation(&home, 1).outstanding(), credits(40));
    }
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

#[test]
fn a_restored_regions_webhooks_wait_until_an_operator_has_told_their_receivers() {
    let mut region = Group::default();
    let sink = |name: &str| SinkName::parse(name).unwrap();
    let say = |region: &mut Group, name: &str, act| {
        let command = SinkCommand { sink: sink(name), act, actor: None, reason: None };
        let Answer::Sink(done) = region.apply(&Command::Sink(Box::new(command))) else {
            unreachable!("a webhook's")
        };
        assert!(done.unwrap().is_changed);
    };
    for name in ["billing", "waiting"] {
        let terms = SinkTerms {
            url: "https://a.example/".into(),
            tenants: [].into(),
            kinds: [].into(),
            attempts_max: 22,
        };
        let act = SinkAct::Create { terms, secret: "one".into(), from: Position::default() };
        say(&mut region, name, act);
    }
    say(&mut region, "waiting", SinkAct::Disable { why: "maintenance".into() });
    let why = |region: &Group, name: &str| {
        let found = region.ledger.sink(&sink(name)).unwrap();
        found.disabled.as_ref().map(|disabled| disabled.why.to_string())
    };
    region.begin_life(&[None], life(1));
    let told = why(&region, "billing").unwrap();
    assert!(told.contains("the region was restored from a backup"), "{told}");
    let told = why(&region, "waiting").unwrap();
    assert!(told.contains("restored") && told.ends_with("before that: maintenance"), "{told}");
    // Another node that finds out the same is late, and enables or disables nothing.
    say(&mut region, "billing", SinkAct::Enable);
    region.begin_life(&[None], life(2));
    assert_eq!(why(&region, "billing"), None);
    // However often it is restored, that is said once, with why it waited before.
    for (before, next) in [(1, 2), (2, 3)] {
        region.begin_life(&[Some(life(before))], life(next));
        assert_eq!(why(&region, "waiting").unwrap(), told);
        assert!(told.starts_with(&why(&region, "billing").unwrap()));
    }
}
