//! One look at an account: what should go where, carried out; and whose turn it is.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use purser_ledger::{
    Account, AccountName, AccountStatus, Allocate, AllocationStatus, Decision, DemandReport, Known,
    LASTING, Mode, Operation, SetAllocation, Share, Shortage, Shortfall, Waiting,
};
use purser_types::{Credits, Life, LogTime, Owner, Region, Span};

use super::account::DeskAccount;
use super::waiting::{Place, Verdict};
use super::{Desk, DeskState};
use crate::metrics::HomeAct;

/// What the ledger says of an account, as far as it matters here.
struct Seen {
    /// Whether the account is neither frozen nor closed: nothing is granted to its regions then.
    is_open: bool,
    available: Credits,
    /// What of that ends before a grant would be spent.
    ending: Credits,
    /// This region.
    region: Region,
    allocations: Vec<SeenAllocation>,
    /// What this region itself has from the time before it was home. It gets no more, and gives back
    /// whatever it does not hold.
    own: Vec<SeenAllocation>,
    /// Whether it decides nothing, because its home moves.
    has_stopped: bool,
}

#[derive(Clone, Copy)]
struct SeenAllocation {
    owner: Owner,
    outstanding: Credits,
    held: Credits,
    mode: Mode,
    recall: u64,
    voucher: u64,
    life: Option<Life>,
    is_open: bool,
    /// Whether its region gives back what is free, sooner or later: it is open, or ending.
    is_live: bool,
}

impl Seen {
    /// What ends by `lasting` is told apart.
    fn of(account: &Account, region: Region, lasting: LogTime) -> Self {
        let allocations = account.allocations().map(|allocation| SeenAllocation {
            owner: allocation.owner,
            outstanding: allocation.outstanding(),
            held: allocation.held,
            mode: allocation.mode,
            recall: allocation.recall.number,
            voucher: allocation.voucher,
            life: allocation.life,
            is_open: allocation.status == AllocationStatus::Open && allocation.mode != Mode::Ending,
            is_live: allocation.status == AllocationStatus::Open,
        });
        let (own, allocations) = allocations.partition(|it| it.owner.region == region);
        let is_open = account.standing().status == AccountStatus::Open;
        let (available, has_stopped) = (account.balance().available, account.stopped().is_some());
        let ending = account.ending_by(lasting);
        Self { is_open, available, ending, region, allocations, own, has_stopped }
    }

    /// What this region's own book may give back.
    fn comes_back(&self) -> Credits {
        sum(self.own.iter().map(|it| it.outstanding.saturating_sub(it.held)))
    }

    fn open(&self, region: Region) -> Option<&SeenAllocation> {
        self.allocations.iter().find(|it| it.is_open && it.owner.region == region)
    }

    /// Whether what is decided would come back at once, because an operator has told the region not to
    /// spend by itself.
    fn would_come_back(&self, decision: &Decision) -> bool {
        let Decision::Grant { region, .. } = decision else { return false };
        self.open(*region).is_some_and(|open| open.mode != Mode::Local)
    }
}

impl Desk {
    /// Notes what a region has reported.
    pub(super) fn note_report(
        &self,
        account: &AccountName,
        owner: Owner,
        (demand, answered, refill): (DemandReport, u64, Span),
    ) {
        let now = self.now();
        let seen = self.seen(account);
        let asked = seen.as_ref().and_then(|seen| {
            seen.open(owner.region).filter(|it| it.owner == owner).map(|it| it.recall)
        });
        let open = seen.as_ref().and_then(|seen| seen.open(owner.region));
        let is_in_use = open.is_none_or(|open| open.owner == owner);
        let mut state = self.state();
        let known = self.known(&mut state, account);
        let heard = known.heard_mut(owner.region, now);
        heard.at = now;
        // One that is sealed asks for nothing, whatever its successor does.
        if is_in_use {
            heard.demand = demand.with_costs_of(&heard.demand);
            heard.reports = heard.reports.saturating_add(1);
            heard.refill = refill;
        }
        if asked.is_some_and(|asked| asked <= answered) {
            known.pool.answered(owner.region);
        }
    }

