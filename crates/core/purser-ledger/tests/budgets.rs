//! Whatever is held, taken and given back under budgets, in whichever period: the figures are those of a
//! model that keeps every hold and adds up.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use purser_ledger::scenario;

const NAMES: [&str; 3] = ["team", "a", "b"];

const DEBT_LIMIT: u64 = 8;

/// What is done next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Which budgets are named: nothing, `a`, `b`, `a,b`, `b,a`, `team`.
    Authorize(u64, usize),
    Charge(u64, usize),
    /// Late if the hold has expired.
    Capture {
        hold: usize,
        amount: u64,
        is_final: bool,
        allow_debt: bool,
    },
    Release(usize),
    Refund(usize, u64),
    Reclaim(usize),
    Limit(usize, u64),
    Later(u64),
    Restart,
}

const NAMED: [&[usize]; 6] = [&[], &[1], &[2], &[1, 2], &[2, 1], &[0]];

/// A hold or charge as the model keeps it.
#[derive(Debug, Default)]
struct Record {
    caps: Vec<(usize, u64)>,
    held: u64,
    net: u64,
    captured: u64,
    refunded: u64,
    is_reclaimed: bool,
    is_live: bool,
    has_expired: bool,
    expires_at: u64,
}

#[derive(Debug)]
struct Model {
    now: u64,
    granted: u64,
    limits: [u64; 3],
    records: Vec<Record>,
    /// The periods of each budget in which something was begun.
    begun: [Vec<u64>; 3],
}

impl Model {
    fn new(granted: u64) -> Self {
        let (limits, begun) = ([30, 12, 20], [vec![], vec![], vec![]]);
        Self { now: 0, granted, limits, records: Vec::new(), begun }
    }

    /// What is available, and what is owed.
    fn left(&self) -> (u64, u64) {
        let taken = self.records.iter().map(|record| record.held + record.net).sum::<u64>();
        (self.granted.saturating_sub(taken), taken.saturating_sub(self.granted))
    }

    /// `team` has one period, `a` has 10 s, `b` has 15 s and 25 s in turns.
    fn period(budget: usize, now: u64) -> (u64, Option<u64>) {
        match (budget, now % 40) {
            (0, _) => (0, None),
            (1, _) => (now - now % 10, Some(now - now % 10 + 10)),
            (_, within @ 0..15) => (now - within, Some(now - within + 15)),
            (_, within) => (now - within + 15, Some(now - within + 40)),
        }
    }

    /// Whether the figures of a period are no longer kept.
    fn is_forgotten(&self, budget: usize, from: u64) -> bool {
        let begun = &self.begun[budget];
        begun.contains(&from) && !begun.iter().rev().take(13).any(|kept| *kept == from)
    }

    fn figures(&self, budget: usize, from: u64) -> (u64, u64) {
        let under = self.records.iter().filter(|record| record.caps.contains(&(budget, from)));
        under.fold((0, 0), |(held, used), record| (held + record.held, used + record.net))
    }

    fn first_exceeded(&self, caps: &[(usize, u64)], amount: u64) -> Option<usize> {
        let exceeds = |&&(budget, from): &&(usize, u64)| {
            let (held, used) = self.figures(budget, from);
            self.is_forgotten(budget, from) || held + used + amount > self.limits[budget]
        };
        caps.iter().find(exceeds).map(|(budget, _)| *budget)
    }

    fn begin(&mut self, amount: u64, named: &[usize], is_hold: bool) -> Result<(), String> {
        let mut caps: Vec<(usize, u64)> = Vec::new();
        for budget in named {
            for budget in [*budget, 0] {
                let cap = (budget, Self::period(budget, self.now).0);
                if !caps.contains(&cap) {
                    caps.push(cap);
                }
            }
        }
        if let Some(budget) = self.first_exceeded(&caps, amount) {
            return Err(format!("budget_exceeded budget={}", NAMES[budget]));
        }
        if amount > self.left().0 {
            return Err("insufficient_credits".to_owned());
        }
        for (budget, from) in &caps {
            if self.begun[*budget].last() != Some(from) {
                self.begun[*budget].push(*from);
            }
        }
        let (held, net) = if is_hold { (amount, 0) } else { (0, amount) };
        let expires_at = self.now + 12;
        let record = Record {
            caps,
            held,
            net,
            captured: net,
            is_live: is_hold,
            expires_at,
            ..Record::default()
        };
        self.records.push(record);
        Ok(())
    }

