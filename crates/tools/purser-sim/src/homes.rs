//! Where the account's home is: Placement, the groups that can be home, and what the standby has.
//!
//! Each step is one that a node takes, and any may never come: whoever takes it looks at Placement and
//! at the groups as they are. Home's leader knows of Placement only what it was told; a home that was
//! lost goes on, cut off from its standby, until it hears of the epoch that came after its own.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;

use purser_ledger::{
    Account, AccountName, Booked, Command, Entry, Import, ImportPart, MoveStep, Operation, Outcome,
    Stay, StepDown, Tail, TailPage, TakeHome, Unacknowledged, Way,
};
use purser_placement::{
    Answer, Beginning, ChangeNumber, Command as PlacementCommand, Decided,
    Operation as PlacementOperation, PeerAddress, Placement, PlacementState, Request, SetRegion,
    TenantPlacement,
};
use purser_types::{Credits, Generation, IdempotencyKey, LogTime, Region, Sequence};

use crate::broken::Rule;
use crate::site::{Of, Site, item};
use crate::world::World;

/// The regions whose groups can be home. The first is at first, and the second stands by.
pub const HOMES: [&str; 3] = ["home", "spare", "third"];

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Homes {
    /// Shared, like the groups: worlds are copied at every step of a search.
    placement: Arc<Placement>,
    /// The region whose group [`World::home`] is.
    here: Region,
    /// The groups of the other regions that can be home.
    groups: BTreeMap<Region, Arc<Site>>,
    /// What the standby has of home's group.
    replica: Option<Site>,
    /// Whether home waits for its standby, as far as home knows.
    waits: bool,
    unacknowledged: Unacknowledged,
    /// Homes that were lost and have not been told: what their standby lacked.
    lost: BTreeMap<Region, Unacknowledged>,
    /// How many were ever lost.
    lost_count: u32,
}

pub(crate) fn region(name: &str) -> Region {
    Region::parse(name).expect("the name of a region")
}

impl Homes {
    /// A tenant that Placement has just opened at the first of [`HOMES`].
    pub(crate) fn new(account: &AccountName) -> Self {
        let mut placement = Placement::default();
        for name in HOMES {
            let peers = vec![PeerAddress::parse(name).expect("a name is an address")];
            let (region, seen, shards) = (region(name), ChangeNumber::NONE, NonZeroU16::MIN);
            let command = SetRegion { region, seen, shards, peers };
            placement.apply_command(&PlacementCommand::SetRegion(command));
        }
        let mut homes = Self {
            placement: Arc::new(placement),
            here: region(HOMES[0]),
            groups: HOMES[1..].iter().map(|name| (region(name), Arc::default())).collect(),
            replica: None,
            waits: false,
            unacknowledged: Unacknowledged::none(Sequence::ZERO, Credits::ZERO),
            lost: BTreeMap::new(),
            lost_count: 0,
        };
        let standbys = BTreeSet::from([region(HOMES[1])]);
        let open = PlacementOperation::Open { home: homes.here, standbys };
        assert!(homes.place(account, open), "a tenant can be opened");
        homes
    }

    /// Asks Placement, and tells whether that changed anything.
    fn place(&mut self, account: &AccountName, operation: PlacementOperation) -> bool {
        let tenant = account.tenant.clone();
        let requests = vec![Request { tenant, operation }];
        let Answer::Tenants(outcomes) =
            Arc::make_mut(&mut self.placement).apply_command(&PlacementCommand::Tenants(requests))
        else {
            unreachable!("it was about a tenant")
        };
        outcomes.iter().all(|outcome| outcome.result == Ok(Decided::Changed))
    }

    /// What the standby lacks of what home has decided.
    pub(crate) fn unacknowledged(&self) -> &Unacknowledged {
        &self.unacknowledged
    }

    /// The same, after home has lost what it had decided last.
    pub(crate) fn set_unacknowledged(&mut self, lacked: Unacknowledged) {
        self.unacknowledged = lacked;
    }

    /// How many homes were lost so far.
    pub fn lost_count(&self) -> u32 {
        self.lost_count
    }

    /// The groups of home and of all regions that can be home.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Site> {
        self.groups.values().map(|group| &**group)
    }
}

impl World {
    /// What Placement shows.
    ///
    /// # Panics
    ///
    /// Never: the tenant was opened.
    pub fn placed(&self) -> &TenantPlacement {
        let placed = self.homes.placement.tenant(&self.account.tenant);
        placed.expect("the tenant was opened")
    }