    /// Notes that home has accepted a call that costs `cost`: for a region that passed it on because
    /// it was short, or of home's own.
    pub(crate) fn note_accepted(
        &self,
        account: &AccountName,
        for_region: Option<Region>,
        cost: Credits,
    ) {
        let now = self.now();
        let seen = self.seen(account);
        let has_allocations = seen.as_ref().is_some_and(|seen| !seen.allocations.is_empty());
        let mut state = self.state();
        match for_region {
            Some(region) => {
                let known = self.known(&mut state, account);
                let heard = known.heard_mut(region, now);
                heard.demand = heard.demand.with_first_call(cost);
                let is_first = heard.reports == 0;
                state.heard_at.insert(region, now);
                drop(state);
                if is_first {
                    self.tend_soon(account);
                }
            }
            // Nobody else wants what home has.
            None if !has_allocations => (),
            None => {
                let known = self.known(&mut state, account);
                known.here.accepted(cost, now);
                known.used_here = known.used_here.checked_add(cost).unwrap_or(Credits::MAX);
            }
        }
    }

    fn seen(&self, account: &AccountName) -> Option<Seen> {
        let lasting = self.group.now().saturating_add(LASTING);
        self.group.view(|ledger, _| {
            ledger.account(account).map(|account| Seen::of(account, self.links.own(), lasting))
        })
    }

