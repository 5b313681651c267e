//! The policy as a whole: single rules, a loop of steady demand, and anything at all.

use proptest::prelude::*;

use super::arithmetic::wide;
use super::*;

fn amount(amount: u64) -> Credits {
    Credits::from_u64(amount).unwrap()
}

fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

/// A region that uses `rate` credits a second, three a call, and was heard from just now.
fn share(outstanding: u64, rate: u64) -> Share {
    let demand = DemandReport {
        rate: Rate(rate * 1_000),
        mean_cost: amount(3),
        p99_cost: amount(5),
        want: Credits::ZERO,
        idle: if rate == 0 { Span::from_secs(61) } else { Span::ZERO },
        ending: Credits::ZERO,
    };
    Share {
        outstanding: amount(outstanding),
        held: Credits::ZERO,
        unsettled: Credits::ZERO,
        demand,
        heard_at: Span::ZERO,
        report: 0,
        refill: Span::from_micros(250_000),
    }
}

fn known(available: u64, shares: &[(&str, Share)]) -> Known {
    Known {
        available: amount(available),
        shares: shares.iter().map(|(name, share)| (region(name), *share)).collect(),
        ..Known::default()
    }
}

/// One call that came at the start.
fn waiting(credits: u64) -> Waiting {
    Waiting { credits: amount(credits), first: amount(credits), since: Span::ZERO }
}

fn pool() -> Pool {
    Pool::new(Tuning::USUAL, Mode::Local)
}

fn grant(name: &str, credits: u64) -> Decision {
    Decision::Grant { region: region(name), amount: amount(credits) }
}

fn recall(name: &str, keep: u64) -> Decision {
    Decision::Recall { region: region(name), keep: amount(keep) }
}

/// Everybody has reported anew, `seconds` after the start.
fn report_at(known: &mut Known, seconds: u64) {
    known.now = Span::from_secs(seconds);
    for share in known.shares.values_mut() {
        share.heard_at = known.now;
        share.report += 1;
    }
}

#[test]
fn a_region_whose_first_grant_is_given_up_is_granted_it_with_the_next_look() {
    let known = known(100_000, &[("eu", share(0, 100))]);
    let mut pool = pool();
    let first = pool.decide(&known);
    assert_eq!(first.iter().filter_map(Decision::granted).collect::<Vec<_>>(), [region("eu")]);
    assert_eq!(pool.decide(&known), [], "it has reported nothing since");
    pool.look_again(region("eu"));
    assert_eq!(pool.decide(&known), first);
}

#[test]
fn what_ends_before_long_is_as_good_as_gone() {
    // As above, 1,143 would do for both.
    let mut known = known(100_000, &[("ap", share(1_143, 100)), ("eu", share(1_143, 100))]);
    known.shares.get_mut(&region("eu")).unwrap().demand.ending = amount(1_100);
    assert_eq!(pool().decide(&known), [grant("eu", 1_100)]);
    // It has twice as much then, and is not asked back for that.
    known.shares.get_mut(&region("eu")).unwrap().outstanding = amount(2_243);
    let mut pool = pool();
    for second in 1..=4 {
        report_at(&mut known, second);
        assert_eq!(pool.decide(&known), []);
    }
}

#[test]
fn a_region_that_runs_low_is_filled_to_its_target() {
    // 100 × 10 + 8 × √(100 × 3) + 5 = 1,143.
    let mut known = known(100_000, &[("ap", share(0, 100)), ("eu", share(1_000, 100))]);
    let mut pool = pool();
    assert_eq!(pool.decide(&known), [grant("ap", 1_143)]);
    // Nothing is granted to who has not reported anew: it would cost a message of its own.
    assert_eq!(pool.decide(&known), []);
    report_at(&mut known, 1);
    assert_eq!(pool.decide(&known), [grant("ap", 1_143)]);
}