    fn place(&mut self, operation: PlacementOperation) -> bool {
        self.homes.place(&self.account, operation)
    }

    /// Notes what home has written, for what the standby may lack.
    pub(crate) fn note_written(&mut self, before: Sequence) {
        let (account, history) = (self.home_account(), self.home.history());
        let limit = account.answer_limit();
        let entries = account.entries_back_from(account.head().sequence, history);
        let entries = entries.expect("memory can be read").map(|hashed| hashed.expect("memory"));
        let mut new: Vec<Entry> =
            entries.map(|it| it.entry).take_while(|it| it.sequence > before).collect();
        new.reverse();
        new.iter().for_each(|entry| self.homes.unacknowledged.note(entry, limit));
    }

    /// R1: whether a voucher may leave.
    pub(crate) fn may_vouch(&self) -> bool {
        let head = self.home_account().head().sequence;
        let is_known = self.homes.unacknowledged.has(head);
        !self.homes.waits || is_known || self.breaks(Rule::EntryBeforeVoucher)
    }

    /// R6: whether the answer of a call at home may leave that made an entry.
    pub fn may_answer(&self, entry: &Entry) -> bool {
        let may = self.homes.unacknowledged.may_answer(entry);
        !self.homes.waits || may || self.breaks(Rule::AnswersWithinX)
    }

    /// Whether an entry that some home made stands in the account's history.
    pub fn stands(&self, entry: &Entry) -> bool {
        let found = self.home_account().entry(entry.sequence, self.home.history());
        let found = found.expect("memory can be read");
        found.is_some_and(|found| found.hash == entry.hash())
    }

    /// The standby hears everything, unless it has stopped following.
    pub fn replicate(&mut self) -> bool {
        if self.placed().home != self.homes.here
            || self.home_account().epoch() != self.placed().epoch
        {
            return false;
        }
        self.homes.replica = Some(self.home.clone());
        let head = self.home_account().head().sequence;
        self.homes.unacknowledged.acknowledge(head);
        true
    }

    /// Home drops its standby from those it waits for, or takes it back in once it has everything.
    pub fn set_promotable(&mut self, promotable: bool) -> bool {
        if promotable && !self.replicate() {
            return false;
        }
        let placed = self.placed();
        let (epoch, seen) = (self.home_account().epoch(), placed.change);
        let Some(region) = placed.standbys.iter().map(|standby| standby.region).next() else {
            return false;
        };
        // Order matters: it waits before it may be promoted, and is not promotable when it no longer does.
        let waited = std::mem::replace(&mut self.homes.waits, true);
        let set = PlacementOperation::SetStandby { epoch, seen, region, promotable };
        let is_done = self.place(set);
        self.homes.waits = if is_done { promotable } else { waited };
        is_done
    }

    /// A move begins.
    pub fn begin_move(&mut self, to: Region) -> bool {
        let epoch = self.placed().epoch;
        self.place(PlacementOperation::BeginMove { epoch, to })
    }

    /// Home stops for the move that Placement shows.
    pub fn stop(&mut self, now: LogTime) -> bool {
        let PlacementState::Moving { to } = self.placed().state else { return false };
        let epoch = self.placed().epoch;
        let departure = purser_ledger::Departure { epoch, to };
        self.at_home(Operation::Stop(departure), None, now).result.is_ok()
    }

    /// Whoever is tired of waiting gives the move up.
    pub fn abort_move(&mut self) -> bool {
        let epoch = self.placed().epoch;
        self.place(PlacementOperation::AbortMove { epoch })
    }

    /// Home goes on under the epoch that Placement began for it.
    pub fn stay(&mut self, now: LogTime) -> bool {
        let (home, epoch) = (self.placed().home, self.placed().epoch);
        home == self.homes.here
            && self.at_home(Operation::Stay(Stay { epoch }), None, now).result.is_ok()
    }

    /// The standby is promoted.
    pub fn fail_over(&mut self) -> bool {
        let epoch = self.placed().epoch;
        let standby = self.placed().standbys.iter().find(|standby| standby.promotable);
        let Some(to) = standby.map(|standby| standby.region) else { return false };
        self.place(PlacementOperation::FailOver { epoch, to })
    }

