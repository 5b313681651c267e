//! Batches: up to 1,000 operations in one request.
//!
//! Items of an atomic batch are one command. All others are commands of their own, proposed at
//! once, in their order; those whose shards other nodes lead go there as smaller batches. So one
//! item's refusal, or one node's absence, is no other item's affair.
//!
//! Invariant: items of one account that are decided are decided in their order (`independent`).

mod entrant;
mod independent;
mod sending;
mod written;

use purser_api::{
    BatchAnswer, BatchItemText, BatchOperation, BatchRequest, Figures, ProblemCode as Code, paths,
};
use purser_ledger::{AccountName, Outcome};

use self::entrant::Entrant;
use self::independent::independent;
use self::written::{Written, decided_by, join, shown};
use crate::http::call::Call;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::Decision;
use crate::http::seat::{Place, Seat};

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Post, paths::BATCH),
        Operation::Batch,
        Description::new(
            Access::SPEND_EACH,
            Tag::Spend,
            "Does several operations, each under its own key.",
        )
        .body::<BatchRequest>()
        .answers::<BatchAnswer>(200)
        .refuses(&[Code::OutcomeUnknown]),
        batch,
    )
}

async fn batch(call: Call) -> Handled {
    call.no_query()?;
    let request: BatchRequest = call.json()?;
    let results = if request.atomic {
        atomic(&call, &request.items).await?
    } else {
        independent(&call, request.items).await
    };
    Ok(Reply::as_written(join(&results), decided_by(&results)))
}

/// All items or none, as one command.
async fn atomic(call: &Call, texts: &[BatchItemText]) -> Result<Vec<Written>, NotDone> {
    let mut items = Vec::with_capacity(texts.len());
    let mut operations = Vec::with_capacity(texts.len());
    let mut first: Option<(AccountName, Place)> = None;
    for (at, text) in texts.iter().enumerate() {
        let read = Entrant::read(call, text).await;
        let Entrant { account, item, operation, place } =
            read.map_err(|refusal| at_item(refusal, at))?;
        let (known, known_place) = first.get_or_insert_with(|| (account.clone(), place));
        if *known != account {
            let detail = "the items of an atomic batch must be of one tenant and unit";
            return Err(at_item(Refusal::invalid(detail), at).into());
        }
        if *known_place != place {
            let detail = "the items of an atomic batch must be decided in one place; holds and \
                          charges of different regions, or of a region and new ones, are not";
            return Err(at_item(Refusal::invalid(detail), at).into());
        }
        items.push(item);
        operations.push(operation);
    }
    let (account, place) =
        first.ok_or_else(|| Refusal::invalid("a batch has at least one item"))?;
    let seat = match (place, call.api.regions()) {
        (Place::Here(Seat::Spend(home)) | Place::There(home), Some(regions)) => {
            // What is new is home's to decide, all of it together.
            for item in items.iter().filter(|_| matches!(place, Place::Here(_))) {
                call.note_for_home(regions, &account, item).await?;
            }
            return Err(call.to_region(regions, home, &account).await);
        }
        (Place::Here(seat), _) => seat,
        (Place::There(_), None) => Seat::Home,
    };
    let outcomes = call.decide_together(&account, seat, items).await?;
    let (decided, homes) = (call.decided_in(seat, &account), call.homes_of(&account));
    let results = operations.iter().zip(outcomes);
    let shown = |(operation, outcome): (&BatchOperation, Outcome)| {
        shown(call, &account, operation, Decision::of(outcome, decided, homes.clone()))
    };
    Ok(results.map(shown).collect())
}

/// Says which item is to blame.
fn at_item(refusal: Refusal, place: usize) -> Refusal {
    let failed_item = u32::try_from(place).ok();
    refusal.with_figures(Figures { failed_item, ..Figures::default() })
}
