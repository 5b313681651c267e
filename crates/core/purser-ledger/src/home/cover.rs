//! Covers: credits for one operation of a region that its right does not suffice for.
//!
//! ```text
//!  region is short ── Cover ──▶ set aside, what is missing is owed ── voucher ──▶ a lot that only
//!                                                                                 that operation
//!  closed ◀── all of it is booked as spent or returned ◀── report ◀────────────── draws from
//! ```
//!
//! To the region a cover is a lot, numbered by home's entry that made it. Here it is made of parts of
//! home's lots, and of debt where these were short: the call or the policy allows that debt, so it is no
//! overspend. Covers stand beside what is granted: an overdraft that the region has used is not settled
//! by them.

use minicbor::{Decode, Encode};
use purser_types::{Credits, Sequence};

use super::{Allocation, AllocationStatus};
use crate::account::{Account, Draft};
use crate::command::{Cover, HoldNumber, Identity, LotNumber, OnCredit};
use crate::entry::{Bucket, Fact, Move};
use crate::hold::{Portion, Source, Spend, sum};
use crate::protocol::VoucherLot;
use crate::rejection::Rejection;

/// A cover, until all of it is booked.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Covered {
    /// What the region knows it by: home's entry that made it.
    #[n(0)]
    pub number: LotNumber,
    /// The only operation that may draw from it.
    #[n(1)]
    pub asked: Identity,
    /// The hold or charge that the operation is about.
    #[n(2)]
    pub hold: HoldNumber,
    /// Ever given.
    #[n(3)]
    pub given: Credits,
    /// What of it the region has spent or returned, as far as it is booked.
    #[n(4)]
    pub booked: Credits,
    /// What is out of it, in the order in which it is used up: parts of lots, then what is owed.
    #[n(5)]
    pub out: Vec<Spend>,
}

impl Covered {
    /// The most covers of one allocation at once, until what they are is booked. Each entry about the
    /// allocation names them all, as do its vouchers: at 86 bytes, 3 KiB of a voucher.
    pub const COUNT_MAX: usize = 32;

    /// The most lots and debts that a new cover is made of: with 13 bytes for each, all covers take up to
    /// 16 KiB of an entry. A voucher does not tell of them.
    pub const PARTS_MAX: usize = 32;

    /// How much of it is out.
    pub fn outstanding(&self) -> Credits {
        sum(self.out.iter().map(|part| part.amount))
    }

    /// How much of what is out is owed.
    pub fn owed(&self) -> Credits {
        let owed = self.out.iter().filter(|part| matches!(part.source, Source::Debt(_)));
        sum(owed.map(|part| part.amount))
    }

    /// The debt that it makes: of the entry that made it.
    const fn debt(&self) -> Source {
        let LotNumber(sequence) = self.number;
        Source::Debt(sequence)
    }

    /// Takes up to `amount` of what is out.
    fn take(&mut self, amount: Credits) -> Vec<Spend> {
        let mut rest = amount;
        let mut taken = Vec::new();
        for part in &mut self.out {
            let amount = part.amount.min(rest);
            rest = rest.saturating_sub(amount);
            part.amount = part.amount.saturating_sub(amount);
            if !amount.is_zero() {
                taken.push(Spend { source: part.source, amount });
            }
        }
        self.out.retain(|part| !part.amount.is_zero());
        taken
    }

    /// Adds what is given to what is out; what is owed stays last.
    fn add(&mut self, portions: &[Portion], owed: Credits) {
        let owed = sum([self.owed(), owed].into_iter());
        self.out.retain(|part| matches!(part.source, Source::Lot(_)));
        for Portion { lot, amount } in portions {
            crate::hold::add_spend(&mut self.out, Source::Lot(*lot), *amount);
        }
        let debt = self.debt();
        crate::hold::add_spend(&mut self.out, debt, owed);
    }
}

impl Allocation {
    /// What is out under covers.
    pub fn covered(&self) -> Credits {
        sum(self.covers.iter().map(Covered::outstanding))
    }

    /// What of that is owed.
    pub(crate) fn owed(&self) -> Credits {
        sum(self.covers.iter().map(Covered::owed))
    }

    /// Takes up to `amount` of what is out under the cover with a number, if it is one's.
    pub(super) fn draw_cover(&mut self, number: Option<LotNumber>, amount: Credits) -> Vec<Spend> {
        let mut covers = self.covers.iter_mut();
        let Some(cover) = covers.find(|cover| Some(cover.number) == number) else {
            return Vec::new();
        };
        cover.booked = sum([cover.booked, amount].into_iter());
        let taken = cover.take(amount);
        self.note_gone(&taken);
        taken
    }

    /// Whether what is out pays for all of these moves: each cover for its own, and the lots for the rest.
    pub(super) fn pays<'a>(&self, mut needs: impl Iterator<Item = &'a Move>) -> bool {
        let rest = needs.try_fold(self.for_all(), |rest, step| {
            match self.covers.iter().find(|cover| Some(cover.number) == step.lot) {
                Some(cover) => (step.amount <= cover.outstanding()).then_some(rest),
                None => rest.checked_sub(step.amount),
            }
        });
        rest.is_some()
    }

    /// Takes all that is out under covers.
    pub(super) fn draw_covers(&mut self) -> Vec<Spend> {
        let covers = self.covers.iter_mut();
        let taken: Vec<Spend> = covers.flat_map(|cover| cover.take(Credits::MAX)).collect();
        self.note_gone(&taken);
        taken
    }

    fn note_gone(&mut self, taken: &[Spend]) {
        let taken = taken.iter().map(|spend| spend.amount);
        self.covered_gone = sum(taken.chain([self.covered_gone]));
    }

    /// Forgets covers of which everything is booked: no voucher has to name them any more, since the
    /// region has taken them up.
    pub(super) fn forget_covers(&mut self) {
        self.covers.retain(|cover| cover.booked < cover.given);
    }

    /// The covers as a voucher tells of them.
    pub(super) fn vouched_covers(&self) -> impl Iterator<Item = VoucherLot> {
        self.covers.iter().map(|cover| VoucherLot::cover(cover.number, cover.given, cover.asked))
    }
}