    /// From where an account is to be taken over, and where to.
    fn way(&self) -> Option<(&Site, Region, Way)> {
        let placed = self.placed();
        match placed.state {
            PlacementState::Moving { to } => Some((&self.home, to, Way::Moved)),
            _ if placed.home == self.homes.here => None,
            _ if placed.beginning == Beginning::FailedOver => {
                let way = Way::FailedOver { from: self.homes.here };
                Some((self.homes.replica.as_ref()?, placed.home, way))
            }
            _ => Some((&self.home, placed.home, Way::Moved)),
        }
    }

    /// The next part is taken over: at most so many entries, or what was refused.
    pub fn take_over(&mut self, entries_max: usize, now: LogTime) -> bool {
        let Some((source, to, _)) = self.way() else { return false };
        let account = source.book(&self.account, Generation::HOME).expect("the source has it");
        let there = self.homes.groups.get(&to).and_then(|it| it.ledger().arrival(&self.account));
        let have = there.map(|there| there.head.sequence).unwrap_or_default();
        let mut entries =
            account.entries_after(have, source.history()).expect("memory can be read");
        entries.truncate(entries_max);
        let head = account.head();
        let part = if have > head.sequence || have == head.sequence && is_other(there, head.hash) {
            ImportPart::Abandon
        } else if entries.is_empty() {
            let pairs = account.entryless_decisions(None, source.history());
            let pairs = pairs.map(|pair| pair.expect("memory can be read")).collect();
            ImportPart::Memory { pairs, complete_at: Some(head.sequence) }
        } else {
            ImportPart::Entries(entries)
        };
        let import = |part| Command::Import(Import { account: self.account.clone(), part });
        let (command, abandon) = (import(part), import(ImportPart::Abandon));
        let is_lost = self.lost_homes().contains(&to);
        if is_lost && !self.step_down(to, now) {
            return false;
        }
        let Some(group) = self.homes.groups.get_mut(&to).map(Arc::make_mut) else { return false };
        // What came of a home that was lost since is of no use.
        group.step(&command, now).or_else(|_| group.step(&abandon, now)).is_ok()
    }

    /// The destination, which has everything, ends the move.
    pub fn finish_move(&mut self) -> bool {
        let PlacementState::Moving { to } = self.placed().state else { return false };
        let there = self.homes.groups.get(&to).and_then(|it| it.ledger().arrival(&self.account));
        let epoch = self.placed().epoch;
        let is_whole = there.is_some_and(|there| {
            let stopped = there.stopped.is_some_and(|stop| stop.to == to && stop.epoch == epoch);
            stopped && there.memory_at == Some(there.head.sequence)
        });
        is_whole && self.place(PlacementOperation::FinishMove { epoch })
    }

    /// The region that Placement shows becomes home, if it has everything.
    pub fn take_home(&mut self, now: LogTime) -> bool {
        let (home, epoch) = (self.placed().home, self.placed().epoch);
        let Some((source, _, way)) = self.way().filter(|(_, to, _)| *to == home) else {
            return false;
        };
        let head = source.book(&self.account, Generation::HOME).expect("the source has it").head();
        let head = Booked { sequence: head.sequence, hash: Some(head.hash) };
        let account = self.account.clone();
        let command = Command::TakeHome(TakeHome { account, home, epoch, way, head });
        let Some(group) = self.homes.groups.get_mut(&home).map(Arc::make_mut) else { return false };
        if group.step(&command, now).is_err() {
            return false;
        }
        // It may come again.
        assert_eq!(group.step(&command, now), Ok(MoveStep::AtHome { epoch }), "a repeat is done");
        let new = self.homes.groups.remove(&home).expect("it has just taken the step");
        let old = std::mem::replace(&mut self.home, Arc::unwrap_or_clone(new));
        let here = std::mem::replace(&mut self.homes.here, home);
        self.homes.groups.insert(here, Arc::new(old));
        let account = self.home_account();
        let none = Unacknowledged::none(account.head().sequence, account.answer_limit());
        let lacked = std::mem::replace(&mut self.homes.unacknowledged, none);
        if way != Way::Moved {
            self.homes.lost.insert(here, lacked);
            self.homes.lost_count += 1;
        }
        self.homes.waits = false;
        self.homes.replica = None;
        true
    }

