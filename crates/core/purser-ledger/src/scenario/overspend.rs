//! INV-13, which only who sees both sides can check: what home would owe if it booked now whatever
//! its regions have written down is never more than the bound that it states.

use std::collections::BTreeMap;

use purser_types::LogTime;

use super::Stop;
use super::group::Group;
use super::messages::{self, Extent, Message};
use super::names::{Book, Place};
use crate::account::Account;
use crate::command::Command;
use crate::invariants::Violation;

/// Checks every account of home against all books of its regions.
pub(super) fn check(groups: &BTreeMap<Place, Group>) -> Result<(), Stop> {
    let Some(home) = groups.get(&None) else { return Ok(()) };
    let regions = groups.iter().filter(|(place, _)| place.is_some());
    let regions: Vec<&Group> = regions.map(|(_, group)| group).collect();
    for account in home.ledger.accounts() {
        check_account(home, account, &regions)?;
    }
    Ok(())
}

fn check_account(home: &Group, account: &Account, regions: &[&Group]) -> Result<(), Stop> {
    let book = Book::at_home(account.name().clone());
    let mut settled = home.clone();
    for region in regions {
        let own = region.ledger.allocations().filter(|own| own.name() == account.name());
        let owners: Vec<_> = own.map(|own| own.owner()).collect();
        for owner in owners {
            let away = Book { account: book.account.clone(), owner: Some(owner) };
            let report = messages::report(region, settled.book(&book), &away, &Extent::default())?;
            report.into_iter().try_for_each(|report| settle(&mut settled, report))?;
        }
    }
    let would_owe = settled.book(&book).map(Account::realised).unwrap_or_default();
    let bound = account.bound().total();
    if u128::from(would_owe.get()) <= bound {
        return Ok(());
    }
    let detail = format!("{would_owe} would be overspent, and the bound is {bound}");
    Err(Violation { number: 13, detail }.into())
}

/// Books a report. That it is refused is home's right: what has lost its past tells nothing.
fn settle(home: &mut Group, report: Message) -> Result<(), Stop> {
    let request = report.request();
    let command = Command::at_home(request.book.account, vec![request.item]);
    let clock = home.now(LogTime::ZERO);
    home.apply(&command, clock).map(|_settled| ())
}
