//! Proving a history: every account's entries folded again in the plainest way, and then by the rules.
//!
//! Shares the entries' types with the ledger and none of its arithmetic: it adds up moves in signed
//! 128-bit numbers, bucket by bucket and lot by lot, and believes nothing that it has not added up
//! itself. What it proves of each account:
//!
//! - INV-10: sequences without holes, each entry naming the hash and place of the one before it,
//!   log time never going back;
//! - INV-1, INV-2: no bucket and no lot is ever negative, moves explain every balance, sources equal
//!   buckets;
//! - INV-3: a hold that has ended does not become active again;
//! - INV-19: a job is given to one worker at a time, and takes what it costs once or not at all;
//! - INV-20: an event does something once, and what is parked is what was parked and not resolved;
//! - INV-21: what is begun under a budget fits into it, and its figures are the sums over what was;
//! - what an entry shows beside its moves is what they and the entries before it make: a hold's lots
//!   and what is set aside of them, a voided lot, how the account stands.
//!
//! [`Audit::compare`] then holds the outcome against a live ledger, and the live ledger against the
//! state that its own `evolve` makes of the entries alone.

mod budgets;
mod events;
mod hold;
mod homes;
mod jobs;
mod rebuild;

use std::collections::BTreeMap;
use std::ops::Bound;

use purser_types::{LogTime, Machine, Owner, Position, Sequence};

use self::budgets::AuditedBudgets;
use self::events::AuditedEvents;
use self::hold::{AuditedHold, moved_to_held};
use self::homes::AuditedHomes;
use self::jobs::AuditedJobs;
use self::rebuild::Rebuild;
use crate::account::{Account, AccountNumber, Head};
use crate::balance::Balance;
use crate::chain::Record;
use crate::codec;
use crate::digest::{Digest32, hash_of};
use crate::entry::{Bucket, Entry, Fact, Move, allocation_genesis, genesis_hash};
use crate::hold::{Hold, HoldState};
use crate::home::{EpochBegan, Settlement};
use crate::ledger::Ledger;
use crate::lot::{Lot, LotPhase};
use crate::standing::{AccountStatus, Standing};

/// Something that a history does not explain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("account {}, entry {sequence} at position {}: {detail}", account.0, position.0)]
pub struct Finding {
    /// The account's number in its group.
    pub account: AccountNumber,
    /// The entry's sequence; 0 if it is about the account as a whole.
    pub sequence: u64,
    /// Where its record stands.
    pub position: Position,
    /// What is wrong.
    pub detail: String,
}

/// A fold of the records of one group's history.
#[derive(Debug, Default)]
pub struct Audit {
    accounts: BTreeMap<AccountNumber, Audited>,
    rebuild: Rebuild,
    entries: u64,
}

/// What the entries of one account add up to.
#[derive(Debug)]
struct Audited {
    /// Whether nothing was found so far.
    is_sound: bool,
    /// Whether it is the book of a region's allocation.
    is_in_region: bool,
    sequence: u64,
    hash: Option<Digest32>,
    /// The hash of each entry before the last, by its sequence, after that of the beginning: a lost
    /// home's log may have parted anywhere.
    chain: Vec<Digest32>,
    position: Option<Position>,
    log_time: LogTime,
    buckets: BTreeMap<Bucket, i128>,
    lots: BTreeMap<u64, AuditedLot>,
    /// Every hold and charge.
    holds: BTreeMap<u64, AuditedHold>,
    /// How the account stands, once it is opened.
    standing: Option<Standing>,
    /// The last entry of each region's book that was booked here, and its hash.
    regions: BTreeMap<Owner, (u64, Digest32)>,
    homes: AuditedHomes,
    jobs: AuditedJobs,
    events: AuditedEvents,
    budgets: AuditedBudgets,
}

/// What the entries say of one lot.
#[derive(Debug, Default)]
struct AuditedLot {
    amount: i128,
    /// In a region: whether it is for one operation alone.
    is_cover: bool,
    parts: BTreeMap<Bucket, i128>,
}

impl Audit {
    /// How many entries were folded.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// How many accounts they belong to.
    pub fn accounts(&self) -> usize {
        self.accounts.len()
    }

