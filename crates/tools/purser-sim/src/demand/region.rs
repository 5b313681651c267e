//! Regions: deciding calls, forwarding them, and reporting.

use purser_ledger::Mode;
use purser_types::Span;

use super::Method;
use super::agenda::{after, millis};
use super::book::{Book, Voucher, credits};
use super::home::{COLLECTED, refill};
use super::load::Call;
use super::scenario::one_way;
use super::world::{Answer, Event, Parcel, Verdict, World};

/// How long a call waits for home.
pub(super) const PATIENCE: Span = millis(2_500);

impl World<'_> {
    /// A call comes to a region that is not home.
    pub(super) fn call_away(&mut self, mut call: Call) {
        let now = self.now;
        let books = &mut self.books[call.region];
        let book = books.entry(call.account).or_insert_with(|| Book::new(now));
        call.is_first = !std::mem::replace(&mut book.has_called, true);
        if matches!(self.method, Method::Forwarding) {
            self.forward(vec![call]);
        } else if book.waiting.is_empty() && book.accept(call.cost, now) {
            let is_low = book.right() < book.low_water && !book.is_asking;
            book.is_asking |= is_low;
            self.accepted_away(call, false);
            if is_low {
                self.flush_soon(call.region, call.account);
            }
        } else if matches!(self.method, Method::EqualSplit) {
            let could_pay = self.within_reach(call.account) >= call.cost;
            self.figures.refused_falsely += u64::from(could_pay);
            self.count(call, Verdict::Refused { is_stranded: false });
        } else if book.is_asking && book.mode == Mode::Local {
            book.waiting.push(call);
        } else {
            book.is_asking = true;
            self.forward(vec![call]);
        }
    }

    /// The region has accepted a call.
    fn accepted_away(&mut self, call: Call, has_waited: bool) {
        let captured = self.load.captured(self.scenario, call.cost);
        let ends = after(self.now, self.load.work());
        self.agenda.plan(ends, Event::HoldEnds { call, captured });
        self.note_least(call.account);
        self.count(call, Verdict::Accepted);
        if !call.is_first {
            self.figures.local += 1;
            self.figures.waited += u64::from(has_waited);
        }
        self.note_woken(call.region);
    }

    /// Passes calls on to home, with the report of their account.
    fn forward(&mut self, calls: Vec<Call>) {
        let Some(Call { region, account, .. }) = calls.first().copied() else { return };
        let now = self.now;
        let book = self.books[region].get_mut(&account);
        let reports = match (self.method, book) {
            (Method::Sizing(_), Some(book)) => vec![(account, book.report(refill(region), now))],
            _ => Vec::new(),
        };
        self.figures.messages += u64::try_from(calls.len()).unwrap_or(0);
        self.send_parcel(region, Parcel { reports, calls, is_answer: false });
    }

    /// What is to be reported at once leaves with what else becomes urgent meanwhile.
    fn flush_soon(&mut self, region: usize, account: usize) {
        if self.urgent[region].is_empty() {
            self.agenda.plan(after(self.now, COLLECTED), Event::Flush { region });
        }
        self.urgent[region].insert(account);
    }

    /// Reports what is urgent, and everything else that is new, so that the next report in its turn is
    /// an interval away.
    pub(super) fn flush(&mut self, region: usize) {
        self.report_now(region, false);
    }

    /// A report's turn has come, unless another was made meanwhile.
    pub(super) fn report_in_turn(&mut self, region: usize, number: u64) {
        if self.turns[region] == number {
            self.report_now(region, false);
        }
    }

    fn report_now(&mut self, region: usize, is_answer: bool) {
        let now = self.now;
        let urgent = std::mem::take(&mut self.urgent[region]);
        let idle = Span::from_micros(purser_ledger::IDLE_INTERVAL.as_micros() * 9 / 10);
        let mut reports = Vec::new();
        let mut interval = purser_ledger::IDLE_INTERVAL;
        for (account, book) in &mut self.books[region] {
            let is_due = book.right() > 0 && after(book.reported_at, idle) <= now;
            if book.has_news || is_due || urgent.contains(account) {
                reports.push((*account, book.report(refill(region), now)));
            }
            interval = interval.min(book.told.report_interval());
        }
        self.turns[region] += 1;
        let next = after(now, self.load.jittered(interval));
        self.agenda.plan(next, Event::Report { region, number: self.turns[region] });
        if !reports.is_empty() {
            self.figures.messages += u64::from(!is_answer);
            self.send_parcel(region, Parcel { reports, calls: Vec::new(), is_answer });
        }
    }

    fn send_parcel(&mut self, region: usize, parcel: Parcel) {
        let arrives = after(self.now, one_way(region));
        if self.scenario.is_linked(region, self.now) && self.scenario.is_linked(region, arrives) {
            self.agenda.plan(arrives, Event::AtHome { region, parcel });
        } else if !parcel.is_answer {
            self.agenda.plan(after(self.now, PATIENCE), Event::Lost { region, parcel });
        }
    }

    /// Home did not answer.
    pub(super) fn lost(&mut self, region: usize, parcel: Parcel) {
        for call in parcel.calls {
            self.gave_up(call);
        }
        for (account, _) in parcel.reports {
            let Some(book) = self.books[region].get_mut(&account) else { continue };
            book.is_asking = false;
            // What the report said may not have been heard.
            book.has_news = true;
            for call in std::mem::take(&mut book.waiting) {
                self.gave_up(call);
            }
        }
    }

    /// A call was not answered in time, if it was not.
    pub(super) fn gave_up(&mut self, call: Call) {
        self.count(call, Verdict::Unavailable);
    }

    /// Home's answer, or a request of home's.
    pub(super) fn answer_at_region(&mut self, region: usize, answer: Answer) {
        for (call, verdict) in answer.verdicts {
            self.hear(call, verdict);
        }
        let mut is_urgent = false;
        for (account, voucher) in answer.vouchers {
            is_urgent |= self.follow(region, account, &voucher);
        }
        if answer.is_request {
            self.report_now(region, true);
        } else if is_urgent {
            self.report_now(region, false);
        }
    }

    /// The verdict on a call that was passed on.
    fn hear(&mut self, call: Call, verdict: Verdict) {
        let now = self.now;
        if let Some(book) = self.books[call.region].get_mut(&call.account) {
            let cost = credits(call.cost);
            book.has_news = true;
            match verdict {
                Verdict::Accepted => book.demand.accepted_by_home(cost, now),
                Verdict::Refused { .. } | Verdict::Unavailable => book.demand.wanted(cost, now),
            }
        }
        self.count(call, verdict);
    }

    /// Does as a voucher says, and serves who waited for it; whether home should hear of it at once.
    fn follow(&mut self, region: usize, account: usize, voucher: &Voucher) -> bool {
        let now = self.now;
        let Some(book) = self.books[region].get_mut(&account) else { return false };
        let is_urgent = book.follow(voucher, refill(region));
        book.is_asking = false;
        let waiting = std::mem::take(&mut book.waiting);
        let mut short = Vec::new();
        for call in waiting {
            let book = self.books[region].get_mut(&account);
            if book.is_some_and(|book| book.accept(call.cost, now)) {
                self.accepted_away(call, true);
            } else {
                short.push(call);
            }
        }
        if !short.is_empty() {
            if let Some(book) = self.books[region].get_mut(&account) {
                book.is_asking = true;
            }
            self.forward(short);
        }
        is_urgent
    }

    pub(super) fn end_hold(&mut self, call: Call, captured: u64) {
        if let Some(book) = self.books[call.region].get_mut(&call.account) {
            book.end_hold(call.cost, captured);
        }
    }
}
