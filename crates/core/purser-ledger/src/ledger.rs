//! A group's ledger: its accounts, and the machine that consensus hosts.

mod departed;
mod life;
mod marks;
mod moving;
mod overview;
mod passing;
mod queues;
mod webhooks;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use minicbor::{Decode, Encode};
use purser_types::{
    ApplyError, CorruptSnapshot, CowMap, Generation, History, HistoryError, Life, LogTime, Machine,
    OperationId, Stamped,
};

use self::departed::Departed;
pub(crate) use self::marks::Mark;
use self::marks::Marks;
pub(crate) use self::moving::Arrival;
pub use self::overview::Overspend;
use self::overview::{Overview, Part};
use self::queues::Queues;
use crate::account::{
    Account, AccountNumber, Digested, Piece, Scribe, pieces_of_departed, pieces_of_gone,
    pieces_of_marks,
};
use crate::answer::{Answer, Outcome};
use crate::codec;
use crate::command::{AccountName, Command, Item, Operation};
use crate::digest::{Digest16, Digest32, digest16, digest32};
use crate::moving::Gone;
use crate::rejection::Rejection;
use crate::sinks::{Sinks, pieces_of_sinks};
use crate::standing::Standing;

/// The accounts of one group.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// The highest stamp seen: "now" never goes back.
    log_time: LogTime,
    accounts: CowMap<AccountNumber, Arc<Account>>,
    /// By name, for listing; a tenant's book of home, then those of allocations.
    names: CowMap<(AccountName, Generation), AccountNumber>,
    /// By the digest of both, for finding: a comparison of names would touch memory all over.
    numbers: CowMap<Digest16, AccountNumber>,
    /// When something is next due in which account. An account is at most once in here.
    agenda: CowMap<(LogTime, AccountNumber), ()>,
    /// Calls that this region has passed on to home.
    marks: Marks,
    /// What accounts remembered that are not here any more.
    departed: Departed,
    overview: Overview,
    queues: Queues,
    /// Accounts that are being taken over from other groups: a few at a time.
    arrivals: BTreeMap<AccountName, Arrival>,
    /// Accounts that are not here any more.
    gone: CowMap<(AccountName, AccountNumber), Gone>,
    /// The highest number of those: no number is given out twice.
    last_gone: AccountNumber,
    /// Who is told of the entries, and how far.
    sinks: Sinks,
    /// What the group has lived through without a gap; none before it was ever restored.
    life: Option<Life>,
}

/// The rules by which this release decides. Replicas of one group must decide alike, so a change of
/// rules gets a new number, and a group changes its number by a command, not by a new binary. What changes
/// before the first release is part of 1.
const RULES: u16 = 1;

/// A snapshot's first piece.
#[derive(Encode, Decode)]
struct Preamble {
    #[n(0)]
    log_time: LogTime,
    #[n(1)]
    accounts: u64,
    #[n(2)]
    rules: u16,
    #[n(3)]
    life: Option<Life>,
}

impl Ledger {
    /// An account whose home is here, by its name.
    pub fn account(&self, name: &AccountName) -> Option<&Arc<Account>> {
        self.book(name, Generation::HOME)
    }

    /// The book of one of this region's allocations, or home's, by the account's name.
    pub fn book(&self, name: &AccountName, generation: Generation) -> Option<&Arc<Account>> {
        self.accounts.get(self.numbers.get(&name_digest(name, generation))?)
    }

    /// The books of this region's allocations, by name and generation.
    pub fn allocations(&self) -> impl Iterator<Item = &Arc<Account>> {
        let away = self.names.iter().filter(|((_, generation), _)| *generation != Generation::HOME);
        away.filter_map(|(_, number)| self.accounts.get(number))
    }

    /// The account with a number.
    pub fn account_numbered(&self, number: AccountNumber) -> Option<&Arc<Account>> {
        self.accounts.get(&number)
    }

