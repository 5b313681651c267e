//! One account, its home, its regions, and the messages between them.
//!
//! A message stays on the wire after it was delivered, until it is dropped: so it may be delivered
//! again, later, or never, and in any order. What a region has been told of home's bookings it keeps
//! in memory only, and loses when it restarts.

use std::collections::BTreeMap;
use std::ops::Bound;

use purser_ledger::{
    Account, AccountName, Booked, Command, Digest32, HoldNumber, Item, Mode, Open, Operation,
    Outcome, PassedOn, Policy, Recall, Refund, Rejection, Release, Report, Return, SetAllocation,
    Target, Voucher,
};
use purser_types::{
    Credits, Generation, IdempotencyKey, Life, LogTime, Owner, Region, Sequence, TenantId, Unit,
};

use crate::broken::Rule;
use crate::homes::{HOMES, Homes};
use crate::site::{Of, Site, item};

/// What is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// To the region.
    Voucher(Box<Voucher>),
    /// To home.
    Report(Report),
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct World {
    /// The account that everything is about.
    pub account: AccountName,
    /// Where its home is.
    pub home: Site,
    /// Where else it can be.
    pub homes: Homes,
    /// The regions.
    pub regions: BTreeMap<Region, RegionWorld>,
    /// What was sent and not dropped.
    pub wire: Vec<Message>,
    /// What regions and home did by themselves to undo what had been decided twice, and what came of
    /// it.
    pub own_acts: Vec<(Owner, Outcome)>,
    /// A rule that nobody keeps.
    pub broken: Option<Rule>,
}

/// A region's group, and what its leader knows besides.
#[derive(Debug, Clone, Default)]
pub struct RegionWorld {
    /// Its ledger.
    pub site: Site,
    /// How far home has booked each book, as far as the leader has heard.
    pub booked: BTreeMap<Generation, Sequence>,
    /// Allocations that home speaks of and of which no book is here, nor may be begun: what home is to
    /// hear of them.
    pub lost: BTreeMap<Generation, Report>,
    /// The life that the group was in before it was last restored.
    pub life_before: Option<Life>,
}

impl World {
    /// An open account without credits, and regions without allocations.
    ///
    /// # Panics
    ///
    /// If the names are none.
    pub fn new(regions: &[&str], policy: Policy) -> Self {
        let region = |name: &str| Region::parse(name).expect("the name of a region");
        let tenant = TenantId::parse("acme").expect("the name of a tenant");
        let account = AccountName { tenant, unit: Unit::credits() };
        let regions = regions.iter().map(|name| (region(name), RegionWorld::default())).collect();
        let mut world = Self {
            homes: Homes::new(&account),
            account,
            home: Site::default(),
            regions,
            wire: Vec::new(),
            own_acts: Vec::new(),
            broken: None,
        };
        let open = Operation::Open(Open { home: region(HOMES[0]), policy, epoch: None });
        let of = Of { account: &world.account, generation: Generation::HOME };
        let opened = world.home.ask(of, item(open, None), LogTime::ZERO);
        assert!(opened.result.is_ok(), "a new account can be opened");
        world.note_written(Sequence::ZERO);
        world
    }

    /// Asks home.
    pub fn at_home(
        &mut self,
        operation: Operation,
        key: Option<IdempotencyKey>,
        now: LogTime,
    ) -> Outcome {
        let before = self.home_account().head().sequence;
        let of = Of { account: &self.account, generation: Generation::HOME };
        let outcome = self.home.ask(of, item(operation, key), now);
        self.note_written(before);
        outcome
    }

    /// Home writes down what has become due.
    pub fn sweep_home(&mut self, now: LogTime) {
        let before = self.home_account().head().sequence;
        self.home.sweep(now);
        self.note_written(before);
    }

    /// Asks a region's book.
    pub fn in_region(
        &mut self,
        owner: Owner,
        operation: Operation,
        key: Option<IdempotencyKey>,
        now: LogTime,
    ) -> Option<Outcome> {
        self.ask_region(owner, item(operation, key), now)
    }

    /// The same with what the region's leader has found out.
    pub fn ask_region(&mut self, owner: Owner, item: Item, now: LogTime) -> Option<Outcome> {
        let region = self.regions.get_mut(&owner.region)?;
        let of = Of { account: &self.account, generation: owner.generation };
        Some(region.site.ask(of, item, now))
    }