    fn capture(
        &mut self,
        hold: usize,
        amount: u64,
        is_final: bool,
        allow_debt: bool,
    ) -> Result<(), String> {
        let record = &self.records[hold];
        let beyond = amount.saturating_sub(record.held);
        if !record.is_live && !record.has_expired {
            return Err(String::new());
        }
        let is_final = is_final || record.has_expired;
        let (available, debt) = self.left();
        // What is owed is no budget's.
        let paid = if allow_debt { beyond.min(available) } else { beyond };
        if paid > 0
            && let Some(budget) = self.first_exceeded(&record.caps, paid)
        {
            return Err(format!("budget_exceeded budget={}", NAMES[budget]));
        }
        let owed = beyond.saturating_sub(available);
        if owed > 0 && (!allow_debt || debt + owed > DEBT_LIMIT) {
            return Err("insufficient_credits".to_owned());
        }
        let record = &mut self.records[hold];
        record.held = if is_final { 0 } else { record.held - amount.min(record.held) };
        record.net += amount;
        record.captured += amount;
        record.is_live = !is_final;
        record.has_expired = false;
        Ok(())
    }

    /// Plays a step: the line, and what is said if it is refused.
    fn play(&mut self, step: Step) -> (String, Result<(), String>) {
        let refuse = |refuses: bool| if refuses { Err(String::new()) } else { Ok(()) };
        let under = |named: &[usize]| {
            let names: Vec<&str> = named.iter().map(|budget| NAMES[*budget]).collect();
            if names.is_empty() { String::new() } else { format!(" budgets={}", names.join(",")) }
        };
        let next = self.records.len();
        match step {
            Step::Authorize(amount, named) => {
                let line =
                    format!("authorize acme {amount} hold=h{next} ttl=12s{}", under(NAMED[named]));
                (line, self.begin(amount, NAMED[named], true))
            }
            Step::Charge(amount, named) => {
                let line = format!("charge acme {amount} charge=h{next}{}", under(NAMED[named]));
                (line, self.begin(amount, NAMED[named], false))
            }
            Step::Capture { hold, amount, is_final, allow_debt } => {
                let debt = if allow_debt { " allow_debt" } else { "" };
                let line =
                    format!("capture h{hold} {amount} final={is_final}{debt} if_expired=charge");
                (line, self.capture(hold, amount, is_final, allow_debt))
            }
            Step::Release(hold) => {
                let record = &mut self.records[hold];
                let was_live = std::mem::take(&mut record.is_live);
                record.held = 0;
                (format!("release h{hold}"), refuse(!was_live))
            }
            Step::Refund(hold, amount) => {
                let record = &mut self.records[hold];
                let fits = amount <= record.net;
                if fits {
                    record.net -= amount;
                    record.refunded += amount;
                }
                (format!("refund h{hold} {amount}"), refuse(!fits))
            }
            Step::Reclaim(hold) => {
                let record = &mut self.records[hold];
                let may = !record.is_reclaimed && record.refunded > 0;
                if may {
                    record.net += record.refunded;
                    record.is_reclaimed = true;
                }
                (format!("reclaim h{hold}"), refuse(!may))
            }
            Step::Limit(budget, limit) => {
                self.limits[budget] = limit;
                (setting(budget, limit), Ok(()))
            }
            Step::Later(seconds) => {
                self.now += seconds;
                let over = |record: &&mut Record| record.is_live && record.expires_at <= self.now;
                for record in self.records.iter_mut().filter(over) {
                    record.is_live = false;
                    record.has_expired = true;
                    record.held = 0;
                }
                (format!("@ {}s", self.now), Ok(()))
            }
            Step::Restart => ("restart".to_owned(), Ok(())),
        }
    }

    /// What is told of the budgets, by name.
    fn told(&self) -> Vec<String> {
        [1, 2, 0].into_iter().map(|budget| self.told_of(budget)).collect()
    }