    /// Folds the next record of the history.
    pub fn fold(&mut self, position: Position, record: &[u8]) -> Result<(), Finding> {
        let unreadable = |detail: String| Finding {
            account: AccountNumber::default(),
            sequence: 0,
            position,
            detail,
        };
        let record: Record = codec::decode(record)
            .map_err(|error| unreadable(format!("not a ledger record: {error}")))?;
        let entry: Entry = codec::decode(&record.entry)
            .map_err(|error| unreadable(format!("not a ledger entry: {error}")))?;
        self.entries = self.entries.saturating_add(1);
        let number = record.account;
        let account = self.accounts.entry(number).or_default();
        if let Err(detail) = account.fold(position, &record, &entry) {
            account.is_sound = false;
            self.rebuild.drop_account(number);
            return Err(Finding { account: number, sequence: entry.sequence.0, position, detail });
        }
        if account.is_sound {
            self.rebuild.fold(number, &entry, &record.entry, position);
        }
        Ok(())
    }

    /// By how many credits the buckets of the live accounts differ from what the entries add up to, all
    /// together.
    pub fn drift(&self, ledger: &Ledger) -> u128 {
        let live = self.accounts.iter().filter_map(|(number, audited)| {
            Some((audited, ledger.account_numbered(*number)?.balance()))
        });
        live.fold(0, |drift, (audited, balance)| drift.saturating_add(audited.drift(balance)))
    }

    /// Compares what the entries add up to with a live ledger: buckets, lots, holds, chain.
    pub fn compare(&self, ledger: &Ledger) -> Vec<Finding> {
        let mut findings = Vec::new();
        let gone: BTreeMap<AccountNumber, Head> =
            ledger.gone().map(|(number, gone)| (number, gone.head)).collect();
        let (entries, live) = (self.accounts.len(), ledger.accounts_count());
        if entries != live.saturating_add(gone.len()) {
            let detail = format!("{entries} accounts have entries, {live} are live");
            findings.push(whole(AccountNumber::default(), Position::default(), detail));
        }
        for (number, audited) in &self.accounts {
            let position = audited.position.unwrap_or_default();
            let differences = match (ledger.account_numbered(*number), gone.get(number)) {
                (Some(account), _) => {
                    let mut differences = audited.differences(account);
                    let parts = self.rebuild.differences(account, ledger.log_time()).into_iter();
                    differences.extend(parts.map(|part| format!("{part}: not what entries make")));
                    differences
                }
                // It has left: where it ended is all that is known of it here.
                (None, Some(head)) => audited.head_differences(*head),
                (None, None) => vec!["the live ledger does not know it".to_owned()],
            };
            findings.extend(differences.into_iter().map(|detail| whole(*number, position, detail)));
        }
        findings
    }
}

fn whole(account: AccountNumber, position: Position, detail: String) -> Finding {
    Finding { account, sequence: 0, position, detail }
}

impl Default for Audited {
    fn default() -> Self {
        Self {
            is_sound: true,
            is_in_region: false,
            sequence: 0,
            hash: None,
            chain: Vec::new(),
            position: None,
            log_time: LogTime::ZERO,
            buckets: BTreeMap::new(),
            lots: BTreeMap::new(),
            holds: BTreeMap::new(),
            standing: None,
            regions: BTreeMap::new(),
            homes: AuditedHomes::default(),
            jobs: AuditedJobs::default(),
            events: AuditedEvents::default(),
            budgets: AuditedBudgets::default(),
        }
    }
}

