//! Accounts that come and go: what is taken over, what has left, and the steps between.
//!
//! An account that is being taken over has a number and a chain of entries here like any other, and
//! is found by nobody: it is not among the names, nothing of it becomes due, and no item reaches it.

use std::ops::Bound;
use std::sync::Arc;

use minicbor::{Decode, Encode};
use purser_types::{
    Epoch, Generation, History, HistoryError, HistoryReader, LogTime, Region, Sequence, TenantId,
    Unit,
};

use super::overview::Part;
use super::{Ledger, name_digest};
use crate::account::{Account, AccountNumber, Answering, Scribe};
use crate::chain::{Link, Record, page_after};
use crate::codec;
use crate::command::AccountName;
use crate::digest::hash_of;
use crate::entry::{Entry, Fact};
use crate::home::Residence;
use crate::moving::{
    Gone, Import, ImportPart, ImportProgress, KeyMemory, MoveRefusal, MoveStep, StepDown, TailPage,
    TakeHome, Way,
};
use crate::protocol::Booked;

/// What is known of an account that is being taken over, beside the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Arrival {
    #[n(0)]
    pub(crate) number: AccountNumber,
    /// The stamp of the last entry, by its group's clock.
    #[n(1)]
    pub(crate) log_time: LogTime,
    /// How many entries the source had when its memory was complete here.
    #[n(2)]
    pub(crate) memory_at: Option<Sequence>,
    /// The decision that the last entry told of, while more of its operation may follow.
    #[n(3)]
    pub(crate) answering: Option<Answering>,
}

/// No unit sorts before this one: it is the least character that a unit may have.
const FIRST_UNIT: &str = "-";

/// A part that was refused, or a history that failed.
type Refusable<T> = Result<Result<T, MoveRefusal>, HistoryError>;

impl Ledger {
    /// How far an account has been taken over, if it is being taken over.
    pub fn arrival(&self, name: &AccountName) -> Option<ImportProgress> {
        let arrival = self.arrivals.get(name)?;
        Some(self.progress(arrival))
    }

    /// An account that is being taken over, as far as it is here.
    pub fn arriving_account(&self, name: &AccountName) -> Option<&Arc<Account>> {
        self.accounts.get(&self.arrivals.get(name)?.number)
    }

