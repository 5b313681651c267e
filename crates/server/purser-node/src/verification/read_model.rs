//! The read model, as far as a node has to know it: something that can be compared and built again.

use futures_util::future::BoxFuture;
use purser_api::VerificationSubject;
use tokio::time::timeout;

use super::{Check, READ_MODEL_PATIENCE};

/// A read model of what this region's homes have decided. Nothing is decided from it.
pub trait ReadModel: Send + Sync {
    /// Compares every row with what the entries make of it.
    fn verify(&self) -> BoxFuture<'_, Result<ReadModelVerdict, ReadModelError>>;

    /// Builds it again from the histories. Publishes nothing.
    fn rebuild(&self) -> BoxFuture<'_, Result<(), ReadModelError>>;
}

/// What a comparison of the read model came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadModelVerdict {
    /// How many rows there should be.
    pub rows: u64,
    /// What is wrong, table by table.
    pub tables: Vec<ReadModelDifference>,
    /// How many accounts were left out because their home is elsewhere.
    pub left_out: u64,
    /// How many accounts were not compared because not all is there yet with which they came.
    pub arriving: u64,
}

/// What is wrong with one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadModelDifference {
    /// How many rows are missing, altered, doubled or accounted for by no entry.
    pub rows: u64,
    /// The credits that they are about, or by which they are wrong.
    pub credits: u128,
    /// The first of them, in words.
    pub first: String,
}

/// Why a read model was not compared, or not built again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadModelError(pub String);

pub(super) async fn compare(read_model: &dyn ReadModel) -> Check {
    let mut check = Check::new(VerificationSubject::ReadModel, None);
    match timeout(READ_MODEL_PATIENCE, read_model.verify()).await {
        Ok(Ok(verdict)) => {
            check.compared = verdict.rows;
            check.left_out = verdict.left_out;
            if verdict.arriving > 0 {
                check.not_compared(format!(
                    "accounts that have come to this region and are not projected whole: {}",
                    verdict.arriving
                ));
            }
            for ReadModelDifference { rows, credits, first } in verdict.tables {
                check.differ((rows, credits), first);
            }
        }
        Ok(Err(error)) => check.not_compared(error.to_string()),
        Err(_elapsed) => check.not_compared("the database did not answer in time".to_owned()),
    }
    check
}
