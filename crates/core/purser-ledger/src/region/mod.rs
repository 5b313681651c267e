//! A region's side of an allocation: the book of one generation.
//!
//! ```text
//!  first voucher ──▶ open ──┬── finish (nothing held, all given back) ──▶ finished
//!                           └── seal (its own past is lost) ────────────▶ sealed
//! ```
//!
//! The book is an account like home's, with the same rules for holds and lots, and its own chain of
//! entries. Its credits come from vouchers and go home by entries; nothing else makes or unmakes
//! them. What it may spend beyond the lots it was given is the overdraft, which stands in the bucket
//! `debt` while a hold or a capture uses it.
//!
//! - INV-14: what was spent and is held never exceeds granted − returned + overdraft, as it was when
//!   it was decided.
//!
//! Not here: clocks. Whether a lease has run out is for the region's leader to judge before it asks.

use std::collections::BTreeSet;

use minicbor::bytes::ByteVec;
use purser_types::{Credits, Epoch, HistoryError, HistoryReader, LogTime, Owner, Sequence};

use crate::account::{Account, Draft, Side};
use crate::codec;
use crate::command::{Identity, LotNumber, Return};
use crate::entry::{Bucket, Fact, Move};
use crate::hold::{Portion, sum};
use crate::lot::{Lot, LotPhase};
use crate::policy::OnExpiry;
use crate::protocol::{Mode, Recall, Report, Voucher, VoucherLot};
use crate::rejection::Rejection;

/// What a region's book has beyond an account.
#[derive(Debug, Clone, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub(crate) struct RegionSide {
    /// The allocation.
    #[n(0)]
    pub(crate) owner: Owner,
    /// The highest epoch that home has spoken under.
    #[n(1)]
    pub(crate) epoch: Epoch,
    /// The last voucher's number.
    #[n(2)]
    pub(crate) voucher: u64,
    /// How much may be spent beyond what was granted.
    #[n(3)]
    pub(crate) overdraft: Credits,
    /// What home lets the region do.
    #[n(4)]
    pub(crate) mode: Mode,
    /// What home last asked back.
    #[n(5)]
    pub(crate) recall: Recall,
    /// The last recall that was answered.
    #[n(6)]
    pub(crate) answered: u64,
    /// Whether the book goes on.
    #[n(7)]
    pub(crate) phase: BookPhase,
    /// What becomes of the allocation when its lease has run out.
    #[n(8)]
    #[cbor(skip_if = "codec::is_none")]
    pub(crate) on_expiry: OnExpiry,
    /// The covers that have free credits. Derived from the lots.
    #[cbor(skip)]
    pub(crate) covers: BTreeSet<LotNumber>,
    /// The covers that are not kept as lots any more, added up.
    #[n(9)]
    #[cbor(skip_if = "codec::is_none")]
    pub(crate) past_covers: PastCovers,
}

/// What covers came to that home has booked whole: all of each was spent or returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub(crate) struct PastCovers {
    #[n(0)]
    pub(crate) used: Credits,
    #[n(1)]
    pub(crate) returned: Credits,
}

impl PastCovers {
    fn add(&mut self, cover: &Lot) {
        self.used = sum([self.used, cover.used].into_iter());
        self.returned = sum([self.returned, cover.returned].into_iter());
    }
}

/// Whether a region's book goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
#[cbor(index_only)]
pub enum BookPhase {
    /// It does.
    #[n(0)]
    Open,
    /// Its own past is lost: it decides nothing any more.
    #[n(1)]
    Sealed,
    /// It has given everything back.
    #[n(2)]
    Finished,
}

impl RegionSide {
    /// A book before its first voucher.
    pub(crate) fn new(owner: Owner) -> Self {
        Self {
            owner,
            epoch: Epoch::default(),
            voucher: 0,
            overdraft: Credits::ZERO,
            mode: Mode::Local,
            recall: Recall::default(),
            answered: 0,
            phase: BookPhase::Open,
            on_expiry: OnExpiry::Keep,
            covers: BTreeSet::new(),
            past_covers: PastCovers::default(),
        }
    }

