//! What is true of an account at every moment, one function a number.
//!
//! The numbers are those of `docs/invariants.md`. Property tests, the simulator and the audit call
//! [`check`] after every step. Not here: what only a history can show (INV-3, INV-10), which
//! [`crate::audit`] proves from the entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use purser_types::{Credits, Region};

use crate::account::{Account, AccountNumber, Due, HoldKey, Side, dues_of_lot, end_of_hold};
use crate::command::LotNumber;
use crate::events::PARKED_MAX;
use crate::hold::{Hold, Source};
use crate::home::Allocation;
use crate::jobs::JobState;
use crate::ledger::Ledger;
use crate::lot::{DrawKey, Lot};

/// Something that should be true and is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("INV-{number}: {detail}")]
pub struct Violation {
    /// The invariant's number.
    pub number: u8,
    /// The figures that contradict it.
    pub detail: String,
}

/// Checks everything there is to check about an account.
pub fn check(account: &Account) -> Result<(), Violation> {
    no_credits_beside_debt(account)?;
    check_entry_by_entry(account)
}

/// What is true after every entry, also within an operation.
fn check_entry_by_entry(account: &Account) -> Result<(), Violation> {
    conservation(account)?;
    lots_add_up(account)?;
    spends_add_up(account)?;
    agenda_is_true(account)?;
    debts_add_up(account)?;
    burn_down_order_is_true(account)?;
    allocations_add_up(account)?;
    homes_follow(account)?;
    tails_are_covered(account)?;
    queues_are_true(account)?;
    parked_events_are_found(account)?;
    waiting_jobs_hold_nothing(account)?;
    budgets_add_up(account)
}

/// Checks every account of a ledger, and what holds them together.
pub fn check_ledger(ledger: &Ledger) -> Result<(), Violation> {
    let arriving: BTreeSet<_> = ledger.arriving().collect();
    for account in ledger.accounts() {
        // What has been taken over so far may end within an operation.
        if arriving.contains(&account.number()) {
            check_entry_by_entry(account)?;
        } else {
            check(account)?;
        }
    }
    group_agenda_is_true(ledger, &arriving)?;
    group_overview_is_true(ledger, &arriving)?;
    group_queues_are_true(ledger, &arriving)
}

/// INV-11: the group's agenda names each account once, at the instant at which it is next due; none
/// that has stopped, and none that is still being taken over.
fn group_agenda_is_true(
    ledger: &Ledger,
    arriving: &BTreeSet<AccountNumber>,
) -> Result<(), Violation> {
    let next = |account: &Arc<Account>| Some((account.next_due()?, account.number()));
    let here = ledger.accounts().filter(|account| !arriving.contains(&account.number()));
    let expected: BTreeSet<_> = here.filter_map(next).collect();
    let actual: BTreeSet<_> = ledger.agenda().collect();
    holds(11, expected == actual, || format!("agenda {actual:?}, expected {expected:?}"))
}

/// INV-15: the group lists exactly the accounts that regions have something of, and what is owed
/// besides adds up to what it says.
fn group_overview_is_true(
    ledger: &Ledger,
    arriving: &BTreeSet<AccountNumber>,
) -> Result<(), Violation> {
    let here = || ledger.accounts().filter(|account| !arriving.contains(&account.number()));
    let expected: Vec<_> =
        here().filter(|it| it.has_to_do_with_regions()).map(|it| it.number()).collect();
    let actual: Vec<_> = ledger.accounts_with_allocations().map(|it| it.number()).collect();
    holds(15, expected == actual, || format!("listed {actual:?}, expected {expected:?}"))?;
    let (owed, stated) =
        (total(here().map(|it| it.allowed_debt())), ledger.overspend().allowed_debt);
    holds(15, owed == stated, || format!("{owed} are owed without a region, {stated} stated"))
}

/// INV-18: the group's queues name each queue of an account that works once, at the instant at which
/// something is next due in it, and the accounts that have dead jobs.
fn group_queues_are_true(
    ledger: &Ledger,
    arriving: &BTreeSet<AccountNumber>,
) -> Result<(), Violation> {
    let here = || ledger.accounts().filter(|account| !arriving.contains(&account.number()));
    let mut expected = BTreeSet::new();
    for account in here() {
        for (queue, at) in account.heads().iter().flat_map(|heads| heads.iter()) {
            expected.insert((queue.clone(), *at, account.number()));
        }
    }
    let actual = ledger.heads();
    holds(18, expected == actual, || format!("queues {actual:?}, expected {expected:?}"))?;
    let expected: Vec<_> = here().filter(|it| it.has_dead_jobs()).map(|it| it.number()).collect();
    let actual: Vec<_> = ledger.accounts_with_dead_jobs().map(|it| it.number()).collect();
    holds(18, expected == actual, || format!("dead jobs in {actual:?}, expected {expected:?}"))
}