#[test]
fn a_region_with_few_calls_gets_enough_for_a_burst_of_what_calls_cost_elsewhere() {
    let mut quiet = share(0, 0);
    (quiet.demand.idle, quiet.demand.p99_cost) = (Span::ZERO, amount(1));
    // Its own calls are cheap, and 32 of those in ap come to 160.
    let decisions = pool().decide(&known(100_000, &[("ap", share(1_143, 100)), ("eu", quiet)]));
    assert_eq!(decisions, [grant("eu", 160)]);
    // Where that would be more than an eighth of the whole for both regions, it gets no more than that.
    let decisions = pool().decide(&known(857, &[("ap", share(1_143, 100)), ("eu", quiet)]));
    assert_eq!(decisions, [grant("eu", 125)]);
    // Half of it may be used before there is more.
    quiet.outstanding = amount(80);
    assert_eq!(pool().decide(&known(100_000, &[("ap", share(1_143, 100)), ("eu", quiet)])), []);
    quiet.outstanding = amount(79);
    let decisions = pool().decide(&known(100_000, &[("ap", share(1_143, 100)), ("eu", quiet)]));
    assert_eq!(decisions, [grant("eu", 81)]);
    // Without any call there is no burst to expect.
    (quiet.outstanding, quiet.demand) = (Credits::ZERO, DemandReport::default());
    assert_eq!(pool().decide(&known(100_000, &[("ap", share(1_143, 100)), ("eu", quiet)])), []);
}

#[test]
fn what_is_held_or_spent_already_does_not_count_as_there() {
    let full = share(1_143, 100);
    let held = Share { held: amount(1_000), ..full };
    let spent = Share { unsettled: amount(1_000), ..full };
    let known = known(100_000, &[("ap", held), ("eu", full), ("us", spent)]);
    assert_eq!(pool().decide(&known), [grant("ap", 1_000), grant("us", 1_000)]);
}

#[test]
fn a_surplus_is_asked_back_after_three_reports_and_once() {
    let mut known = known(100_000, &[("ap", share(3_000, 100)), ("eu", share(2_000, 100))]);
    let mut pool = pool();
    for (second, expected) in [(1, vec![]), (2, vec![]), (3, vec![recall("ap", 1_143)])] {
        report_at(&mut known, second);
        assert_eq!(pool.decide(&known), expected, "second {second}");
    }
    for second in 4..10 {
        report_at(&mut known, second);
        // A recall that was not answered in time is given up, and three more reports must agree.
        let expected = if second == 6 { vec![recall("ap", 1_143)] } else { vec![] };
        assert_eq!(pool.decide(&known), expected, "second {second}");
        if second == 6 {
            pool.answered(region("ap"));
            known.shares.get_mut(&region("ap")).unwrap().outstanding = amount(1_143);
        }
    }
}

#[test]
fn an_idle_region_keeps_enough_for_a_burst_for_an_hour_and_then_nothing() {
    let check = |minutes: u64, available: u64, expected: &[Decision]| {
        let mut idle = share(500, 0);
        idle.demand.idle = Span::from_secs(minutes * 60);
        assert_eq!(pool().decide(&known(available, &[("ap", idle)])), expected);
    };
    check(1, 100_000, &[recall("ap", 160)]);
    check(60, 100_000, &[recall("ap", 0)]);
    // Where there is not plenty, it keeps nothing at once.
    check(1, 400, &[recall("ap", 0)]);
}

#[test]
fn another_region_that_is_short_is_helped_by_the_largest_surplus() {
    let shares = [
        ("ap", share(1_900, 50)),
        ("eu", share(4_000, 100)),
        ("us", share(0, 100)),
        ("za", share(700, 50)),
    ];
    let decisions = pool().decide(&known(100, &shares));
    // All in all 6,700 at 300/s: everybody can go on for ten seconds.
    assert_eq!(decisions, [recall("eu", 1_143), grant("us", 100)]);
}