    /// All accounts whose home is here from `from` on, by name.
    pub fn accounts_from(&self, from: Bound<&AccountName>) -> impl Iterator<Item = &Arc<Account>> {
        let from = from.map(|name| (name.clone(), Generation::HOME));
        let books = self.names.range_from(from.as_ref());
        let home = books.filter(|((_, generation), _)| *generation == Generation::HOME);
        home.filter_map(|(_, number)| self.accounts.get(number))
    }

    /// How many accounts there are.
    pub fn accounts_count(&self) -> usize {
        self.accounts.len()
    }

    /// When something is next due in any account.
    pub fn next_due(&self) -> Option<LogTime> {
        self.agenda.first().map(|((at, _), ())| *at)
    }

    /// The group's agenda: when each account is next due.
    pub(crate) fn agenda(&self) -> impl Iterator<Item = (LogTime, AccountNumber)> {
        self.agenda.iter().map(|(due, ())| *due)
    }

    /// All accounts, by number.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.accounts.iter().map(|(_, account)| account)
    }

    /// A digest of the whole state: equal for equal states.
    pub fn digest(&self) -> Digest32 {
        digest32(self.snapshot())
    }

    /// Applies a command at `now`.
    pub fn apply_command(
        &mut self,
        command: &Command,
        now: LogTime,
        operation: OperationId,
        history: &mut dyn History,
    ) -> Result<Answer, ApplyError> {
        self.log_time = self.log_time.max(now);
        self.marks.forget(self.log_time);
        self.departed.forget(self.log_time);
        let mut scribe = Scribe { history, operation };
        match command {
            Command::Account { account, items, generation } => {
                let outcomes = self.apply_items(account, *generation, items, &mut scribe)?;
                Ok(Answer::Account(outcomes))
            }
            Command::Sweep { accounts_max } => {
                let accounts = self.sweep(*accounts_max, &mut scribe)?;
                Ok(Answer::Swept { accounts })
            }
            Command::PassOn { account, item, retention } => {
                Ok(Answer::PassedOn(self.pass_on(account, item, *retention)))
            }
            Command::BeginLife { known, life } => {
                Ok(Answer::Life(self.begin_life(known, *life, &mut scribe)?))
            }
            Command::Import(asked) => Ok(Answer::Move(self.import(asked, &mut scribe)?)),
            Command::TakeHome(asked) => Ok(Answer::Move(self.take_home(asked, &mut scribe)?)),
            Command::StepDown(asked) => Ok(Answer::Move(self.step_down(asked))),
            Command::LeaseJobs(asked) => Ok(Answer::Leased(self.lease_jobs(asked, &mut scribe)?)),
            Command::Sink(asked) => Ok(Answer::Sink(self.change_sink(asked, operation))),
        }
    }

    fn apply_items(
        &mut self,
        name: &AccountName,
        generation: Generation,
        items: &[Item],
        scribe: &mut Scribe<'_>,
    ) -> Result<Vec<Outcome>, HistoryError> {
        let number = match self.number_of(name, generation, items) {
            Ok(number) => number,
            Err(refusal) => return Ok(vec![Outcome::refused(refusal); items.len()]),
        };
        let bars = self.bars(name, generation, items);
        self.change(number, |account, now| account.apply(items, &bars, now, scribe))
    }

    /// The book's number; a new one if all that is asked is to open it.
    fn number_of(
        &mut self,
        name: &AccountName,
        generation: Generation,
        items: &[Item],
    ) -> Result<AccountNumber, Rejection> {
        let digest = name_digest(name, generation);
        if let Some(number) = self.numbers.get(&digest) {
            return Ok(*number);
        }
        if generation == Generation::HOME {
            self.refuse_elsewhere(name)?;
        }
        let number = self.next_number();
        let account = match items {
            [Item { operation: Operation::Open(open), .. }] if generation == Generation::HOME => {
                Account::new(number, name.clone(), Standing::unopened(open.home))
            }
            [Item { operation: Operation::Accept(voucher), .. }]
                if generation == voucher.owner.generation && generation != Generation::HOME =>
            {
                let account = Account::in_region(number, name.clone(), voucher.owner);
                if self.is_from_before(voucher) {
                    return Err(Rejection::AllocationEnded);
                }
                // A book is opened by a voucher that it takes up, or not at all.
                account.decide_accept(voucher, None, self.log_time)?;
                account
            }
            _ if generation == Generation::HOME => return Err(Rejection::TenantNotFound),
            _ => return Err(Rejection::AllocationUnknown),
        };
        self.add(number, account);
        Ok(number)
    }

    /// Refuses what is asked of an account that has its home elsewhere, as far as is known here.
    fn refuse_elsewhere(&self, name: &AccountName) -> Result<(), Rejection> {
        if self.arrivals.contains_key(name) {
            return Err(Rejection::DecidedElsewhere);
        }
        let away = self.away(name);
        away.map_or(Ok(()), |(home, epoch)| Err(Rejection::HomeMoved { home, epoch }))
    }

    fn add(&mut self, number: AccountNumber, account: Account) {
        let generation = account.owner().generation;
        self.numbers.insert(name_digest(account.name(), generation), number);
        self.names.insert((account.name().clone(), generation), number);
        self.accounts.insert(number, Arc::new(account));
    }

    fn sweep(&mut self, accounts_max: u32, scribe: &mut Scribe<'_>) -> Result<u32, HistoryError> {
        let mut swept = 0_u32;
        while swept < accounts_max
            && let Some(&(at, number)) = self.agenda.first().map(|(due, ())| due)
            && at <= self.log_time
        {
            self.change(number, |account, now| account.settle_due(now, scribe))?;
            swept = swept.saturating_add(1);
        }
        Ok(swept)
    }

    /// The one place where an account changes.
    fn change<T>(
        &mut self,
        number: AccountNumber,
        change: impl FnOnce(&mut Account, LogTime) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        let slot = self.accounts.get_mut(&number).expect("INV-11: the agenda names known accounts");
        let account = Arc::make_mut(slot);
        let before = Part::of(account);
        let result = change(account, self.log_time);
        let after = Part::of(account);
        self.replace(number, before, after);
        result
    }

    /// Keeps true what the group knows of its accounts.
    fn replace(&mut self, number: AccountNumber, before: Part, after: Part) {
        if before == after {
            return;
        }
        if before.next_due != after.next_due {
            if let Some(at) = before.next_due {
                self.agenda.remove(&(at, number));
            }
            if let Some(at) = after.next_due {
                self.agenda.insert((at, number), ());
            }
        }
        self.overview.replace(number, &before, &after);
        self.queues.replace(number, &before, &after);
    }
}

