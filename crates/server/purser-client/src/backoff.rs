//! How long to wait between attempts.

use std::time::Duration;

/// Exponential back-off: the wait doubles with each failure, up to a ceiling.
///
/// The wait is drawn between half of that and all of it, so that clients that failed together do
/// not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait after the first failure.
    pub first: Duration,
    /// The longest wait after any failure.
    pub ceiling: Duration,
}

impl Default for Backoff {
    /// From 50 ms, half an election, to 2 s.
    fn default() -> Self {
        Self { first: Duration::from_millis(50), ceiling: Duration::from_secs(2) }
    }
}

impl Backoff {
    /// How long to wait after so many failures, at least `floor`, which is what the service asked
    /// for.
    pub(crate) fn pause(self, failures: u32, floor: Duration) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        let longest = self.first.saturating_mul(doubled).min(self.ceiling);
        let pause = rand::random_range(longest / 2..=longest);
        // What the service asks for it asks of everyone, so the jitter comes on top of it.
        if floor.is_zero() { pause } else { floor.saturating_add(pause) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_the_ceiling() {
        let millis = Duration::from_millis;
        let backoff = Backoff { first: millis(50), ceiling: millis(150) };
        for (failures, longest) in [(1, 50), (2, 100), (3, 150), (4, 150), (u32::MAX, 150)] {
            let pause = backoff.pause(failures, Duration::ZERO);
            assert!((millis(longest) / 2..=millis(longest)).contains(&pause), "{pause:?}");
        }
        assert!(backoff.pause(1, millis(500)) >= millis(525));
    }
}
