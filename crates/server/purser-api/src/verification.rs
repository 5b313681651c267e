//! Verifications: what a region's homes say, held against whatever else tells of it.
//!
//! A verification runs on one node and goes on whether anybody waits for it or not. Numbers of entries, rows
//! and differences are JSON numbers; credits are strings of digits, as everywhere.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::Schema;

use crate::amount::TotalAmount;
use crate::body::{is_no, not_null};
use crate::cluster::{GroupNumber, NodeNumber};
use crate::spelled::{Spelled, read_digits, spelled, spelled_enum, text_schema};
use crate::text::{Moment, RegionName};

/// The most differences of one check that are told.
pub const DIFFERENCES_TOLD_MAX: usize = 20;

/// The id of a verification: the node that carries it out, and a number that means nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationId {
    /// The node.
    pub node: NodeNumber,
    /// Its number there.
    pub number: u64,
}

impl Spelled for VerificationId {
    const EXPECTED: &'static str = "the id of a verification, such as v2-7";

    fn read(text: &str) -> Result<Self, String> {
        let parts = text.strip_prefix('v').and_then(|parts| parts.split_once('-'));
        let numbers = parts.map(|(node, number)| (read_digits(node), read_digits(number)));
        let Some((Some(node), Some(number))) = numbers else {
            return Err(format!("expected {}", Self::EXPECTED));
        };
        Ok(Self { node: NodeNumber(node), number })
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v{}-{}", self.node.0, self.number)
    }

    fn describe() -> Schema {
        text_schema("The id of a verification.", "^v[1-9][0-9]*-(0|[1-9][0-9]*)$")
    }
}

spelled!(VerificationId);

/// Starts a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerificationRequest {
    /// Whose homes are verified; those of the region that is asked if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub region: Option<RegionName>,
    /// Whether the read model is built again from the history first. Nothing is published by that.
    #[serde(default, skip_serializing_if = "is_no")]
    pub rebuild_read_model: bool,
}

spelled_enum! {
    /// How a verification, or one of its checks, stands.
    VerificationOutcome, "the outcome of a verification" {
        /// It goes on.
        Running "running",
        /// All that was compared agrees.
        Sound "sound",
        /// Something differs.
        Different "different",
        /// What was compared agrees, and something could not be compared.
        Incomplete "incomplete",
    }
}

spelled_enum! {
    /// What is compared with what.
    VerificationSubject, "what is compared" {
        /// The live state with what all entries add up to, bucket by bucket, lot by lot, hash by hash.
        Ledger "ledger",
        /// The state of each replica with this one's at the same index.
        Replicas "replicas",
        /// What home has booked of regions with their own books.
        Regions "regions",
        /// The tables of the read model with what the entries make of them, row by row.
        ReadModel "read_model",
    }
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerificationCheck {
    /// What was compared.
    pub subject: VerificationSubject,
    /// Of which group; left out where it is about all of them.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<GroupNumber>,
    /// How it ended.
    pub outcome: VerificationOutcome,
    /// How much was compared: entries, replicas, allocations or rows.
    pub compared: u64,
    /// How many accounts were left out of it because their home is elsewhere: what the read model has of them
    /// here is history, or another region's. That makes nothing incomplete.
    #[serde(default)]
    pub left_out: u64,
    /// How many of them differ.
    pub differences_count: u64,
    /// By how many credits: what amounts are wrong by, and what rows are about that are there too seldom or
    /// too often.
    pub credits: TotalAmount,
    /// The first differences, in the order in which they were found.
    #[schema(max_items = 20)]
    pub differences: Vec<String>,
    /// What could not be compared, and why.
    pub not_compared: Vec<String>,
}

/// How far a verification has come, and what it has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerificationAnswer {
    /// Its id.
    pub verification_id: VerificationId,
    /// Whose homes are verified.
    pub region: RegionName,
    /// How it stands.
    pub outcome: VerificationOutcome,
    /// When it was started.
    pub started_at: Moment,
    /// When it ended.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ended_at: Option<Moment>,
    /// What it does now.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub doing: Option<String>,
    /// The bytes of history that were folded.
    pub bytes_done: u64,
    /// The bytes of history that there were when it was started.
    pub bytes_total: u64,
    /// How many differences there are in all checks.
    pub differences_count: u64,
    /// By how many credits.
    pub credits: TotalAmount,
    /// The first difference.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub first_difference: Option<String>,
    /// The checks that have ended.
    pub checks: Vec<VerificationCheck>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_the_node_that_carries_it_out_and_has_one_spelling() {
        let id: VerificationId = "v2-17".parse().unwrap();
        assert_eq!((id.node, id.number), (NodeNumber(2), 17));
        assert_eq!(id.to_string(), "v2-17");
        for odd in ["", "v", "v2", "v2-", "v02-1", "v2-01", "2-1", "v2-1-1", "v-1"] {
            assert!(odd.parse::<VerificationId>().is_err(), "{odd:?}");
        }
    }
}
