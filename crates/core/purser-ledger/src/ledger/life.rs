//! What becomes of a region's books when its group is restored from a backup (R9).
//!
//! ```text
//!  life A ── backup ── spends … ── lost
//!               └── restored ── begin life B ── every book sealed ── vouchers for B
//! ```
//!
//! A book from the backup does not know what was spent under it since, and of some allocations there is no
//! book at all, nor does home know that anything was spent. So the life of a group has a name, home makes
//! each allocation for the life that it has heard of, and in another life no book of it goes on or is
//! begun. A sealed book does not even let happen what was due: nothing of it comes home but what was
//! decided before. The name is given after the restore, by chance: an allocation that was made for it cannot have
//! been spent from before.
//!
//! Not here: who finds out that a group was restored, and keeps calls from it until this has happened.

use purser_types::{Generation, HistoryError, Life};

use super::Ledger;
use crate::account::{AccountNumber, Scribe};
use crate::command::{AccountName, Context, Item, Operation};
use crate::protocol::{Report, Voucher};
use crate::region::BookPhase;
use crate::sinks::disable_all;

/// Why a restored group's webhooks are disabled, for operators.
const WEBHOOKS_WAIT: &str = "the region was restored from a backup: entries come under ids that receivers \
    may know from before; tell them, then enable it";

impl Ledger {
    /// What the group has lived through without a gap; none before it was ever restored.
    pub const fn life(&self) -> Option<Life> {
        self.life
    }

    /// What home is to hear of an allocation whose book is not here and is not begun here any more: that it
    /// is sealed. Nothing if there is a book, which speaks for itself, or if one can be begun.
    pub fn lost_report(&self, account: &AccountName, voucher: &Voucher) -> Option<Report> {
        let owner = voucher.owner;
        let is_lost =
            self.book(account, owner.generation).is_none() && self.is_from_before(voucher);
        let sealed = Report { owner, epoch: voucher.epoch, entries: Vec::new(), is_sealed: true };
        is_lost.then_some(sealed)
    }

    /// Whether an allocation may have been spent from in a past that is lost: it was made for another life,
    /// or home has booked entries of a book that is not here.
    pub(super) fn is_from_before(&self, voucher: &Voucher) -> bool {
        voucher.life != self.life || voucher.booked.hash.is_some()
    }

    /// Begins another life, if the group is in one of those that are named: seals every book that goes on,
    /// and disables every webhook, since new entries get the names of entries that are lost.
    /// Gives the life that the group is in from then on.
    pub(super) fn begin_life(
        &mut self,
        known: &[Option<Life>],
        life: Life,
        scribe: &mut Scribe<'_>,
    ) -> Result<Option<Life>, HistoryError> {
        if !known.contains(&self.life) {
            return Ok(self.life);
        }
        let seal = [Item::new(Context::default(), Operation::Seal)];
        for number in self.open_books() {
            self.change(number, |book, now| book.apply(&seal, &[], now, scribe))?;
        }
        disable_all(&mut self.sinks, WEBHOOKS_WAIT, self.log_time);
        self.life = Some(life);
        Ok(self.life)
    }

    /// The books of this region's allocations that go on.
    fn open_books(&self) -> Vec<AccountNumber> {
        let books =
            self.names.iter().filter(|((_, generation), _)| *generation != Generation::HOME);
        let goes_on = |number: &AccountNumber| {
            let book = self.accounts.get(number);
            book.is_some_and(|book| book.book_phase() == Some(BookPhase::Open))
        };
        books.map(|(_, number)| *number).filter(goes_on).collect()
    }
}
