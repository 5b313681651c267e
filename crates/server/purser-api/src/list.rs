//! Lists and the queries that ask for them.
//!
//! Every query names its own cursor scope, so a filter cannot be left out of it. An unknown query
//! parameter is refused like an unknown field of a body.

use std::fmt;

use purser_types::TenantId;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{IntoParams, ToSchema};

use crate::cursor::{Cursor, CursorScope};
use crate::hold::HoldStatus;
use crate::lot::LotStatus;
use crate::paths;
use crate::prose::Reference;
use crate::spelled::{Spelled, read_digits, spelled, spelled_enum};
use crate::tenant::TenantStatus;
use crate::text::{Moment, SequenceNumber, UnitName};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// Whether there are more.
    pub has_more: bool,
    /// Where the next page starts; `null` if this is the last.
    pub next_cursor: Option<Cursor>,
}

/// How many items a page has at most: 1 to 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit(u16);

impl PageLimit {
    /// The largest page.
    pub const MAX: u16 = 1_000;

    /// The limit as a number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Default for PageLimit {
    /// The page of a query that names no limit.
    fn default() -> Self {
        Self(100)
    }
}

impl Spelled for PageLimit {
    const EXPECTED: &'static str = "a limit from 1 to 1,000";

    fn read(text: &str) -> Result<Self, String> {
        let limit = read_digits(text).and_then(|limit| u16::try_from(limit).ok());
        let limit = limit.filter(|limit| (1..=Self::MAX).contains(limit));
        limit.map(Self).ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }

    fn describe() -> Schema {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .description(Some("How many items a page has at most."))
            .minimum(Some(1))
            .maximum(Some(Self::MAX))
            .default(Some(Self::default().0.into()))
            .into()
    }
}

spelled!(PageLimit);

spelled_enum! {
    /// How current a read has to be.
    #[derive(Default)]
    ReadConsistency, "a consistency" {
        /// As of now, asked of whoever decides.
        #[default]
        Strict "strict",
        /// As the asked node knows it; the answer says how old that is.
        Stale "stale",
    }
}

/// Which of a tenant's accounts is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UnitQuery {
    /// What the account counts.
    #[serde(default)]
    #[param(default = "credits")]
    pub unit: UnitName,
}

/// Asks for a balance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BalanceQuery {
    /// What the account counts.
    #[serde(default)]
    #[param(default = "credits")]
    pub unit: UnitName,
    /// How current it has to be.
    #[serde(default)]
    #[param(inline)]
    pub consistency: ReadConsistency,
    /// As of this entry, instead of now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub at_sequence: Option<SequenceNumber>,
}

/// Asks for holds, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HoldsQuery {
    /// What the account counts.
    #[serde(default)]
    #[param(default = "credits")]
    pub unit: UnitName,
    /// Only holds that stand like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub state: Option<HoldStatus>,
    /// Only holds with this reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub reference: Option<Reference>,
    /// How many at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// Where the page starts: at the first if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub cursor: Option<Cursor>,
}

/// Asks for entries, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EntriesQuery {
    /// What the account counts.
    #[serde(default)]
    #[param(default = "credits")]
    pub unit: UnitName,
    /// How many at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// Where the page starts: at the first if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub cursor: Option<Cursor>,
}

/// Asks for lots, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LotsQuery {
    /// What the account counts.
    #[serde(default)]
    #[param(default = "credits")]
    pub unit: UnitName,
    /// Only lots that stand like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub status: Option<LotStatus>,
    /// How many at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// Where the page starts: at the first if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub cursor: Option<Cursor>,
}

/// Asks for a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatementQuery {
    /// What the account counts.
    #[serde(default)]
    #[param(default = "credits")]
    pub unit: UnitName,
    /// From this instant on; from the first entry on if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub from: Option<Moment>,
    /// Up to this instant, itself not included; up to now if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub to: Option<Moment>,
    /// How many entries a page has at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// Where the page starts: at the first if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub cursor: Option<Cursor>,
}

/// Asks for tenants, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TenantsQuery {
    /// Only tenants that stand like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub status: Option<TenantStatus>,
    /// How many at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// Where the page starts: at the first if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub cursor: Option<Cursor>,
}

impl HoldsQuery {
    /// What the list's cursors are bound to.
    pub fn scope(&self, tenant: &TenantId) -> CursorScope {
        CursorScope::new(paths::HOLDS)
            .of_account(tenant, &self.unit.0)
            .with_filter("state", self.state.as_ref())
            .with_filter("reference", self.reference.as_ref())
    }
}

impl EntriesQuery {
    /// What the list's cursors are bound to.
    pub fn scope(&self, tenant: &TenantId) -> CursorScope {
        CursorScope::new(paths::ENTRIES).of_account(tenant, &self.unit.0)
    }
}

impl LotsQuery {
    /// What the list's cursors are bound to.
    pub fn scope(&self, tenant: &TenantId) -> CursorScope {
        CursorScope::new(paths::LOTS)
            .of_account(tenant, &self.unit.0)
            .with_filter("status", self.status.as_ref())
    }
}

impl StatementQuery {
    /// What the statement's cursors are bound to.
    pub fn scope(&self, tenant: &TenantId) -> CursorScope {
        CursorScope::new(paths::STATEMENT)
            .of_account(tenant, &self.unit.0)
            .with_filter("from", self.from.as_ref())
            .with_filter("to", self.to.as_ref())
    }
}

impl TenantsQuery {
    /// What the list's cursors are bound to.
    pub fn scope(&self) -> CursorScope {
        CursorScope::new(paths::ADMIN_TENANTS).with_filter("status", self.status.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_one_to_a_thousand_items() {
        assert_eq!(PageLimit::default().get(), 100);
        assert!("1".parse::<PageLimit>().is_ok() && "1000".parse::<PageLimit>().is_ok());
        for odd in ["", "0", "1001", "-1", "1.0", "010", "65537"] {
            assert!(odd.parse::<PageLimit>().is_err(), "{odd:?}");
        }
    }

    #[test]
    fn every_filter_is_part_of_the_scope() {
        let tenant = TenantId::parse("acme").unwrap();
        let all = HoldsQuery::default();
        let cursor = all.scope(&tenant).seal("9");
        let active = HoldsQuery { state: Some(HoldStatus::Active), ..all.clone() };
        let named = HoldsQuery { reference: "job-1".parse().ok(), ..all.clone() };
        let tokens = HoldsQuery { unit: "tokens".parse().unwrap(), ..all.clone() };
        assert!(all.scope(&tenant).open(&cursor).is_ok());
        for other in [active, named, tokens] {
            assert!(other.scope(&tenant).open(&cursor).is_err(), "{other:?}");
        }
        assert!(LotsQuery::default().scope(&tenant).open(&cursor).is_err());
        assert!(EntriesQuery::default().scope(&tenant).open(&cursor).is_err());
    }
}