    /// What a voucher changes besides lots.
    pub(crate) fn follow(&mut self, voucher: &Voucher) {
        self.epoch = voucher.epoch;
        self.voucher = voucher.number;
        self.overdraft = voucher.overdraft;
        self.mode = voucher.mode;
        self.recall = voucher.recall;
        self.on_expiry = voucher.on_expiry;
    }
}

impl Account {
    /// Takes up home's word. Refuses: a voucher of an earlier home; any once the book has ended; one
    /// that is not newer than what is known; one whose figures contradict what home said before.
    ///
    /// A voucher that knows of more entries than this book has, or of others, shows that the book has
    /// lost its past: it is sealed.
    pub(crate) fn decide_accept(
        &self,
        voucher: &Voucher,
        hash_at_booked: Option<crate::Digest32>,
        now: LogTime,
    ) -> Result<Draft, Rejection> {
        let region = self.region_side()?;
        if voucher.owner != region.owner || voucher.account != self.name {
            return Err(Rejection::AllocationUnknown);
        }
        if voucher.epoch < region.epoch {
            return Err(Rejection::EpochFenced { epoch: region.epoch });
        }
        if region.phase != BookPhase::Open {
            return Err(Rejection::AllocationEnded);
        }
        if voucher.booked.hash.is_some() && voucher.booked.hash != hash_at_booked {
            return Ok(Draft::still(Fact::AllocationSealed));
        }
        if voucher.number <= region.voucher {
            return Err(Rejection::NothingNew);
        }
        let mut moves = Vec::new();
        let mut from_lots = Credits::ZERO;
        for given in &voucher.lots {
            let more = self.given_anew(given)?;
            from_lots = from_lots.checked_add(more).ok_or(Rejection::AmountOverflow)?;
            let lapsed = given.terms.expires_at.is_some_and(|expires_at| expires_at <= now);
            let to = if lapsed { Bucket::Returned } else { Bucket::Available };
            moves.extend(Move::some(Some(given.lot), Bucket::Granted, to, more));
        }
        let more = voucher.granted.checked_sub(self.balance.granted);
        let settled = more.and_then(|more| more.checked_sub(from_lots));
        let settled = settled.filter(|settled| *settled <= self.balance.debt);
        let settled = settled.ok_or(Rejection::VoucherContradicts)?;
        moves.extend(Move::some(None, Bucket::Granted, Bucket::Debt, settled));
        Ok(Draft { fact: Fact::VoucherAccepted(Box::new(voucher.clone())), moves })
    }

    /// How much more of a lot a voucher gives than those before it.
    fn given_anew(&self, given: &VoucherLot) -> Result<Credits, Rejection> {
        let before = self.lots.get(&given.lot).map_or(Credits::ZERO, |lot| lot.terms.amount);
        given.given.checked_sub(before).ok_or(Rejection::VoucherContradicts)
    }

    /// Gives free credits back, those first that would be spent last, and what is left of the covers that
    /// are named. Refuses: nothing to give, and no recall to answer.
    pub(crate) fn decide_return(&self, asked: &Return) -> Result<Draft, Rejection> {
        let region = self.region_side()?;
        let excess = self.free().saturating_sub(asked.keep);
        let is_answer = asked.recall > region.answered && asked.recall <= region.recall.number;
        let covers = asked.covers.iter().filter(|cover| region.covers.contains(cover));
        let mut moves: Vec<Move> = covers.filter_map(|cover| self.uncover(*cover)).collect();
        if excess.is_zero() && moves.is_empty() && !is_answer {
            return Err(Rejection::NothingNew);
        }
        let mut rest = excess;
        let drawable: Vec<LotNumber> = self.draw_order.iter().map(|(key, ())| key.lot()).collect();
        for number in drawable.into_iter().rev() {
            let free =
                self.lots.get(&number).expect("INV-9: burn-down order names known lots").free;
            let part = free.min(rest);
            rest = rest.saturating_sub(part);
            moves.extend(Move::some(Some(number), Bucket::Available, Bucket::Returned, part));
            if rest.is_zero() {
                break;
            }
        }
        // A recall that is not known here is still to be answered when it comes.
        let recall = asked.recall.min(region.recall.number);
        Ok(Draft { fact: Fact::ReturnedHome { recall }, moves })
    }