/// What a book is found by. The unit comes first and the generation has a fixed width, and no unit
/// has a NUL, so no two names share a digest.
fn name_digest(name: &AccountName, generation: Generation) -> Digest16 {
    let (unit, tenant) = (name.unit.as_str().as_bytes(), name.tenant.as_str().as_bytes());
    digest16(&[&generation.0.to_be_bytes(), unit, b"\0", tenant].concat())
}

impl Machine for Ledger {
    type Answer = Answer;

    fn apply(
        &mut self,
        stamped: Stamped<'_>,
        history: &mut dyn History,
    ) -> Result<Answer, ApplyError> {
        let command = codec::decode(stamped.command)
            .map_err(|error| ApplyError::UnreadableCommand(error.to_string()))?;
        let operation = OperationId { index: stamped.index, ordinal: stamped.ordinal };
        self.apply_command(&command, stamped.at, operation, history)
    }

    fn log_time(&self) -> LogTime {
        self.log_time
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        let accounts = u64::try_from(self.accounts.len()).unwrap_or(u64::MAX);
        let (log_time, life) = (self.log_time, self.life);
        let preamble = codec::encode(&Preamble { log_time, accounts, rules: RULES, life });
        let numbers: Vec<Arc<Account>> =
            self.accounts.iter().map(|(_, account)| Arc::clone(account)).collect();
        let arrivals: BTreeMap<AccountNumber, Arrival> =
            self.arrivals.values().map(|arrival| (arrival.number, *arrival)).collect();
        let pieces = numbers.into_iter().flat_map(move |account| {
            let arrival = arrivals.get(&account.number()).copied();
            account.pieces(arrival)
        });
        let marks = pieces_of_marks(self.marks.pairs());
        let departed = pieces_of_departed(self.departed.all());
        let gone = pieces_of_gone(self.gone.clone());
        let sinks = pieces_of_sinks(self.sinks.clone());
        let of_group = marks.chain(departed).chain(gone).chain(sinks);
        Box::new(codec::pack(std::iter::once(preamble).chain(of_group).chain(pieces)))
    }