#[test]
fn what_waiting_calls_need_is_not_granted_away() {
    let mut known = known(1_000, &[("ap", share(0, 100)), ("eu", share(5_000, 100))]);
    known.waiting = Some(waiting(900));
    assert_eq!(pool().decide(&known), [recall("eu", 1_143), grant("ap", 100)]);
}

#[test]
fn a_call_that_home_cannot_serve_recalls_from_all_at_once() {
    let shares = [("ap", share(1_000, 100)), ("eu", share(2_000, 100)), ("us", share(0, 100))];
    let mut known = known(10, &shares);
    known.waiting = Some(waiting(1_010));
    let mut pool = Pool::new(Tuning::USUAL, Mode::Strict);
    assert_eq!(pool.decide(&known), [recall("eu", 0), recall("ap", 0)]);
    assert_eq!(pool.shortfall(&known, amount(1_010), Span::ZERO), Shortfall::Recalling);
    assert_eq!(pool.shortfall(&known, amount(3_011), Span::ZERO), Shortfall::Exhausted);
    assert_eq!(pool.decide(&known), []);
    // One answers that all is held or spent. The other does not answer.
    pool.answered(region("eu"));
    known.shares.get_mut(&region("eu")).unwrap().held = amount(2_000);
    known.now = RECALL_DEADLINE;
    let stranded = Shortfall::Stranded { amount: amount(1_000), regions: vec![region("ap")] };
    assert_eq!(pool.shortfall(&known, amount(1_010), Span::ZERO), stranded);
    assert_eq!(pool.shortfall(&known, amount(1_011), Span::ZERO), Shortfall::Exhausted);
    // For a call that came after the question was sent, the answer says too little.
    let later = Span::from_micros(1);
    assert_eq!(pool.shortfall(&known, amount(1_011), later), Shortfall::Recalling);
}

#[test]
fn a_call_that_nobody_could_pay_asks_nothing_back() {
    let shares = [("ap", share(1_143, 100)), ("eu", share(1_143, 100))];
    let mut known = known(10_000, &shares);
    known.waiting = Some(waiting(12_287));
    assert_eq!(pool().decide(&known), []);
    assert_eq!(pool().shortfall(&known, amount(12_287), Span::ZERO), Shortfall::Exhausted);
    // One credit less might be found, though others wait behind it that are too many.
    known.waiting = Some(Waiting { first: amount(12_286), ..waiting(20_000) });
    assert_eq!(pool().decide(&known), [recall("ap", 0), recall("eu", 0)]);
}

#[test]
fn the_last_credits_are_for_home_to_decide_until_there_is_enough_again() {
    // Two regions of which each needs 100 at least: 12 × 2 × 100, and four times that.
    let shares = [("ap", share(400, 100)), ("eu", share(400, 100))];
    let mut pool = pool();
    let mut modes = |available: u64| {
        let mut known = known(available, &shares);
        report_at(&mut known, available);
        let is_mode = |decision: &Decision| matches!(decision, Decision::Mode(_));
        pool.decide(&known).into_iter().filter(is_mode).collect::<Vec<_>>()
    };
    assert_eq!(modes(1_600), []);
    assert_eq!(modes(1_599), [Decision::Mode(Mode::Strict)]);
    assert_eq!(modes(8_799), []);
    assert_eq!(modes(8_800), [Decision::Mode(Mode::Local)]);
}

#[test]
fn when_there_is_enough_again_all_regions_are_granted_at_once() {
    let mut pool = Pool::new(Tuning::USUAL, Mode::Strict);
    let mut known = known(0, &[("ap", share(0, 100)), ("eu", share(0, 100))]);
    assert_eq!(pool.decide(&known), []);
    known.available = amount(100_000);
    let expected = [Decision::Mode(Mode::Local), grant("ap", 1_143), grant("eu", 1_143)];
    assert_eq!(pool.decide(&known), expected);
}