impl Account {
    /// Sets credits aside for one operation of a region. Refuses: no such allocation; one that is not
    /// open; as much given before; too few credits, unless they may be owed; no room for it, until others
    /// are booked or larger lots are there.
    ///
    /// What is asked for is what the operation needs beyond the region's right in all, so a repeat gives
    /// nothing again.
    pub(crate) fn decide_cover(&self, asked: &Cover) -> Result<Draft, Rejection> {
        let mut allocation = self.allocation(asked.owner)?.clone();
        if allocation.status != AllocationStatus::Open {
            return Err(Rejection::AllocationEnded);
        }
        let before = allocation.covers.iter().position(|cover| cover.asked == asked.asked);
        let mut cover = match before {
            Some(place) => allocation.covers.remove(place),
            None => Covered {
                number: LotNumber(self.head.sequence.next()),
                asked: asked.asked,
                hold: asked.hold,
                given: Credits::ZERO,
                booked: Credits::ZERO,
                out: Vec::new(),
            },
        };
        let more = asked.amount.saturating_sub(cover.given);
        if more.is_zero() {
            return Err(Rejection::NothingNew);
        }
        let plan = match asked.on_credit {
            OnCredit::Always => self.plan(more),
            OnCredit::WithinLimit => self.plan_with_debt(more, true)?,
            OnCredit::Never => self.plan_with_debt(more, false)?,
        };
        cover.given = cover.given.checked_add(more).ok_or(Rejection::AmountOverflow)?;
        allocation.covered =
            allocation.covered.checked_add(more).ok_or(Rejection::AmountOverflow)?;
        cover.add(&plan.portions, plan.short_by);
        let has_room =
            cover.out.len() <= Covered::PARTS_MAX && allocation.covers.len() < Covered::COUNT_MAX;
        if !has_room {
            return Err(Rejection::NoRoomForCover);
        }
        allocation.covers.insert(before.unwrap_or(allocation.covers.len()), cover);
        allocation.renew();
        let to = Bucket::Allocated(asked.owner.region);
        let hand = |portion: &Portion| {
            Move::some(Some(portion.lot), Bucket::Available, to, portion.amount)
        };
        let mut moves: Vec<Move> = plan.portions.iter().filter_map(hand).collect();
        moves.extend(Move::some(None, Bucket::Debt, to, plan.short_by));
        Ok(Draft { fact: Fact::Covered(Box::new(allocation)), moves })
    }

    /// Where credits go that come home from a region without having been spent: to their lot, or to the
    /// debt that they were made of.
    pub(super) fn bring_home(&self, from: Bucket, part: Spend) -> Option<Move> {
        match part.source {
            Source::Lot(lot) => Move::some(Some(lot), from, self.homecoming_of(lot), part.amount),
            Source::Debt(_) => Move::some(None, from, Bucket::Debt, part.amount),
        }
    }

    /// The oldest cover of which something is owed, by the entry that made it.
    pub(crate) fn oldest_owed_cover(&self) -> Option<Sequence> {
        let covers = self.allocations().flat_map(|allocation| &allocation.covers);
        let owed = covers.filter(|cover| !cover.owed().is_zero());
        owed.map(|cover| cover.number.0).min()
    }

    /// Pays what is owed of a cover with what is available: other credits are out in their place, and
    /// the region need not know.
    ///
    /// All that is available pays, out of however many lots, also where that makes more parts than a new
    /// cover may have: nothing may stay available beside what is owed (INV-7).
    pub(crate) fn pay_cover(&self, made_by: Sequence) -> Draft {
        let number = LotNumber(made_by);
        let is_meant = |cover: &Covered| cover.number == number;
        let mut allocations = self.allocations();
        let found = allocations.find(|allocation| allocation.covers.iter().any(is_meant));
        let mut allocation = found.expect("INV-8: a cover that owes is an allocation's").clone();
        let bucket = Bucket::Allocated(allocation.owner.region);
        let mut moves = Vec::new();
        for cover in allocation.covers.iter_mut().filter(|cover| is_meant(cover)) {
            let owed = cover.owed();
            let portions = self.plan(owed.min(self.balance.available)).portions;
            let paid = sum(portions.iter().map(|portion| portion.amount));
            for Portion { lot, amount } in &portions {
                moves.extend(Move::some(Some(*lot), Bucket::Available, bucket, *amount));
            }
            moves.extend(Move::some(None, bucket, Bucket::Debt, paid));
            cover.out.retain(|part| matches!(part.source, Source::Lot(_)));
            cover.add(&portions, owed.saturating_sub(paid));
        }
        Draft { fact: Fact::CoverPaid(Box::new(allocation)), moves }
    }
}
