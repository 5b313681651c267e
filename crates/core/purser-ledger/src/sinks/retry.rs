//! When an event that failed is tried again.

use purser_types::Span;

/// The wait after the first failure. Each further one doubles it.
const FIRST_SECONDS: u64 = 5;

/// The longest wait but for luck: 8 hours. With 22 attempts an event is tried for three to four days: 5
/// seconds doubled 13 times are 11 hours, and 8 times 8 hours follow.
const SECONDS_MAX: u64 = 8 * 3_600;

/// How long to wait after the failure number `attempts`, which is 1 for the first. `luck` adds up to a
/// quarter, so that what failed together is not tried together again.
pub fn delay_after(attempts: u32, luck: u32) -> Span {
    let doubled = 2_u64.saturating_pow(attempts.saturating_sub(1));
    let seconds = FIRST_SECONDS.saturating_mul(doubled).min(SECONDS_MAX);
    let micros = Span::from_secs(seconds).as_micros();
    let parts = u64::from(luck % 1_024);
    Span::from_micros(micros.saturating_add((micros / 4_096).saturating_mul(parts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_eight_hours_and_22_attempts_take_three_to_four_days() {
        let seconds = |attempts| delay_after(attempts, 0).as_secs();
        assert_eq!([1, 2, 3, 13, 14, 50].map(seconds), [5, 10, 20, 20_480, 28_800, 28_800]);
        let in_all =
            |luck| (1..22).map(|attempts| delay_after(attempts, luck).as_secs()).sum::<u64>();
        assert!(in_all(0) > 3 * 86_400 && in_all(u32::MAX) < 4 * 86_400);
    }
}
