//! Entries: what happened to an account, newest first.

use purser_api as api;
use purser_api::{EntriesQuery, ProblemCode as Code, paths};
use purser_ledger::{Account, Hashed};
use purser_types::HistoryReader;

use crate::http::call::Call;
use crate::http::convert::Shown;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::paging::{Found, Page};
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Get, paths::ENTRIES),
        Operation::ListEntries,
        Description::new(Access::READ, Tag::Read, "Lists what happened, newest first.")
            .query::<EntriesQuery>()
            .answers_list::<api::Entry>()
            .refuses(&[Code::InvalidCursor]),
        list,
    )
}

async fn list(call: Call) -> Handled {
    let query: EntriesQuery = call.query()?;
    let account = call.account(query.unit.0.clone())?;
    let page = Page::open(query.scope(&account.tenant), query.limit, query.cursor.as_ref())?;
    let owner = call.owner();
    let name = account.clone();
    let list = call.study_written(&account, move |account, history, _| {
        let shown = Shown::new(&name, &owner).with_homes(account.homes());
        page.close(&entries(account, history, &page)?, |entry| shown.entry(entry))
    });
    Ok(Reply::read(&list.await?)?)
}

fn entries(
    account: &Account,
    history: &dyn HistoryReader,
    page: &Page,
) -> Result<Found<Hashed>, Refusal> {
    let failed = |error| Refusal::of_history(&error);
    let Some(newest) = page.newest(account.head().sequence) else {
        return Ok(Found { items: Vec::new(), next: None });
    };
    let entries = account.entries_back_from(newest, history).map_err(failed)?;
    let entries = entries.take(page.limit() + 1).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    Ok(Found::first(entries, page.limit(), |hashed| hashed.entry.sequence))
}
