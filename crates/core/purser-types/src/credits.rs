//! Amounts of credits.

use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};

/// An amount of credits, in the unit's smallest part.
///
/// Invariant: between zero and [`Credits::MAX`]. The ceiling leaves the top bit free, so the sum of
/// any two amounts fits a `u64` and one check at the end of a sum is enough.
///
/// There is no `+` or `-`: an amount that would wrap or go below zero is a decision the caller has
/// to make, not something an operator may hide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credits(u64);

/// Why a text or a number is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreditsError {
    /// Above [`Credits::MAX`].
    #[error("is more than {}", Credits::MAX.get())]
    TooLarge,
    /// Not a plain run of digits: a sign, fraction, exponent, space or leading zero.
    #[error("must be a whole number: digits only, no sign, fraction, exponent or leading zero")]
    NotDigits,
}

impl Credits {
    /// No credits.
    pub const ZERO: Self = Self(0);
    /// The largest amount an account can ever be granted: 2^63 - 1.
    pub const MAX: Self = Self(u64::MAX >> 1);
    /// The largest amount one call may name: 10^18.
    pub const CALL_MAX: Self = Self(1_000_000_000_000_000_000);

    /// Makes an amount.
    pub const fn from_u64(amount: u64) -> Result<Self, CreditsError> {
        if amount <= Self::MAX.0 { Ok(Self(amount)) } else { Err(CreditsError::TooLarge) }
    }

    /// Reads an amount from decimal digits, in the one spelling an amount has.
    pub fn parse(digits: &str) -> Result<Self, CreditsError> {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !plain || (digits.len() > 1 && digits.starts_with('0')) {
            return Err(CreditsError::NotDigits);
        }
        // Digits only, so the one thing that can be wrong is the size.
        digits.parse().map_or(Err(CreditsError::TooLarge), Self::from_u64)
    }

    /// The amount as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is no credits at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or `None` above [`Credits::MAX`].
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).and_then(|sum| Self::from_u64(sum).ok())
    }

    /// The difference, or `None` below zero.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// The difference, or zero where there is none.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::fmt::Display for Credits {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<C> Encode<C> for Credits {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.u64(self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Credits {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Self::from_u64(decoder.u64()?).map_err(minicbor::decode::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_parse(digits: &str, expected: Result<u64, CreditsError>) {
        assert_eq!(Credits::parse(digits).map(Credits::get), expected, "{digits:?}");
    }

    #[test]
    fn an_amount_has_one_spelling() {
        check_parse("0", Ok(0));
        check_parse("30", Ok(30));
        check_parse("9223372036854775807", Ok(9_223_372_036_854_775_807));
        for odd in ["", " 30", "30 ", "030", "00", "+3", "-1", "30.0", "3e1", "٣", "all"] {
            check_parse(odd, Err(CreditsError::NotDigits));
        }
        for large in ["9223372036854775808", "18446744073709551616", &"9".repeat(400)] {
            check_parse(large, Err(CreditsError::TooLarge));
        }
    }

    #[test]
    fn sums_stop_at_the_ends() {
        let one = Credits::from_u64(1).unwrap();
        assert_eq!(Credits::MAX.checked_add(one), None);
        assert_eq!(Credits::ZERO.checked_sub(one), None);
        assert_eq!(Credits::MAX.checked_sub(Credits::MAX), Some(Credits::ZERO));
    }
}
