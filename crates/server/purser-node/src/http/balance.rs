//! Balances: now, as this node knows it, or as of an entry.

use purser_api as api;
use purser_api::{BalanceQuery, Figures, ProblemCode as Code, ReadConsistency, paths};
use purser_ledger::AccountName;
use purser_types::{Machine, Sequence};

use crate::http::call::Call;
use crate::http::convert::Shown;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::look_at;

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Get, paths::BALANCE),
        Operation::GetBalance,
        Description::new(Access::READ, Tag::Read, "Shows where an account's credits are.")
            .query::<BalanceQuery>()
            .answers::<api::Balance>(200)
            .refuses(&[Code::SequenceNotFound])
            .aged(),
        balance,
    )
}

async fn balance(call: Call) -> Handled {
    let query: BalanceQuery = call.query()?;
    let account = call.account(query.unit.0)?;
    match (query.at_sequence, query.consistency) {
        (Some(sequence), consistency) => {
            at_sequence(&call, &account, sequence.0, consistency).await
        }
        (None, ReadConsistency::Strict) => strict(&call, &account).await,
        (None, ReadConsistency::Stale) => Ok(stale(&call, &account)?),
    }
}

async fn strict(call: &Call, account: &AccountName) -> Handled {
    let owner = call.api.owner();
    let balance = call.look(account, |settled, now| {
        let sequence = settled.account().head().sequence;
        Ok(Shown::new(account, owner).balance(&settled.account().balance(), now, sequence, 0))
    });
    Ok(Reply::read(&balance.await?)?)
}

/// The balance as of the last stamp that this node has applied, and how long ago that was. What
/// came due since is not shown: the three say the same.
fn stale(call: &Call, account: &AccountName) -> Result<Reply, Refusal> {
    const MICROS_PER_MILLI: u64 = 1_000;
    let owner = call.api.owner();
    let group = call.api.groups().of(account);
    let now = group.now();
    let balance = group.view(|ledger, history| {
        let applied = ledger.log_time();
        let age_ms = now.since(applied).as_micros() / MICROS_PER_MILLI;
        look_at(ledger, history, account, applied, |settled, as_of| {
            let seen = settled.account();
            let shown = Shown::new(account, owner);
            Ok(shown.balance(&seen.balance(), as_of, seen.head().sequence, age_ms))
        })
    })?;
    Ok(Reply::read(&balance)?.aged(balance.age_ms))
}

/// The balance after an entry: it never changes, so any node that has the entry may show it.
async fn at_sequence(
    call: &Call,
    account: &AccountName,
    sequence: Sequence,
    consistency: ReadConsistency,
) -> Handled {
    if consistency == ReadConsistency::Strict {
        call.confirm(call.api.groups().of(account)).await?;
    }
    let owner = call.api.owner().clone();
    let name = account.clone();
    let balance = call.at_leisure(account, move |ledger, history, _| {
        let account = ledger.account(&name).ok_or_else(super::routing::tenant_not_found)?;
        let entry =
            account.entry(sequence, history).map_err(|error| Refusal::of_history(&error))?;
        let entry = entry.ok_or_else(|| no_such_entry(account.head().sequence))?.entry;
        let shown = Shown::new(&name, &owner);
        Ok(shown.balance(&entry.balance, entry.log_time, entry.sequence, 0))
    });
    Ok(Reply::read(&balance.await?)?)
}

fn no_such_entry(last: Sequence) -> Refusal {
    let figures = Figures { current_sequence: Some(last.into()), ..Figures::default() };
    Refusal::not_found(Code::SequenceNotFound).with_figures(figures)
}
