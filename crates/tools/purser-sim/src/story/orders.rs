//! What home decides: grants, allocations, recalls, taking back.

use std::ops::Bound;

use purser_ledger::{
    Allocate, Category, Confirm, Grant, Mode, OnExpiry, Operation, SetAllocation, TakeBack,
    Transfer, Void,
};
use purser_types::{Life, Region, Span};

use super::{Story, credits};

impl Story {
    /// Home decides something.
    pub(super) fn order(&mut self) {
        match self.rng.u8(0..20) {
            0..3 => self.grant(),
            3..9 => {
                let (region, amount) = (self.any_region(), credits(self.rng.u64(0..=40)));
                let life = self.heard_life(region);
                let lasting = Some(self.now.saturating_add(Span::from_secs(self.rng.u64(0..100))));
                let lasting = lasting.filter(|_| self.rng.bool());
                let allocate = Allocate { region, amount, life, lasting };
                self.at_home("allocate", Operation::Allocate(allocate));
            }
            9..11 => {
                let keep = Some(credits(self.rng.u64(0..=10)));
                self.set("recall", |change| change.keep = keep);
            }
            11..14 => {
                let overdraft = Some(credits(self.rng.u64(0..=self.plan.overdraft_max)));
                self.set("overdraft", |change| change.overdraft = overdraft);
            }
            14 => {
                let sterner = self.rng.u8(0..4) > 0;
                let choice = if sterner { OnExpiry::TakeBack } else { OnExpiry::Keep };
                self.set("on_expiry", |change| change.on_expiry = Some(choice));
            }
            15 => {
                let mode = [Mode::Local, Mode::Local, Mode::Local, Mode::Strict, Mode::Ending];
                let mode = mode[self.rng.usize(0..mode.len())];
                self.set("mode", |change| change.mode = Some(mode));
            }
            16 => self.take_back(),
            17 => self.transfer(),
            18 => self.void(),
            _ => {
                let freeze = self.rng.u8(0..6) == 0;
                let operation = if freeze { Operation::Freeze } else { Operation::Unfreeze };
                self.at_home("freeze or unfreeze", operation);
            }
        }
    }

    fn grant(&mut self) {
        let lives = self.rng.bool().then(|| Span::from_secs(self.rng.u64(60..2_000)));
        let categories = [Category::Paid, Category::Promotional];
        let grant = Grant {
            amount: credits(self.rng.u64(1..=120)),
            category: categories[self.rng.usize(0..2)],
            priority: self.rng.u8(99..=101),
            effective_at: None,
            expires_at: lives.map(|lives| self.now.saturating_add(lives)),
            source_ref: None,
        };
        self.at_home("grant", Operation::Grant(grant));
    }

    fn transfer(&mut self) {
        let Some(from) = self.any_allocation() else { return };
        let (to, amount) = (self.any_region(), credits(self.rng.u64(1..=20)));
        let life = self.heard_life(to);
        self.at_home("transfer", Operation::Transfer(Transfer { from, to, amount, life }));
    }

    /// The life of a region's group as home has heard it: now and then an earlier one.
    fn heard_life(&mut self, region: Region) -> Option<Life> {
        let known = self.world.regions.get(&region)?;
        let now = known.site.ledger().life();
        let is_late = self.rng.u8(0..8) == 0;
        if is_late { known.life_before } else { now }
    }

    fn void(&mut self) {
        let account = self.world.home_account();
        let lots: Vec<_> = account.lots_from(Bound::Unbounded).map(|(number, _)| *number).collect();
        let Some(lot) = self.rng.choice(lots) else { return };
        let confirm = self.confirm();
        self.at_home("void", Operation::Void(Void { lot, confirm }));
    }

    /// Takes back by the rules, or by an operator's word. The word is given rarely: it is what makes
    /// overspending possible.
    fn take_back(&mut self) {
        let Some(owner) = self.any_allocation() else { return };
        let is_forced = self.rng.u8(0..8) == 0;
        let forced = is_forced.then(|| self.confirm());
        self.at_home("take back", Operation::TakeBack(TakeBack { owner, forced }));
    }

    fn set(&mut self, name: &'static str, change: impl FnOnce(&mut SetAllocation)) {
        let Some(owner) = self.any_allocation() else { return };
        let mut asked = SetAllocation::of(owner);
        change(&mut asked);
        self.at_home(name, Operation::SetAllocation(asked));
    }

    /// The state as an operator would have seen it just now: what has become due is written first.
    pub(super) fn confirm(&mut self) -> Confirm {
        self.world.sweep_home(self.now);
        Confirm(self.world.home_account().head().sequence)
    }

    pub(super) fn at_home(&mut self, name: &'static str, operation: Operation) {
        if self.crashes() {
            let now = self.now;
            self.world.crash_amid(None, |world| world.at_home(operation, None, now));
            return self.count("order lost");
        }
        let outcome = self.world.at_home(operation.clone(), None, self.now);
        self.say(|_| format!("home: {operation:?}\n    {:?}", outcome.result));
        if outcome.result.is_ok() {
            self.count(name);
        }
    }
}
