//! What an account shows: its buckets, and what has passed through them.

use std::collections::BTreeMap;

use minicbor::data::Type;
use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};
use purser_types::{Credits, Region};

use crate::entry::{Bucket, Fact, Move};

/// An account's buckets and lifetime totals after an entry.
///
/// INV-1: `granted + debt = available + held + used + expired + voided + returned + Σ allocated`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Balance {
    /// Ever granted, without lots that are not effective yet.
    #[n(0)]
    pub granted: Credits,
    /// Free to be authorized.
    #[n(1)]
    pub available: Credits,
    /// Set aside by holds.
    #[n(2)]
    pub held: Credits,
    /// Captured, net of refunds, with reclaims.
    #[n(3)]
    pub used: Credits,
    /// Lapsed with their lots.
    #[n(4)]
    pub expired: Credits,
    /// Taken back by an operator.
    #[n(5)]
    pub voided: Credits,
    /// Owed by the tenant.
    #[n(6)]
    pub debt: Credits,
    /// In lots that are not effective yet.
    #[n(7)]
    pub pending: Credits,
    /// Ever authorized by holds and charges.
    #[n(8)]
    pub authorized: Total,
    /// Ever captured.
    #[n(9)]
    pub captured: Total,
    /// Ever given back by holds that ended, whatever ended them.
    #[n(10)]
    pub released: Total,
    /// Ever refunded.
    #[n(11)]
    pub refunded: Total,
    /// Ever reclaimed.
    #[n(12)]
    pub reclaimed: Total,
    /// In a region: given back to home.
    #[n(13)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub returned: Credits,
    /// At home: out in regions. No region with nothing is listed.
    #[n(14)]
    #[cbor(skip_if = "BTreeMap::is_empty")]
    pub allocated: BTreeMap<Region, Credits>,
}

/// A lifetime total. Wider than an amount, because the same credits may pass many times: refunding
/// and capturing 10^18 credits ten times is allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Total(u128);

/// Why moves can not be applied to a balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BalanceError {
    /// A figure would pass the largest amount. A caller can bring this about.
    #[error("a figure would pass the largest amount")]
    TooLarge,
    /// A bucket would give what it has not. No decision does that.
    #[error("a bucket would fall below zero")]
    BelowZero,
}

impl Balance {
    /// The balance after an entry that says `fact` and moves `moves`, or why there is none.
    pub fn after(&self, fact: &Fact, moves: &[Move]) -> Result<Self, BalanceError> {
        let mut after = self.clone();
        let vouched = matches!(fact, Fact::VoucherAccepted(_));
        let given = moves.iter().filter(|step| vouched && step.from == Bucket::Granted);
        let given = given.map(|step| step.amount);
        for amount in fact.new_lot().map(|terms| terms.amount).into_iter().chain(given) {
            let pending = after.pending.checked_add(amount);
            after.pending = pending.ok_or(BalanceError::TooLarge)?;
        }
        for step in moves {
            after.shift(step.from, step.amount, Direction::Out)?;
            after.shift(step.to, step.amount, Direction::In)?;
            after.count(fact, step)?;
        }
        after.count_fact(fact);
        Ok(after)
    }

    fn count_fact(&mut self, fact: &Fact) {
        if let Fact::Authorized(hold) | Fact::Charged(hold) = fact {
            self.authorized.add(hold.amount);
        } else if let Fact::JobCreated(change) = fact {
            self.authorized.add(change.hold.amount);
        } else if let Some(charge) = fact.event_charge() {
            self.authorized.add(charge.amount);
        } else if let Fact::TailBooked(run) = fact {
            run.new_charge().into_iter().for_each(|charge| self.authorized.add(charge.amount));
        } else if let Fact::RefundPromised { amount, .. } = fact {
            self.refunded.add(*amount);
        } else if let Fact::Settled(settlement) = fact {
            for shipped in &settlement.shipped {
                if let Fact::Authorized(hold) | Fact::Charged(hold) = &shipped.entry.fact {
                    self.authorized.add(hold.amount);
                }
                let freed = shipped.entry.moves.iter().filter(|step| step.frees());
                freed.for_each(|step| self.released.add(step.amount));
            }
        }
    }

    fn count(&mut self, fact: &Fact, step: &Move) -> Result<(), BalanceError> {
        if step.from == Bucket::Granted {
            let pending = self.pending.checked_sub(step.amount);
            self.pending = pending.ok_or(BalanceError::BelowZero)?;
        }
        if step.frees() {
            self.released.add(step.amount);
        }
        if step.from == Bucket::Used {
            self.refunded.add(step.amount);
        }
        if step.to == Bucket::Used {
            let reclaims = fact.reclaims();
            let total = if reclaims { &mut self.reclaimed } else { &mut self.captured };
            total.add(step.amount);
        }
        Ok(())
    }

    fn shift(
        &mut self,
        bucket: Bucket,
        amount: Credits,
        direction: Direction,
    ) -> Result<(), BalanceError> {
        let grows = matches!(direction, Direction::In) != bucket.is_source();
        let figure = match bucket {
            Bucket::Granted => &mut self.granted,
            Bucket::Debt => &mut self.debt,
            Bucket::Available => &mut self.available,
            Bucket::Held => &mut self.held,
            Bucket::Used => &mut self.used,
            Bucket::Expired => &mut self.expired,
            Bucket::Voided => &mut self.voided,
            Bucket::Returned => &mut self.returned,
            Bucket::Allocated(region) => self.allocated.entry(region).or_default(),
        };
        *figure = if grows {
            figure.checked_add(amount).ok_or(BalanceError::TooLarge)?
        } else {
            figure.checked_sub(amount).ok_or(BalanceError::BelowZero)?
        };
        if let Bucket::Allocated(region) = bucket
            && figure.is_zero()
        {
            self.allocated.remove(&region);
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    In,
    Out,
}

impl Total {
    /// The total as a number.
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Saturates, which takes 2^65 calls of the largest amount.
    fn add(&mut self, amount: Credits) {
        self.0 = self.0.saturating_add(u128::from(amount.get()));
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<C> Encode<C> for Total {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match u64::try_from(self.0) {
            Ok(small) => encoder.u64(small)?.ok(),
            Err(_) => encoder.bytes(&self.0.to_be_bytes())?.ok(),
        }
    }
}

impl<'b, C> Decode<'b, C> for Total {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        if decoder.datatype()? != Type::Bytes {
            return decoder.u64().map(u128::from).map(Self);
        }
        let bytes = decoder.bytes()?.try_into().map_err(minicbor::decode::Error::custom)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}
