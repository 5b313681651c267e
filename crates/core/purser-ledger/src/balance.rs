//! What an account shows: its buckets, and what has passed through them.

use minicbor::data::Type;
use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};
use purser_types::Credits;

use crate::entry::{Bucket, Fact, Move};

/// An account's buckets and lifetime totals after an entry.
///
/// INV-1: `granted + debt = available + held + used + expired + voided`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
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
    pub fn after(mut self, fact: &Fact, moves: &[Move]) -> Result<Self, BalanceError> {
        if let Some(terms) = fact.new_lot() {
            let pending = self.pending.checked_add(terms.amount);
            self.pending = pending.ok_or(BalanceError::TooLarge)?;
        }
        if let Fact::Authorized(hold) | Fact::Charged(hold) = fact {
            self.authorized.add(hold.amount);
        }
        for step in moves {
            self.shift(step.from, step.amount, Direction::Out)?;
            self.shift(step.to, step.amount, Direction::In)?;
            self.count(fact, step)?;
        }
        Ok(self)
    }

    fn count(&mut self, fact: &Fact, step: &Move) -> Result<(), BalanceError> {
        if step.from == Bucket::Granted {
            let pending = self.pending.checked_sub(step.amount);
            self.pending = pending.ok_or(BalanceError::BelowZero)?;
        }
        if step.from == Bucket::Held && step.to != Bucket::Used {
            self.released.add(step.amount);
        }
        if step.from == Bucket::Used {
            self.refunded.add(step.amount);
        }
        if step.to == Bucket::Used {
            let reclaims = matches!(fact, Fact::Reclaimed(_));
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
        let (figure, source) = match bucket {
            Bucket::Granted => (&mut self.granted, true),
            Bucket::Debt => (&mut self.debt, true),
            Bucket::Available => (&mut self.available, false),
            Bucket::Held => (&mut self.held, false),
            Bucket::Used => (&mut self.used, false),
            Bucket::Expired => (&mut self.expired, false),
            Bucket::Voided => (&mut self.voided, false),
        };
        // Credits come out of a source: what leaves it makes its figure grow.
        let grows = matches!(direction, Direction::In) != source;
        *figure = if grows {
            figure.checked_add(amount).ok_or(BalanceError::TooLarge)?
        } else {
            figure.checked_sub(amount).ok_or(BalanceError::BelowZero)?
        };
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
