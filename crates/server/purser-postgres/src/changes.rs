//! What a page of entries changes in the tables: a fold, without the database.
//!
//! The rules of lots and holds are the ledger's (`Entry::lots`, `Entry::holds`, `fold_lots`). Here is what
//! concerns rows: which entries are new, that they continue what the tables have, and which state each row
//! has in the end.

use std::collections::BTreeMap;

use purser_ledger::{
    AccountName, Balance, Entry, Fact, HoldNumber, Lot, LotNumber, Policy, Standing, codec,
    fold_lots, genesis_hash, hash_of,
};
use purser_types::{Epoch, LogTime, Owner, Sequence};

use crate::before::{Before, Book, BookTerms, Head, owner_name};
use crate::projector::ProjectError;
use crate::rows::{ClosedRow, EntryRow, EventRow, HoldRow, KeyRow, OutboxRow};
use crate::source::Item;

/// An account's row of balances.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Balanced<'a> {
    pub(crate) balance: &'a Balance,
    pub(crate) head: Head,
    pub(crate) log_time: LogTime,
}

/// How an account stands, and since which entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stands<'a> {
    pub(crate) standing: &'a Standing,
    pub(crate) epoch: Epoch,
    pub(crate) sequence: Sequence,
}

/// What identifies a hold: its account, the allocation of a region's (0 for home's), its number.
type HoldId<'a> = (&'a AccountName, Sequence, HoldNumber);

/// What identifies a live key: its account, who decided, the key.
type KeyId<'a> = (&'a AccountName, String, &'a str);

/// What identifies an event: its account, its source, its id.
type EventId<'a> = (&'a AccountName, &'a str, &'a str);

/// See the module's documentation. Everything is in the order in which it is written.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    pub(crate) entries: Vec<EntryRow<'a>>,
    pub(crate) standings: BTreeMap<&'a AccountName, Stands<'a>>,
    pub(crate) balances: BTreeMap<&'a AccountName, Balanced<'a>>,
    /// Of every touched lot, the entry that touched it last.
    pub(crate) lots_touched: BTreeMap<(&'a AccountName, LotNumber), Sequence>,
    /// All lots that were read or made.
    pub(crate) lots: BTreeMap<AccountName, BTreeMap<LotNumber, Lot>>,
    pub(crate) holds: BTreeMap<HoldId<'a>, HoldRow<'a>>,
    pub(crate) closed: Vec<ClosedRow<'a>>,
    /// The books that remember for longer or shorter from now on.
    pub(crate) books: BTreeMap<Book, BookTerms>,
    pub(crate) keys: Vec<KeyRow<'a>>,
    pub(crate) events: Vec<EventRow<'a>>,
    pub(crate) outbox: Vec<OutboxRow<'a>>,
    /// The latest log time of the page.
    pub(crate) log_time: LogTime,
}

/// A fold under way.
struct Fold<'a> {
    before: Before,
    changes: Changes<'a>,
    keys: BTreeMap<KeyId<'a>, Vec<KeyRow<'a>>>,
    events: BTreeMap<EventId<'a>, Vec<EventRow<'a>>>,
}

impl<'a> Changes<'a> {
    /// Folds the entries of a page into what the tables said before.
    pub(crate) fn of(before: Before, items: &'a [Item]) -> Result<Self, ProjectError> {
        let (changes, keys) = (Self::default(), BTreeMap::new());
        let mut fold = Fold { before, changes, keys, events: BTreeMap::new() };
        for item in items {
            fold.take(item)?;
        }
        let Fold { before, mut changes, keys, events } = fold;
        changes.lots = before.lots;
        changes.keys = keys.into_values().flatten().collect();
        changes.events = events.into_values().flatten().collect();
        changes.entries.sort_by_key(|row| (row.account, row.entry.sequence));
        Ok(changes)
    }
}

impl<'a> Fold<'a> {
    fn take(&mut self, item: &'a Item) -> Result<(), ProjectError> {
        let (account, entry) = (&item.account, &item.entry.entry);
        let forked = || ProjectError::Forked { account: account.clone(), sequence: entry.sequence };
        self.changes.log_time = self.changes.log_time.max(entry.log_time);
        let head = self.before.heads.get(account).copied();
        let last = head.map_or(Sequence::ZERO, |head| head.sequence);
        if entry.sequence <= last {
            let known = self.before.known.get(&(account.clone(), entry.sequence)).copied();
            let known = known.or_else(|| self.hash_in_page(account, entry.sequence));
            return if known == Some(item.entry.hash) { Ok(()) } else { Err(forked()) };
        }
        if entry.sequence != last.next() {
            let (account, found) = (account.clone(), entry.sequence);
            return Err(ProjectError::Gap { account, expected: last.next(), found });
        }
        let before = head.map_or_else(|| genesis_hash(account), |head| head.hash);
        let bytes = codec::encode(entry);
        if entry.prev_hash != before || hash_of(&bytes) != item.entry.hash {
            return Err(forked());
        }
        let lots = self.before.lots.entry(account.clone()).or_default();
        fold_lots(lots, entry).map_err(|error| ProjectError::Unfounded {
            account: account.clone(),
            sequence: entry.sequence,
            error,
        })?;
        self.note(item, bytes);
        Ok(())
    }

    /// The hash of an entry that came earlier in the page.
    fn hash_in_page(
        &self,
        account: &AccountName,
        sequence: Sequence,
    ) -> Option<purser_ledger::Digest32> {
        let mut entries = self.changes.entries.iter();
        let found = entries.find(|row| row.account == account && row.entry.sequence == sequence)?;
        found.hash.try_into().ok()
    }

