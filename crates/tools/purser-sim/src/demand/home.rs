//! Home: what is out, what waits, and carrying out what the pool decides.

use std::collections::{BTreeMap, VecDeque};

use purser_ledger::{
    Decision, Demand, DemandReport, Known, Mode, Pool, RECALL_DEADLINE, Share, Shortfall, Tuning,
    Waiting,
};
use purser_types::{Credits, Span};

use super::Method;
use super::agenda::{after, millis};
use super::book::{BookReport, Voucher, credits};
use super::load::Call;
use super::scenario::{name, one_way, place};
use super::world::{Answer, Event, Parcel, Verdict, World};

/// How long the standby takes to acknowledge an entry.
pub(super) const ACKNOWLEDGED: Span = millis(25);

/// How long home and regions collect what is urgent before they send it.
pub(super) const COLLECTED: Span = millis(5);

/// One account at home.
pub(super) struct Home {
    pub(super) available: u64,
    pub(super) held: u64,
    pub(super) spent: u64,
    /// What calls of the home region have used and hold.
    pub(super) used_here: u64,
    pub(super) demand: Demand,
    pub(super) pool: Pool,
    pub(super) out: BTreeMap<usize, Out>,
    pub(super) queue: VecDeque<Queued>,
}

/// An allocation, as home knows it.
#[derive(Default)]
pub(super) struct Out {
    pub(super) granted: u64,
    pub(super) spent: u64,
    pub(super) returned: u64,
    held: u64,
    demand: DemandReport,
    report: u64,
    /// The last recall: its number, and what may be kept.
    recall: (u64, u64),
    voucher: u64,
}

/// A call that waits for home.
pub(super) struct Queued {
    pub(super) call: Call,
    since: Span,
    /// The least that there was at home and within reach since it came.
    pub(super) least: u64,
}

impl Out {
    pub(super) fn outstanding(&self) -> u64 {
        self.granted - self.spent - self.returned
    }
}

impl Home {
    pub(super) fn new(available: u64, tuning: Tuning) -> Self {
        Self {
            available,
            held: 0,
            spent: 0,
            used_here: 0,
            demand: Demand::new(Credits::ZERO, Span::ZERO),
            pool: Pool::new(tuning, Mode::Local),
            out: BTreeMap::new(),
            queue: VecDeque::new(),
        }
    }

    fn known(&mut self, now: Span, heard_at: &[Span]) -> Known {
        let share = |(region, out): (&usize, &Out)| {
            let share = Share {
                outstanding: credits(out.outstanding()),
                held: credits(out.held),
                unsettled: Credits::ZERO,
                demand: out.demand,
                report: out.report,
                heard_at: heard_at[*region],
                refill: refill(*region),
            };
            (name(*region), share)
        };
        let cost = self.queue.iter().map(|queued| queued.call.cost).sum();
        let (first, last) = (self.queue.front(), self.queue.back());
        let first = first.map_or(0, |first| first.call.cost);
        Known {
            now,
            available: credits(self.available),
            home: self.demand.report(credits(self.used_here), now),
            shares: self.out.iter().map(share).collect(),
            waiting: last.map(|last| Waiting {
                credits: credits(cost),
                first: credits(first),
                since: last.since,
            }),
        }
    }

    /// Books a report that is not older than what is known.
    fn book(&mut self, region: usize, report: &BookReport) {
        let out = self.out.entry(region).or_default();
        if report.number <= out.report {
            return;
        }
        self.available += report.returned - out.returned;
        out.report = report.number;
        out.spent = report.spent;
        out.returned = report.returned;
        out.held = report.held;
        out.demand = report.demand.with_costs_of(&out.demand);
        if report.recall == out.recall.0 {
            self.pool.answered(name(region));
        }
    }
}

/// From a region's report until the voucher that answers it is there.
pub(super) fn refill(region: usize) -> Span {
    let both_ways = one_way(region).as_micros() * 2;
    Span::from_micros(both_ways + ACKNOWLEDGED.as_micros() + COLLECTED.as_micros())
}

