//! The live state again, from the entries alone, with the ledger's own `evolve`.
//!
//! The plain fold beside this shows that the entries add up; this shows that the live state is what
//! they make of it: every lot with its terms and phase, every hold, debt, source, agenda item and
//! mark. Not here: remembered keys, since refusals make no entries.

use std::collections::BTreeMap;

use purser_types::{LogTime, Position};

use crate::account::{Account, AccountNumber};
use crate::digest::hash_of;
use crate::entry::{Entry, Fact};

/// Accounts rebuilt from their entries.
#[derive(Debug, Default)]
pub(super) struct Rebuild {
    accounts: BTreeMap<AccountNumber, Account>,
}

impl Rebuild {
    /// Applies the next entry of an account; the plain fold has found nothing wrong with it.
    pub(super) fn fold(
        &mut self,
        number: AccountNumber,
        entry: &Entry,
        bytes: &[u8],
        position: Position,
    ) {
        if let Fact::Opened { account, standing, .. } = &entry.fact {
            let account = Account::new(number, account.clone(), standing.clone());
            self.accounts.insert(number, account);
        }
        if let Fact::VoucherAccepted(voucher) = &entry.fact
            && !self.accounts.contains_key(&number)
        {
            let account = Account::in_region(number, voucher.account.clone(), voucher.owner);
            self.accounts.insert(number, account);
        }
        if let Some(account) = self.accounts.get_mut(&number) {
            account.evolve(entry, hash_of(bytes), position);
        }
    }

    /// Gives up on an account whose entries are not sound.
    pub(super) fn drop_account(&mut self, number: AccountNumber) {
        self.accounts.remove(&number);
    }

    /// Which parts of a live account are not what its entries make of it at `now`.
    pub(super) fn differences(&self, live: &Account, now: LogTime) -> Vec<&'static str> {
        let Some(rebuilt) = self.accounts.get(&live.number) else { return Vec::new() };
        let ended_agree = live.ended.buckets().all(|bucket| {
            bucket.pairs.iter().all(|(number, kept)| {
                // An ended record that has been overtaken by a later one tells nothing.
                live.ended.latest(number) != Some(kept)
                    || rebuilt.ended.latest(number).map(|kept| kept.value) == Some(kept.value)
            })
        });
        let ended_jobs_agree = live.jobs().ended.buckets().all(|bucket| {
            bucket.pairs.iter().all(|(id, kept)| {
                live.jobs().ended.latest(id) != Some(kept)
                    || rebuilt.jobs().ended.latest(id).map(|kept| kept.value) == Some(kept.value)
            })
        });
        let parts = [
            ("name", live.name == rebuilt.name),
            ("standing", live.standing == rebuilt.standing),
            ("balance", live.balance == rebuilt.balance),
            ("head", live.head == rebuilt.head),
            ("marks", live.marks == rebuilt.marks),
            ("lots", live.lots == rebuilt.lots),
            ("burn-down order", live.draw_order == rebuilt.draw_order),
            ("sources", live.source_refs == rebuilt.source_refs),
            ("holds", live.holds == rebuilt.holds),
            ("ended holds", ended_agree),
            ("jobs", live.jobs().is_like(rebuilt.jobs())),
            ("ended jobs", ended_jobs_agree),
            ("parked events", live.events().is_like(rebuilt.events())),
            ("budgets", live.budgets() == rebuilt.budgets()),
            ("events", live.events().remembers_alike(rebuilt.events(), now)),
            ("debtors", live.owing == rebuilt.owing),
            ("debts", live.debts == rebuilt.debts),
            ("debts by debtor", live.debts_of == rebuilt.debts_of),
            ("agenda", live.agenda == rebuilt.agenda),
            ("allocations", live.allocations().eq(rebuilt.allocations())),
            ("homes", live.homes_equal(rebuilt)),
            ("realised overspend", live.realised() == rebuilt.realised()),
            ("allocation's book", live.region_side() == rebuilt.region_side()),
        ];
        parts.into_iter().filter(|(_, agree)| !agree).map(|(part, _)| part).collect()
    }
}
