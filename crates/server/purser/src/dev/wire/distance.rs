//! How far regions are from each other: round trips, as the command line names them.
//!
//! ```text
//!  --wan us-eu=80,us-ap=120,eu-ap=180     milliseconds, a pair that is not named is next door
//!  --wan none                             everybody is next door
//! ```

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use purser_types::Region;

/// Round trips between the regions of a development cluster that nobody has told otherwise:
/// about what they are between the east of the United States, Ireland and Singapore.
pub(crate) const DEFAULT_WAN: &str = "us-eu=80,us-ap=120,eu-ap=180";
/// The longest delay: beyond a minute nothing waits for an answer any more.
const DELAY_MAX: Duration = Duration::from_secs(60);

/// The round trip between each two regions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Distances(BTreeMap<RegionPair, Duration>);

/// Two regions, in the order of their names, so that both directions are one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegionPair(Region, Region);

/// The text does not say how far regions are from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be none, or pairs of two regions with milliseconds such as us-eu=80,us-ap=120")]
pub(crate) struct InvalidDistances;

/// The text is not a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a delay of at most a minute, such as 500ms or 2s")]
pub(crate) struct InvalidDelay;

impl RegionPair {
    /// The pair of two regions, whichever is named first.
    pub(crate) fn of(one: Region, other: Region) -> Self {
        if one <= other { Self(one, other) } else { Self(other, one) }
    }

    /// Both.
    pub(crate) const fn regions(self) -> [Region; 2] {
        [self.0, self.1]
    }

    /// Reads `us-eu`. A region's name may have a dash itself, so the pair must be one of `known`.
    fn parse(text: &str, known: &[Region]) -> Option<Self> {
        let mut pairs = known.iter().flat_map(|one| known.iter().map(move |other| (*one, *other)));
        let found = pairs.find(|(one, other)| one != other && text == format!("{one}-{other}"));
        found.map(|(one, other)| Self::of(one, other))
    }
}

impl Distances {
    /// How long a message and its answer are under way between two regions.
    pub(crate) fn round_trip(&self, pair: RegionPair) -> Duration {
        self.0.get(&pair).copied().unwrap_or_default()
    }

    /// Reads what the command line says about the regions in `known`.
    pub(crate) fn parse(text: &str, known: &[Region]) -> Result<Self, InvalidDistances> {
        if text == "none" {
            return Ok(Self::default());
        }
        let mut distances = BTreeMap::new();
        for part in text.split(',') {
            let (pair, millis) = part.split_once('=').ok_or(InvalidDistances)?;
            let pair = RegionPair::parse(pair, known).ok_or(InvalidDistances)?;
            let millis = millis.parse().map_err(|_odd| InvalidDistances)?;
            let round_trip = Duration::from_millis(millis);
            if round_trip > DELAY_MAX || distances.insert(pair, round_trip).is_some() {
                return Err(InvalidDistances);
            }
        }
        Ok(Self(distances))
    }
}

/// A delay of at most a minute: `500ms` or `2s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delay(Duration);

impl Delay {
    /// Checks a number of milliseconds.
    pub(crate) fn from_millis(millis: u64) -> Result<Self, InvalidDelay> {
        let delay = Duration::from_millis(millis);
        if delay <= DELAY_MAX { Ok(Self(delay)) } else { Err(InvalidDelay) }
    }

    /// The delay.
    pub(crate) const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Delay {
    type Err = InvalidDelay;

    fn from_str(text: &str) -> Result<Self, InvalidDelay> {
        let (digits, unit_millis) = match text.strip_suffix("ms") {
            Some(digits) => (digits, 1),
            None => (text.strip_suffix('s').ok_or(InvalidDelay)?, 1_000),
        };
        let count: u64 = digits.parse().map_err(|_odd| InvalidDelay)?;
        Self::from_millis(count.saturating_mul(unit_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str) -> Region {
        Region::parse(name).unwrap()
    }

    #[test]
    fn a_distance_is_the_same_both_ways_and_none_is_next_door() {
        let known = ["us", "eu", "us-west"].map(region);
        let distances = Distances::parse("eu-us=80,us-us-west=35", &known).unwrap();
        let between = |one, other| distances.round_trip(RegionPair::of(region(one), region(other)));
        assert_eq!(between("us", "eu"), Duration::from_millis(80));
        assert_eq!(between("us-west", "us"), Duration::from_millis(35));
        assert_eq!(between("us-west", "eu"), Duration::ZERO);
        assert_eq!(Distances::parse("none", &known), Ok(Distances::default()));
        for odd in ["", "us-eu", "us-eu=", "us-us=1", "us-ap=1", "us-eu=80,eu-us=80", "us-eu=60001"]
        {
            assert_eq!(Distances::parse(odd, &known), Err(InvalidDistances), "{odd:?}");
        }
    }

    #[test]
    fn a_delay_has_a_unit_and_an_end() {
        let millis = |text: &str| text.parse::<Delay>().map(|delay| delay.duration().as_millis());
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("2s"), Ok(2_000));
        assert_eq!(millis("0ms"), Ok(0));
        for odd in ["", "500", "ms", "-1ms", "1m", "61s", "99999999999999999999s"] {
            assert_eq!(millis(odd), Err(InvalidDelay), "{odd:?}");
        }
    }
}