impl World<'_> {
    /// A request of a region, or its answer to one of home's.
    pub(super) fn parcel_at_home(&mut self, region: usize, parcel: Parcel) {
        self.heard_at[region] = self.now;
        for (account, report) in &parcel.reports {
            self.homes[*account].book(region, report);
        }
        for call in &parcel.calls {
            self.queue_at_home(*call);
        }
        let mut accounts: Vec<usize> = parcel.reports.iter().map(|(account, _)| *account).collect();
        accounts.extend(parcel.calls.iter().map(|call| call.account));
        accounts.dedup();
        for account in accounts {
            self.tend(account);
        }
        if !parcel.is_answer {
            let answered = parcel.reports.iter().map(|(account, _)| *account).collect();
            self.send_vouchers(region, answered, false);
        }
    }

    pub(super) fn queue_at_home(&mut self, call: Call) {
        let least = self.within_reach(call.account);
        let queued = Queued { call, since: self.now, least };
        self.homes[call.account].queue.push_back(queued);
    }

    /// Serves what can be served, does what the pool decides, and refuses what cannot be.
    pub(super) fn tend(&mut self, account: usize) {
        loop {
            self.serve(account);
            let now = self.now;
            let home = &mut self.homes[account];
            let known = home.known(now, &self.heard_at);
            let is_sized = matches!(self.method, Method::Sizing(_));
            let decisions = if is_sized { home.pool.decide(&known) } else { Vec::new() };
            for decision in decisions {
                self.carry_out(account, decision);
            }
            let home = &self.homes[account];
            let Some(Queued { call, since, least }) = home.queue.front() else { return };
            let is_stranded = match home.pool.shortfall(&known, credits(call.cost), *since) {
                Shortfall::Recalling if is_sized => return,
                Shortfall::Recalling | Shortfall::Exhausted => false,
                Shortfall::Stranded { .. } => true,
            };
            let (call, is_false) = (*call, *least >= call.cost);
            self.homes[account].queue.pop_front();
            self.figures.refused_falsely += u64::from(is_false);
            self.verdict(call, Verdict::Refused { is_stranded });
        }
    }

    /// Serves calls in the order in which they came, while there are credits.
    fn serve(&mut self, account: usize) {
        loop {
            self.note_least(account);
            let home = &mut self.homes[account];
            let Some(Queued { call, .. }) = home.queue.front() else { return };
            let call = *call;
            if home.available < call.cost {
                return;
            }
            home.queue.pop_front();
            home.available -= call.cost;
            home.held += call.cost;
            if call.region == 0 {
                home.used_here += call.cost;
                home.demand.accepted(credits(call.cost), self.now);
            } else if let Some(out) = home.out.get_mut(&call.region) {
                out.demand = out.demand.with_first_call(credits(call.cost));
            }
            let captured = self.load.captured(self.scenario, call.cost);
            let ends = after(self.now, self.load.work());
            self.agenda.plan(ends, Event::HomeHoldEnds { call, captured });
            self.verdict(call, Verdict::Accepted);
        }
    }

    fn carry_out(&mut self, account: usize, decision: Decision) {
        let home = &mut self.homes[account];
        match decision {
            Decision::Mode(_) => {
                self.figures.modes += 1;
                let regions: Vec<usize> = home.out.keys().copied().collect();
                for region in regions {
                    self.push(region, account);
                }
            }
            Decision::Grant { region, amount } => {
                self.figures.grants += 1;
                let region = place(region);
                home.available -= amount.get();
                home.out.entry(region).or_default().granted += amount.get();
                self.push(region, account);
            }
            Decision::Recall { region, keep } => {
                self.figures.recalls += 1;
                let region = place(region);
                let recall = &mut home.out.entry(region).or_default().recall;
                *recall = (recall.0 + 1, keep.get());
                self.push(region, account);
                let deadline = after(self.now, RECALL_DEADLINE);
                self.agenda.plan(deadline, Event::Deadline { account });
            }
        }
    }

    /// There is news for a region.
    fn push(&mut self, region: usize, account: usize) {
        if self.pushes[region].is_empty() {
            self.agenda.plan(after(self.now, COLLECTED), Event::Push { region });
        }
        self.pushes[region].insert(account);
    }

    /// Tells a region what it has not been told in answer to its own requests.
    pub(super) fn push_now(&mut self, region: usize) {
        let accounts = std::mem::take(&mut self.pushes[region]);
        if !accounts.is_empty() {
            self.figures.messages += 1;
            self.send_vouchers(region, accounts.into_iter().collect(), true);
        }
    }

    fn send_vouchers(&mut self, region: usize, accounts: Vec<usize>, is_request: bool) {
        let vouchers = accounts.into_iter().map(|account| {
            // Whatever was to be pushed is in here.
            self.pushes[region].remove(&account);
            let home = &mut self.homes[account];
            let mode = home.pool.mode();
            let out = home.out.entry(region).or_default();
            out.voucher += 1;
            let Out { voucher: number, granted, recall, .. } = *out;
            (account, Voucher { number, granted, mode, recall })
        });
        let vouchers = vouchers.collect();
        self.send_answer(region, Answer { vouchers, verdicts: Vec::new(), is_request });
    }

    fn verdict(&mut self, call: Call, verdict: Verdict) {
        if call.region == 0 {
            if matches!(verdict, Verdict::Refused { .. }) {
                let home = &mut self.homes[call.account];
                home.demand.wanted(credits(call.cost), self.now);
            }
            self.count(call, verdict);
        } else {
            let verdicts = vec![(call, verdict)];
            self.send_answer(
                call.region,
                Answer { vouchers: Vec::new(), verdicts, is_request: false },
            );
        }
    }

    fn send_answer(&mut self, region: usize, answer: Answer) {
        let leaves = after(self.now, ACKNOWLEDGED);
        let arrives = after(leaves, one_way(region));
        if self.scenario.is_linked(region, leaves) && self.scenario.is_linked(region, arrives) {
            self.agenda.plan(arrives, Event::AtRegion { region, answer });
        } else {
            for (call, _) in answer.verdicts {
                self.agenda.plan(after(call.at, super::region::PATIENCE), Event::GaveUp { call });
            }
        }
    }

    pub(super) fn end_home_hold(&mut self, call: Call, captured: u64) {
        let home = &mut self.homes[call.account];
        home.held -= call.cost;
        home.spent += captured;
        home.available += call.cost - captured;
        if call.region == 0 {
            home.used_here -= call.cost - captured;
        } else {
            self.figures.messages += 1;
        }
        self.tend(call.account);
    }
}