/// INV-1: `granted + debt = available + held + used + expired + voided + returned + Σ allocated`.
fn conservation(account: &Account) -> Result<(), Violation> {
    let balance = &account.balance;
    let sources = total([balance.granted, balance.debt]);
    let buckets = [
        balance.available,
        balance.held,
        balance.used,
        balance.expired,
        balance.voided,
        balance.returned,
    ];
    let buckets = total(buckets.into_iter().chain(balance.allocated.values().copied()));
    holds(1, sources == buckets, || format!("{sources} came in, {buckets} are there: {balance:?}"))
}

/// INV-2: a lot's parts add up to what was granted, and the lots add up to the buckets.
fn lots_add_up(account: &Account) -> Result<(), Violation> {
    for (number, lot) in account.lots.iter() {
        let parts = total([
            lot.waiting,
            lot.free,
            lot.held,
            lot.used,
            lot.expired,
            lot.voided,
            lot.returned,
            lot.allocated,
        ]);
        let granted = u128::from(lot.terms.amount.get());
        holds(2, parts == granted, || format!("lot {number:?} is {parts} of {granted}"))?;
    }
    let over_lots =
        |part: fn(&Lot) -> Credits| total(account.lots.iter().map(|(_, lot)| part(lot)));
    let balance = &account.balance;
    let on_credit = owed_under_covers(account);
    // What a region keeps of the covers that it has forgotten counts with its lots.
    let past = account.region_side().map(|region| region.past_covers).unwrap_or_default();
    // What is owed was used, or is out under a cover, though no lot has paid for it. A region's debt may
    // be held as well, and what home settled of it came from no lot of the region's either.
    let (taken_lots, taken, unpaid) = match &account.side {
        Side::Home(_) => {
            let held = ("held", over_lots(|lot| lot.held), total([balance.held]));
            let used = over_lots(|lot| lot.used);
            let unpaid = total([balance.debt]).saturating_sub(on_credit);
            (used, total([balance.used]), (unpaid, Some(held)))
        }
        Side::Region(_) => {
            let lots = over_lots(|lot| lot.held).saturating_add(over_lots(|lot| lot.used));
            let lots = lots.saturating_add(total([past.used]));
            let given = over_lots(|lot| lot.terms.amount);
            let given = given.saturating_add(total([past.used, past.returned]));
            let settled = total([balance.granted]).saturating_sub(given);
            let unpaid = total([balance.debt]).saturating_add(settled);
            (lots, total([balance.held, balance.used]), (unpaid, None))
        }
    };
    let (unpaid, held) = unpaid;
    let returned = over_lots(|lot| lot.returned).saturating_add(total([past.returned]));
    let out = total(balance.allocated.values().copied());
    let sums = [
        ("pending", over_lots(|lot| lot.waiting), total([balance.pending])),
        ("available", over_lots(|lot| lot.free), total([balance.available])),
        ("taken and paid", taken_lots, taken.saturating_sub(unpaid)),
        ("expired", over_lots(|lot| lot.expired), total([balance.expired])),
        ("voided", over_lots(|lot| lot.voided), total([balance.voided])),
        ("returned", returned, total([balance.returned])),
        ("allocated", over_lots(|lot| lot.allocated), out.saturating_sub(on_credit)),
    ];
    let sums = sums.into_iter().chain(held);
    for (name, lots, bucket) in sums {
        holds(2, lots == bucket, || format!("{name}: {lots} in lots, {bucket} in the account"))?;
    }
    Ok(())
}