#[test]
fn a_region_that_is_not_heard_from_is_left_out() {
    let mut known = known(2_000, &[("ap", share(5_000, 100)), ("eu", share(0, 100))]);
    report_at(&mut known, 10);
    known.shares.get_mut(&region("ap")).unwrap().heard_at = Span::from_secs(6);
    // 2,000 for one region: ten seconds of it.
    assert_eq!(pool().decide(&known), [grant("eu", 1_143)]);
}

/// Regions that use what they have at an even pace, and home, which does as it decides.
struct Loop {
    known: Known,
    pool: Pool,
    rates: Vec<(Region, u64)>,
    decisions: Vec<(u64, Decision)>,
}

impl Loop {
    fn run(&mut self, seconds: u64) {
        for second in 1..=seconds {
            for (region, rate) in &self.rates {
                let share = self.known.shares.get_mut(region).unwrap();
                share.outstanding = share.outstanding.saturating_sub(amount(*rate));
            }
            report_at(&mut self.known, second);
            for decision in self.pool.decide(&self.known) {
                self.book(decision);
                self.decisions.push((second, decision));
            }
        }
    }

    fn book(&mut self, decision: Decision) {
        match decision {
            Decision::Mode(_) => {}
            Decision::Grant { region, amount } => {
                let share = self.known.shares.get_mut(&region).unwrap();
                share.outstanding = share.outstanding.checked_add(amount).unwrap();
                self.known.available = self.known.available.checked_sub(amount).unwrap();
            }
            Decision::Recall { region, keep } => {
                let share = self.known.shares.get_mut(&region).unwrap();
                let back = share.free().saturating_sub(keep);
                share.outstanding = share.outstanding.checked_sub(back).unwrap();
                self.known.available = self.known.available.checked_add(back).unwrap();
                self.pool.answered(region);
            }
        }
    }
}

#[test]
fn a_steady_demand_makes_a_grant_a_region_in_five_seconds_and_nothing_else() {
    let rates = [("ap", 100), ("eu", 10), ("us", 1), ("za", 1_000)];
    let shares = rates.map(|(name, rate)| (name, share(0, rate)));
    let mut steady = Loop {
        known: known(2_000_000, &shares),
        pool: pool(),
        rates: rates.map(|(name, rate)| (region(name), rate)).to_vec(),
        decisions: Vec::new(),
    };
    steady.run(600);
    for (region, _rate) in &steady.rates {
        let is_grant_here = |(_, decision): &&(u64, Decision)| matches!(decision, Decision::Grant { region: to, .. } if to == region);
        let grants = steady.decisions.iter().filter(is_grant_here).count();
        assert!((5..=120).contains(&grants), "{region} had {grants} grants");
    }
    let only_grants = |(_, decision): &(u64, Decision)| matches!(decision, Decision::Grant { .. });
    assert!(steady.decisions.iter().all(only_grants), "{:?}", steady.decisions);
}

#[test]
fn a_pool_that_runs_dry_changes_its_mode_once() {
    let rates = [("ap", 100), ("eu", 50)];
    let shares = rates.map(|(name, rate)| (name, share(0, rate)));
    let mut drying = Loop {
        known: known(20_000, &shares),
        pool: pool(),
        rates: rates.map(|(name, rate)| (region(name), rate)).to_vec(),
        decisions: Vec::new(),
    };
    drying.run(140);
    let is_mode = |(_, decision): &&(u64, Decision)| matches!(decision, Decision::Mode(_));
    let modes: Vec<_> = drying.decisions.iter().filter(is_mode).collect();
    // 150/s of 20,000 leave less than 12 × 150 in 122 seconds; in the first there was nothing to use.
    assert_eq!(modes, [&(123, Decision::Mode(Mode::Strict))]);
}

