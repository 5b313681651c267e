//! Deterministic randomness: one seed, one sequence of numbers, on every machine.
//!
//! Not for secrets. A run that is started again with the same seed asks for the same things.

/// A stream of numbers from a seed (SplitMix64: one multiplication chain, full period, and any two
/// seeds give unrelated streams).
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The stream of `seed`.
    pub(crate) const fn from_seed(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, any of 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    ///
    /// The remainder prefers small numbers by less than `bound / 2^64`, which no run can notice.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        match self.next().checked_rem(bound) {
            Some(rest) => rest,
            None => 0,
        }
    }

    /// Whether something happens that happens so many times in a thousand.
    pub(crate) const fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// A fraction: at least 0, below 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        let [a, b, c, d, ..] = self.next().to_be_bytes();
        f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Picks one of many so that the n-th is picked 1/n^s times as often as the first (Zipf's law).
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    /// The sum of the weights up to each place.
    sums: Vec<f64>,
}

impl Zipf {
    /// A spread over `count` places with exponent `exponent`; 0 spreads evenly. There is at least
    /// one place.
    pub(crate) fn new(count: u32, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weight = |place: u32| f64::from(place).powf(-exponent);
        let sums = (1..=count.max(1)).map(|place| {
            sum += weight(place);
            sum
        });
        Self { sums: sums.collect() }
    }

    /// A place, from 0.
    pub(crate) fn pick(&self, random: &mut Random) -> usize {
        let total = self.sums.last().copied().unwrap_or_default();
        let wanted = random.fraction() * total;
        let place = self.sums.partition_point(|sum| *sum <= wanted);
        // Rounding may put the product on the total itself.
        place.min(self.sums.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_sequence() {
        let numbers = |seed| {
            let mut random = Random::from_seed(seed);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn zipf_prefers_the_first_and_reaches_the_last() {
        let (zipf, mut random) = (Zipf::new(10, 1.0), Random::from_seed(1));
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[zipf.pick(&mut random)] += 1;
        }
        // The first has 1 / 2.93 of all, the last a tenth of that.
        assert!((32_000..36_000).contains(&counts[0]), "{counts:?}");
        assert!((2_900..3_900).contains(&counts[9]), "{counts:?}");
    }

    #[test]
    fn exponent_zero_spreads_evenly() {
        let (zipf, mut random) = (Zipf::new(4, 0.0), Random::from_seed(1));
        let mut counts = [0_u32; 4];
        for _ in 0..40_000 {
            counts[zipf.pick(&mut random)] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }
}