    /// A region notes that it passes a call on to home.
    pub fn pass_on(&mut self, region: Region, item: Item, now: LogTime) -> Option<PassedOn> {
        let retention = self.home_account().standing().policy.key_retention;
        let found = self.regions.get_mut(&region)?;
        Some(found.site.pass_on(&self.account, item, retention, now))
    }

    /// The book that a region's node asks first.
    pub fn spendable(&self, region: Region) -> Option<Owner> {
        let book = self.regions.get(&region)?.site.ledger().spendable(&self.account);
        book.map(|book| book.owner())
    }

    /// The account at home.
    ///
    /// # Panics
    ///
    /// Never: [`World::new`] opened it.
    pub fn home_account(&self) -> &Account {
        self.home.book(&self.account, Generation::HOME).expect("the account was opened")
    }

    /// A region's book.
    pub fn book(&self, owner: Owner) -> Option<&Account> {
        self.regions.get(&owner.region)?.site.book(&self.account, owner.generation)
    }

    /// All books of all regions.
    pub fn books(&self) -> impl Iterator<Item = &Account> {
        self.regions
            .values()
            .flat_map(|region| region.site.ledger().allocations())
            .map(|account| &**account)
    }

    /// The allocations that regions have something to report of.
    pub fn reporting(&self) -> Vec<Owner> {
        let lost = self.regions.values().flat_map(|region| region.lost.values());
        self.books().map(Account::owner).chain(lost.map(|report| report.owner)).collect()
    }

    /// Does something that one group decides, home's or a region's, which then crashes before any of it
    /// is synced (R2): what it decided is gone, and whoever waits for an answer waits in vain.
    pub fn crash_amid<T>(&mut self, at: Option<Region>, act: impl FnOnce(&mut Self) -> T) -> T {
        let lacked = self.homes.unacknowledged().clone();
        let group = match at {
            None => Some(&mut self.home),
            Some(region) => self.regions.get_mut(&region).map(|found| &mut found.site),
        };
        if let Some(group) = group {
            group.hold_back();
        }
        let done = act(self);
        match at {
            None => {
                self.home.restart();
                self.homes.set_unacknowledged(lacked);
            }
            Some(region) => self.restart_region(region),
        }
        // Nobody heard of them.
        self.own_acts.clear();
        done
    }

    /// A region's node is started again: what its leader has in memory only is gone.
    pub fn restart_region(&mut self, region: Region) {
        if let Some(found) = self.regions.get_mut(&region) {
            found.site.restart();
            found.booked.clear();
            found.lost.clear();
        }
    }

    /// A region's group is set back to what it was, and the node that finds that out begins another life
    /// before it serves anything (R9).
    pub fn restore(&mut self, region: Region, site: Site, life: Life, now: LogTime) {
        let breaks = self.breaks(Rule::RestoredBeginsAnew);
        let Some(found) = self.regions.get_mut(&region) else { return };
        found.life_before = found.site.ledger().life();
        found.site = site;
        found.booked.clear();
        found.lost.clear();
        if breaks {
            return;
        }
        let begin = Command::BeginLife { known: vec![found.site.ledger().life()], life };
        // The node is stopped before it has put its marker away, and begins once more.
        for _ in 0..2 {
            found.site.begin_life(&begin, now);
        }
    }

    /// The newest book of a region.
    pub fn newest_book(&self, region: Region) -> Option<&Account> {
        let books = self.regions.get(&region)?.site.ledger().allocations();
        books.map(|account| &**account).max_by_key(|book| book.owner().generation)
    }

    /// The voucher that home would send now, if it may send one.
    pub fn voucher(&self, owner: Owner) -> Option<Message> {
        if !self.may_vouch() {
            return None;
        }
        self.home_account().voucher(owner).map(|voucher| Message::Voucher(Box::new(voucher)))
    }