    /// A region that was home hears of the epoch that came after its own.
    pub fn step_down(&mut self, at: Region, now: LogTime) -> bool {
        let (home, epoch) = (self.placed().home, self.placed().epoch);
        let command = Command::StepDown(StepDown { account: self.account.clone(), home, epoch });
        self.homes.lost.remove(&at);
        let group = self.homes.groups.get_mut(&at).map(Arc::make_mut);
        group.is_some_and(|group| group.step(&command, now).is_ok())
    }

    /// A part of a tail is booked, of at most so many entries.
    pub fn pull_tail(&mut self, entries_max: usize, now: LogTime) -> bool {
        let tails: Vec<Tail> = self.home_account().tails().cloned().collect();
        let mut pages = tails.iter().filter_map(|tail| self.tail_page(tail, entries_max));
        let Some(page) = pages.next() else { return false };
        drop(pages);
        self.at_home(Operation::BookTail(page), None, now).result.is_ok()
    }

    /// What a lost home says of its tail. It may be a region that is home again.
    fn tail_page(&self, tail: &Tail, entries_max: usize) -> Option<TailPage> {
        let group = self.group(tail.from)?;
        let (ledger, history) = (group.ledger(), group.history());
        let marks = self.home_account().tail_marks(tail, self.home.history());
        let marks = marks.expect("memory can be read");
        let page = ledger.tail_after(&self.account, tail.epoch, &marks, history);
        let mut page = page.expect("memory can be read")?;
        page.is_last &= page.entries.len() <= entries_max;
        page.entries.truncate(entries_max);
        Some(page)
    }

    /// Whether home waits for its standby, as far as home knows.
    pub(crate) fn waits(&self) -> bool {
        self.homes.waits
    }

    /// What the standby has of home's group.
    pub(crate) fn replica(&self) -> Option<&Site> {
        self.homes.replica.as_ref()
    }

    /// The group of a region that can be home.
    pub(crate) fn group(&self, of: Region) -> Option<&Site> {
        if of == self.homes.here {
            return Some(&self.home);
        }
        self.homes.groups.get(&of).map(|group| &**group)
    }

    /// Placement hears that no tail of a region is left.
    pub fn resolve_tails(&mut self) -> bool {
        let open: BTreeSet<Region> = self.home_account().tails().map(|tail| tail.from).collect();
        if self.placed().home != self.homes.here {
            return false;
        }
        let epoch = self.placed().epoch;
        let done = self.placed().tails().iter().map(|tail| tail.from);
        let done: Vec<Region> = done.filter(|from| !open.contains(from)).collect();
        done.into_iter().any(|from| self.place(PlacementOperation::ResolveTail { epoch, from }))
    }

    /// Whether the region that is to be home has everything.
    pub fn is_taken_over(&self) -> bool {
        let Some((source, to, _)) = self.way() else { return true };
        let head = source.book(&self.account, Generation::HOME).map(Account::head);
        let there = self.homes.groups.get(&to).and_then(|it| it.ledger().arrival(&self.account));
        let memory_at = there.and_then(|there| there.memory_at);
        memory_at.is_some() && memory_at == head.map(|head| head.sequence)
    }

    /// Whether nothing is under way about the home.
    pub fn is_settled(&self) -> bool {
        let account = self.home_account();
        self.placed().state == PlacementState::Settled
            && self.placed().home == self.homes.here
            && self.placed().epoch == account.epoch()
            && account.stopped().is_none()
            && account.tails().next().is_none()
    }

    /// Proves the histories of all groups.
    pub fn audit(&self) -> Result<(), String> {
        let regions = self.regions.values().map(|region| &region.site);
        let sites = self.homes.groups().chain([&self.home]).chain(regions);
        sites.map(Site::audit).try_for_each(|proved| proved.map_err(|finding| finding.to_string()))
    }

    /// The regions that were home and have not been told that they are not.
    pub fn lost_homes(&self) -> Vec<Region> {
        let lives = |site: &Site| site.book(&self.account, Generation::HOME).is_some();
        let groups = self.homes.groups.iter().filter(|(_, site)| lives(site));
        groups.map(|(region, _)| *region).collect()
    }