    fn told_of(&self, budget: usize) -> String {
        let amounts = |from| {
            let (held, used) = self.figures(budget, from);
            let shown =
                [("held", held), ("used", used)].into_iter().filter(|(_, amount)| *amount > 0);
            shown.map(|(name, amount)| format!(" {name}={amount}")).collect::<String>()
        };
        let (from, until) = Self::period(budget, self.now);
        let (held, used) = self.figures(budget, from);
        let (name, limit) = (NAMES[budget], self.limits[budget]);
        let parent = if budget == 0 { "" } else { " parent=team" };
        let left = limit.saturating_sub(held + used);
        let mut text = format!("{name}{parent} limit={limit}{} left={left}", amounts(from));
        if let Some(until) = until {
            text.push_str(&format!(" {from}s..{until}s"));
        }
        for past in self.begun[budget].iter().rev().take(13).filter(|past| **past != from) {
            let until = Self::period(budget, *past).1.unwrap();
            text.push_str(&format!(", before{} {past}s..{until}s", amounts(*past)));
        }
        text
    }
}

fn setting(budget: usize, limit: u64) -> String {
    let more = ["", " parent=team periods=0s,10s", " parent=team periods=0s,15s,40s"][budget];
    format!("budget acme {} {limit}{more}", NAMES[budget])
}

fn step() -> impl Strategy<Value = Step> {
    let hold = || any::<prop::sample::Index>().prop_map(|index| index.index(1_000));
    prop_oneof![
        5 => (1..14_u64, 0..6_usize).prop_map(|(amount, named)| Step::Authorize(amount, named)),
        4 => (1..14_u64, 0..6_usize).prop_map(|(amount, named)| Step::Charge(amount, named)),
        5 => (hold(), 1..20_u64, any::<bool>(), prop::bool::weighted(0.2)).prop_map(
            |(hold, amount, is_final, allow_debt)| Step::Capture { hold, amount, is_final, allow_debt }
        ),
        2 => hold().prop_map(Step::Release),
        4 => (hold(), 1..12_u64).prop_map(|(hold, amount)| Step::Refund(hold, amount)),
        2 => hold().prop_map(Step::Reclaim),
        1 => (0..3_usize, 0..40_u64).prop_map(|(budget, limit)| Step::Limit(budget, limit)),
        4 => prop_oneof![Just(3_u64), Just(7), Just(10), Just(90)].prop_map(Step::Later),
        1 => Just(Step::Restart),
    ]
}

/// Holds by the place that they have among those that were asked for.
fn within(step: Step, count: usize) -> Option<Step> {
    let place = |hold: usize| (count > 0).then(|| hold % count);
    Some(match step {
        Step::Capture { hold, amount, is_final, allow_debt } => {
            Step::Capture { hold: place(hold)?, amount, is_final, allow_debt }
        }
        Step::Release(hold) => Step::Release(place(hold)?),
        Step::Refund(hold, amount) => Step::Refund(place(hold)?, amount),
        Step::Reclaim(hold) => Step::Reclaim(place(hold)?),
        other => other,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn budgets_come_to_what_was_done_under_them(
        steps in prop::collection::vec(step(), 1..60),
        granted in prop_oneof![20..60_u64, Just(100_000)],
    ) {
        let mut model = Model::new(granted);
        let mut transcript = format!("open acme debt_limit={DEBT_LIMIT}\ngrant acme {granted}\n");
        for budget in 0..3 {
            transcript.push_str(&format!("{}\n", setting(budget, model.limits[budget])));
        }
        let mut expected = Vec::new();
        for step in steps {
            let Some(step) = within(step, model.records.len()) else { continue };
            let (line, said) = model.play(step);
            transcript.push_str(&format!("{line}\nbudgets acme\n"));
            expected.push((line, said, model.told()));
        }
        let answered = scenario::play(&transcript).unwrap();
        let mut rest = answered.as_str();
        for (line, said, told) in expected {
            let (before, after) = rest.split_once("budgets acme\n").unwrap();
            let refused = before.split_once(&line).unwrap().1;
            let refused = refused.lines().find_map(|line| line.strip_prefix("> rejected "));
            prop_assert_eq!(said.is_ok(), refused.is_none(), "{} of {}", line, answered);
            if let (Err(said), Some(refused)) = (said, refused) {
                prop_assert!(refused.starts_with(&said), "{}", answered);
            }
            let shown: Vec<&str> = after.lines().map_while(|line| line.strip_prefix("> ")).collect();
            prop_assert_eq!(shown, told, "{}", answered);
            rest = after;
        }
    }
}