impl Audited {
    fn fold(&mut self, position: Position, record: &Record, entry: &Entry) -> Result<(), String> {
        self.check_chain(record, entry)?;
        self.chain.push(entry.prev_hash);
        self.hash = Some(hash_of(&record.entry));
        self.position = Some(position);
        self.sequence = entry.sequence.0;
        self.log_time = entry.log_time;
        if let Some(terms) = entry.fact.new_lot() {
            let lot = AuditedLot { amount: i128::from(terms.amount.get()), ..Default::default() };
            self.lots.insert(entry.sequence.0, lot);
        }
        if let Fact::VoucherAccepted(voucher) = &entry.fact {
            self.is_in_region = true;
            for given in &voucher.lots {
                let lot = self.lots.entry(given.lot.0.0).or_default();
                lot.amount = lot.amount.max(i128::from(given.given.get()));
                lot.is_cover = given.only_for.is_some();
            }
            let is_named = |number: u64| voucher.lots.iter().any(|given| given.lot.0.0 == number);
            self.lots.retain(|number, lot| !lot.is_used_up_cover() || is_named(*number));
        }
        if let Fact::Settled(settlement) = &entry.fact {
            self.follow_region(settlement)?;
        }
        self.homes.follow(entry, &self.chain)?;
        self.jobs.follow(entry)?;
        let age = self.standing.as_ref().and_then(|standing| standing.policy.event_age);
        self.events.follow(entry, age)?;
        self.budgets.follow(entry)?;
        for step in &entry.moves {
            self.shift(step)?;
        }
        self.check_balance(&entry.balance)?;
        if let Some(shown) = entry.fact.standing() {
            self.check_standing(shown, &entry.fact)?;
            self.standing = Some(shown.clone());
        }
        self.check_voided(&entry.fact)?;
        // A region's hold, of which something was undone here, is followed in the region's own book.
        match entry.fact.hold().filter(|hold| hold.allocation == Sequence::ZERO) {
            Some(hold) => self.follow(hold, entry),
            None => expect("credits held by no hold", moved_to_held(&entry.moves), 0),
        }
    }

    /// An entry about the account as a whole changes what it is about and nothing else.
    fn check_standing(&self, shown: &Standing, fact: &Fact) -> Result<(), String> {
        let before = match (fact, &self.standing) {
            (Fact::Opened { .. }, None) => {
                expect("the status", shown.status, AccountStatus::Open)?;
                return expect("the time of opening", shown.opened_at, self.log_time);
            }
            (Fact::Opened { .. }, Some(_)) => return Err("the account is opened again".to_owned()),
            (_, None) => return Err("the account is not opened yet".to_owned()),
            (_, Some(before)) => before,
        };
        let status = if matches!(fact, Fact::Frozen(_)) {
            AccountStatus::Frozen
        } else if matches!(fact, Fact::Unfrozen(_)) {
            AccountStatus::Open
        } else if matches!(fact, Fact::Closed(_)) {
            AccountStatus::Closed
        } else {
            before.status
        };
        let sets_policy = matches!(fact, Fact::PolicySet(_));
        let policy = if sets_policy { &shown.policy } else { &before.policy };
        expect("the status", shown.status, status)?;
        expect("the policy", &shown.policy, policy)?;
        let moves = matches!(fact, Fact::HomeMoved(change) if change.began != EpochBegan::Kept);
        expect("whether the home is another", shown.home != before.home, moves)?;
        expect("the time of opening", shown.opened_at, before.opened_at)
    }

    /// A lot that is taken back stands as its moves have left it.
    fn check_voided(&self, fact: &Fact) -> Result<(), String> {
        let Fact::Voided { number, lot } = fact else { return Ok(()) };
        let audited = self.lots.get(&number.0.0).ok_or("an unknown lot is voided")?;
        expect("the phase of a voided lot", lot.phase, LotPhase::Voided)?;
        audited.check(number.0.0, lot)
    }

    fn check_chain(&self, record: &Record, entry: &Entry) -> Result<(), String> {
        let expected = self.sequence.saturating_add(1);
        expect("sequence", entry.sequence.0, expected)?;
        expect("place of the entry before", record.previous, self.position)?;
        if entry.log_time < self.log_time {
            return Err("log time goes back".to_owned());
        }
        match (self.hash, &entry.fact) {
            (Some(hash), _) => expect("hash of the entry before", entry.prev_hash, hash),
            (None, Fact::Opened { account, .. }) => {
                expect("first hash", entry.prev_hash, genesis_hash(account))
            }
            (None, Fact::VoucherAccepted(voucher)) => {
                let first = allocation_genesis(&voucher.account, voucher.owner);
                expect("first hash", entry.prev_hash, first)
            }
            (None, _) => Err("the first entry does not open the account".to_owned()),
        }
    }

