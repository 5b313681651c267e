//! Sharing a whole among claims: weighted max-min, in whole credits.

use purser_types::Credits;

use super::arithmetic::{credits, wide};

/// What somebody asks of a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// How much counts for how much, where not all can be had.
    pub(super) weight: Credits,
    /// What is wanted: nobody gets more.
    pub(super) wanted: Credits,
}

impl Claim {
    /// Weights above this count as this, so that products fit: 2.8 × 10^14 credits.
    const WEIGHT_MAX: u128 = 1 << 48;

    /// Nobody counts for nothing.
    fn weight(&self) -> u128 {
        wide(self.weight).clamp(1, Self::WEIGHT_MAX)
    }
}

/// A claim that has not got what it wants.
struct Open {
    /// Its place among the claims.
    place: usize,
    weight: u128,
    wanted: u128,
}

/// What each claim gets of `whole`, in the claims' order. In all it is the whole, or all that is wanted
/// if that is less.
///
/// Whoever wants less than its weight's part of the whole gets what it wants; the rest is shared by the
/// others in the same way, until nobody wants less. What does not come out even goes to the largest
/// remainders, and among equal ones to the earlier claim.
pub(super) fn split(whole: Credits, claims: &[Claim]) -> Vec<Credits> {
    let mut shares = vec![Credits::ZERO; claims.len()];
    let mut rest = wide(whole);
    let mut open: Vec<Open> = claims
        .iter()
        .enumerate()
        .map(|(place, claim)| Open { place, weight: claim.weight(), wanted: wide(claim.wanted) })
        .collect();
    loop {
        let weights = open.iter().fold(0, |sum: u128, claim| sum.saturating_add(claim.weight));
        // At one level for all in a round, so that the order of claims does not matter.
        let level = rest;
        let is_content = |claim: &Open| {
            claim.wanted.saturating_mul(weights) <= level.saturating_mul(claim.weight)
        };
        let (content, others): (Vec<Open>, Vec<Open>) = open.into_iter().partition(is_content);
        for claim in &content {
            give(&mut shares, claim.place, claim.wanted);
            rest = rest.saturating_sub(claim.wanted);
        }
        open = others;
        if content.is_empty() {
            share_out(rest, weights, open, &mut shares);
            return shares;
        }
    }
}

/// Shares `rest` by weight among claims that all want more.
fn share_out(rest: u128, weights: u128, mut open: Vec<Open>, shares: &mut [Credits]) {
    let mut left = rest;
    for claim in &open {
        let part = rest.saturating_mul(claim.weight).checked_div(weights).unwrap_or(0);
        give(shares, claim.place, part);
        left = left.saturating_sub(part);
    }
    let remainder =
        |claim: &Open| rest.saturating_mul(claim.weight).checked_rem(weights).unwrap_or(0);
    open.sort_by_key(|claim| (std::cmp::Reverse(remainder(claim)), claim.place));
    // Fewer are left than there are claims, and each wants more than it got.
    for (claim, _one) in open.iter().zip(0..left) {
        give(shares, claim.place, 1);
    }
}

fn give(shares: &mut [Credits], place: usize, amount: u128) {
    if let Some(share) = shares.get_mut(place) {
        *share = credits(wide(*share).saturating_add(amount));
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

    fn claims(claims: &[(u64, u64)]) -> Vec<Claim> {
        let claim = |&(weight, wanted)| Claim { weight: amount(weight), wanted: amount(wanted) };
        claims.iter().map(claim).collect()
    }

    #[track_caller]
    fn check_split(whole: u64, asked: &[(u64, u64)], expected: &[u64]) {
        let shares = split(amount(whole), &claims(asked));
        assert_eq!(shares.into_iter().map(Credits::get).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn who_wants_little_gets_it_and_the_others_share_the_rest() {
        check_split(100, &[(1, 10), (1, 80), (1, 80)], &[10, 45, 45]);
        check_split(100, &[(1, 10), (2, 80), (1, 80)], &[10, 60, 30]);
        check_split(100, &[(1, 10), (1, 20)], &[10, 20]);
        check_split(0, &[(1, 10), (1, 20)], &[0, 0]);
        check_split(100, &[], &[]);
    }

    #[test]
    fn what_does_not_come_out_even_goes_to_the_largest_remainder_then_to_the_first() {
        check_split(100, &[(1, 99), (1, 99), (1, 99)], &[34, 33, 33]);
        check_split(10, &[(1, 99), (2, 99), (1, 99)], &[3, 5, 2]);
        check_split(7, &[(1, 99), (2, 99)], &[2, 5]);
        check_split(2, &[(0, 99), (0, 99), (0, 99)], &[1, 1, 0]);
    }

    proptest! {
        #[test]
        fn a_split_sums_to_the_whole_and_gives_nobody_more_than_wanted(
            whole in prop_oneof![0..1_000u64, 0..=Credits::MAX.get()],
            asked in prop::collection::vec(
                prop_oneof![(0..50u64, 0..500u64), (0..=Credits::MAX.get(), 0..=Credits::MAX.get())],
                0..12,
            ),
        ) {
            let shares = split(amount(whole), &claims(&asked));
            let wanted = asked.iter().fold(0, |sum, claim| sum + u128::from(claim.1));
            let given = shares.iter().fold(0, |sum, share| sum + wide(*share));
            prop_assert_eq!(given, wanted.min(whole.into()));
            for (share, (_, wanted)) in shares.iter().zip(&asked) {
                prop_assert!(share.get() <= *wanted);
            }
        }

        /// The property that gives max-min its name.
        #[test]
        fn nobody_who_got_less_than_wanted_has_less_for_its_weight_than_another(
            whole in 0..10_000u64,
            asked in prop::collection::vec((1..50u64, 0..5_000u64), 1..8),
        ) {
            let shares = split(amount(whole), &claims(&asked));
            for (poor, (weight, wanted)) in shares.iter().zip(&asked) {
                for (rich, (others_weight, _)) in shares.iter().zip(&asked) {
                    // One credit may lie on either side of the exact share.
                    let level = rich.get().saturating_sub(1) * weight;
                    prop_assert!(poor.get() == *wanted || (poor.get() + 1) * others_weight >= level);
                }
            }
        }
    }
}
