//! What may happen to a tenant's credits in a few minutes.

use purser_types::{Region, Span};

use super::agenda::millis;

/// The regions, home first, with the round trip to home in milliseconds.
pub const REGIONS: [(&str, u64); 5] =
    [("home", 0), ("near", 20), ("east", 80), ("west", 140), ("far", 220)];

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// How it is called in the table of figures.
    pub name: &'static str,
    /// How many accounts there are. The k-th is used a k-th as often as the first.
    pub accounts: u64,
    /// What each of them has at the start.
    pub credits: u64,
    /// A call costs from one to so many credits.
    pub cost_max: u64,
    /// How long there are calls, in seconds.
    pub seconds: u64,
    /// How long it is quiet afterwards, in seconds.
    pub rest_seconds: u64,
    /// Calls a second, by region and second; where they come in bursts, bursts a second.
    pub rate: fn(usize, u64) -> u64,
    /// How many calls of one account come at a time, a tenth of a second apart on average.
    pub burst: u64,
    /// A region that cannot be reached for a while.
    pub cut: Option<Cut>,
    /// Credits that arrive later.
    pub top_up: Option<TopUp>,
    /// Calls that cost much more than others.
    pub dear: Option<Dear>,
}

/// A cut between a region and home.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// The region's place in [`REGIONS`].
    pub region: usize,
    /// When it begins, in seconds.
    pub from: u64,
    /// When it ends, in seconds.
    pub until: u64,
}

/// Credits for each account, once a second.
#[derive(Debug, Clone, Copy)]
pub struct TopUp {
    /// From when on, in seconds.
    pub from: u64,
    /// Until when.
    pub until: u64,
    /// How many.
    pub credits: u64,
}

/// Calls that cost much more than others, from one region after the other. They are released when
/// their work is done.
#[derive(Debug, Clone, Copy)]
pub struct Dear {
    /// The seconds from one to the next.
    pub every: u64,
    /// What each costs.
    pub cost: u64,
}

impl Scenario {
    /// One account, 100 calls a second in all, credits for hours.
    pub const STEADY: Self = Self {
        name: "steady",
        accounts: 1,
        credits: 10_000_000,
        cost_max: 5,
        seconds: 300,
        rest_seconds: 120,
        rate: |_region, _second| 20,
        burst: 1,
        cut: None,
        top_up: None,
        dear: None,
    };

    /// Five hundred accounts, most of them rarely used.
    pub const ZIPF: Self = Self {
        name: "zipf tenants",
        accounts: 500,
        credits: 1_000_000,
        seconds: 600,
        rate: |_region, _second| 100,
        ..Self::STEADY
    };

    /// Ten times the calls for a minute.
    pub const BURST: Self = Self {
        name: "burst 10×",
        rate: |_region, second| if (120..180).contains(&second) { 200 } else { 20 },
        ..Self::STEADY
    };

    /// Two hundred accounts that are rich for what they use, and call in bursts with long pauses between.
    /// One call costs up to fifty times as much as another.
    pub const FITFUL: Self = Self {
        name: "fitful tenants",
        accounts: 200,
        credits: 1_000_000,
        cost_max: 50,
        seconds: 600,
        rate: |_region, _second| 5,
        burst: 8,
        ..Self::STEADY
    };

    /// Nearly all calls come from one of the three regions farthest away, and every 30 s from another.
    pub const MOVING: Self = Self {
        name: "moving hot region",
        credits: 100_000,
        rate: |region, second| {
            let hot = usize::try_from(second / 30).map_or(0, |turn| 2 + turn % 3);
            if region == hot { 92 } else { 2 }
        },
        ..Self::STEADY
    };

    /// Too few credits for the whole time.
    pub const LAST: Self = Self { name: "last credits", credits: 30_000, ..Self::STEADY };

    /// Used up, and topped up a minute later.
    pub const TOPPED_UP: Self = Self {
        name: "topped up",
        credits: 15_000,
        top_up: Some(TopUp { from: 150, until: 151, credits: 1_000_000 }),
        ..Self::STEADY
    };

    /// One region is cut off for a minute and a half while the credits run out.
    pub const CUT_OFF: Self = Self {
        name: "one region cut off",
        credits: 30_000,
        cut: Some(Cut { region: 4, from: 60, until: 150 }),
        ..Self::STEADY
    };

    /// About as many credits come as are used, and now and then a call asks for more than home has at
    /// hand.
    pub const DEAR: Self = Self {
        name: "dear calls",
        credits: 16_000,
        top_up: Some(TopUp { from: 0, until: 300, credits: 255 }),
        dear: Some(Dear { every: 20, cost: 15_200 }),
        ..Self::STEADY
    };

    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::STEADY,
        Self::ZIPF,
        Self::FITFUL,
        Self::BURST,
        Self::MOVING,
        Self::LAST,
        Self::TOPPED_UP,
        Self::CUT_OFF,
        Self::DEAR,
    ];

    /// Whether messages between home and a region get through at an instant.
    pub(super) fn is_linked(&self, region: usize, at: Span) -> bool {
        self.cut.is_none_or(|cut| {
            let is_cut = (Span::from_secs(cut.from)..Span::from_secs(cut.until)).contains(&at);
            cut.region != region || !is_cut
        })
    }
}

/// Half of a round trip between a region and home.
pub(super) fn one_way(region: usize) -> Span {
    millis(REGIONS[region].1 / 2)
}

/// A region's name.
pub(super) fn name(region: usize) -> Region {
    Region::parse(REGIONS[region].0).expect("the regions' names are names")
}

/// The place of a region.
pub(super) fn place(region: Region) -> usize {
    let place = REGIONS.iter().position(|(name, _)| *name == region.as_str());
    place.expect("home only names regions that it was told of")
}