    /// What is kept of an account; begun anew if nothing is.
    pub(super) fn known<'a>(
        &self,
        state: &'a mut DeskState,
        account: &AccountName,
    ) -> &'a mut DeskAccount {
        state.accounts.entry(account.clone()).or_insert_with(|| {
            let is_strict = |seen: &Seen| {
                let mut open = seen.allocations.iter().filter(|it| it.is_open).peekable();
                open.peek().is_some() && open.all(|it| it.mode == Mode::Strict)
            };
            // What an earlier leader decided is what regions were told, all of them. One that an
            // operator told something else is no sign of it.
            let seen = self.seen(account);
            let mode =
                if seen.as_ref().is_some_and(is_strict) { Mode::Strict } else { Mode::Local };
            DeskAccount::new(mode, self.now())
        })
    }

    /// Has the pool decide about an account, carries that out, and tells calls whose turn it is.
    pub(super) async fn tend(&self, account: &AccountName) {
        let turn =
            self.state().accounts.get(account).map(|known| std::sync::Arc::clone(&known.turn));
        let Some(turn) = turn else { return };
        let _turn = turn.lock().await;
        if !self.leads() {
            return;
        }
        let Some(seen) = self.seen(account).filter(|seen| !seen.has_stopped) else {
            return self.send_on(account);
        };
        let ending = seen.own.iter().filter(|it| it.is_open);
        join_all(ending.map(|it| self.carry_out(account, it.owner.region, end(it.owner)))).await;
        let decisions = if seen.is_open { self.decide(account, &seen) } else { Vec::new() };
        let is_mode_changed = decisions.iter().any(|it| matches!(it, Decision::Mode(_)));
        let decisions = decisions.into_iter();
        let decisions = decisions.filter(|it| is_mode_changed || !seen.would_come_back(it));
        let decisions: Vec<Decision> = decisions.collect();
        let granted = decisions.iter().filter_map(Decision::granted);
        let granted: Vec<Region> = granted.collect();
        self.push_to_other_lives(account, &seen);
        let life = |region| self.links.life(region, self.shard);
        let lasting = self.group.now().saturating_add(LASTING);
        let acts =
            decisions.into_iter().flat_map(|decision| acts(&seen, decision, (&life, lasting)));
        let acts: Vec<(Region, Operation)> = acts.collect();
        join_all(acts.into_iter().map(|(region, act)| self.carry_out(account, region, act))).await;
        let Some(seen) = self.seen(account) else { return };
        self.look_again(account, granted.into_iter().filter(|it| seen.open(*it).is_none()));
        self.push_news(account, &seen);
        self.serve(account, &seen);
    }

    /// Regions that were to be given credits and were given none: their life was not known yet, or it was not
    /// done. Their next call finds them as they were.
    fn look_again(&self, account: &AccountName, regions: impl Iterator<Item = Region>) {
        let mut state = self.state();
        if let Some(known) = state.accounts.get_mut(account) {
            regions.for_each(|region| known.pool.look_again(region));
        }
    }

    /// Vouchers of open allocations whose regions have begun another life since: these do not know of them
    /// any more, and say so when they see one.
    fn push_to_other_lives(&self, account: &AccountName, seen: &Seen) {
        let is_of_another = |it: &&SeenAllocation| {
            it.is_open
                && self.links.life(it.owner.region, self.shard).is_some_and(|life| life != it.life)
        };
        for it in seen.allocations.iter().filter(is_of_another) {
            self.push_soon(account, it.owner);
        }
    }

    /// Has calls that wait look for the account's home: it is elsewhere, or moves.
    fn send_on(&self, account: &AccountName) {
        if let Some(known) = self.state().accounts.get_mut(account) {
            known.places.values_mut().for_each(|place| place.tell(Verdict::Go));
        }
    }

    fn decide(&self, account: &AccountName, seen: &Seen) -> Vec<Decision> {
        let now = self.now();
        let mut state = self.state();
        let heard_at = self.heard_at(&state.heard_at);
        let known = self.known(&mut state, account);
        let facts = known.facts(seen, &heard_at, now);
        known.pool.decide(&facts)
    }

    /// When each region was last heard: its reports, or its pulse.
    fn heard_at(&self, reports: &BTreeMap<Region, Span>) -> BTreeMap<Region, Span> {
        let mut heard_at = reports.clone();
        for region in self.links.others() {
            if let Some(pulse) = self.links.heard_at(region) {
                let known = heard_at.entry(region).or_insert(pulse);
                *known = (*known).max(pulse);
            }
        }
        heard_at
    }

    async fn carry_out(&self, account: &AccountName, region: Region, act: Operation) {
        let kind = HomeAct::of(&act);
        match self.propose(account, act).await {
            Ok(Ok(_)) => {
                kind.into_iter().for_each(|act| self.links.metrics().record_act(act, region))
            }
            // The pool looks again with the next report.
            Ok(Err(rejection)) => {
                let tenant = account.tenant.as_str();
                tracing::debug!(tenant, %region, %rejection, "credits were not moved");
            }
            Err(error) => tracing::debug!(%region, %error, "credits were not moved"),
        }
    }

    /// Regions are told what they have not been told yet.
    fn push_news(&self, account: &AccountName, seen: &Seen) {
        let now = self.now();
        let mut state = self.state();
        let mut news = std::collections::BTreeSet::new();
        let known = self.known(&mut state, account);
        let is_known = |owner: &Owner| seen.allocations.iter().any(|it| it.owner == *owner);
        known.allocations.retain(|owner, _| is_known(owner));
        for allocation in &seen.allocations {
            let region = allocation.owner.region;
            let known = self.known(&mut state, account);
            if known.notes_mut(allocation.owner, now).told < allocation.voucher {
                let pushes = state.pushes.entry(region).or_default();
                if pushes.insert((account.clone(), allocation.owner)) {
                    news.insert(region);
                }
            }
        }
        drop(state);
        news.into_iter().for_each(|region| self.wake_push(region));
    }

    /// Tells calls that wait whether there is enough for them now, or never will be.
    fn serve(&self, account: &AccountName, seen: &Seen) {
        let now = self.now();
        let mut state = self.state();
        let heard_at = self.heard_at(&state.heard_at);
        let Some(known) = state.accounts.get_mut(account) else { return };
        let facts = known.facts(seen, &heard_at, now);
        let mut left = seen.available;
        for place in known.places.values_mut() {
            match left.checked_sub(place.cost) {
                Some(rest) => {
                    left = rest;
                    place.tell(Verdict::Go);
                }
                None => {
                    let shortfall = known.pool.shortfall(&facts, place.cost, place.since);
                    // What this region's own book does not hold is on its way.
                    let is_out = seen.comes_back().is_zero();
                    if let Some(shortage) = shortage_of(shortfall).filter(|_| is_out) {
                        place.tell(Verdict::Short(shortage));
                    }
                    // Served in order: whoever is behind waits for this one.
                    return;
                }
            }
        }
    }
}

impl Desk {
    /// Why nobody within reach can pay `needed` beside a region that has no more to give; nothing while
    /// credits may come back. All that is out within reach counts as if it were free.
    pub(super) fn shortage_beside(
        &self,
        account: &AccountName,
        region: Region,
        needed: Credits,
    ) -> Option<Shortage> {
        let now = self.now();
        let seen = self.seen(account)?;
        let mut state = self.state();
        let heard_at = self.heard_at(&state.heard_at);
        let known = self.known(&mut state, account);
        let mut facts = known.facts(&seen, &heard_at, now);
        facts.shares.remove(&region);
        let is_reached = |region| self.links.is_reachable(region);
        let shortfall = known.pool.shortfall_among(&facts, needed, now, is_reached);
        // What this region's own book does not hold is on its way.
        shortage_of(shortfall).filter(|_| seen.comes_back().is_zero())
    }
}

