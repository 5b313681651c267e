//! Batches: up to 1,000 operations in one request.
//!
//! Items are independent unless the batch is atomic. So each item stays text until it is read by
//! itself: one bad item gets its own refusal and does not spoil the others.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::batch_item::BatchItem;
use crate::body::{InvalidBody, is_no, read_body};
use crate::charge::ChargeAnswer;
use crate::hold::{CaptureAnswer, HoldAnswer};
use crate::item_fields::ItemFields;
use crate::job::JobAnswer;
use crate::problem::Problem;
use crate::undo::{ReclaimAnswer, RefundAnswer};

/// The most items of a batch.
pub const BATCH_ITEMS_MAX: usize = 1_000;

/// Asks for several operations at once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// The operations, 1 to 1,000, each with its own idempotency key.
    #[serde(deserialize_with = "bounded")]
    #[schema(value_type = Vec<ItemFields>, min_items = 1, max_items = 1_000)]
    pub items: Vec<BatchItemText>,
    /// Whether all take effect or none; then all must be of one tenant and unit.
    #[serde(default, skip_serializing_if = "is_no")]
    pub atomic: bool,
}

/// An item that has not been read yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchItemText(Box<RawValue>);

impl BatchItemText {
    /// Reads the item. The error is the detail of its `invalid_request` problem.
    pub fn read(&self) -> Result<BatchItem, InvalidBody> {
        read_body(self.0.get().as_bytes())
    }
}

impl From<&BatchItem> for BatchItemText {
    fn from(item: &BatchItem) -> Self {
        let text = serde_json::value::to_raw_value(item);
        Self(text.expect("an item has text keys and plain values"))
    }
}

fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<BatchItemText>, D::Error> {
    let items = Vec::deserialize(deserializer)?;
    if (1..=BATCH_ITEMS_MAX).contains(&items.len()) {
        Ok(items)
    } else {
        Err(serde::de::Error::custom("a batch has 1 to 1,000 items"))
    }
}

/// Answers a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    /// One result for each item, in their order.
    pub results: Vec<BatchResult>,
}

/// How one item ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchResult {
    /// The HTTP status that the operation alone would have had.
    pub status: u16,
    /// Whether it was decided before, under the same key.
    pub replayed: bool,
    /// The body that the operation alone would have had.
    pub body: BatchBody,
}

/// The body of one result. Which one it is follows from the operation and the status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum BatchBody {
    // Order matters: a variant is read if its fields are there, so those with more come first.
    /// Of a job's creation, outcome or renewal.
    Job(Box<JobAnswer>),
    /// Of a refund.
    Refund(RefundAnswer),
    /// Of a reclaim.
    Reclaim(ReclaimAnswer),
    /// Of a capture.
    Capture(CaptureAnswer),
    /// Of a charge.
    Charge(ChargeAnswer),
    /// Of an authorize, release or extend.
    Hold(HoldAnswer),
    /// Of a refusal.
    Problem(Problem),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_item_is_refused_alone() {
        let json = r#"{"items":[{"op":"burn"},
            {"op":"release","tenant":"acme","hold_id":"h7-0-us","idempotency_key":"k"},
            ["charge","acme","credits","k",null,null,"1"]]}"#;
        let request: BatchRequest = read_body(json.as_bytes()).unwrap();
        let read: Vec<bool> = request.items.iter().map(|item| item.read().is_ok()).collect();
        assert_eq!(read, [false, true, false]);
    }

    #[test]
    fn a_batch_has_one_to_a_thousand_items() {
        let items = |count: usize| {
            let json = format!(r#"{{"items":[{}]}}"#, vec!["{}"; count].join(","));
            serde_json::from_str::<BatchRequest>(&json).is_ok()
        };
        assert_eq!([0, 1, 1_000, 1_001].map(items), [false, true, true, false]);
    }
}