fn any_share() -> impl Strategy<Value = Share> {
    let figures = (0..5_000u64, 0..2_000u64, 0..6_000u64);
    let demand = (0..300_000u64, 0..50u64, 0..200u64, 0..3u64);
    let times = (0..100u64, 0..30u64, 0..10u64);
    (figures, demand, times).prop_map(
        |(figures, (rate, mean, p99, want), (idle, heard, report))| Share {
            outstanding: amount(figures.0),
            held: amount(figures.1),
            unsettled: amount(figures.2),
            demand: DemandReport {
                rate: Rate(rate),
                mean_cost: amount(mean),
                p99_cost: amount(p99),
                want: amount(want * 100),
                idle: Span::from_secs(idle),
                ending: amount(figures.2.saturating_sub(3_000)),
            },
            heard_at: Span::from_secs(heard),
            report,
            refill: Span::from_micros(300_000),
        },
    )
}

fn any_known() -> impl Strategy<Value = Known> {
    let shares = prop::collection::btree_map("[a-e]", any_share(), 0..5);
    let waiting = prop::option::of((1..3_000u64, 0..30u64));
    (shares, waiting, 0..20_000u64, 0..40_000u64).prop_map(|(shares, waiting, available, rate)| {
        let home = DemandReport {
            rate: Rate(rate),
            mean_cost: amount(3),
            p99_cost: amount(9),
            ..DemandReport::default()
        };
        Known {
            now: Span::from_secs(30),
            available: amount(available),
            home,
            shares: shares.into_iter().map(|(name, share)| (region(&name), share)).collect(),
            waiting: waiting.map(|(credits, since)| Waiting {
                credits: amount(credits),
                first: amount(credits.div_ceil(2)),
                since: Span::from_secs(since),
            }),
        }
    })
}

/// Where a decision stands in the order that [`Pool::decide`] promises.
fn place(known: &Known, decision: &Decision) -> (u8, Region) {
    let any = region("a");
    match decision {
        Decision::Mode(_) => (0, any),
        Decision::Recall { region, .. } => {
            assert!(known.shares.contains_key(region));
            (1, any)
        }
        Decision::Grant { region, .. } => (2, *region),
    }
}

proptest! {
    #[test]
    fn whatever_is_known_the_decisions_can_be_carried_out(
        moments in prop::collection::vec(any_known(), 1..6),
        is_strict: bool,
    ) {
        let mode = if is_strict { Mode::Strict } else { Mode::Local };
        let mut pool = Pool::new(Tuning::USUAL, mode);
        let mut twin = pool.clone();
        for known in &moments {
            let decisions = pool.decide(known);
            prop_assert_eq!(&decisions, &twin.decide(known), "the same state decides the same");

            let waiting = known.waiting.map_or(0, |waiting| wide(waiting.credits));
            let mut granted = 0;
            let mut named = Vec::new();
            for decision in &decisions {
                match decision {
                    Decision::Mode(mode) => prop_assert_eq!(*mode, pool.mode()),
                    Decision::Recall { region, keep } => {
                        // So what is expected back is never more than is neither held nor spent.
                        prop_assert!(*keep <= known.shares[region].free());
                        named.push(*region);
                    }
                    Decision::Grant { region, amount } => {
                        prop_assert!(!amount.is_zero());
                        prop_assert_eq!(pool.mode(), Mode::Local);
                        granted += wide(*amount);
                        named.push(*region);
                    }
                }
            }
            let count = named.len();
            named.sort();
            named.dedup();
            prop_assert_eq!(named.len(), count, "a region is named once");
            prop_assert!(granted + waiting.min(wide(known.available)) <= wide(known.available));
            prop_assert!(decisions.iter().is_sorted_by_key(|decision| place(known, decision)));
        }
    }

    #[test]
    fn recalls_come_in_the_order_of_what_they_bring(known in any_known()) {
        let decisions = pool().decide(&known);
        let brings = decisions.iter().filter_map(|decision| match decision {
            Decision::Recall { region, keep } => {
                Some(known.shares[region].free().saturating_sub(*keep))
            }
            Decision::Mode(_) | Decision::Grant { .. } => None,
        });
        prop_assert!(brings.is_sorted_by(|more, less| more >= less));
    }
}
