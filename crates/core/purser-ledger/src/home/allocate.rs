//! Granting to a region, changing what it may do, and taking back.

use purser_types::{Credits, Generation, Owner};

use super::{AllocatedLot, Allocation, AllocationStatus, Home};
use crate::account::{Account, Draft, Side};
use crate::balance::Balance;
use crate::command::{Allocate, LotNumber, SetAllocation, TakeBack, WriteOff};
use crate::entry::{Bucket, Fact, Move};
use crate::hold::{Hold, Portion};
use crate::policy::OnExpiry;
use crate::protocol::{Mode, Recall, Voucher, VoucherLot};
use crate::rejection::Rejection;
use crate::standing::AccountStatus;

impl Account {
    /// Sets credits aside for a region. Refuses: frozen; nothing asked for where an
    /// allocation is open; too few credits; too many lots; overdraft that is owed still.
    ///
    /// What the region has overspent within its overdraft was paid here when it was booked: a grant
    /// moves only what goes beyond that.
    pub(crate) fn decide_allocate(&self, asked: &Allocate) -> Result<Draft, Rejection> {
        self.refuse_if_frozen()?;
        let home = self.home_side()?;
        let found = home.open_allocation(asked.region);
        if found.is_some() && asked.amount.is_zero() {
            return Err(Rejection::NothingNew);
        }
        let mut allocation = match found {
            Some(allocation) => allocation.clone(),
            None => self.new_allocation(home, asked),
        };
        let used_before = allocation.overdraft_used();
        let moved = asked.amount.saturating_sub(used_before);
        let portions = self.plan_lasting(moved, asked.lasting)?;
        let granted = allocation.granted.checked_add(asked.amount);
        allocation.granted = granted.ok_or(Rejection::AmountOverflow)?;
        for portion in &portions {
            self.hand_out(&mut allocation.lots, *portion)?;
        }
        if allocation.lots.len() > Hold::PARTS_MAX {
            return Err(Rejection::TooManyParts);
        }
        // What is settled of its overdraft the region may use anew. It has to be paid by then.
        let lifts_bound = allocation.overdraft_used() < used_before;
        if lifts_bound && !home.keeps_ceiling(&allocation, self.standing.policy.takeback_cap) {
            return Err(self.too_few(Credits::ZERO, None));
        }
        allocation.renew();
        let to = Bucket::Allocated(asked.region);
        let hand = |portion: &Portion| {
            Move::some(Some(portion.lot), Bucket::Available, to, portion.amount)
        };
        let moves = portions.iter().filter_map(hand).collect();
        Ok(Draft { fact: Fact::Allocated(Box::new(allocation)), moves })
    }

    fn new_allocation(&self, home: &Home, asked: &Allocate) -> Allocation {
        let last = home.generations.get(&asked.region).copied().unwrap_or_default();
        let owner = Owner { region: asked.region, generation: last.next() };
        let (on_expiry, life) = (self.standing.policy.on_expiry, asked.life);
        Allocation { on_expiry, life, ..Allocation::new(owner, self.head.sequence.next()) }
    }

    /// Notes that a lot was given, in its place in burn-down order.
    fn hand_out(&self, lots: &mut Vec<AllocatedLot>, portion: Portion) -> Result<(), Rejection> {
        let place = |number: LotNumber| self.lots.get(&number).map(|lot| lot.draw_key(number));
        let key = place(portion.lot);
        let more =
            |amount: Credits| amount.checked_add(portion.amount).ok_or(Rejection::AmountOverflow);
        match lots.iter_mut().find(|lot| lot.lot == portion.lot) {
            Some(lot) => {
                lot.given = more(lot.given)?;
                lot.out = more(lot.out)?;
            }
            None => {
                let at = lots.partition_point(|other| place(other.lot) < key);
                let Portion { lot, amount } = portion;
                lots.insert(at, AllocatedLot { lot, given: amount, out: amount });
            }
        }
        Ok(())
    }

    /// Changes what a region may do, or asks credits back. Refuses: no such allocation; more
    /// overdraft for one that is not open.
    pub(crate) fn decide_set_allocation(&self, asked: &SetAllocation) -> Result<Draft, Rejection> {
        let mut allocation = self.named_allocation(asked.owner)?.clone();
        if let Some(overdraft) = asked.overdraft {
            if allocation.status != AllocationStatus::Open && overdraft > allocation.overdraft {
                return Err(Rejection::AllocationEnded);
            }
            allocation.overdraft = overdraft;
            allocation.overdraft_worst = allocation.overdraft_worst.max(overdraft);
        }
        if let Some(mode) = asked.mode
            && allocation.mode != Mode::Ending
        {
            allocation.mode = mode;
        }
        if let Some(on_expiry) = asked.on_expiry {
            allocation.set_on_expiry(on_expiry);
        }
        if let Some(keep) = asked.keep {
            let number = allocation.recall.number.saturating_add(1);
            allocation.recall = Recall { number, keep };
        }
        allocation.renew();
        Ok(Draft { fact: Fact::AllocationSet(Box::new(allocation)), moves: Vec::new() })
    }