    fn shift(&mut self, step: &Move) -> Result<(), String> {
        let amount = i128::from(step.amount.get());
        if amount == 0 {
            return Err("a move of nothing".to_owned());
        }
        add(&mut self.buckets, step.from, amount.saturating_neg());
        add(&mut self.buckets, step.to, amount);
        let Some(number) = step.lot else {
            let owed = step.from == Bucket::Debt || step.to == Bucket::Debt;
            // What a region's holds have drawn on its overdraft belongs to no lot.
            let overdrawn = self.is_in_region && step.from == Bucket::Held;
            // Nor does what is out under a cover on credit.
            let on_credit = matches!(step.from, Bucket::Allocated(_));
            return if owed || overdrawn || on_credit {
                Ok(())
            } else {
                Err("a move without a lot".to_owned())
            };
        };
        let lot = self.lots.get_mut(&number.0.0).ok_or("a move of an unknown lot")?;
        add(&mut lot.parts, part_of(step.from), amount.saturating_neg());
        add(&mut lot.parts, part_of(step.to), amount);
        let given = lot.parts.get(&Bucket::Granted).copied().unwrap_or(0);
        let overdrawn = lot.parts.iter().any(|(bucket, part)| {
            *part < 0 && *bucket != Bucket::Granted || given.saturating_add(lot.amount) < 0
        });
        if overdrawn { Err(format!("lot {} is overdrawn", number.0.0)) } else { Ok(()) }
    }

    fn drift(&self, balance: &Balance) -> u128 {
        let apart = shown(balance).map(|(bucket, shown)| {
            let counted = self.buckets.get(&bucket).copied().unwrap_or(0).unsigned_abs();
            counted.abs_diff(u128::from(shown.get()))
        });
        apart.fold(0, u128::saturating_add)
    }

    fn check_balance(&self, balance: &Balance) -> Result<(), String> {
        let mut sum = 0_i128;
        let shown: Vec<_> = shown(balance).collect();
        let unshown = |bucket: &Bucket| !shown.iter().any(|(other, _)| other == bucket);
        for (bucket, counted) in self.buckets.iter().filter(|(bucket, _)| unshown(bucket)) {
            expect(&bucket.to_string(), *counted, 0)?;
        }
        for (bucket, shown) in shown {
            let counted = self.buckets.get(&bucket).copied().unwrap_or(0);
            sum = sum.saturating_add(counted);
            let source = matches!(bucket, Bucket::Granted | Bucket::Debt);
            let figure = if source { counted.saturating_neg() } else { counted };
            if figure < 0 {
                return Err(format!("{bucket} is {figure}"));
            }
            expect(&bucket.to_string(), i128::from(shown.get()), figure)?;
        }
        expect("sum over all buckets", sum, 0)
    }

    /// Follows a hold from its start to its end; nothing may revive it.
    fn follow(&mut self, hold: &Hold, entry: &Entry) -> Result<(), String> {
        let number = hold.number.0.0;
        let after = match self.holds.get(&number) {
            None => AuditedHold::made(hold, entry, self.is_in_region)?,
            Some(before) => before.changed(hold, entry)?,
        };
        self.holds.insert(number, after);
        Ok(())
    }

    /// A region's entries are booked one after the other, each once, and add up to what is said of
    /// the allocation.
    fn follow_region(&mut self, settlement: &Settlement) -> Result<(), String> {
        let allocation = &settlement.allocation;
        let owner = allocation.owner;
        for shipped in &settlement.shipped {
            let entry = &shipped.entry;
            let hash = hash_of(&codec::encode(entry));
            let last = self.regions.insert(owner, (entry.sequence.0, hash));
            expect(
                "region's sequence",
                entry.sequence.0,
                last.map_or(1, |last| last.0.saturating_add(1)),
            )?;
            if let Some((_, last)) = last {
                expect("region's hash of the entry before", entry.prev_hash, last)?;
            }
            expect("spent in the region", shipped.entry.balance.used <= allocation.spent, true)?;
        }
        Ok(())
    }

