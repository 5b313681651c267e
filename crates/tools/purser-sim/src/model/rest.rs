//! What is looked at in each state: as if all were booked now, and as if nothing more went wrong.

use std::sync::Arc;

use purser_types::{Generation, Owner};

use super::parts::{BothStep, HomeStep};
use super::{NOW, Search, State};
use crate::world::{RegionWorld, World};

impl Search {
    /// If all were booked now, home would say what clients were told, and no more would be overspent
    /// than the bound says.
    pub(super) fn is_booked_once(&self, state: &State) -> bool {
        let found = if self.small.broken.is_some() {
            self.all_booked_at_once(state)
        } else {
            self.all_booked(state)
        };
        let Some((used, overspent)) = found else { return false };
        let (least, most) = (state.used, state.used.saturating_add(state.untold));
        let bound = state.home.world.home_account().bound().total();
        u128::from(overspent) <= bound && least <= used && used <= most
    }

    /// What home would say that was used and overspent if every tail and every book were booked now.
    fn all_booked(&self, state: &State) -> Option<(i64, u64)> {
        let mut home = Arc::clone(&state.home);
        if home.world.home_account().tails().next().is_some() {
            home = self.at_home(&home, HomeStep::BookTails, None)?.home;
        }
        for book in state.regions.iter().flat_map(|region| &region.books) {
            let mut known = home.world.home_account().allocations();
            let booked = known.find(|it| it.owner == book.owner).map(|it| it.booked.sequence);
            drop(known);
            let report = booked.and_then(|booked| self.report(state, book.owner, Some(booked)));
            if let Some(report) = report {
                home = self.at_home(&home, HomeStep::Take(report.number), Some(&report))?.home;
            }
        }
        Some((home.used, home.world.home_account().bound().realised.get()))
    }

    /// The same of a world in which a rule is broken: what arrives then is not what was sent.
    fn all_booked_at_once(&self, state: &State) -> Option<(i64, u64)> {
        let world = whole(state);
        let all = world.as_if_all_were_booked(NOW);
        let account = all.book(&world.account, Generation::HOME)?;
        let used = i64::try_from(account.balance().used.get()).ok()?;
        Some((used, account.bound().realised.get()))
    }

    /// If the faults stopped here, everything would come home.
    pub(super) fn everything_comes_home(&self, state: &State) -> bool {
        let mut state = state.clone();
        if let Some(done) = self.at_home(&state.home, HomeStep::StopWaiting, None) {
            state.home = done.home;
        }
        // One voucher, one return, one report and one end for each generation, and one to spare.
        for _ in 0..6 {
            let allocations = state.home.world.home_account().allocations();
            let owners: Vec<Owner> = allocations.map(|found| found.owner).collect();
            for owner in owners {
                self.in_both(&mut state, owner, BothStep::BringHome(owner));
            }
        }
        let account = state.home.world.home_account();
        account.allocations().next().is_none() && account.balance().allocated.is_empty()
    }
}

/// All parts together.
fn whole(state: &State) -> World {
    let mut world = state.home.world.clone();
    let regions =
        state.regions.iter().map(|region| (region.name, RegionWorld::clone(&region.world)));
    world.regions.extend(regions);
    world.wire = state.wire.iter().map(|sent| sent.message.clone()).collect();
    world
}