    /// Takes all that is out back without hearing from the region. Refuses: no such allocation; taken
    /// back before; unless an operator has decided it, where the region may believe that it keeps all,
    /// and beyond the cap; the account has changed since the operator looked.
    pub(crate) fn decide_take_back(&self, asked: &TakeBack) -> Result<Draft, Rejection> {
        let mut allocation = self.named_allocation(asked.owner)?.clone();
        if allocation.status == AllocationStatus::TakenBack {
            return Err(Rejection::AllocationEnded);
        }
        let amount = allocation.outstanding();
        match asked.forced {
            Some(confirm) => self.refuse_stale(confirm)?,
            None if allocation.may_keep() => return Err(Rejection::TakebackNotAgreed),
            None => self.refuse_beyond_cap(amount)?,
        }
        allocation.take_back(amount)?;
        allocation.status = AllocationStatus::TakenBack;
        allocation.mode = Mode::Ending;
        allocation.is_forced |= asked.forced.is_some();
        allocation.transfer = None;
        // Order matters: until covers have come home as well, what was taken back of them looks like
        // overdraft that is used.
        let moves = self.bring_rest_home(&mut allocation);
        // What is overspent already counts as well, and only an operator may go beyond.
        let cap = self.standing.policy.takeback_cap;
        if asked.forced.is_none() && !self.home_side()?.keeps_ceiling(&allocation, cap) {
            return Err(Rejection::TakebackBeyondCap { amount, cap });
        }
        allocation.renew();
        Ok(Draft { fact: Fact::TakenBack(Box::new(allocation)), moves })
    }

    /// Ends an allocation of which nothing more will be heard: what is out comes back, and what was
    /// spent there without a report is nobody's. Refuses: no such allocation; one that is open; the
    /// account has changed since the operator looked.
    pub(crate) fn decide_write_off(&self, asked: &WriteOff) -> Result<Draft, Rejection> {
        let mut allocation = self.named_allocation(asked.owner)?.clone();
        if allocation.status == AllocationStatus::Open {
            return Err(Rejection::AllocationOpen);
        }
        self.refuse_stale(asked.confirm)?;
        allocation.take_back(allocation.outstanding())?;
        let moves = self.bring_rest_home(&mut allocation);
        allocation.status = AllocationStatus::Closed;
        Ok(Draft { fact: Fact::WrittenOff(Box::new(allocation)), moves })
    }

    /// Gives all that an allocation's lots still have out back to them. Whether it was taken back or
    /// returned is for the caller to note.
    pub(super) fn bring_rest_home(&self, allocation: &mut Allocation) -> Vec<Move> {
        let from = Bucket::Allocated(allocation.owner.region);
        let mut all = allocation.draw(None, Credits::MAX);
        all.extend(allocation.draw_covers());
        all.into_iter().filter_map(|part| self.bring_home(from, part)).collect()
    }

    /// Without an operator's word, all that is taken back and unresolved stays within the policy's
    /// cap.
    fn refuse_beyond_cap(&self, amount: Credits) -> Result<(), Rejection> {
        let allocations = self.home_side()?.allocations.values();
        let mut unforced = allocations.filter(|allocation| !allocation.is_forced);
        let unresolved =
            unforced.try_fold(amount, |sum, allocation| sum.checked_add(allocation.unresolved()));
        let cap = self.standing.policy.takeback_cap;
        match unresolved {
            Some(sum) if sum <= cap => Ok(()),
            Some(_) | None => Err(Rejection::TakebackBeyondCap { amount, cap }),
        }
    }

