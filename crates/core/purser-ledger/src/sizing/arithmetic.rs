//! Whole numbers where others would use fractions.

use purser_types::{Credits, Span};

use super::Rate;

/// Parts of a credit that a [`Rate`] counts.
const PARTS: u128 = 1_000;

const MICROS_PER_SECOND: u128 = 1_000_000;

/// What a rate of one credit in a second has in a second: parts times microseconds.
const PART_MICROS: u128 = 1_000_000_000;

/// The largest number whose square is not above `square`, by Newton's method.
pub(super) const fn root(square: u128) -> u128 {
    if square < 2 {
        return square;
    }
    // Any start at or above the root will do; a power of two near it takes the fewest steps.
    let bits = u128::BITS.saturating_sub(square.leading_zeros());
    let mut guess = 1_u128 << bits.div_ceil(2);
    loop {
        // A guess is never zero: it starts above the root and ends at it.
        let Some(quotient) = square.checked_div(guess) else { return 0 };
        let better = guess.midpoint(quotient);
        if better >= guess {
            return guess;
        }
        guess = better;
    }
}

/// An amount; the largest there is, if the number is larger.
pub(super) fn credits(amount: u128) -> Credits {
    let amount = u64::try_from(amount).ok();
    amount.and_then(|amount| Credits::from_u64(amount).ok()).unwrap_or(Credits::MAX)
}

/// An amount as a wide number, so that sums need no check.
pub(super) fn wide(amount: Credits) -> u128 {
    amount.get().into()
}

/// What a rate comes to in a time.
pub(super) fn over(rate: Rate, time: Span) -> u128 {
    let parts = u128::from(rate.0).saturating_mul(time.as_micros().into());
    parts.wrapping_div(PART_MICROS)
}

/// The rate at which so many credits are used in a time that is not zero.
pub(super) fn rate(used: u128, time: Span) -> Rate {
    let parts = used.saturating_mul(PART_MICROS);
    let rate = parts.checked_div(time.as_micros().into()).unwrap_or(0);
    Rate(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// How long so many credits last at a rate.
pub(super) fn lasts(amount: u128, rate: u128) -> Option<Span> {
    let parts = amount.saturating_mul(PART_MICROS);
    let micros = parts.checked_div(rate)?;
    Some(Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
}

/// So many times what the use in a time strays from the average, where calls come independently of
/// each other: the root of rate × time × mean cost.
pub(super) fn strays(times: u128, rate: Rate, time: Span, mean_cost: Credits) -> u128 {
    let micro_credits =
        u128::from(rate.0).saturating_mul(time.as_micros().into()).wrapping_div(PARTS);
    let square = micro_credits.saturating_mul(wide(mean_cost));
    // The root of a millionth is a thousandth: six digits more than are used make it exact.
    let in_millionths = root(square.saturating_mul(MICROS_PER_SECOND)).saturating_mul(times);
    in_millionths.wrapping_div(MICROS_PER_SECOND)
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a sum that overflows fails the test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_root_is_exact_around_squares_and_at_the_ends() {
        assert_eq!([0, 1, 2, 3, 4, 8, 9].map(root), [0, 1, 1, 1, 2, 2, 3]);
        assert_eq!(root(u128::MAX), u128::from(u64::MAX));
        for side in [10_u128, 1 << 32, (1 << 63) - 1, u64::MAX.into()] {
            let square = side * side;
            assert_eq!([square - 1, square, square + 1].map(root), [side - 1, side, side]);
        }
    }

    #[test]
    fn a_rate_and_a_time_make_an_amount_and_back() {
        let twenty = rate(100, Span::from_secs(5));
        assert_eq!(twenty, Rate(20_000));
        assert_eq!(over(twenty, Span::from_secs(10)), 200);
        assert_eq!(lasts(200, twenty.0.into()), Some(Span::from_secs(10)));
        assert_eq!(lasts(200, 0), None);
        // 8 × √(20/s × 1 s × 5) = 80, and 8 × √(0.02/s × 1 s × 5) = 2.5.
        let five = Credits::from_u64(5).unwrap();
        assert_eq!(strays(8, twenty, Span::from_secs(1), five), 80);
        assert_eq!(strays(8, Rate(20), Span::from_secs(1), five), 2);
    }

    proptest! {
        #[test]
        fn the_root_squared_is_the_largest_square_not_above(square: u128) {
            let side = root(square);
            prop_assert!(side * side <= square);
            let above = side + 1;
            prop_assert!(above.checked_mul(above).is_none_or(|above| above > square));
        }
    }
}