    /// The accounts of a tenant whose home is here, by name.
    pub fn accounts_of<'a>(
        &'a self,
        tenant: &'a TenantId,
    ) -> impl Iterator<Item = &'a Arc<Account>> {
        let unit = Unit::parse(FIRST_UNIT).expect("it is one that a unit may have");
        let from = (AccountName { tenant: tenant.clone(), unit }, Generation::HOME);
        let books = self.names.range_from(Bound::Included(&from));
        let own: Vec<_> = books.take_while(|((name, _), _)| name.tenant == *tenant).collect();
        let home = own.into_iter().filter(|((_, generation), _)| *generation == Generation::HOME);
        home.filter_map(|(_, number)| self.accounts.get(number))
    }

    /// The accounts of a tenant that are being taken over, how far that is, and their last epochs.
    pub fn arrivals_of(
        &self,
        tenant: &TenantId,
    ) -> impl Iterator<Item = (&AccountName, ImportProgress, Epoch)> {
        // Few are on their way at a time.
        let own = self.arrivals.iter().filter(move |(name, _)| name.tenant == *tenant);
        own.map(|(name, arrival)| {
            let epoch = self.accounts.get(&arrival.number).map(|account| account.epoch());
            (name, self.progress(arrival), epoch.unwrap_or_default())
        })
    }

    /// The home of an account that was here, as far as is known.
    pub fn away(&self, name: &AccountName) -> Option<(Region, Epoch)> {
        let gone = self.gone_of(name).filter_map(|gone| gone.now);
        gone.max_by_key(|(_, epoch)| *epoch)
    }

    /// Whether an account of a tenant has left for a home that began with `epoch`, or later.
    pub fn has_left_for(&self, tenant: &TenantId, epoch: Epoch) -> bool {
        let unit = Unit::parse(FIRST_UNIT).expect("it is one that a unit may have");
        let first = (AccountName { tenant: tenant.clone(), unit }, AccountNumber::default());
        let from = self.gone.range_from(Bound::Included(&first));
        let mut own = from.take_while(|((name, _), _)| name.tenant == *tenant);
        own.any(|(_, gone)| gone.now.is_some_and(|(_, since)| since >= epoch))
    }

    /// What was decided here after an entry that the new home of a lost home's account has: its tail.
    /// `marks` are such entries; the first that was here counts. Nothing if none was, or if the account has
    /// not stepped down yet, since it could decide more.
    pub fn tail_after(
        &self,
        name: &AccountName,
        epoch: Epoch,
        marks: &[Booked],
        history: &dyn HistoryReader,
    ) -> Result<Option<TailPage>, HistoryError> {
        // Whoever is asked may have been home before as well, and may be home again.
        if self.account(name).is_some_and(|live| live.epoch() <= epoch) {
            return Ok(None);
        }
        let ended =
            self.gone_of(name).filter(|gone| gone.ended.is_some_and(|ended| ended <= epoch));
        let Some(gone) = ended.max_by_key(|gone| gone.ended) else { return Ok(None) };
        let (sequence, Some(position)) = (gone.head.sequence, gone.head.position) else {
            return Ok(None);
        };
        for mark in marks {
            let entries = page_after(Link { sequence, position }, mark.sequence, history)?;
            let first = entries.first().and_then(|bytes| codec::decode::<Entry>(bytes).ok());
            let before = match first {
                Some(first) => Some(first.prev_hash),
                None => (sequence == mark.sequence).then_some(gone.head.hash),
            };
            if before.is_some() && before == mark.hash {
                let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
                let is_last = mark.sequence.0.saturating_add(count) >= sequence.0;
                return Ok(Some(TailPage { epoch, entries, is_last }));
            }
        }
        Ok(None)
    }

    /// Where the home of an account is, as far as is known here.
    pub fn residence(&self, name: &AccountName) -> Residence {
        let live = self.account(name).filter(|live| live.stopped().is_none());
        match live {
            Some(live) => Residence::Here(live.home_since()),
            None if self.account(name).is_some() || self.arrivals.contains_key(name) => {
                Residence::Elsewhere
            }
            None if self.gone_of(name).next().is_some() => Residence::Elsewhere,
            None => Residence::Unknown,
        }
    }

    fn gone_of<'a>(&'a self, name: &'a AccountName) -> impl Iterator<Item = &'a Gone> {
        let first = (name.clone(), AccountNumber::default());
        let from = self.gone.range_from(Bound::Included(&first));
        let own: Vec<&Gone> =
            from.take_while(|((other, _), _)| other == name).map(|(_, gone)| gone).collect();
        own.into_iter()
    }

    /// The accounts that are being taken over.
    pub(crate) fn arriving(&self) -> impl Iterator<Item = AccountNumber> {
        self.arrivals.values().map(|arrival| arrival.number)
    }

    /// The accounts that are not here any more, by the number that they had.
    pub(crate) fn gone(&self) -> impl Iterator<Item = (AccountNumber, &Gone)> {
        self.gone.iter().map(|((_, number), gone)| (*number, gone))
    }

    pub(super) fn next_number(&self) -> AccountNumber {
        let last = self.accounts.iter().next_back().map(|(number, _)| *number);
        AccountNumber(last.unwrap_or_default().max(self.last_gone).0.saturating_add(1))
    }

    fn progress(&self, arrival: &Arrival) -> ImportProgress {
        let account = self.accounts.get(&arrival.number);
        let account = account.expect("INV-11: what is being taken over has its account");
        let head = account.head();
        ImportProgress {
            head: Booked { sequence: head.sequence, hash: Some(head.hash) },
            memory_at: arrival.memory_at,
            stopped: account.stopped(),
        }
    }

    /// Takes over a part of an account. Refuses: the account's home is here; not its first entry; a
    /// hole; another entry than the one that is here; one that does not follow.
    pub(super) fn import(
        &mut self,
        asked: &Import,
        scribe: &mut Scribe<'_>,
    ) -> Refusable<MoveStep> {
        let name = &asked.account;
        if let Some(home) = self.account(name) {
            return Ok(Err(MoveRefusal::AtHome { epoch: home.epoch() }));
        }
        match &asked.part {
            ImportPart::Entries(entries) => {
                for bytes in entries {
                    if let Err(refusal) = self.import_entry(name, bytes, scribe.history)? {
                        return Ok(Err(refusal));
                    }
                }
            }
            ImportPart::Memory { pairs, complete_at } => {
                let taken = self.import_memory(name, pairs, scribe.history)?;
                if let Err(refusal) = taken {
                    return Ok(Err(refusal));
                }
                if let Some(arrival) = self.arrivals.get_mut(name) {
                    arrival.memory_at = arrival.memory_at.max(*complete_at);
                }
            }
            ImportPart::Abandon => {
                if let Some(arrival) = self.arrivals.remove(name) {
                    self.leave(arrival.number, None, None);
                }
                return Ok(Ok(MoveStep::Abandoned));
            }
        }
        let arrival = self.arrivals.get(name);
        Ok(arrival
            .map(|arrival| MoveStep::Imported(self.progress(arrival)))
            .ok_or(MoveRefusal::NotHere))
    }

    fn import_entry(
        &mut self,
        name: &AccountName,
        bytes: &[u8],
        history: &mut dyn History,
    ) -> Refusable<()> {
        let head = self.arrivals.get(name).map(|arrival| self.progress(arrival).head);
        let last = head.map(|head| head.sequence).unwrap_or_default();
        let sequence = last.next();
        let unreadable = |_| MoveRefusal::Forked { sequence };
        let entry: Entry = match codec::decode(bytes).map_err(unreadable) {
            Ok(entry) => entry,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if entry.sequence <= last {
            let is_other =
                entry.sequence == last && head.is_none_or(|head| head.hash != Some(hash_of(bytes)));
            let forked = MoveRefusal::Forked { sequence: entry.sequence };
            return Ok(if is_other { Err(forked) } else { Ok(()) });
        }
        if entry.sequence != sequence {
            let gap = MoveRefusal::Gap { head: last };
            return Ok(Err(if head.is_some() { gap } else { MoveRefusal::NotHere }));
        }
        let Some(arrival) = self.arrivals.get_mut(name) else {
            return Ok(self.begin_import(name, bytes, &entry, history));
        };
        let account = self.accounts.get_mut(&arrival.number);
        let account = account.expect("INV-11: what is being taken over has its account");
        Ok(continue_import((Arc::make_mut(account), arrival), bytes, &entry, history))
    }

    /// Takes over an account's first entry.
    fn begin_import(
        &mut self,
        name: &AccountName,
        bytes: &[u8],
        entry: &Entry,
        history: &mut dyn History,
    ) -> Result<(), MoveRefusal> {
        let Fact::Opened { account, standing, .. } = &entry.fact else {
            return Err(MoveRefusal::NotHere);
        };
        if account != name {
            return Err(MoveRefusal::Forked { sequence: entry.sequence });
        }
        let number = self.next_number();
        let mut arrival =
            Arrival { number, log_time: LogTime::ZERO, memory_at: None, answering: None };
        let mut account = Account::new(number, name.clone(), standing.clone());
        continue_import((&mut account, &mut arrival), bytes, entry, history)?;
        self.arrivals.insert(name.clone(), arrival);
        self.accounts.insert(number, account.into());
        Ok(())
    }

    fn import_memory(
        &mut self,
        name: &AccountName,
        pairs: &[KeyMemory],
        history: &dyn HistoryReader,
    ) -> Refusable<()> {
        let Some(arrival) = self.arrivals.get(name) else { return Ok(Err(MoveRefusal::NotHere)) };
        let account = self.accounts.get_mut(&arrival.number);
        let account = account.expect("INV-11: what is being taken over has its account");
        let account = Arc::make_mut(account);
        for memory in pairs {
            if !account.remember_entryless(memory, history)? {
                return Ok(Err(MoveRefusal::Gap { head: account.head().sequence }));
            }
        }
        Ok(Ok(()))
    }

    /// Makes this group the home of an account that it has taken over: one entry, and it decides.
    /// Refuses: nothing taken over; a later epoch is known; its home has not stopped for this move; it
    /// does not end where its source does; its memory is missing.
    pub(super) fn take_home(
        &mut self,
        asked: &TakeHome,
        scribe: &mut Scribe<'_>,
    ) -> Refusable<MoveStep> {
        let TakeHome { account: name, home, epoch, way, head: end } = asked;
        if let Some(live) = self.account(name) {
            let is_done = live.epoch() == *epoch && live.standing().home == *home;
            let fenced = MoveRefusal::AtHome { epoch: live.epoch() };
            return Ok(if is_done { Ok(MoveStep::AtHome { epoch: *epoch }) } else { Err(fenced) });
        }
        // A home that was lost may be chosen again before it has heard that it was lost.
        let is_later = |(at, known): &(Region, Epoch)| (known, at != home) > (epoch, false);
        if let Some((_, known)) = self.away(name).filter(is_later) {
            return Ok(Err(MoveRefusal::Fenced { epoch: known }));
        }
        let Some(arrival) = self.arrivals.get(name).copied() else {
            return Ok(Err(MoveRefusal::NotHere));
        };
        let ImportProgress { head, memory_at, stopped } = self.progress(&arrival);
        let account = self.accounts.get(&arrival.number);
        let now = account.map(|account| account.epoch()).unwrap_or_default();
        if *epoch <= now {
            return Ok(Err(MoveRefusal::Fenced { epoch: now }));
        }
        // Not only the epoch after: a further move may have been begun and given up before this home opened.
        let stops_for_this = stopped.is_some_and(|stop| stop.to == *home && stop.epoch < *epoch);
        if *way == Way::Moved && !stops_for_this {
            return Ok(Err(MoveRefusal::NotStopped));
        }
        if head != *end {
            return Ok(Err(MoveRefusal::NotTheEnd { head: head.sequence }));
        }
        if memory_at != Some(head.sequence) {
            return Ok(Err(MoveRefusal::MemoryMissing));
        }
        self.arrivals.remove(name);
        self.numbers.insert(name_digest(name, Generation::HOME), arrival.number);
        self.names.insert((name.clone(), Generation::HOME), arrival.number);
        let part = self.accounts.get(&arrival.number).map(|account| Part::of(account));
        self.replace(arrival.number, Part::default(), part.unwrap_or_default());
        // The account's time does not go back, so this group's may have to go on a little.
        self.log_time = self.log_time.max(arrival.log_time);
        self.change(arrival.number, |account, now| account.take_home(asked, now, scribe))?;
        Ok(Ok(MoveStep::AtHome { epoch: *epoch }))
    }

    /// Ends an account here whose home is elsewhere. Nothing is written: an entry would be one that the
    /// new home does not have. What was decided here under a key no book of this region decides anew.
    /// Refuses: a later epoch is known here.
    pub(super) fn step_down(&mut self, asked: &StepDown) -> Result<MoveStep, MoveRefusal> {
        let StepDown { account: name, home, epoch } = asked;
        let away = MoveStep::Away { home: *home, epoch: *epoch };
        let Some(live) = self.account(name) else {
            return self.follow(name, *home, *epoch).map(|()| away);
        };
        let (number, ended) = (live.number(), live.epoch());
        if *epoch <= ended {
            return Err(MoveRefusal::AtHome { epoch: ended });
        }
        let keys = live.keys.clone();
        self.departed.change((name.clone(), number), |kept| *kept = keys);
        self.numbers.remove(&name_digest(name, Generation::HOME));
        self.names.remove(&(name.clone(), Generation::HOME));
        self.leave(number, Some(ended), Some((*home, *epoch)));
        Ok(away)
    }

    /// Notes that an account that was here has moved on.
    fn follow(
        &mut self,
        name: &AccountName,
        home: Region,
        epoch: Epoch,
    ) -> Result<(), MoveRefusal> {
        let (_, known) = self.away(name).ok_or(MoveRefusal::NotHere)?;
        if epoch < known {
            return Err(MoveRefusal::Fenced { epoch: known });
        }
        let first = (name.clone(), AccountNumber::default());
        let from = self.gone.range_from(Bound::Included(&first));
        let own = from.take_while(|((other, _), _)| other == name);
        let last = own.filter(|(_, gone)| gone.now.is_some_and(|(_, at)| at == known));
        let place = last.map(|(place, _)| place.clone()).next();
        if let Some(gone) = place.and_then(|place| self.gone.get_mut(&place)) {
            gone.now = Some((home, epoch));
        }
        Ok(())
    }

    /// Lets an account go: its state is dropped, its entries stay.
    fn leave(&mut self, number: AccountNumber, ended: Option<Epoch>, now: Option<(Region, Epoch)>) {
        let Some(account) = self.accounts.remove(&number) else { return };
        let is_live = now.is_some();
        if is_live {
            self.replace(number, Part::of(&account), Part::default());
        }
        let gone = Gone { head: account.head(), ended, now };
        self.last_gone = self.last_gone.max(number);
        self.gone.insert((account.name().clone(), number), gone);
    }
}

/// Checks the next entry of an account that is being taken over, keeps it and applies it.
fn continue_import(
    (account, arrival): (&mut Account, &mut Arrival),
    bytes: &[u8],
    entry: &Entry,
    history: &mut dyn History,
) -> Result<(), MoveRefusal> {
    let (number, sequence, head) = (arrival.number, entry.sequence, account.head());
    if entry.prev_hash != head.hash {
        return Err(MoveRefusal::Forked { sequence });
    }
    let goes_back = (entry.log_time < arrival.log_time).then_some("log time goes back");
    if let Some(detail) = goes_back.or_else(|| account.unsound(entry)) {
        return Err(MoveRefusal::Unsound { sequence, detail: detail.to_owned() });
    }
    let record = Record { account: number, previous: head.position, entry: bytes.into() };
    let position = history.append(&codec::encode(&record));
    account.evolve(entry, hash_of(bytes), position);
    account.remember_as_told(entry, position, &mut arrival.answering);
    account.forget(entry.log_time);
    arrival.log_time = entry.log_time;
    Ok(())
}