    /// The report that a region would send now.
    ///
    /// # Panics
    ///
    /// Never: a history in memory can be read.
    pub fn report(&self, owner: Owner) -> Option<Message> {
        let region = self.regions.get(&owner.region)?;
        if let Some(report) = region.lost.get(&owner.generation) {
            return Some(Message::Report(report.clone()));
        }
        let after = region.booked.get(&owner.generation).copied().unwrap_or_default();
        let book = region.site.book(&self.account, owner.generation)?;
        let report = book.report(after, region.site.history()).expect("memory can be read");
        report.map(Message::Report)
    }

    /// Gives a message to whom it is for, who acts on it at once.
    pub fn deliver(&mut self, message: &Message, now: LogTime) {
        match message {
            Message::Voucher(voucher) => self.take_voucher(voucher, now),
            Message::Report(report) => self.take_report(report, now),
        }
    }

    fn take_voucher(&mut self, voucher: &Voucher, now: LogTime) {
        let owner = voucher.owner;
        let taken = self.as_if_besides(voucher).unwrap_or_else(|| voucher.clone());
        self.in_region(owner, Operation::Accept(Box::new(taken)), None, now);
        if let Some(region) = self.regions.get_mut(&owner.region) {
            let lost = region.site.ledger().lost_report(&self.account, voucher);
            region.lost.extend(lost.map(|report| (owner.generation, report)));
        }
        for hold in &voucher.reversals {
            self.undo(owner, *hold, now);
        }
        let Booked { sequence, .. } = voucher.booked;
        if let Some(region) = self.regions.get_mut(&owner.region) {
            let booked = region.booked.entry(owner.generation).or_default();
            *booked = (*booked).max(sequence);
        }
    }

    /// A region undoes a hold or charge: releases what it holds, and refunds what it has spent.
    fn undo(&mut self, owner: Owner, hold: HoldNumber, now: LogTime) {
        let refund = |target| Refund { target, amount: None, away: None };
        let acts = [
            Operation::Release(Release { hold, away: None }),
            Operation::Refund(refund(Target::Hold(hold))),
            Operation::Refund(refund(Target::Charge(hold))),
        ];
        for act in acts {
            let outcome = self.in_region(owner, act, None, now);
            self.own_acts
                .extend(outcome.filter(|done| done.result.is_ok()).map(|done| (owner, done)));
        }
    }

    /// Home undoes the holds and charges of closed allocations that were decided elsewhere as well.
    pub fn undo_at_home(&mut self, now: LogTime) {
        let home = self.home_account().owner();
        let open: Vec<(Owner, HoldNumber)> = self.home_account().reversals_at_home().collect();
        for (owner, hold) in open {
            for target in [Target::Hold(hold), Target::Charge(hold)] {
                let refund = Refund { target, amount: None, away: Some(owner) };
                let outcome = self.at_home(Operation::Refund(refund), None, now);
                self.own_acts.extend(outcome.result.is_ok().then_some((home, outcome)));
            }
        }
    }

    fn take_report(&mut self, report: &Report, now: LogTime) {
        if self.ignores(report.owner, self.home_account()) {
            return;
        }
        let outcome = self.at_home(Operation::Settle(report.clone()), None, now);
        if let Some(again) = outcome.result.as_ref().err().and_then(|no| self.as_if_new(report, no))
        {
            self.at_home(Operation::Settle(again), None, now);
        }
        if let Err(Rejection::ReportGap { booked }) = outcome.result
            && let Some(region) = self.regions.get_mut(&report.owner.region)
        {
            // Home's answer tells the region where to go on.
            region.booked.insert(report.owner.generation, booked);
        }
    }

    /// What a region's leader does of its own accord: answers a recall, gives covers back that nobody has
    /// used, and ends a book that is to end.
    pub fn tend(&mut self, owner: Owner, now: LogTime) {
        let Some((mode, recall)) = self.book(owner).and_then(Account::standing_orders) else {
            return;
        };
        if let Some(Recall { number, keep }) = recall {
            self.give_back(owner, Return::free(keep, number), now);
        }
        if matches!(mode, Mode::Strict | Mode::Ending) {
            self.give_back(owner, Return::free(Credits::ZERO, 0), now);
        }
        let covers: Vec<_> = self.book(owner).into_iter().flat_map(Account::open_covers).collect();
        if !covers.is_empty() {
            // Whoever still wants one asks again.
            let covers = covers.into_iter().map(|(number, ..)| number).collect();
            self.give_back(owner, Return { covers, ..Return::free(Credits::MAX, 0) }, now);
        }
        if mode == Mode::Ending {
            self.in_region(owner, Operation::Finish, None, now);
        }
    }

