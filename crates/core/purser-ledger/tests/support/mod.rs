//! What tests of single groups begin with.

use purser_ledger::{AccountName, Category, Grant};
use purser_types::{Credits, TenantId, Unit};

/// The account that they are about.
pub(crate) fn account() -> AccountName {
    AccountName { tenant: TenantId::parse("acme").unwrap(), unit: Unit::credits() }
}

/// An amount.
pub(crate) fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).unwrap()
}

/// Credits that were bought, and never end.
pub(crate) fn paid(amount: u64) -> Grant {
    Grant {
        amount: credits(amount),
        category: Category::Paid,
        priority: Grant::PRIORITY_DEFAULT,
        effective_at: None,
        expires_at: None,
        source_ref: None,
    }
}
