//! `purser batch FILE`: several operations in one request.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use purser_api::{BatchAnswer, BatchBody, BatchItem, BatchItemText, BatchRequest, BatchResult};
use purser_client::Call;

use super::connection::{Service, failure};
use super::tables::{self, Column};
use crate::failure::CommandError;
use crate::output::Output;

/// Send up to 1,000 operations in one request. A refused item is exit code 1.
///
/// The file holds the body of `POST /v1/batch`: `{"items": [{"op": "authorize", "tenant": "acme",
/// "amount": "30", "idempotency_key": "k1"}], "atomic": false}`.
#[derive(Debug, Args)]
pub(crate) struct Batch {
    /// The file; `-` is standard input.
    file: PathBuf,
}

/// Sends a batch.
pub(super) async fn run(
    args: Batch,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let unreadable = |error: Box<dyn std::error::Error + Send + Sync>| {
        CommandError::broken(format!("{} could not be read", args.file.display()), error)
    };
    let text = read(&args.file).map_err(|error| unreadable(error.into()))?;
    let request: BatchRequest =
        serde_json::from_slice(&text).map_err(|error| unreadable(error.into()))?;
    // An item that cannot be read is told here: the person has the file at hand.
    let items: Result<Vec<BatchItem>, _> = request.items.iter().map(BatchItemText::read).collect();
    let items = items.map_err(|error| unreadable(error.into()))?;
    let sent = service.client.batch(&items, request.atomic, &Call::new()).await;
    let answer = sent.map_err(failure)?;
    output.answer(&answer, |answer| show(&items, answer))?;
    let refused = answer.results.iter().filter(|result| !is_done(result)).count();
    if refused == 0 {
        return Ok(());
    }
    Err(CommandError::Failed(format!("{refused} of {} items were refused", items.len())))
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text)?;
        Ok(text)
    } else {
        std::fs::read(file)
    }
}

fn is_done(result: &BatchResult) -> bool {
    (200..300).contains(&result.status)
}

fn show(items: &[BatchItem], answer: &BatchAnswer) -> String {
    let columns =
        [Column::Text("TENANT"), Column::Text("KEY"), Column::Number("STATUS"), Column::Text("")];
    tables::table(
        &columns,
        items.iter().zip(&answer.results).map(|(item, result)| {
            vec![
                item.tenant.to_string(),
                item.idempotency_key.to_string(),
                result.status.to_string(),
                outcome(result),
            ]
        }),
    )
}

fn outcome(result: &BatchResult) -> String {
    let what = match &result.body {
        BatchBody::Hold(answer) => answer.hold.hold_id.to_string(),
        BatchBody::Capture(answer) => answer.hold.hold_id.to_string(),
        BatchBody::Charge(answer) => answer.charge.charge_id.to_string(),
        BatchBody::Job(answer) => format!("{} {}", answer.job.job_id, answer.job.status),
        BatchBody::Refund(answer) => format!("refunded {}", answer.refunded),
        BatchBody::Reclaim(answer) => format!("reclaimed {}", answer.reclaimed),
        BatchBody::Problem(problem) => format!("{}: {}", problem.code, problem.detail),
    };
    if result.replayed { format!("{what} (decided before)") } else { what }
}