    /// One round of ending an allocation: home says so, the region does it and reports.
    pub fn bring_home(&mut self, owner: Owner, now: LogTime) {
        let found = self.home_account().allocations().find(|found| found.owner == owner);
        if found.is_some_and(|found| found.mode != Mode::Ending) {
            let mode = Some(Mode::Ending);
            let end = SetAllocation { mode, ..SetAllocation::of(owner) };
            self.at_home(Operation::SetAllocation(end), None, now);
        }
        if let Some(voucher) = self.voucher(owner) {
            self.deliver(&voucher, now);
        }
        let holds: Vec<HoldNumber> = self.book(owner).map_or_else(Vec::new, |book| {
            book.holds_from(Bound::Unbounded).map(|hold| hold.number).collect()
        });
        for hold in holds {
            self.in_region(owner, Operation::Release(Release { hold, away: None }), None, now);
        }
        self.tend(owner, now);
        if let Some(report) = self.report(owner) {
            self.deliver(&report, now);
        }
    }

    /// Home as it would be if every region's book, and what lost homes had decided, were booked now.
    pub fn as_if_all_were_booked(&self, now: LogTime) -> Site {
        let mut home = self.home.clone();
        self.book_tails(&mut home, now);
        let owners: Vec<Owner> = self.books().map(Account::owner).collect();
        for owner in owners {
            let account = home.book(&self.account, Generation::HOME);
            if account.is_some_and(|account| self.ignores(owner, account)) {
                continue;
            }
            let booked = account
                .into_iter()
                .flat_map(Account::allocations)
                .find(|allocation| allocation.owner == owner)
                .map(|allocation| allocation.booked.sequence);
            let (Some(booked), Some(region)) = (booked, self.regions.get(&owner.region)) else {
                continue;
            };
            let Some(book) = region.site.book(&self.account, owner.generation) else { continue };
            let report = book.report(booked, region.site.history()).expect("memory can be read");
            if let Some(report) = report {
                let of = Of { account: &self.account, generation: Generation::HOME };
                home.ask(of, item(Operation::Settle(report), None), now);
            }
        }
        home
    }

    /// What should be true of the whole and is not.
    pub fn check(&self, now: LogTime) -> Result<(), String> {
        self.check_homes()?;
        self.check_bound()?;
        self.check_overspend(&self.as_if_all_were_booked(now))
    }

    /// The bound stays within its ceiling, and no region beyond what it was allowed.
    pub fn check_bound(&self) -> Result<(), String> {
        let account = self.home_account();
        let (bound, ceiling) = (account.bound(), account.ceiling());
        let realised = u128::from(bound.realised.get());
        let potential = bound.total().saturating_sub(realised);
        if potential > u128::from(ceiling.get()) {
            return Err(format!("INV-13: {bound:?} is above the ceiling of {ceiling}"));
        }
        for allocation in account.allocations() {
            let (used, allowed) = (allocation.overdraft_used(), allocation.overdraft_worst);
            if used > allowed {
                let owner = allocation.owner;
                return Err(format!("INV-14: {owner:?} used {used} of an overdraft of {allowed}"));
            }
        }
        Ok(())
    }

    /// What was overspent in truth, as home sees it when it has booked everything, is within what the
    /// bound says now.
    pub fn check_overspend(&self, all_booked: &Site) -> Result<(), String> {
        let bound = self.home_account().bound();
        let true_overspend = all_booked
            .book(&self.account, Generation::HOME)
            .map_or(Credits::ZERO, |account| account.bound().realised);
        if u128::from(true_overspend.get()) > bound.total() {
            return Err(format!("INV-13: {true_overspend} were overspent, {bound:?} was stated"));
        }
        Ok(())
    }

    /// A digest of everything.
    pub fn digest(&self) -> Vec<Digest32> {
        let regions = self.regions.values().map(|region| region.site.digest());
        let homes = self.homes.groups().map(Site::digest);
        std::iter::once(self.home.digest()).chain(homes).chain(regions).collect()
    }
}
