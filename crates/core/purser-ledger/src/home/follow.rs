//! What home notes of an allocation from the entries of its region.

use purser_types::Credits;

use super::transfer::answers;
use super::{Allocation, AllocationStatus};
use crate::digest::Digest32;
use crate::entry::{Entry, Fact};
use crate::protocol::{Booked, Mode};

impl Allocation {
    /// Notes what an entry of the region says of the allocation as a whole.
    pub(super) fn follow(&mut self, entry: &Entry, hash: Digest32) {
        let balance = &entry.balance;
        self.spent = balance.used;
        self.returned = balance.returned;
        self.held = balance.held;
        self.booked = Booked { sequence: entry.sequence, hash: Some(hash) };
        if let Fact::RefundPromised { amount, .. } = &entry.fact {
            self.refunded = self.refunded.checked_add(*amount).unwrap_or(Credits::MAX);
        }
        if let Fact::VoucherAccepted(voucher) = &entry.fact
            && voucher.number == self.voucher
        {
            // What the region has drawn beyond a lower limit stays possible.
            self.overdraft_worst = self.overdraft.max(balance.debt);
        }
        if let Fact::VoucherAccepted(voucher) = &entry.fact
            && self.kept_by.is_some_and(|kept_by| kept_by < voucher.number)
        {
            // A region takes up no older voucher than it has.
            self.kept_by = None;
        }
        if self.transfer.is_some_and(|pending| answers(entry, pending)) {
            self.transfer = None;
        }
        // What was taken back stays so.
        if entry.fact == Fact::AllocationSealed && self.status == AllocationStatus::Open {
            self.status = AllocationStatus::Sealed;
            self.mode = Mode::Ending;
        }
        if entry.fact == Fact::AllocationFinished {
            self.status = AllocationStatus::Closed;
            self.mode = Mode::Ending;
        }
    }

    /// Late rule: what was taken back here and spent or returned there was not there to be taken.
    pub(super) fn prove(&mut self, short_by: Credits) {
        let proven = self.proven.checked_add(short_by.min(self.unresolved()));
        self.proven = proven.expect("INV-12: no more is proven than was taken back");
    }
}
