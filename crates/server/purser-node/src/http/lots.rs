//! Lots: what is left of each grant, newest first.

use std::ops::Bound;

use purser_api as api;
use purser_api::{LotsQuery, ProblemCode as Code, paths};
use purser_ledger::{Account, Lot, LotNumber};

use crate::http::call::Call;
use crate::http::convert::{Shown, lot_status};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::paging::{Found, Page};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Get, paths::LOTS),
        Operation::ListLots,
        Description::new(Access::READ, Tag::Read, "Lists lots, newest first.")
            .query::<LotsQuery>()
            .answers_list::<api::Lot>()
            .refuses(&[Code::InvalidCursor]),
        list,
    )
}

async fn list(call: Call) -> Handled {
    let query: LotsQuery = call.query()?;
    let account = call.account(query.unit.0.clone())?;
    let page = Page::open(query.scope(&account.tenant), query.limit, query.cursor.as_ref())?;
    let owner = call.owner();
    let name = account.clone();
    let list = call.study(&account, move |settled, _| {
        let shown = Shown::new(&name, &owner).with_homes(settled.account().homes());
        let lots = lots(settled.account(), &page, query.status);
        page.close(&lots, |(number, lot)| shown.lot(*number, lot))
    });
    Ok(Reply::read(&list.await?)?)
}

fn lots(account: &Account, page: &Page, status: Option<api::LotStatus>) -> Found<(LotNumber, Lot)> {
    let meant = |lot: &Lot| status.is_none_or(|wanted| wanted == lot_status(lot.status()));
    let lots = account.lots_from(Bound::Unbounded);
    let lots = lots.take_while(|(number, _)| page.admits(number.0));
    // Lots can only be walked forwards, and an account has few of them.
    let lots: Vec<_> = lots.filter(|(_, lot)| meant(lot)).collect();
    let newest_first = lots.into_iter().rev().map(|(number, lot)| (*number, lot.clone()));
    Found::first(newest_first, page.limit(), |(number, _)| number.0)
}