    fn head_differences(&self, head: Head) -> Vec<String> {
        let sequence = expect("live sequence", head.sequence.0, self.sequence);
        let hash = expect("live hash", Some(head.hash), self.hash);
        [sequence, hash].into_iter().filter_map(Result::err).collect()
    }

    fn differences(&self, account: &Account) -> Vec<String> {
        let mut differences = self.head_differences(account.head());
        let mut note = |result: Result<(), String>| differences.extend(result.err());
        note(self.check_balance(account.balance()));
        let lots: BTreeMap<u64, &Lot> =
            account.lots_from(Bound::Unbounded).map(|(number, lot)| (number.0.0, lot)).collect();
        note(expect("lots", lots.len(), self.lots.len()));
        for (number, audited) in &self.lots {
            note(match lots.get(number) {
                Some(lot) => audited.check(*number, lot),
                None => Err(format!("lot {number} is not live")),
            });
        }
        let live: BTreeMap<u64, i128> = account
            .holds_from(Bound::Unbounded)
            .map(|hold| (hold.number.0.0, i128::from(hold.held.get())))
            .collect();
        let followed = self.holds.iter().filter(|(_, hold)| hold.state == HoldState::Active);
        let followed = followed.map(|(number, hold)| (*number, hold.held)).collect();
        note(expect("live holds", &live, &followed));
        note(self.budgets.compare(account));
        differences
    }
}

impl AuditedLot {
    /// Whether a region forgets it once home names it no more.
    fn is_used_up_cover(&self) -> bool {
        let part = |bucket| self.parts.get(&bucket).copied().unwrap_or(0);
        let waiting = self.amount.saturating_add(part(Bucket::Granted));
        self.is_cover && waiting == 0 && part(Bucket::Available) == 0 && part(Bucket::Held) == 0
    }

    fn check(&self, number: u64, lot: &Lot) -> Result<(), String> {
        let part = |bucket| self.parts.get(&bucket).copied().unwrap_or(0);
        let regions = self.parts.iter().filter(|(part, _)| matches!(part, Bucket::Allocated(_)));
        let allocated = regions.fold(0_i128, |sum, (_, part)| sum.saturating_add(*part));
        let waiting = self.amount.saturating_add(part(Bucket::Granted));
        let parts = [
            ("amount", lot.terms.amount, self.amount),
            ("waiting", lot.waiting, waiting),
            ("free", lot.free, part(Bucket::Available)),
            ("held", lot.held, part(Bucket::Held)),
            ("used", lot.used, part(Bucket::Used)),
            ("expired", lot.expired, part(Bucket::Expired)),
            ("voided", lot.voided, part(Bucket::Voided)),
            ("returned", lot.returned, part(Bucket::Returned)),
            ("allocated", lot.allocated, allocated),
        ];
        for (name, live, counted) in parts {
            expect(&format!("lot {number} {name}"), i128::from(live.get()), counted)?;
        }
        Ok(())
    }
}

fn shown(balance: &Balance) -> impl Iterator<Item = (Bucket, purser_types::Credits)> {
    let regions = balance.allocated.iter();
    let figures = [
        (Bucket::Granted, balance.granted),
        (Bucket::Available, balance.available),
        (Bucket::Held, balance.held),
        (Bucket::Used, balance.used),
        (Bucket::Expired, balance.expired),
        (Bucket::Voided, balance.voided),
        (Bucket::Debt, balance.debt),
        (Bucket::Returned, balance.returned),
    ];
    figures.into_iter().chain(regions.map(|(region, out)| (Bucket::Allocated(*region), *out)))
}

/// The part of a lot that a bucket stands for: a lot that paid debt paid for what was used, and a
/// refund may bring that back.
fn part_of(bucket: Bucket) -> Bucket {
    if bucket == Bucket::Debt { Bucket::Used } else { bucket }
}

fn add(sums: &mut BTreeMap<Bucket, i128>, bucket: Bucket, amount: i128) {
    let sum = sums.entry(bucket).or_default();
    *sum = sum.saturating_add(amount);
}

fn expect<T: PartialEq + std::fmt::Debug>(
    name: &str,
    actual: T,
    expected: T,
) -> Result<(), String> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{name} is {actual:?}, expected {expected:?}"))
    }
}