    /// What a region is to be told about an allocation; nothing if home does not know it, or is done
    /// with it.
    pub fn voucher(&self, owner: Owner) -> Option<Voucher> {
        let home = self.home_side().ok()?;
        let allocation = home.allocations.get(&owner)?;
        let lots = allocation.lots.iter().filter_map(|lot| {
            let terms = self.lots.get(&lot.lot)?.terms.clone();
            Some(VoucherLot { lot: lot.lot, terms, given: lot.given, only_for: None })
        });
        let lots = lots.chain(allocation.vouched_covers());
        let granted = allocation.granted.checked_add(allocation.covered);
        let is_frozen =
            self.standing.status != AccountStatus::Open && allocation.mode != Mode::Ending;
        Some(Voucher {
            owner,
            account: self.name.clone(),
            epoch: home.epoch,
            number: allocation.voucher,
            granted: granted.unwrap_or(Credits::MAX),
            lots: lots.collect(),
            overdraft: allocation.overdraft,
            mode: if is_frozen { Mode::Frozen } else { allocation.mode },
            recall: allocation.recall,
            booked: allocation.booked,
            key_retention: self.standing.policy.key_retention,
            record_retention: self.standing.policy.record_retention,
            reversals: self.reversals(allocation.opened_by).collect(),
            on_expiry: allocation.on_expiry,
            life: allocation.life,
        })
    }

    /// How much more may be granted or owed so that whatever regions may still turn into debt can be
    /// booked: nothing refuses that when it is reported. `after` is the balance after `fact`.
    ///
    /// Nothing if there is no room even now. Where regions can bring no debt, debt is left out: each
    /// decision sees for itself that its sums fit.
    pub(crate) fn room_beside_regions(
        &self,
        fact: Option<&Fact>,
        after: &Balance,
    ) -> Option<Credits> {
        let changed = fact.and_then(changed_by);
        let reserve = self.home_side().map_or(0, |home| home.bound(changed).potential());
        let debt = if reserve == 0 { Credits::ZERO } else { after.debt };
        let taken = [after.granted, after.pending, debt];
        let taken = taken.iter().fold(reserve, |sum, part| sum.saturating_add(part.get().into()));
        let room = u128::from(Credits::MAX.get()).checked_sub(taken)?;
        u64::try_from(room).ok().and_then(|room| Credits::from_u64(room).ok())
    }

    pub(crate) fn home_side(&self) -> Result<&Home, Rejection> {
        match &self.side {
            Side::Home(home) => Ok(home.as_deref().unwrap_or(Home::NONE)),
            Side::Region(_) => Err(Rejection::DecidedElsewhere),
        }
    }

    /// An allocation that is not closed, as operators name it: no allocation has generation 0, which
    /// stands for the region's newest. What is meant is found here and not before the log, so that a
    /// repeat asks the same, whatever has been opened or closed meanwhile.
    pub(super) fn named_allocation(&self, named: Owner) -> Result<&Allocation, Rejection> {
        let mut of_region = self.home_side()?.allocations.values();
        let newest = of_region.rfind(|allocation| allocation.owner.region == named.region);
        match newest.filter(|_| named.generation == Generation::HOME) {
            Some(newest) => Ok(newest),
            None => self.allocation(named),
        }
    }

    /// Whether home had an allocation and is done with it.
    pub fn has_closed(&self, owner: Owner) -> bool {
        matches!(self.allocation(owner), Err(Rejection::AllocationEnded))
    }

    /// An allocation that is not closed.
    pub(super) fn allocation(&self, owner: Owner) -> Result<&Allocation, Rejection> {
        let home = self.home_side()?;
        let closed =
            home.generations.get(&owner.region).is_some_and(|last| owner.generation <= *last);
        let missing =
            if closed { Rejection::AllocationEnded } else { Rejection::AllocationUnknown };
        home.allocations.get(&owner).ok_or(missing)
    }
}

/// The allocation that a fact of home's own decision changes.
fn changed_by(fact: &Fact) -> Option<&Allocation> {
    if let Fact::Allocated(changed)
    | Fact::AllocationSet(changed)
    | Fact::TakenBack(changed)
    | Fact::Covered(changed) = fact
    {
        Some(changed)
    } else {
        None
    }
}

impl Allocation {
    /// Notes that so much is taken back. Refuses a total beyond the largest amount.
    fn take_back(&mut self, amount: Credits) -> Result<(), Rejection> {
        let taken_back = self.taken_back.checked_add(amount);
        self.taken_back = taken_back.ok_or(Rejection::AmountOverflow)?;
        Ok(())
    }

    /// Says what becomes of it when its lease has run out. Until the region has taken up a voucher that
    /// says the sterner, home counts the kinder.
    fn set_on_expiry(&mut self, on_expiry: OnExpiry) {
        match (self.on_expiry, on_expiry) {
            (OnExpiry::Keep, OnExpiry::TakeBack) => self.kept_by = Some(self.voucher),
            (_, OnExpiry::Keep) => self.kept_by = None,
            (OnExpiry::TakeBack, OnExpiry::TakeBack) => (),
        }
        self.on_expiry = on_expiry;
    }

    /// There is news for the region.
    pub(crate) fn renew(&mut self) {
        self.voucher = self.voucher.saturating_add(1);
    }
}
