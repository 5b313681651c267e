//! The whole: who there is, what is on its way, and what has been counted.

use std::collections::{BTreeMap, BTreeSet};

use purser_ledger::Tuning;
use purser_types::Span;

use super::Method;
use super::agenda::{Agenda, after};
use super::book::{Book, BookReport, Voucher};
use super::figures::Figures;
use super::home::{Home, Queued};
use super::load::{Call, Load};
use super::scenario::{Dear, REGIONS, Scenario, TopUp};

/// See the module's documentation.
pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) method: Method,
    pub(super) now: Span,
    pub(super) agenda: Agenda<Event>,
    pub(super) load: Load,
    /// By account.
    pub(super) homes: Vec<Home>,
    /// By region, then by account.
    pub(super) books: Vec<BTreeMap<usize, Book>>,
    /// When home last heard from each region.
    pub(super) heard_at: Vec<Span>,
    /// Accounts of which home has news for a region.
    pub(super) pushes: Vec<BTreeSet<usize>>,
    /// Accounts of which a region has urgent news for home.
    pub(super) urgent: Vec<BTreeSet<usize>>,
    /// Counts a region's reports.
    pub(super) turns: Vec<u64>,
    topped_up_at: Option<Span>,
    /// Regions that have decided a call of their own since.
    woken: BTreeSet<usize>,
    pub(super) figures: Figures,
}

/// What happens.
pub(super) enum Event {
    /// A call that costs more than others.
    DearCall {
        region: usize,
        cost: u64,
    },
    Call {
        region: usize,
    },
    /// The next of so many calls that are left of a burst.
    CallOfBurst {
        account: usize,
        region: usize,
        left: u64,
    },
    /// A region's report in its turn, unless it has made that report already.
    Report {
        region: usize,
        number: u64,
    },
    /// A region's urgent report.
    Flush {
        region: usize,
    },
    AtHome {
        region: usize,
        parcel: Parcel,
    },
    /// A request to home that nobody answered.
    Lost {
        region: usize,
        parcel: Parcel,
    },
    /// Home's urgent news.
    Push {
        region: usize,
    },
    AtRegion {
        region: usize,
        answer: Answer,
    },
    GaveUp {
        call: Call,
    },
    HoldEnds {
        call: Call,
        captured: u64,
    },
    HomeHoldEnds {
        call: Call,
        captured: u64,
    },
    /// A recall should have been answered.
    Deadline {
        account: usize,
    },
    TopUp {
        credits: u64,
    },
}

/// From a region to home.
pub(super) struct Parcel {
    pub(super) reports: Vec<(usize, BookReport)>,
    pub(super) calls: Vec<Call>,
    /// Whether it answers a request of home's.
    pub(super) is_answer: bool,
}