impl Place {
    fn tell(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
        self.changed.notify_one();
    }
}

fn shortage_of(shortfall: Shortfall) -> Option<Shortage> {
    match shortfall {
        Shortfall::Recalling => None,
        Shortfall::Exhausted => Some(Shortage::Exhausted),
        Shortfall::Stranded { amount, regions } => Some(Shortage::Stranded { amount, regions }),
    }
}

/// Has an allocation give everything back, and end.
const fn end(owner: Owner) -> Operation {
    let mode = Some(Mode::Ending);
    let change = SetAllocation { owner, overdraft: None, mode, keep: None, on_expiry: None };
    Operation::SetAllocation(change)
}

/// What the ledger is asked, to carry a decision out, and which region it concerns. Nothing is granted
/// before it is known which life the region's group is in: an allocation of another one is never begun.
fn acts(
    seen: &Seen,
    decision: Decision,
    (life, lasting): (&impl Fn(Region) -> Option<Option<Life>>, LogTime),
) -> Vec<(Region, Operation)> {
    let set = |owner: Owner, change: SetAllocation| {
        (owner.region, Operation::SetAllocation(SetAllocation { owner, ..change }))
    };
    let unchanged = |owner: Owner| SetAllocation {
        owner,
        overdraft: None,
        mode: None,
        keep: None,
        on_expiry: None,
    };
    match decision {
        Decision::Mode(mode) => {
            let open = seen.allocations.iter().filter(|it| it.is_open && it.mode != mode);
            open.map(|it| set(it.owner, SetAllocation { mode: Some(mode), ..unchanged(it.owner) }))
                .collect()
        }
        Decision::Recall { region, keep } => {
            let asked = seen.open(region);
            asked
                .map(|it| set(it.owner, SetAllocation { keep: Some(keep), ..unchanged(it.owner) }))
                .into_iter()
                .collect()
        }
        Decision::Grant { region, amount } => {
            let lasting = Some(lasting);
            let grant = |life| Operation::Allocate(Allocate { region, amount, life, lasting });
            let life =
                life(region).filter(|life| seen.open(region).is_none_or(|it| it.life == *life));
            life.map(|life| (region, grant(life))).into_iter().collect()
        }
    }
}

impl DeskAccount {
    fn facts(&mut self, seen: &Seen, heard_at: &BTreeMap<Region, Span>, now: Span) -> Known {
        let since = self.since;
        let share = |region: Region, heard: Option<&super::account::Heard>| {
            // What is out under an allocation that is sealed or taken back serves nobody.
            let live =
                || seen.allocations.iter().filter(|it| it.is_live && it.owner.region == region);
            let demand = heard.map(|heard| heard.demand).unwrap_or_default();
            // What nothing could replace that lasts longer is what there is.
            let ending = demand.ending.min(seen.available.saturating_sub(seen.ending));
            Share {
                outstanding: sum(live().map(|it| it.outstanding)),
                held: sum(live().map(|it| it.held)),
                unsettled: Credits::ZERO,
                demand: DemandReport { ending, ..demand },
                report: heard.map_or(0, |heard| heard.reports),
                heard_at: heard_at.get(&region).copied().unwrap_or(since),
                refill: heard.map_or(Span::from_micros(0), |heard| heard.refill),
            }
        };
        let regions = seen.allocations.iter().map(|it| it.owner.region);
        let heard = self.heard.keys().copied().filter(|region| *region != seen.region);
        let regions = regions.chain(heard);
        let shares = regions.map(|region| (region, share(region, self.heard.get(&region))));
        let shares = shares.collect();
        let cost = sum(self.places.values().map(|place| place.cost));
        let last = self.places.values().next_back();
        let first = self.places.values().next().map(|first| first.cost).unwrap_or_default();
        let waiting = last.map(|last| Waiting { credits: cost, first, since: last.since });
        let home = self.here.report(self.used_here, now);
        Known { now, available: seen.available, home, shares, waiting }
    }
}

fn sum(amounts: impl Iterator<Item = Credits>) -> Credits {
    amounts.fold(Credits::ZERO, |sum, amount| sum.checked_add(amount).unwrap_or(Credits::MAX))
}