    /// Asks a lost home that goes on. Also tells whether its answer leaves: what its standby has not
    /// heard must stay within X.
    pub fn at_lost_home(
        &mut self,
        at: Region,
        operation: Operation,
        key: IdempotencyKey,
        now: LogTime,
    ) -> Option<(Outcome, bool)> {
        let answers_anyway = self.breaks(Rule::AnswersWithinX);
        let group = Arc::make_mut(self.homes.groups.get_mut(&at)?);
        let of = Of { account: &self.account, generation: Generation::HOME };
        let before = group.book(&self.account, Generation::HOME)?.head().sequence;
        let outcome = group.ask(of, item(operation, Some(key)), now);
        let account = group.book(&self.account, Generation::HOME)?;
        let limit = account.answer_limit();
        let lacked = self.homes.lost.get_mut(&at)?;
        let mut new: Vec<Entry> = entries_after(account, before, group);
        new.reverse();
        new.iter().for_each(|entry| lacked.note(entry, limit));
        let leaves = match &outcome.result {
            Ok(receipt) => lacked.may_answer(&receipt.entry) || answers_anyway,
            Err(_) => true,
        };
        Some((outcome, leaves))
    }

    /// A report reaches a lost home, which books it in vain.
    pub fn report_to_lost_home(&mut self, at: Region, report: purser_ledger::Report, now: LogTime) {
        let of = Of { account: &self.account, generation: Generation::HOME };
        let Some(group) = self.homes.groups.get_mut(&at).map(Arc::make_mut) else { return };
        let Some(account) = group.book(&self.account, Generation::HOME) else { return };
        let before = account.head().sequence;
        group.ask(of, item(Operation::Settle(report), None), now);
        let Some(account) = group.book(&self.account, Generation::HOME) else { return };
        let (limit, mut new) = (account.answer_limit(), entries_after(account, before, group));
        new.reverse();
        if let Some(lacked) = self.homes.lost.get_mut(&at) {
            new.iter().for_each(|entry| lacked.note(entry, limit));
        }
    }

    /// Books every tail in a copy of home's group, as if all lost homes were heard of now.
    pub(crate) fn book_tails(&self, home: &mut Site, now: LogTime) {
        let of = Of { account: &self.account, generation: Generation::HOME };
        let tails = self.home_account().tails().cloned();
        for tail in tails.collect::<Vec<_>>() {
            let Some(mut lost) = self.group(tail.from).cloned() else { continue };
            let (account, home_now) = (self.account.clone(), self.homes.here);
            let epoch = self.home_account().epoch();
            let down = Command::StepDown(StepDown { account, home: home_now, epoch });
            // It may have stepped down before, or be home again.
            drop(lost.step(&down, now));
            let marks = self.home_account().tail_marks(&tail, self.home.history());
            let mut marks = marks.expect("memory can be read");
            loop {
                let (ledger, history) = (lost.ledger(), lost.history());
                let page = ledger.tail_after(&self.account, tail.epoch, &marks, history);
                let Some(page) = page.expect("memory can be read") else { break };
                let is_last = page.is_last;
                home.ask(of, item(Operation::BookTail(page), None), now);
                let account = home.book(&self.account, Generation::HOME);
                let mut left = account.into_iter().flat_map(Account::tails);
                match left.find(|left| left.epoch == tail.epoch) {
                    Some(left) if !is_last => marks = vec![left.booked],
                    Some(_) | None => break,
                }
            }
        }
    }

    /// INV-16 over all groups: of those that would decide, each has an epoch of its own, and none a later
    /// one than Placement shows.
    pub(crate) fn check_homes(&self) -> Result<(), String> {
        let sites = self.homes.groups().chain([&self.home]);
        let live = sites.filter_map(|site| site.book(&self.account, Generation::HOME));
        let mut epochs: Vec<_> = live.map(Account::epoch).collect();
        let count = epochs.len();
        epochs.sort_unstable();
        epochs.dedup();
        let latest = epochs.last().copied().unwrap_or_default();
        if epochs.len() != count || latest > self.placed().epoch {
            return Err(format!("INV-16: epochs {epochs:?} of {count} homes: {:?}", self.placed()));
        }
        Ok(())
    }
}

fn is_other(there: Option<purser_ledger::ImportProgress>, hash: purser_ledger::Digest32) -> bool {
    there.is_some_and(|there| there.head.hash != Some(hash))
}

/// The entries after one, newest first.
fn entries_after(account: &Account, before: Sequence, site: &Site) -> Vec<Entry> {
    let entries = account.entries_back_from(account.head().sequence, site.history());
    let entries = entries.expect("memory can be read").map(|hashed| hashed.expect("memory"));
    entries.map(|it| it.entry).take_while(|it| it.sequence > before).collect()
}
