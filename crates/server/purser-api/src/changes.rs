//! Changes: committed entries, as they are told to whoever keeps something beside the ledger.

use std::fmt;

use purser_types::{Epoch, Sequence, TenantId, Unit};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{IntoParams, ToSchema};

use crate::cursor::{Cursor, CursorScope};
use crate::entry::Entry;
use crate::list::PageLimit;
use crate::paths;
use crate::spelled::{Spelled, read_digits, spelled};
use crate::text::{EpochNumber, RegionName, TenantName, UnitName};

/// For how many seconds a call may wait for changes: 0 to 8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitSeconds(u8);

impl WaitSeconds {
    /// The longest wait. It ends before a call's time does.
    pub const MAX: u8 = 8;

    /// The wait as a number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Spelled for WaitSeconds {
    const EXPECTED: &'static str = "a number of seconds from 0 to 8";

    fn read(text: &str) -> Result<Self, String> {
        let seconds = read_digits(text).and_then(|seconds| u8::try_from(seconds).ok());
        let seconds = seconds.filter(|seconds| *seconds <= Self::MAX);
        seconds.map(Self).ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }

    fn describe() -> Schema {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .description(Some("For how many seconds to wait for changes if there are none yet."))
            .minimum(Some(0))
            .maximum(Some(Self::MAX))
            .default(Some(0.into()))
            .into()
    }
}

spelled!(WaitSeconds);

/// Asks for changes, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChangesQuery {
    /// The `next` of the page before; from the beginning if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub from: Option<Cursor>,
    /// How many at most, about.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// For how long to wait if there are none yet.
    #[serde(default)]
    #[param(inline)]
    pub wait_seconds: WaitSeconds,
    /// Only those of one shard. A cursor of all shards is none of one, and the other way round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub shard: Option<u32>,
}

impl ChangesQuery {
    /// The list that its cursors belong to, in a region.
    pub fn scope(&self, region: RegionName) -> CursorScope {
        CursorScope::new(paths::CHANGES)
            .with("region", region.0.as_str())
            .with_filter("shard", self.shard.as_ref())
    }
}

/// A committed entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Names the entry for ever, wherever and however often it is told.
    pub id: ChangeId,
    /// Whose credits.
    pub tenant: TenantName,
    /// What the account counts.
    pub unit: UnitName,
    /// The home that decided it.
    pub home: RegionName,
    /// Under which epoch.
    pub epoch: EpochNumber,
    /// What happened.
    pub entry: Entry,
}

/// Names a change: `tenant/unit/epoch/sequence/ordinal`. Nothing else has the same name, also if a lost home
/// has given the same sequence to another entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct ChangeId(pub String);

impl ChangeId {
    /// The name of an entry. An entry is one event, so the ordinal is 0.
    pub fn of(tenant: &TenantId, unit: &Unit, epoch: Epoch, sequence: Sequence) -> Self {
        Self(format!("{tenant}/{unit}/{}/{}/0", epoch.0, sequence.0))
    }
}

/// Answers with changes: in the order of their entries for each account, and in no order over accounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangesAnswer {
    /// The changes.
    pub items: Vec<Change>,
    /// Whether there were more at once.
    pub has_more: bool,
    /// What to ask for next, also if there were none.
    pub next: Cursor,
    /// The shards that could not be asked in time, as a rule because nobody led them. `next` goes on with
    /// what they have to tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_shards: Vec<u32>,
}
