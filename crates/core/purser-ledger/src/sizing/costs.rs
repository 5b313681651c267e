//! What calls cost: the mean, and what 99 of 100 cost at most, from a few counters.

use std::collections::BTreeMap;

use purser_types::Credits;

use super::arithmetic::{credits, wide};

/// Counts calls by cost. Four classes to each doubling: a class's upper end is at most a quarter above
/// any cost in it.
///
/// Old calls fade: when [`Costs::CALLS_MAX`] are counted, all counts are halved. At most 256 classes,
/// usually two or three.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Costs {
    classes: BTreeMap<Class, u32>,
    count: u32,
    sum: u128,
}

/// Costs that are counted as one: the position of the highest bit, and the two bits below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Class(u8, u8);

impl Class {
    /// Costs below eight have a class each.
    fn of(cost: u64) -> Self {
        let Some(highest) = cost.checked_ilog2() else { return Self(0, 0) };
        let below = cost.checked_shr(highest.saturating_sub(2)).unwrap_or(0) & 0b11;
        let below = if highest < 2 { cost } else { below };
        let narrow = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
        Self(narrow(highest.into()), narrow(below))
    }

    /// The highest cost in the class.
    fn upper_end(self) -> u64 {
        let Self(highest, below) = self;
        let Some(shift) = highest.checked_sub(2) else { return below.into() };
        let next = u64::from(below).saturating_add(0b101);
        let next = u128::from(next).checked_shl(shift.into()).unwrap_or(u128::MAX);
        u64::try_from(next.saturating_sub(1)).unwrap_or(u64::MAX)
    }
}

impl Costs {
    /// How many calls are counted before the old ones fade.
    const CALLS_MAX: u32 = 1_024;

    /// With fewer calls than this, any of them may be what is usual.
    const FEW: u32 = 10;

    /// Counts a call.
    pub(super) fn note(&mut self, cost: Credits) {
        if self.count >= Self::CALLS_MAX {
            self.fade();
        }
        let count = self.classes.entry(Class::of(cost.get())).or_default();
        *count = count.saturating_add(1);
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(wide(self.usual(cost)));
    }

    fn fade(&mut self) {
        let before = self.count;
        self.classes.retain(|_class, count| {
            *count = count.wrapping_div(2);
            *count > 0
        });
        self.count = self.classes.values().fold(0, |sum, count| sum.saturating_add(*count));
        // In proportion to the counts, so that the mean stays as it was.
        let sum = self.sum.saturating_mul(self.count.into());
        self.sum = sum.checked_div(before.into()).unwrap_or(0);
    }

    /// A cost, cut off at four times what 99 of 100 calls cost: a region is not expected to have more
    /// for one call, so what is dearer is home's to serve and says nothing about the region's demand.
    pub(super) fn usual(&self, cost: Credits) -> Credits {
        credits(wide(self.p99()).saturating_mul(4)).min(cost)
    }

    /// What a call costs on average, rounded up, dear ones cut off; nothing before the first.
    pub(super) fn mean(&self) -> Credits {
        match self.count {
            0 => Credits::ZERO,
            count => credits(self.sum.div_ceil(count.into())),
        }
    }

    /// What 99 of 100 calls cost at most, up to a quarter too high; nothing before the first.
    ///
    /// Of ten calls and more, one may be dearer: a single call that costs as much as a thousand others
    /// must not make a region want four times that. Two of them are no accident.
    pub(super) fn p99(&self) -> Credits {
        let one = u32::from(self.count >= Self::FEW);
        let mut above = self.count.wrapping_div(100).max(one);
        for (class, count) in self.classes.iter().rev() {
            match above.checked_sub(*count) {
                Some(rest) => above = rest,
                None => return credits(class.upper_end().into()),
            }
        }
        Credits::ZERO
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a sum that overflows fails the test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(amount: u64) -> Credits {
        Credits::from_u64(amount).unwrap()
    }

    #[test]
    fn one_dear_call_among_ten_is_an_accident_and_two_are_not() {
        let mut costs = Costs::default();
        assert_eq!((costs.mean(), costs.p99()), (Credits::ZERO, Credits::ZERO));
        costs.note(amount(1_000));
        assert!((1_000..=1_250).contains(&costs.p99().get()));
        (0..9).for_each(|_| costs.note(amount(3)));
        assert_eq!(costs.p99(), amount(3));
        // Cut off at four times the usual.
        costs.note(amount(9_000));
        assert!((1_000..=1_250).contains(&costs.p99().get()));
        (0..189).for_each(|_| costs.note(amount(3)));
        assert_eq!(costs.p99(), amount(3));
        assert_eq!(costs.usual(amount(9_000)), amount(12));
    }

    #[test]
    fn a_change_of_price_shows_after_some_thousand_calls() {
        let mut costs = Costs::default();
        (0..10_000).for_each(|_| costs.note(amount(500)));
        (0..8_000).for_each(|_| costs.note(amount(2)));
        assert_eq!((costs.mean(), costs.p99()), (amount(3), amount(2)));
        assert_eq!(costs.classes.len(), 1);
    }

    proptest! {
        #[test]
        fn a_class_ends_at_most_a_quarter_above_each_of_its_costs(
            cost in prop_oneof![0..100u64, 0..=Credits::MAX.get()],
        ) {
            let end = Class::of(cost).upper_end();
            prop_assert!(cost <= end);
            prop_assert!(u128::from(end - cost) * 4 <= cost.into());
            prop_assert!(Class::of(end) == Class::of(cost) && Class::of(end) < Class::of(end + 1));
        }
    }
}