    fn restore(chunks: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        let mut restoring = Restoring::default();
        for chunk in chunks {
            let mut decoder = minicbor::Decoder::new(&chunk);
            while decoder.position() < chunk.len() {
                restoring.take(&mut decoder)?;
            }
        }
        restoring.finish()
    }
}

/// A ledger that is being rebuilt from pieces.
#[derive(Default)]
struct Restoring {
    preamble: Option<Preamble>,
    ledger: Ledger,
    account: Option<Account>,
    arrival: Option<Arrival>,
}

impl Restoring {
    fn take(&mut self, decoder: &mut minicbor::Decoder<'_>) -> Result<(), CorruptSnapshot> {
        let unreadable = |error: minicbor::decode::Error| CorruptSnapshot(error.to_string());
        if self.preamble.is_none() {
            self.preamble = Some(decoder.decode().map_err(unreadable)?);
            return Ok(());
        }
        match (decoder.decode().map_err(unreadable)?, &mut self.account) {
            (Piece::Header(header), _) => {
                self.end_account();
                self.account = Some(Account::from_header(*header));
                Ok(())
            }
            (Piece::Gone(gone), _) => {
                for (name, number, gone) in gone {
                    self.ledger.last_gone = self.ledger.last_gone.max(number);
                    self.ledger.gone.insert((name, number), gone);
                }
                Ok(())
            }
            (Piece::Arrival(arrival), _) => {
                self.arrival = Some(arrival);
                Ok(())
            }
            (Piece::PassedOn(marks), _) => {
                let marks = marks.into_iter().map(Digested::into_pair);
                marks.for_each(|(call, kept)| self.ledger.marks.add(call, kept));
                Ok(())
            }
            (Piece::Sink(piece), _) => piece.restore(&mut self.ledger.sinks),
            (Piece::Departed(name, number, keys), _) => {
                self.ledger.departed.change((name, number), |ring| keys.restore(ring));
                Ok(())
            }
            (piece, Some(account)) => account.add_piece(piece),
            (_, None) => Err(CorruptSnapshot("a piece before the first account".into())),
        }
    }

    fn end_account(&mut self) {
        let Some(account) = self.account.take() else { return };
        let ledger = &mut self.ledger;
        if let Some(arrival) = self.arrival.take() {
            ledger.arrivals.insert(account.name().clone(), arrival);
            ledger.accounts.insert(account.number(), Arc::new(account));
            return;
        }
        ledger.replace(account.number(), Part::default(), Part::of(&account));
        ledger.add(account.number(), account);
    }

    fn finish(mut self) -> Result<Ledger, CorruptSnapshot> {
        self.end_account();
        let preamble = self.preamble.ok_or_else(|| CorruptSnapshot("it is empty".into()))?;
        if preamble.rules != RULES {
            let theirs = preamble.rules;
            return Err(CorruptSnapshot(format!("rules {theirs} are unknown to this release")));
        }
        self.ledger.log_time = preamble.log_time;
        self.ledger.life = preamble.life;
        if u64::try_from(self.ledger.accounts.len()) == Ok(preamble.accounts) {
            Ok(self.ledger)
        } else {
            Err(CorruptSnapshot(format!("it should hold {} accounts", preamble.accounts)))
        }
    }
}