/// INV-4: what a hold spent adds up to captured − refunded + reclaimed, and the pins of all holds
/// to what is held, in all and lot by lot.
fn spends_add_up(account: &Account) -> Result<(), Violation> {
    for (number, hold) in account.holds.iter() {
        check_spends(hold).map_err(|detail| violation(4, format!("hold {number:?}: {detail}")))?;
    }
    let pinned = total(account.holds.iter().map(|(_, hold)| hold.held));
    let held = total([account.balance.held]);
    holds(4, pinned == held, || format!("{pinned} pinned, {held} held"))?;
    let mut of_lots = BTreeMap::<LotNumber, u128>::new();
    for pin in account.holds.iter().flat_map(|(_, hold)| hold.pins()) {
        let pinned = of_lots.entry(pin.lot).or_default();
        *pinned = pinned.saturating_add(u128::from(pin.amount.get()));
    }
    for (number, lot) in account.lots.iter() {
        let (pinned, held) = (of_lots.get(number).copied().unwrap_or(0), total([lot.held]));
        holds(4, pinned == held, || format!("lot {number:?}: {pinned} pinned, {held} held"))?;
    }
    Ok(())
}

fn check_spends(hold: &Hold) -> Result<(), String> {
    let came = total([hold.captured, hold.reclaimed.unwrap_or(Credits::ZERO)]);
    let (net, went) = (total([hold.net()]), total([hold.refunded]));
    if net.saturating_add(went) == came {
        Ok(())
    } else {
        Err(format!("{net} + {went} ≠ {came}"))
    }
}

/// INV-6: the agenda holds the end of each live hold, the ends and starts of lots, and nothing else.
fn agenda_is_true(account: &Account) -> Result<(), Violation> {
    let lots = account.lots.iter().flat_map(|(number, lot)| dues_of_lot(*number, lot));
    let ends = account.holds.iter().map(|(_, hold)| end_of_hold(hold));
    let expected: BTreeSet<Due> = lots.chain(ends).collect();
    let actual: BTreeSet<Due> = account.agenda.iter().map(|(due, ())| *due).collect();
    holds(6, expected == actual, || format!("agenda {actual:?}, expected {expected:?}"))
}

/// INV-7: not both `available` and `debt` are above zero.
fn no_credits_beside_debt(account: &Account) -> Result<(), Violation> {
    // A region may have drawn on its overdraft for one hold and be given lots for the next.
    let Side::Home(_) = &account.side else { return Ok(()) };
    let balance = &account.balance;
    let either = balance.available.is_zero() || balance.debt.is_zero();
    holds(7, either, || format!("{} available, {} owed", balance.available, balance.debt))
}

/// INV-8: the debts add up to `debt`, and each live hold owes what its record says.
fn debts_add_up(account: &Account) -> Result<(), Violation> {
    let Ok(home) = account.home_side() else { return Ok(()) };
    let away = account.debts.iter().map(|(_, debt)| debt);
    let away = away.filter(|debt| debt.is_realised);
    let (away, realised) = (total(away.map(|debt| debt.amount)), total([home.realised]));
    holds(8, away == realised, || {
        format!("{away} owed for regions and lost homes, {realised} realised")
    })?;
    let listed = total(account.debts.iter().map(|(_, debt)| debt.amount));
    let listed = listed.saturating_add(owed_under_covers(account));
    let owed = total([account.balance.debt]);
    holds(8, listed == owed, || format!("{listed} listed, {owed} owed"))?;
    for (_, hold) in account.holds.iter() {
        for spend in &hold.spent {
            let Source::Debt(origin) = spend.source else { continue };
            let debt = account.debts.get(&origin).map(|debt| (debt.debtor, debt.amount));
            let expected = Some((HoldKey::own(hold.number), spend.amount));
            holds(8, debt == expected, || format!("{origin:?}: {debt:?}, not {expected:?}"))?;
        }
    }
    Ok(())
}

/// INV-9: burn-down order lists the lots that can be drawn from, and no others.
fn burn_down_order_is_true(account: &Account) -> Result<(), Violation> {
    let drawable = account.lots.iter().filter(|(_, lot)| lot.is_drawable());
    let expected: BTreeSet<DrawKey> = drawable.map(|(number, lot)| lot.draw_key(*number)).collect();
    let actual: BTreeSet<DrawKey> = account.draw_order.iter().map(|(key, ())| *key).collect();
    holds(9, expected == actual, || format!("order {actual:?}, expected {expected:?}"))
}

