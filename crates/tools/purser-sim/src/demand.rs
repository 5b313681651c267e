//! Demand in five regions, and what sizing makes of it: how much is decided locally, for how many
//! messages, and whether anybody is refused who could have been served.
//!
//! The code under test is the sizing that ships: [`purser_ledger::Demand`] in the regions and
//! [`purser_ledger::Pool`] at home. Everything else is made up: calls arrive at random, holds end
//! after a while, messages take their time and are lost while a link is cut. A seed decides all of it.
//!
//! Not here: lots, keys, entries, Raft. An allocation is its cumulative figures and nothing else
//! (granted, spent, returned, held), because a hundred thousand calls a run would otherwise be spent
//! on hashing; that the figures mean what the ledger makes of them is for [`crate::story`] to show.
//!
//! A *message* is one request between the home region and another. It carries the reports of all
//! accounts that have news, and its answer carries their vouchers.

mod agenda;
mod book;
mod figures;
mod home;
mod load;
mod region;
mod scenario;
mod world;

pub use figures::Figures;
pub use scenario::{Cut, REGIONS, Scenario, TopUp};

use purser_ledger::Tuning;

/// How credits get to where they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// As home's pool decides.
    Sizing(Tuning),
    /// Never: every call is home's to decide.
    Forwarding,
    /// In equal parts at the start, and never again.
    EqualSplit,
}

/// Plays a scenario once.
pub fn play(scenario: &Scenario, method: Method, seed: u64) -> Figures {
    world::World::new(scenario, method, seed).run()
}
