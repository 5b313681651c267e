//! Grants, voids and adjustments: what makes and unmakes lots.

use purser_types::{Credits, LogTime};

use super::{Account, Draft, Verdict};
use crate::command::{Adjust, Category, Confirm, Grant, LotNumber, Void};
use crate::digest::{Digest16, digest16};
use crate::entry::{Bucket, Fact, Move};
use crate::lot::{LotPhase, LotTerms};
use crate::rejection::Rejection;

impl Account {
    /// A new lot, or the one that the same business fact made before. Refuses: the fact gave
    /// another amount; over before it starts; beyond the ceiling.
    pub(super) fn decide_grant(&self, asked: &Grant, now: LogTime) -> Result<Verdict, Rejection> {
        // Order matters: a resend of a grant whose lot has expired since is still that grant.
        if let Some(lot) = self.lot_of_source(asked.source_ref.as_deref()) {
            return self.granted_before(lot, asked.amount);
        }
        let effective_at = asked.effective_at.unwrap_or(now);
        if asked.expires_at.is_some_and(|expires_at| expires_at <= now.max(effective_at)) {
            return Err(Rejection::GrantExpired);
        }
        self.refuse_above_ceiling(asked.amount)?;
        let terms = LotTerms {
            amount: asked.amount,
            category: asked.category,
            priority: asked.priority,
            effective_at,
            expires_at: asked.expires_at,
            source_ref: asked.source_ref.clone(),
        };
        let now_effective = (effective_at <= now).then_some(asked.amount);
        let moves = self.credit_new_lot(now_effective.unwrap_or(Credits::ZERO));
        Ok(Verdict::Write(Draft { fact: Fact::Granted(terms), moves }))
    }

    fn granted_before(&self, lot: LotNumber, amount: Credits) -> Result<Verdict, Rejection> {
        let granted = &self.lots.get(&lot).expect("INV-9: a source names a known lot").terms;
        if granted.amount == amount {
            Ok(Verdict::Existing(lot))
        } else {
            Err(Rejection::SourceRefConflict { lot, amount: granted.amount })
        }
    }

    fn lot_of_source(&self, source_ref: Option<&str>) -> Option<LotNumber> {
        self.source_refs.get(&source_digest(source_ref?)).copied()
    }

    /// Takes a lot back. Refuses: not there; voided before; the account has changed since the
    /// operator looked.
    pub(super) fn decide_void(&self, asked: &Void) -> Result<Draft, Rejection> {
        let lot = self.lots.get(&asked.lot).ok_or(Rejection::LotNotFound)?;
        if lot.phase == LotPhase::Voided {
            return Err(Rejection::LotAlreadyVoided);
        }
        self.refuse_stale(asked.confirm)?;
        let number = Some(asked.lot);
        let free = Move::some(number, Bucket::Available, Bucket::Voided, lot.free);
        let waiting = Move::some(number, Bucket::Granted, Bucket::Voided, lot.waiting);
        let moves: Vec<Move> = free.into_iter().chain(waiting).collect();
        let lot = lot.voided_by(&moves);
        Ok(Draft { fact: Fact::Voided { number: asked.lot, lot }, moves })
    }

    /// Adds a lot, or takes available credits away. Refuses: beyond the ceiling; too few credits.
    pub(super) fn decide_adjust(&self, asked: &Adjust, now: LogTime) -> Result<Draft, Rejection> {
        match asked {
            Adjust::Add { amount } => {
                self.refuse_above_ceiling(*amount)?;
                let terms = LotTerms {
                    amount: *amount,
                    category: Category::Paid,
                    priority: Grant::PRIORITY_DEFAULT,
                    effective_at: now,
                    expires_at: None,
                    source_ref: None,
                };
                Ok(Draft { fact: Fact::AdjustedUp(terms), moves: self.credit_new_lot(*amount) })
            }
            Adjust::Remove { amount } => {
                let portions = self.plan_all(*amount)?;
                let take = |portion: &crate::hold::Portion| {
                    let lot = Some(portion.lot);
                    Move::some(lot, Bucket::Available, Bucket::Voided, portion.amount)
                };
                let moves = portions.iter().filter_map(take).collect();
                Ok(Draft { fact: Fact::AdjustedDown, moves })
            }
        }
    }

    /// The total ever granted stays an amount.
    pub(super) fn refuse_above_ceiling(&self, amount: Credits) -> Result<(), Rejection> {
        let grantable = self.room_beside_regions(None, &self.balance).unwrap_or_default();
        if amount <= grantable { Ok(()) } else { Err(Rejection::GrantExceedsCeiling { grantable }) }
    }

    pub(crate) fn refuse_stale(&self, confirm: Confirm) -> Result<(), Rejection> {
        if confirm.0 == self.head.sequence {
            Ok(())
        } else {
            Err(Rejection::StaleConfirmation { sequence: self.head.sequence })
        }
    }

    /// The number of the lot that the next entry makes.
    pub(crate) fn next_lot(&self) -> LotNumber {
        LotNumber(self.head.sequence.next())
    }

    fn credit_new_lot(&self, amount: Credits) -> Vec<Move> {
        let lot = Some(self.next_lot());
        Move::some(lot, Bucket::Granted, Bucket::Available, amount).into_iter().collect()
    }
}

/// What a `source_ref` is looked up by.
pub(super) fn source_digest(source_ref: &str) -> Digest16 {
    digest16(source_ref.as_bytes())
}