/// INV-12: what is out by the figures is what the lots that are out add up to, and the bucket of the
/// region; a lot is out where its allocations say.
fn allocations_add_up(account: &Account) -> Result<(), Violation> {
    let Ok(home) = account.home_side() else { return Ok(()) };
    let mut regions: BTreeMap<Region, u128> = BTreeMap::new();
    let mut lots: BTreeMap<LotNumber, u128> = BTreeMap::new();
    for (owner, allocation) in &home.allocations {
        let (out, by_lot) =
            (total([allocation.for_all()]), total(allocation.lots.iter().map(|lot| lot.out)));
        holds(12, out == by_lot, || format!("{owner:?}: {out} out, {by_lot} in lots"))?;
        let (covered, gone) = (total([allocation.covered]), total([allocation.covered_gone]));
        let under_covers = total([allocation.covered()]);
        holds(12, covered == gone.saturating_add(under_covers), || {
            format!("{owner:?}: {covered} under covers, {gone} gone, {under_covers} out")
        })?;
        let out = out.saturating_add(under_covers);
        let sum = regions.entry(owner.region).or_default();
        *sum = sum.saturating_add(out);
        for lot in &allocation.lots {
            let sum = lots.entry(lot.lot).or_default();
            *sum = sum.saturating_add(lot.out.get().into());
        }
        let parts = allocation.covers.iter().flat_map(|cover| &cover.out);
        for (lot, part) in parts.filter_map(|part| Some((part.lot()?, part.amount))) {
            let sum = lots.entry(lot).or_default();
            *sum = sum.saturating_add(part.get().into());
        }
    }
    regions.retain(|_, sum| *sum > 0);
    let buckets = account.balance.allocated.iter().map(|(region, sum)| (*region, total([*sum])));
    let buckets: BTreeMap<Region, u128> = buckets.collect();
    holds(12, regions == buckets, || format!("{regions:?} out, buckets {buckets:?}"))?;
    for (number, lot) in account.lots.iter() {
        let (out, of_lot) = (lots.remove(number).unwrap_or(0), total([lot.allocated]));
        holds(12, out == of_lot, || format!("{number:?}: {out} out, {of_lot} in the lot"))?;
    }
    Ok(())
}

/// INV-16: each epoch is later than the one before it, and the last is the one that is decided under.
fn homes_follow(account: &Account) -> Result<(), Violation> {
    let Ok(home) = account.home_side() else { return Ok(()) };
    let epochs: Vec<_> = home.spans.iter().map(|span| (span.from, span.epoch)).collect();
    let ascend = epochs.is_sorted_by(|before, after| before.0 < after.0 && before.1 < after.1);
    holds(16, ascend, || format!("the epochs are {epochs:?}"))?;
    let last = home.spans.last().map_or(home.epoch, |span| span.epoch);
    holds(16, last == home.epoch, || format!("{last:?} began last, {:?} is now", home.epoch))?;
    let stopped = home.stopped.map_or(home.epoch, |stop| stop.epoch);
    holds(16, stopped == home.epoch, || format!("{stopped:?} stopped, {:?} is now", home.epoch))
}

/// INV-17: what was booked of a tail is no more than was set aside for it, and its fork lies in the
/// chain.
fn tails_are_covered(account: &Account) -> Result<(), Violation> {
    let Ok(home) = account.home_side() else { return Ok(()) };
    for tail in home.tails.values() {
        holds(17, tail.debited <= tail.quarantine, || format!("{tail:?}"))?;
        let (fork, last) = (tail.forked_at, account.head.sequence);
        let lies_within = fork < last && tail.epoch < home.epoch;
        holds(17, lies_within, || format!("{tail:?} of {last:?}, {:?}", home.epoch))?;
    }
    Ok(())
}

/// INV-18: the queues list each job that is queued or leased once, at the instant at which it is due.
fn queues_are_true(account: &Account) -> Result<(), Violation> {
    holds(18, account.jobs().follows(), || {
        format!("the queues are not those of {:?}", account.jobs())
    })
}

/// INV-20: each parked event is found by its name and content, and there are no more than may be.
fn parked_events_are_found(account: &Account) -> Result<(), Violation> {
    let events = account.events();
    let holds_room = events.parked().len() <= PARKED_MAX;
    let what = || format!("parked events {:?} are not found", events.parked());
    holds(20, events.follows() && holds_room, what)
}

/// INV-19: a job that waits for another attempt, or is dead, holds nothing: so it takes what it costs
/// when it is delivered, and not twice.
fn waiting_jobs_hold_nothing(account: &Account) -> Result<(), Violation> {
    for (number, live) in account.jobs().live().iter() {
        let waits = match live.job.state {
            JobState::Queued { .. } => live.job.attempts > 0 || live.job.redriven > 0,
            JobState::Dead { .. } => true,
            JobState::Leased { .. } => false,
            JobState::Succeeded { .. } | JobState::Failed { .. } | JobState::Discarded { .. } => {
                return Err(violation(19, format!("{:?} has ended and is live", live.job)));
            }
        };
        let is_free = !waits || account.holds.get(number).is_none();
        holds(19, is_free, || format!("{:?} waits and holds credits", live.job))?;
    }
    Ok(())
}