/// From home to a region.
pub(super) struct Answer {
    pub(super) vouchers: Vec<(usize, Voucher)>,
    pub(super) verdicts: Vec<(Call, Verdict)>,
    /// Whether it is home that asks.
    pub(super) is_request: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    Refused { is_stranded: bool },
    Unavailable,
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, method: Method, seed: u64) -> Self {
        let count = REGIONS.len();
        let tuning = match method {
            Method::Sizing(tuning) => tuning,
            Method::Forwarding | Method::EqualSplit => Tuning::USUAL,
        };
        let homes = (0..scenario.accounts).map(|_| Home::new(0, tuning));
        let mut world = Self {
            scenario,
            method,
            now: Span::ZERO,
            agenda: Agenda::default(),
            load: Load::new(scenario, seed),
            homes: homes.collect(),
            books: (0..count).map(|_| BTreeMap::new()).collect(),
            heard_at: vec![Span::ZERO; count],
            pushes: vec![BTreeSet::new(); count],
            urgent: vec![BTreeSet::new(); count],
            turns: vec![0; count],
            topped_up_at: None,
            woken: BTreeSet::new(),
            figures: Figures::default(),
        };
        world.top_up(scenario.credits);
        for region in 0..count {
            world.agenda.plan(Span::ZERO, Event::Call { region });
            if region != 0 && method != Method::Forwarding {
                world.agenda.plan(Span::ZERO, Event::Report { region, number: 0 });
            }
        }
        if let Some(TopUp { from, until, credits }) = scenario.top_up {
            for second in from..until {
                world.agenda.plan(Span::from_secs(second), Event::TopUp { credits });
            }
        }
        if let Some(Dear { every, cost }) = scenario.dear {
            for (second, turn) in
                (1..scenario.seconds).filter(|second| second % every == 0).zip(0..)
            {
                let region = turn % count;
                world.agenda.plan(Span::from_secs(second), Event::DearCall { region, cost });
            }
        }
        world
    }

    pub(super) fn run(mut self) -> Figures {
        let end = Span::from_secs(self.scenario.seconds + self.scenario.rest_seconds);
        while let Some((at, event)) = self.agenda.next() {
            if at > end {
                break;
            }
            self.now = at;
            self.happen(event);
        }
        for account in 0..self.homes.len() {
            let home = &self.homes[account];
            let books = self.books.iter().filter_map(|books| books.get(&account));
            let (used, at_rest) = books.fold((home.spent, 0), |(used, at_rest), book| {
                (used + book.spent, at_rest + book.right())
            });
            self.figures.used += used;
            self.figures.at_rest += at_rest;
            self.figures.left += home.available + at_rest;
        }
        self.figures
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Call { region } => self.call(region),
            Event::CallOfBurst { account, region, left } => {
                self.call_of_burst(account, region, left);
            }
            Event::DearCall { region, cost } => self.call_for(0, region, cost),
            Event::Report { region, number } => self.report_in_turn(region, number),
            Event::Flush { region } => self.flush(region),
            Event::AtHome { region, parcel } => self.parcel_at_home(region, parcel),
            Event::Lost { region, parcel } => self.lost(region, parcel),
            Event::Push { region } => self.push_now(region),
            Event::AtRegion { region, answer } => self.answer_at_region(region, answer),
            Event::GaveUp { call } => self.gave_up(call),
            Event::HoldEnds { call, captured } => self.end_hold(call, captured),
            Event::HomeHoldEnds { call, captured } => self.end_home_hold(call, captured),
            Event::Deadline { account } => self.tend(account),
            Event::TopUp { credits } => self.top_up(credits),
        }
    }

    fn call(&mut self, region: usize) {
        let (next, is_call) = self.load.next_call(self.scenario, region, self.now);
        if next < Span::from_secs(self.scenario.seconds) {
            self.agenda.plan(next, Event::Call { region });
        }
        if !is_call {
            return;
        }
        let account = self.load.account();
        self.call_of_burst(account, region, self.scenario.burst);
    }

    /// A call, and after a while the rest of its burst.
    fn call_of_burst(&mut self, account: usize, region: usize, left: u64) {
        let cost = self.load.cost(self.scenario);
        self.call_for(account, region, cost);
        if left > 1 {
            let next = after(self.now, self.load.between());
            self.agenda.plan(next, Event::CallOfBurst { account, region, left: left - 1 });
        }
    }

    fn call_for(&mut self, account: usize, region: usize, cost: u64) {
        let call = Call { account, region, cost, at: self.now, is_first: false };
        if region == 0 {
            self.queue_at_home(call);
            self.tend(account);
        } else {
            self.call_away(call);
        }
    }

    /// Credits for each account.
    fn top_up(&mut self, credits: u64) {
        let had_nothing = self.homes.iter().all(|home| home.available == 0);
        if had_nothing && self.now > Span::ZERO {
            self.topped_up_at = Some(self.now);
        }
        let parts = u64::try_from(REGIONS.len()).unwrap_or(1);
        let part = if self.method == Method::EqualSplit { credits / parts } else { 0 };
        for account in 0..self.homes.len() {
            let now = self.now;
            self.homes[account].available += credits;
            for region in 1..REGIONS.len() {
                if part > 0 {
                    let book = self.books[region].entry(account);
                    book.or_insert_with(|| Book::new(now)).granted += part;
                    let home = &mut self.homes[account];
                    home.available -= part;
                    home.out.entry(region).or_default().granted += part;
                }
            }
            self.tend(account);
        }
    }

    /// What there is at home and could be had from regions that can be reached, on its way included.
    pub(super) fn within_reach(&self, account: usize) -> u64 {
        let home = &self.homes[account];
        let out = home.out.iter().filter(|(region, _)| self.scenario.is_linked(**region, self.now));
        let free = out.map(|(region, out)| {
            let gone = self.books[*region].get(&account).map_or(0, |book| book.spent + book.held);
            out.granted - out.returned - gone
        });
        home.available + free.sum::<u64>()
    }

    /// Whoever waits could not have had more than this.
    pub(super) fn note_least(&mut self, account: usize) {
        if self.homes[account].queue.is_empty() {
            return;
        }
        let within_reach = self.within_reach(account);
        for Queued { least, .. } in &mut self.homes[account].queue {
            *least = (*least).min(within_reach);
        }
    }

    /// A region has decided a call of its own.
    pub(super) fn note_woken(&mut self, region: usize) {
        let Some(topped_up_at) = self.topped_up_at else { return };
        if self.woken.insert(region) && self.woken.len() == REGIONS.len() - 1 {
            let waited = self.now.as_micros() - topped_up_at.as_micros();
            self.figures.woken_after = Some(Span::from_micros(waited));
        }
    }

    pub(super) fn count(&mut self, call: Call, verdict: Verdict) {
        let figures = &mut self.figures;
        match verdict {
            Verdict::Accepted => {
                figures.accepted += 1;
                figures.accepted_away += u64::from(call.region != 0 && !call.is_first);
            }
            Verdict::Refused { is_stranded } => {
                figures.refused += 1;
                figures.stranded += u64::from(is_stranded);
            }
            Verdict::Unavailable => figures.unavailable += 1,
        }
    }
}
