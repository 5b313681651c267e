//! Balances: now, as this node knows it, or as of an entry.

use purser_api as api;
use purser_api::{BalanceQuery, Figures, ProblemCode as Code, ReadConsistency, paths};
use purser_ledger::AccountName;
use purser_types::{Generation, LogTime, Machine, Sequence, Span};

use crate::http::call::Call;
use crate::http::convert::Shown;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::{look_at, tenant_not_found};

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
        (Some(sequence), ReadConsistency::Strict) => {
            Ok(Reply::read(&strict_at(&call, &account, sequence.0).await?)?)
        }
        (Some(sequence), ReadConsistency::Stale) => stale_at(&call, &account, sequence.0).await,
        (None, ReadConsistency::Strict) => Ok(Reply::read(&strict(&call, &account).await?)?),
        (None, ReadConsistency::Stale) => stale(&call, &account).await,
    }
}

/// The balance now. It names the last entry that is written down; what came due since is in the
/// figures.
async fn strict(call: &Call, account: &AccountName) -> Result<api::Balance, NotDone> {
    let owner = call.api.owner();
    let balance = call.look(account, |settled, now, written| {
        let shown = Shown::new(account, owner);
        Ok(shown.balance(settled.account().balance(), now, written, 0))
    });
    balance.await
}

/// The balance as of the last stamp that this node has applied, and how long ago that was. What
/// came due since is not shown: the three say the same.
///
/// A node that lags may not know the account yet, and one whose clock is wrong does not know how
/// old its knowledge is. Then the strict answer is given, wherever it is: it is as good as any, and
/// nobody takes "not known here" for "not there", nor an unknown age for none.
async fn stale(call: &Call, account: &AccountName) -> Handled {
    let balance = match seen_here(call, account)? {
        Some(seen) => seen,
        None => strict(call, account).await?,
    };
    Ok(Reply::read(&balance)?.aged(balance.age_ms))
}

fn seen_here(call: &Call, account: &AccountName) -> Result<Option<api::Balance>, Refusal> {
    let owner = call.api.owner();
    let group = call.api.groups().of(account);
    group.view(|ledger, history| {
        let applied = ledger.log_time();
        let (Some(seen), Some(age)) = (ledger.account(account), group.age_of(applied)) else {
            return Ok(None);
        };
        let written = seen.head().sequence;
        let of = (account, Generation::HOME);
        look_at(ledger, history, of, applied, |settled, as_of| {
            let balance = settled.account().balance();
            let shown = Shown::new(account, owner);
            Ok(Some(shown.balance(balance, as_of, written, millis(age))))
        })
    })
}

const fn millis(age: Span) -> u64 {
    const MICROS_PER_MILLI: u64 = 1_000;
    age.as_micros() / MICROS_PER_MILLI
}

/// The balance after an entry, once it is sure that this node has all entries.
async fn strict_at(
    call: &Call,
    account: &AccountName,
    sequence: Sequence,
) -> Result<api::Balance, NotDone> {
    call.confirm_home(account).await?;
    Ok(known_here(call, account, sequence).await?.balance)
}

/// The balance after an entry: it never changes, so any node that has the entry may show it. One
/// that lacks it, or does not know how far it lags, has the strict answer given.
async fn stale_at(call: &Call, account: &AccountName, sequence: Sequence) -> Handled {
    let group = call.api.groups().of(account);
    let known = match known_here(call, account, sequence).await {
        Ok(Known { balance, applied }) => {
            group.age_of(applied).map(|age| api::Balance { age_ms: millis(age), ..balance })
        }
        Err(NotDone::Refused(refusal)) if refusal.code().status() == 404 => None,
        Err(error) => return Err(error),
    };
    let balance = match known {
        Some(balance) => balance,
        None => strict_at(call, account, sequence).await?,
    };
    Ok(Reply::read(&balance)?.aged(balance.age_ms))
}

/// A balance as of an entry, and how far the node was that knew it.
struct Known {
    balance: api::Balance,
    applied: LogTime,
}

async fn known_here(
    call: &Call,
    account: &AccountName,
    sequence: Sequence,
) -> Result<Known, NotDone> {
    let owner = call.owner();
    let name = account.clone();
    let known = call.at_leisure(account, move |ledger, history, _| {
        let account = ledger.account(&name).ok_or_else(tenant_not_found)?;
        let entry =
            account.entry(sequence, history).map_err(|error| Refusal::of_history(&error))?;
        let entry = entry.ok_or_else(|| no_such_entry(account.head().sequence))?.entry;
        let shown = Shown::new(&name, &owner);
        let balance = shown.balance(&entry.balance, entry.log_time, entry.sequence, 0);
        Ok(Known { balance, applied: ledger.log_time() })
    });
    known.await
}

fn no_such_entry(last: Sequence) -> Refusal {
    let figures = Figures { current_sequence: Some(last.into()), ..Figures::default() };
    Refusal::not_found(Code::SequenceNotFound).with_figures(figures)
}