/// INV-21: what a budget holds in a period is the sum over the live holds that were made under it then. What
/// it has used only a history can show.
fn budgets_add_up(account: &Account) -> Result<(), Violation> {
    for (budget, kept) in account.budgets().pairs() {
        for figures in kept {
            let is_under = |hold: &Hold| {
                let mut caps = hold.caps.iter().filter(|cap| cap.budget == budget.name);
                caps.any(|cap| figures.counts(cap, hold))
            };
            let under = account.holds.iter().filter(|(_, hold)| is_under(hold));
            let (sum, held) = (total(under.map(|(_, hold)| hold.held)), total([figures.held]));
            holds(21, sum == held, || format!("{figures:?} of {}: {sum} held", budget.name))?;
        }
    }
    Ok(())
}

/// What is owed and not used yet: it is out under covers.
fn owed_under_covers(account: &Account) -> u128 {
    total(account.allocations().map(Allocation::owed))
}

fn total(amounts: impl IntoIterator<Item = Credits>) -> u128 {
    amounts.into_iter().fold(0, |sum, amount| sum.saturating_add(u128::from(amount.get())))
}

fn holds(number: u8, is_true: bool, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if is_true { Ok(()) } else { Err(violation(number, detail())) }
}

fn violation(number: u8, detail: String) -> Violation {
    Violation { number, detail }
}

#[cfg(test)]
mod tests {
    use purser_types::{
        BudgetName, Epoch, History, HistoryError, HistoryReader, JobId, LogTime, OperationId,
        Position, QueueName, Region, Sequence, Span, TenantId, Unit,
    };

    use super::*;
    use crate::account::Debt;
    use crate::budgets::SetBudget;
    use crate::command::{
        AccountName, Authorize, Category, Command, Context, Grant, HoldNumber, Item, Open,
        Operation,
    };
    use crate::events::{Event, EventAbout, EventName};
    use crate::jobs::{CreateJob, FirstAttempt, JobFunding, JobRetry};
    use crate::policy::Policy;

    #[derive(Default)]
    struct Memory(Vec<Vec<u8>>);