    /// Ends the book. Refuses: credits are held, or free.
    pub(crate) fn decide_finish(&self) -> Result<Draft, Rejection> {
        self.region_side()?;
        if !self.holds.is_empty() || !self.balance.available.is_zero() {
            let holds = u64::try_from(self.holds.len()).unwrap_or(u64::MAX);
            return Err(Rejection::FinishBlocked { holds, free: self.balance.available });
        }
        Ok(Draft::still(Fact::AllocationFinished))
    }

    /// Ends the book at once, because nobody knows whether it is complete.
    pub(crate) fn decide_seal(&self) -> Result<Draft, Rejection> {
        self.region_side()?;
        Ok(Draft::still(Fact::AllocationSealed))
    }

    pub(crate) fn region_side(&self) -> Result<&RegionSide, Rejection> {
        match &self.side {
            Side::Region(region) => Ok(region),
            Side::Home(_) => Err(Rejection::DecidedElsewhere),
        }
    }

    /// What the region may still spend beyond its lots.
    pub(crate) fn overdraft_room(&self) -> Credits {
        match &self.side {
            Side::Region(region) => region.overdraft.saturating_sub(self.balance.debt),
            Side::Home(_) => Credits::ZERO,
        }
    }

    /// The region's entries after `after`, for home: as many as fit into one report. Nothing at all if
    /// this is not a region's book.
    pub fn report(
        &self,
        after: Sequence,
        history: &dyn HistoryReader,
    ) -> Result<Option<Report>, HistoryError> {
        let Ok(region) = self.region_side() else { return Ok(None) };
        let last = after.0.saturating_add(Report::ENTRIES_MAX).min(self.head.sequence.0);
        let mut entries = Vec::new();
        for hashed in self.entries_back_from(Sequence(last), history)? {
            let entry = hashed?.entry;
            if entry.sequence <= after {
                break;
            }
            entries.push(codec::encode(&entry).into());
        }
        entries.reverse();
        let mut bytes = 0_usize;
        entries.retain(|entry: &ByteVec| {
            bytes = bytes.saturating_add(entry.len());
            bytes <= Report::BYTES_MAX
        });
        let is_sealed = region.phase == BookPhase::Sealed;
        Ok(Some(Report { owner: region.owner, epoch: region.epoch, entries, is_sealed }))
    }

    /// What the region may still spend on whatever comes, of its lots and beyond.
    pub fn right(&self) -> Credits {
        self.free().checked_add(self.overdraft_room()).unwrap_or(Credits::MAX)
    }

    /// What is free of its lots for whatever comes, and not under a cover.
    pub fn free(&self) -> Credits {
        let covered = self.open_covers().map(|(_, _, free)| free);
        covered.fold(self.balance.available, Credits::saturating_sub)
    }

    /// The covers of which something is free: their numbers, the operations that they are for, and how
    /// much is free.
    pub fn open_covers(&self) -> impl Iterator<Item = (LotNumber, Identity, Credits)> {
        let region = self.region_side().ok().into_iter();
        let covers = region.flat_map(|region| &region.covers);
        covers.filter_map(|number| {
            let lot = self.lots.get(number)?;
            Some((*number, lot.only_for?, lot.free))
        })
    }

    /// What is there for one operation alone.
    pub(crate) fn cover_for(&self, asked: Identity) -> Option<Portion> {
        let mut covers = self.open_covers();
        let (lot, _, amount) = covers.find(|(_, only_for, _)| *only_for == asked)?;
        Some(Portion { lot, amount })
    }

