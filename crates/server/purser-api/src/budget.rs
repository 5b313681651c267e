//! Budgets: caps inside an account, and what they come to.

use purser_types::TenantId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::body::not_null;
use crate::cursor::{Cursor, CursorScope};
use crate::list::PageLimit;
use crate::paths;
use crate::prose::Reason;
use crate::spelled::spelled_enum;
use crate::text::{Amount, BudgetLabel, Moment, SequenceNumber, UnitName};

/// The budgets that a call names: at most 8, each once. They are tried in this order, each with those
/// above it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Vec<BudgetLabel>", into = "Vec<BudgetLabel>")]
#[schema(value_type = Vec<BudgetLabel>)]
pub struct BudgetsNamed(Vec<BudgetLabel>);

/// A call names too many budgets, or one twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a call names at most {} budgets, each once", BudgetsNamed::MAX)]
pub struct InvalidBudgets;

impl BudgetsNamed {
    /// The most that one call names.
    pub const MAX: usize = 8;

    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names, in order.
    pub fn names(&self) -> &[BudgetLabel] {
        &self.0
    }
}

impl TryFrom<Vec<BudgetLabel>> for BudgetsNamed {
    type Error = InvalidBudgets;

    fn try_from(named: Vec<BudgetLabel>) -> Result<Self, InvalidBudgets> {
        let twice = named.iter().enumerate().any(|(place, name)| {
            named.iter().skip(place.saturating_add(1)).any(|other| other == name)
        });
        if twice || named.len() > Self::MAX { Err(InvalidBudgets) } else { Ok(Self(named)) }
    }
}

impl From<BudgetsNamed> for Vec<BudgetLabel> {
    fn from(named: BudgetsNamed) -> Self {
        named.0
    }
}

spelled_enum! {
    /// How long a budget's period is.
    PeriodUnit, "a period" {
        /// A day.
        Day "day",
        /// A week.
        Week "week",
        /// A month.
        Month "month",
    }
}

/// When a budget's periods end. The calendar is resolved to instants when the budget is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetPeriod {
    /// How long one is.
    pub every: PeriodUnit,
    /// The IANA name of the time zone whose calendar it is.
    pub time_zone: String,
    /// A local time at which one begins, as `2026-03-01T00:00:00`, without an offset: the zone says it. At
    /// midnight, and on Mondays or on the first of the month, if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub anchor: Option<String>,
}

/// Makes a budget, or changes its limit and its periods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetRequest {
    /// The most that may be held and used in a period.
    pub limit: Amount,
    /// The budget above it. It keeps the one that it was made with.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub parent: Option<BudgetLabel>,
    /// When its periods end; never if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub period: Option<BudgetPeriod>,
    /// Why, for whoever reads the history.
    pub reason: Reason,
}

/// Removes a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveBudgetRequest {
    /// Why, for whoever reads the history.
    pub reason: Reason,
}

/// A budget that a hold or charge was made under, and the period in which that was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldBudget {
    /// The budget.
    pub budget: BudgetLabel,
    /// The period's first instant; left out for a budget without periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<Moment>,
    /// The first instant after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub until: Option<Moment>,
}

/// A budget, without what it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Budget {
    /// Its name.
    pub budget: BudgetLabel,
    /// The budget above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub parent: Option<BudgetLabel>,
    /// The most that may be held and used in a period.
    pub limit: Amount,
    /// When its periods end; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub period: Option<BudgetPeriod>,
    /// When it was made.
    pub created_at: Moment,
    /// The entry that last changed it.
    pub sequence: SequenceNumber,
}

/// What a budget comes to in one period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetUse {
    /// The period's first instant; left out for a budget without periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<Moment>,
    /// The first instant after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub until: Option<Moment>,
    /// What holds have set aside.
    pub held: Amount,
    /// What was taken and not given back.
    pub used: Amount,
}

/// A budget and what it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetDetail {
    /// The budget.
    #[serde(flatten)]
    pub budget: Budget,
    /// The present period.
    #[serde(flatten)]
    pub present: BudgetUse,
    /// What is left of it in the present period.
    pub remaining: Amount,
    /// Earlier periods in which something was begun, the latest at first: at most 13.
    pub past: Vec<BudgetUse>,
}

/// Asks for budgets, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BudgetsQuery {
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

impl BudgetsQuery {
    /// What the list's cursors are bound to.
    pub fn scope(&self, tenant: &TenantId) -> CursorScope {
        CursorScope::new(paths::ADMIN_BUDGETS).of_account(tenant, &self.unit.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_at_most_eight_budgets_each_once() {
        let read = |text: &str| serde_json::from_str::<BudgetsNamed>(text);
        assert!(read("[]").unwrap().is_empty());
        assert_eq!(read(r#"["key:a","team:b"]"#).unwrap().names().len(), 2);
        assert!(read(r#"["a","b","a"]"#).is_err());
        assert!(read(r#"["1","2","3","4","5","6","7","8"]"#).is_ok());
        assert!(read(r#"["1","2","3","4","5","6","7","8","9"]"#).is_err());
        assert!(read(r#"["a b"]"#).is_err());
        assert!(read(r#"[null]"#).is_err());
    }

    #[test]
    fn a_budget_is_read_strictly() {
        let read = |text: &str| serde_json::from_str::<BudgetRequest>(text);
        assert!(read(r#"{"limit":"0","reason":"new team"}"#).is_ok());
        let every = r#"{"limit":5,"reason":"new team","period":{"every":"day","time_zone":"UTC"}}"#;
        assert!(read(every).is_ok());
        for odd in [
            r#"{"limit":5}"#,
            r#"{"limit":5.5,"reason":"new team"}"#,
            r#"{"limit":5,"reason":"new team","parent":null}"#,
            r#"{"limit":5,"reason":"new team","period":{"every":"year","time_zone":"UTC"}}"#,
            r#"{"limit":5,"reason":"new team","period":{"every":"day"}}"#,
        ] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