    impl HistoryReader for Memory {
        fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
            let place = usize::try_from(position.0).unwrap();
            self.0.get(place).cloned().ok_or(HistoryError::NoRecord(position))
        }
    }

    impl History for Memory {
        fn append(&mut self, record: &[u8]) -> Position {
            let position = Position(u64::try_from(self.0.len()).unwrap());
            self.0.push(record.to_vec());
            position
        }
    }

    fn credits(amount: u64) -> Credits {
        Credits::from_u64(amount).unwrap()
    }

    /// An account with two lots, a hold over both, and nothing wrong.
    fn sound() -> Account {
        lived(&[])
    }

    /// The same with a job that waits for a worker.
    fn sound_with_job() -> Account {
        let job = CreateJob {
            job: JobId::parse("j").unwrap(),
            amount: credits(5),
            funding: JobFunding::Hold { ttl: Span::from_secs(60) },
            queue: QueueName::default_queue(),
            retry: JobRetry::DEFAULT,
            start: FirstAttempt::Queue,
            reference: None,
            budgets: Box::default(),
        };
        lived(&[Operation::CreateJob(Box::new(job))])
    }

    /// The same with an event that names no hold there is.
    fn sound_with_parked() -> Account {
        let about = EventAbout::Hold { hold: HoldNumber(Sequence(99)), owner: None, amount: None };
        let name = EventName::parse("meter", "e1").unwrap();
        let event = Event { name, kind: "usage".into(), time: None, about };
        lived(&[Operation::RecordEvent(Box::new(event))])
    }

    /// The same with a hold under a budget.
    fn sound_with_budget() -> Account {
        let (limit, ttl) = (credits(9), Span::from_secs(60));
        let (parent, calendar, reference) = (None, None, None);
        let set = SetBudget { name: team(), parent, limit, calendar };
        let budgets = [team()].into();
        let authorize = Authorize { amount: credits(5), ttl, reference, budgets };
        lived(&[Operation::SetBudget(Box::new(set)), Operation::Authorize(authorize)])
    }

    fn team() -> BudgetName {
        BudgetName::parse("team").unwrap()
    }

    fn lived(more: &[Operation]) -> Account {
        let tenant = TenantId::parse("acme").unwrap();
        let name = AccountName { tenant, unit: Unit::credits() };
        let open =
            Open { home: Region::parse("us").unwrap(), policy: Policy::default(), epoch: None };
        let grant = |amount, expires_at| {
            Operation::Grant(Grant {
                amount: credits(amount),
                category: Category::Paid,
                priority: Grant::PRIORITY_DEFAULT,
                effective_at: None,
                expires_at,
                source_ref: None,
            })
        };
        let ttl = Span::from_secs(60);
        let authorize = Operation::Authorize(Authorize {
            amount: credits(50),
            ttl,
            reference: None,
            budgets: Box::default(),
        });
        let soon = LogTime::ZERO.saturating_add(Span::from_secs(100));
        let operations = [Operation::Open(open), grant(20, Some(soon)), grant(80, None), authorize];
        let (mut ledger, mut history) = (Ledger::default(), Memory::default());
        for operation in operations.iter().chain(more).cloned() {
            let items = vec![Item::new(Context::default(), operation)];
            let command = Command::at_home(name.clone(), items);
            let id = OperationId::default();
            ledger.apply_command(&command, LogTime::ZERO, id, &mut history).unwrap();
        }
        (**ledger.account(&name).unwrap()).clone()
    }

    #[track_caller]
    fn check_notices(number: u8, break_it: impl FnOnce(&mut Account)) {
        check_notices_in(sound(), number, break_it);
    }

    #[track_caller]
    fn check_notices_in(mut account: Account, number: u8, break_it: impl FnOnce(&mut Account)) {
        assert_eq!(check(&account), Ok(()));
        break_it(&mut account);
        assert_eq!(check(&account).map_err(|violation| violation.number), Err(number));
    }

    fn first_hold(account: &mut Account) -> &mut Hold {
        let number = *account.holds.first().unwrap().0;
        account.holds.get_mut(&number).unwrap()
    }

    #[test]
    fn each_invariant_notices_what_it_is_for() {
        check_notices(1, |account| account.balance.used = credits(1));
        check_notices(2, |account| {
            account.balance.available = credits(49);
            account.balance.expired = credits(1);
        });
        check_notices(2, |account| {
            let number = *account.lots.first().unwrap().0;
            account.lots.get_mut(&number).unwrap().held = credits(21);
        });
        check_notices(4, |account| first_hold(account).captured = credits(1));
        check_notices(4, |account| first_hold(account).held = credits(20));
        check_notices(4, |account| {
            // As many pinned as are held, but of another lot.
            let hold = first_hold(account);
            let last = hold.lots.last().unwrap().lot;
            hold.lots = [crate::hold::Portion { lot: last, amount: credits(50) }].into();
        });
        check_notices(6, |account| account.agenda = purser_types::CowMap::default());
        check_notices(7, |account| {
            // As if one credit had been used on debt while fifty are free.
            account.balance.debt = credits(1);
            account.balance.used = credits(1);
        });
        check_notices(8, |account| {
            let hold = account.holds.first().unwrap().1.number;
            let debtor = HoldKey::own(hold);
            let debt = Debt { debtor, amount: credits(1), is_realised: false };
            account.debts.insert(Sequence(4), debt);
        });
        check_notices(9, |account| account.draw_order = purser_types::CowMap::default());
        check_notices(16, |account| {
            account.home_side_mut().unwrap().stopped =
                Some(crate::Departure { epoch: Epoch(7), to: Region::parse("eu").unwrap() });
        });
        check_notices(17, |account| {
            let (eu, last) = (Region::parse("eu").unwrap(), crate::Booked::default());
            let tail = crate::Tail::new(eu, Epoch(0), last, credits(5));
            let home = account.home_side_mut().unwrap();
            home.tails.insert(tail.epoch, crate::Tail { debited: credits(6), ..tail });
        });
        check_notices_in(sound_with_parked(), 20, |account| account.events_mut().lose_index());
        check_notices_in(sound_with_budget(), 21, |account| {
            account.budgets_mut().falsify(&team(), credits(6));
        });
        check_notices_in(sound_with_job(), 18, |account| account.jobs_mut().lose_queues());
        check_notices_in(sound_with_job(), 19, |account| {
            // As if it had been given up without giving its credits back.
            let mut live = account.jobs().live().first().unwrap().1.clone();
            live.job.state = JobState::Dead { at: LogTime::ZERO };
            account.jobs_mut().insert(live);
        });
    }
}
