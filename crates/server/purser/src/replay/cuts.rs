//! Regions that are cut off from all others in the middle of the run, and come back.
//!
//! Works against `purser dev` only: its front door can cut the wire between regions.

use std::str::FromStr;
use std::time::Duration;

use purser_types::Region;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::desk::Desk;
use super::front_door::FrontDoor;
use super::regional_counts::CutCounts;
use super::spread::Spread;
use super::{ReplayError, healing};
use crate::dev::control::{CUT, HEAL};

/// One cut: `eu:10s..25s`, from the start of the jobs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The region that is cut off.
    pub(crate) region: Region,
    /// When.
    pub(crate) from: Duration,
    /// Until when; later than `from`.
    pub(crate) until: Duration,
}

/// The text is not a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a region and two times since the start of the jobs, such as eu:10s..25s")]
pub(crate) struct InvalidCut;

/// The text is not a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be whole seconds, such as 10s")]
pub(crate) struct InvalidSeconds;

/// Reads `10s`, or `10`.
pub(crate) fn seconds(text: &str) -> Result<Duration, InvalidSeconds> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    let seconds: u32 = digits.parse().map_err(|_odd| InvalidSeconds)?;
    Ok(Duration::from_secs(seconds.into()))
}

impl FromStr for Cut {
    type Err = InvalidCut;

    fn from_str(text: &str) -> Result<Self, InvalidCut> {
        let (region, times) = text.split_once(':').ok_or(InvalidCut)?;
        let (from, until) = times.split_once("..").ok_or(InvalidCut)?;
        let region = Region::parse(region).map_err(|_odd| InvalidCut)?;
        let time = |text| seconds(text).map_err(|_odd| InvalidCut);
        let (from, until) = (time(from)?, time(until)?);
        if from < until { Ok(Self { region, from, until }) } else { Err(InvalidCut) }
    }
}

/// The cuts of a run.
#[derive(Clone)]
pub(crate) struct Cuts {
    /// The cuts, one after the other.
    pub(crate) list: Vec<Cut>,
    front_door: FrontDoor,
}

/// A cut that was made.
#[derive(Debug)]
pub(crate) struct CutMade {
    /// What was made.
    pub(crate) cut: Cut,
    /// What calls met meanwhile that came in there.
    pub(crate) counts: CutCounts,
    /// From when it was mended until home had booked what it concerned; nothing if that took too long.
    pub(crate) booked_after: Option<Duration>,
}

impl Cuts {
    /// Cuts through a front door. They may not overlap, and each region must be one of the cluster.
    pub(crate) fn new(
        mut list: Vec<Cut>,
        front_door: FrontDoor,
        spread: &Spread,
    ) -> Result<Self, ReplayError> {
        list.sort_by_key(|cut| cut.from);
        if let Some(unknown) = list.iter().find(|cut| spread.place_of(&cut.region).is_none()) {
            return Err(ReplayError::NoSuchRegion(unknown.region));
        }
        if list.windows(2).any(|pair| matches!(pair, [one, next] if next.from < one.until)) {
            return Err(ReplayError::CutsOverlap);
        }
        Ok(Self { list, front_door })
    }

    /// Cuts each region once, for `each`, with the same pause before, between and after them.
    pub(crate) fn in_turn(
        each: Duration,
        length: Duration,
        regions: &[Region],
    ) -> Result<Vec<Cut>, ReplayError> {
        let count = u32::try_from(regions.len()).unwrap_or(u32::MAX);
        let rest = length.checked_sub(each.saturating_mul(count));
        let pause = rest.ok_or(ReplayError::TooShort)? / count.saturating_add(1);
        let mut from = Duration::ZERO;
        let cuts = regions.iter().map(|region| {
            let start = from + pause;
            from = start + each;
            Cut { region: *region, from: start, until: from }
        });
        Ok(cuts.collect())
    }

    /// Makes a cut that is due now, waits, and mends it.
    pub(crate) async fn make(
        &self,
        cut: Cut,
        place: usize,
        desk: &Desk,
    ) -> Result<CutMade, ReplayError> {
        let tally = desk.caller().tally();
        let region = json!({ "region": cut.region.as_str() });
        let from = Instant::now();
        self.front_door.control(CUT, &region).await?;
        tally.lock().regional.cuts.insert(place, CutCounts::default());
        sleep(cut.until.saturating_sub(cut.from)).await;
        let counts = tally.lock().regional.cuts.remove(&place).unwrap_or_default();
        self.front_door.control(HEAL, &region).await?;
        let mended_at = Instant::now();
        tally.lock().regional.cut_times.push((from, mended_at));
        let booked_after =
            healing::wait_until_booked(desk, &self.front_door, (cut.region, mended_at)).await?;
        Ok(CutMade { cut, counts, booked_after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_a_region_and_two_times() {
        let region = Region::parse("eu").unwrap();
        let (from, until) = (Duration::from_secs(10), Duration::from_secs(25));
        assert_eq!("eu:10s..25s".parse(), Ok(Cut { region, from, until }));
        assert_eq!("eu:10..25".parse(), Ok(Cut { region, from, until }));
        for odd in ["", "eu", "eu:10s", "eu:25s..10s", "eu:10s..10s", "EU:1s..2s", "eu:1m..2m"] {
            assert_eq!(odd.parse::<Cut>(), Err(InvalidCut), "{odd:?}");
        }
    }

    #[test]
    fn each_region_is_cut_in_turn_if_the_run_is_long_enough() {
        let regions = ["us", "eu"].map(|name| Region::parse(name).unwrap());
        let secs = Duration::from_secs;
        let cuts = Cuts::in_turn(secs(10), secs(50), &regions).unwrap();
        let times: Vec<_> = cuts.iter().map(|cut| (cut.from, cut.until)).collect();
        assert_eq!(times, [(secs(10), secs(20)), (secs(30), secs(40))]);
        assert!(matches!(Cuts::in_turn(secs(10), secs(19), &regions), Err(ReplayError::TooShort)));
    }
}