    /// Notes the rows of an entry that continues what the tables have.
    fn note(&mut self, item: &'a Item, bytes: Vec<u8>) {
        let (account, epoch, entry) = (&item.account, item.epoch, &item.entry.entry);
        let sequence = entry.sequence;
        let head = Head { sequence, hash: item.entry.hash };
        self.before.heads.insert(account.clone(), head);
        let balanced = Balanced { balance: &entry.balance, head, log_time: entry.log_time };
        self.changes.balances.insert(account, balanced);
        let hash = &item.entry.hash[..];
        self.changes.entries.push(EntryRow { account, epoch, entry, hash, bytes });
        let touched = entry.lots().into_iter().map(|lot| ((account, lot), sequence));
        self.changes.lots_touched.extend(touched);
        self.note_holds(account, entry);
        if let Some(standing) = entry.fact.standing() {
            self.changes.standings.insert(account, Stands { standing, epoch, sequence });
            let key_retention = standing.policy.key_retention;
            let event_age = Some(standing.event_age_min());
            self.remember_for(account, None, BookTerms { key_retention, event_age });
        }
        self.note_keys(account, entry);
        self.note_event(account, entry);
        self.changes.outbox.push(OutboxRow {
            account,
            epoch,
            sequence,
            position: item.cursor,
            kind: entry.fact.kind(),
            log_time: entry.log_time,
        });
    }

    fn note_holds(&mut self, account: &'a AccountName, entry: &Entry) {
        let sequence = entry.sequence;
        for mut after in entry.holds() {
            let id = (account, after.hold.allocation, after.hold.number);
            let known = self.changes.holds.get(&id).and_then(|row| row.after.owner);
            after.owner = after.owner.or(known);
            self.changes.holds.insert(id, HoldRow { account, after, sequence });
        }
        if let Some(opened_by) = entry.closes() {
            let log_time = entry.log_time;
            self.changes.closed.push(ClosedRow { account, opened_by, log_time, sequence });
        }
    }

    /// Notes the decisions that an entry tells of: its own, or those of the region's entries in it.
    fn note_keys(&mut self, account: &'a AccountName, entry: &'a Entry) {
        self.note_key((account, None), entry, entry.sequence);
        let Fact::Settled(settlement) = &entry.fact else { return };
        let owner = settlement.allocation.owner;
        for shipped in &settlement.shipped {
            if let Fact::VoucherAccepted(voucher) = &shipped.entry.fact {
                let key_retention = voucher.key_retention;
                let terms = BookTerms { key_retention, event_age: None };
                self.remember_for(account, Some(owner), terms);
            }
            self.note_key((account, Some(owner)), &shipped.entry, entry.sequence);
        }
    }

    fn note_key(
        &mut self,
        (account, owner): (&'a AccountName, Option<Owner>),
        decided: &'a Entry,
        sequence: Sequence,
    ) {
        // What one operation writes besides the entry that answers it has no fingerprint.
        let (Some(key), Some(_)) = (&decided.key, decided.fingerprint) else { return };
        let owner = owner_name(owner);
        let retention = self.terms(account, &owner).key_retention;
        let (decided_at, ends_at) = (decided.log_time, decided.log_time.saturating_add(retention));
        let row = KeyRow { account, owner: owner.clone(), key, sequence, decided_at, ends_at };
        let rows = self.keys.entry((account, owner, key.as_str())).or_default();
        // A second one that is not forgotten yet goes to the table, which refuses it.
        if rows.last().is_some_and(|last| last.ends_at <= decided_at) {
            rows.pop();
        }
        rows.push(row);
    }

    /// Notes an event that has done what it does. One that was parked has done nothing.
    fn note_event(&mut self, account: &'a AccountName, entry: &'a Entry) {
        let Fact::EventApplied(change) = &entry.fact else { return };
        let (event, taken_at) = (&change.event, entry.log_time);
        let age = self.terms(account, &owner_name(None)).event_age;
        let age = age.unwrap_or_else(|| Policy::default().events_accepted_for());
        let row = EventRow {
            account,
            name: &event.name,
            sequence: entry.sequence,
            taken_at,
            // Never later than the ledger forgets it, which goes by its time or by when it was taken.
            ends_at: event.time.map_or(taken_at, |time| time.min(taken_at)).saturating_add(age),
            was_parked: change.parked.is_some(),
        };
        let id = (account, event.name.source(), event.name.id());
        let rows = self.events.entry(id).or_default();
        match rows.last_mut() {
            // As the table does: see `write_events`.
            Some(last) if last.ends_at <= taken_at => *last = row,
            Some(last) if row.was_parked => {
                last.sequence = row.sequence;
                last.ends_at = last.ends_at.max(row.ends_at);
            }
            Some(_) | None => rows.push(row),
        }
    }

    fn terms(&self, account: &AccountName, owner: &str) -> BookTerms {
        let known = self.before.terms.get(&(account.clone(), owner.to_owned())).copied();
        known.unwrap_or_else(|| {
            let Policy { key_retention, event_age, .. } = Policy::default();
            BookTerms { key_retention, event_age }
        })
    }

    fn remember_for(&mut self, account: &AccountName, owner: Option<Owner>, terms: BookTerms) {
        let book = (account.clone(), owner_name(owner));
        self.before.terms.insert(book.clone(), terms);
        self.changes.books.insert(book, terms);
    }
}
