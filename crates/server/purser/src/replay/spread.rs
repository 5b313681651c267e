//! Where calls come in when the service spans regions, and which of them insist on home.
//!
//! Homes go by turns over the tenants. A tenant has a favorite region, which is its home for one
//! tenant in as many as there are regions; it calls the others now and then. A job is run in one
//! region, as an edge gateway does it, and its calls come in there; but one call in ten comes in
//! anywhere, so that one region is asked to capture what another has authorized.
//!
//! All of it follows from the seed and the call's name, so a run that is started again asks for the
//! same things at the same places.

use std::collections::BTreeSet;

use purser_types::Region;

use super::random::{Random, Zipf};

/// How much rarer the second region of a tenant is than its favorite: 1/2² of it, the third 1/3².
/// With three regions the favorite gets three calls in four.
const FAVOR: f64 = 2.0;

/// Of a hundred calls of a job, how many do not come in where the job is run, but anywhere.
const STRAYING_PERCENT: u64 = 10;

/// How calls are spread.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    regions: Vec<Region>,
    ranks: Zipf,
    /// Of a hundred calls that spend, how many are to be decided by home.
    strict_percent: u64,
    seed: u64,
    /// Tenants that are left to run dry, by their places.
    scarce: BTreeSet<usize>,
}

impl Spread {
    /// A spread over `regions`, of which there is at least one.
    pub(crate) fn new(regions: Vec<Region>, strict_percent: u64, seed: u64) -> Self {
        let count = u32::try_from(regions.len()).unwrap_or(u32::MAX);
        let (ranks, scarce) = (Zipf::new(count, FAVOR), BTreeSet::new());
        Self { regions, ranks, strict_percent, seed, scarce }
    }

    /// The same spread, knowing which tenants are left to run dry: home decides all that these ask for,
    /// so they say nothing about how much regions can decide.
    pub(crate) fn knowing_scarce(self, scarce: BTreeSet<usize>) -> Self {
        Self { scarce, ..self }
    }

    /// Whether a tenant is left to run dry.
    pub(crate) fn is_scarce(&self, tenant: usize) -> bool {
        self.scarce.contains(&tenant)
    }

    /// The regions, by their places.
    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The place of a region.
    pub(crate) fn place_of(&self, region: &Region) -> Option<usize> {
        self.regions.iter().position(|known| known == region)
    }

    /// Where a tenant's home is to be: the place of a region.
    pub(crate) fn home(&self, tenant: usize) -> usize {
        self.wrap(tenant)
    }

    /// Where the call of this name comes in: the place of a region. What comes before the first dash is
    /// the job's name.
    pub(crate) fn entrance(&self, tenant: usize, name: &str) -> usize {
        let favorite = tenant.checked_div(self.regions.len()).unwrap_or_default();
        let job = name.split_once('-').map_or(name, |(job, _step)| job);
        let mut own = self.chance(name);
        let mut chance = if own.below(100) < STRAYING_PERCENT { own } else { self.chance(job) };
        let rank = self.ranks.pick(&mut chance);
        self.wrap(favorite.saturating_add(rank))
    }

    /// Whether the call of this name, which spends, insists on home.
    pub(crate) fn is_strict(&self, name: &str) -> bool {
        let mut chance = self.chance(name);
        // The first two numbers have chosen the entrance.
        chance.next();
        chance.next();
        chance.below(100) < self.strict_percent
    }

    fn wrap(&self, place: usize) -> usize {
        place.checked_rem(self.regions.len()).unwrap_or_default()
    }

    /// The randomness of one call: its name, folded into the seed byte by byte (FNV-1a).
    fn chance(&self, name: &str) -> Random {
        let fold = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Random::from_seed(name.bytes().fold(self.seed ^ 0xcbf2_9ce4_8422_2325, fold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(seed: u64) -> Spread {
        let regions = ["us", "eu", "ap"].map(|name| Region::parse(name).unwrap());
        Spread::new(regions.to_vec(), 5, seed)
    }

    #[test]
    fn a_tenant_calls_its_favorite_most_and_every_region_sometimes() {
        let spread = spread(1);
        let mut counts = [0_u32; 3];
        for number in 0..10_000 {
            counts[spread.entrance(4, &format!("{number}-start"))] += 1;
        }
        // Tenant 4 is the second whose home is at place 1, and its favorite is that place too.
        assert_eq!(spread.home(4), 1);
        assert!((7_100..7_600).contains(&counts[1]), "{counts:?}");
        assert!((1_600..2_100).contains(&counts[2]), "{counts:?}");
        assert!((600..1_000).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn a_job_is_run_in_one_region_and_one_of_its_calls_in_ten_strays() {
        let spread = spread(1);
        let places = |step: &str| -> Vec<usize> {
            (0..10_000).map(|job| spread.entrance(4, &format!("{job}-{step}"))).collect()
        };
        let (starts, captures) = (places("start"), places("capture-0"));
        let apart =
            starts.iter().zip(&captures).filter(|(start, capture)| start != capture).count();
        // One of the two strays in 19 of 100 jobs, and comes in elsewhere in four of ten of these.
        assert!((700..900).contains(&apart), "{apart}");
    }

    #[test]
    fn homes_and_favorites_meet_in_every_pair() {
        let spread = Spread::new(spread(1).regions, 0, 1);
        let pairs: BTreeSet<(usize, usize)> =
            (0..9).map(|tenant| (spread.home(tenant), spread.wrap(tenant / 3))).collect();
        assert_eq!(pairs.len(), 9);
    }

    #[test]
    fn a_share_of_the_calls_is_strict_wherever_it_comes_in() {
        let spread = spread(7);
        let names: Vec<String> = (0..10_000).map(|number| format!("{number}-start")).collect();
        let strict: Vec<&String> = names.iter().filter(|name| spread.is_strict(name)).collect();
        assert!((400..600).contains(&strict.len()), "{}", strict.len());
        let places: BTreeSet<usize> = strict.iter().map(|name| spread.entrance(0, name)).collect();
        assert_eq!(places.len(), 3);
    }
}