    /// Gives back what is left of a cover.
    fn uncover(&self, number: LotNumber) -> Option<Move> {
        let free = self.lots.get(&number)?.free;
        Move::some(Some(number), Bucket::Available, Bucket::Returned, free)
    }

    /// Keeps true which covers have free credits.
    pub(crate) fn note_cover(&mut self, number: LotNumber, is_open: bool) {
        let Side::Region(region) = &mut self.side else { return };
        if is_open {
            region.covers.insert(number);
        } else {
            region.covers.remove(&number);
        }
    }

    /// Where a region's book stands; nothing for home's.
    pub fn book_phase(&self) -> Option<BookPhase> {
        self.region_side().ok().map(|region| region.phase)
    }

    /// What a region's book has heard of home: the numbers of its last voucher and of its last answered
    /// recall, the overdraft and the mode.
    pub fn voucher_heard(&self) -> Option<(u64, u64, Credits, Mode)> {
        let region = self.region_side().ok()?;
        Some((region.voucher, region.answered, region.overdraft, region.mode))
    }

    /// What a region's book has heard of what becomes of it when its lease has run out.
    pub fn heard_on_expiry(&self) -> Option<OnExpiry> {
        self.region_side().ok().map(|region| region.on_expiry)
    }

    /// What home lets a region's book do, and the recall that it has not answered yet.
    pub fn standing_orders(&self) -> Option<(Mode, Option<Recall>)> {
        let region = self.region_side().ok()?;
        let open = Some(region.recall).filter(|recall| recall.number > region.answered);
        Some((region.mode, open))
    }

    /// Brings the lots of a voucher up to what was given.
    pub(crate) fn evolve_voucher(&mut self, voucher: &Voucher, now: LogTime) {
        for given in &voucher.lots {
            if let Some(lot) = self.lots.get_mut(&given.lot) {
                let more = given.given.saturating_sub(lot.terms.amount);
                lot.terms.amount = given.given;
                let waiting = lot.waiting.checked_add(more);
                lot.waiting = waiting.expect("INV-2: a lot's parts stay within its amount");
            } else {
                let mut terms = given.terms.clone();
                terms.amount = given.given;
                let lapsed = terms.expires_at.is_some_and(|expires_at| expires_at <= now);
                self.add_lot(given.lot, &terms);
                if let Some(lot) = self.lots.get_mut(&given.lot) {
                    lot.only_for = given.only_for;
                }
                let phase = if lapsed { LotPhase::Expired } else { LotPhase::Active };
                self.enter_phase(given.lot, phase);
            }
        }
        self.forget_covers_but(&voucher.lots);
        if let Side::Region(region) = &mut self.side {
            region.follow(voucher);
        }
        self.standing.policy.key_retention = voucher.key_retention;
        self.standing.policy.record_retention = voucher.record_retention;
    }

    /// Forgets the covers that a new voucher does not name any more: home has booked all of each, so no
    /// later one names them either. The book keeps what they came to (INV-2).
    fn forget_covers_but(&mut self, named: &[VoucherLot]) {
        let is_past = |number: LotNumber, lot: &Lot| {
            let is_empty = lot.waiting.is_zero() && lot.free.is_zero() && lot.held.is_zero();
            let is_cover = lot.only_for.is_some();
            is_cover && is_empty && named.iter().all(|given| given.lot != number)
        };
        let lots = self.lots.iter().filter(|(number, lot)| is_past(**number, lot));
        let past: Vec<LotNumber> = lots.map(|(number, _)| *number).collect();
        let Side::Region(region) = &mut self.side else { return };
        for number in past {
            if let Some(lot) = self.lots.remove(&number) {
                region.past_covers.add(&lot);
            }
        }
    }
}

/// What pays for a portion, and from which bucket.
pub(crate) fn payer(portion: &Portion) -> (Option<LotNumber>, Bucket) {
    if portion.lot == LotNumber::OVERDRAFT {
        (None, Bucket::Debt)
    } else {
        (Some(portion.lot), Bucket::Available)
    }
}
