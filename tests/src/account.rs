//! One tenant's account as seen through one node, and its balance in the shorthand of ledgers.
//!
//! Keys that a test does not name are made here, one for each call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::http::{Api, Reply};

/// An account in the default unit.
#[derive(Debug, Clone)]
pub struct Account {
    /// Through which node it is seen.
    pub api: Api,
    /// Whose it is.
    pub tenant: String,
}

/// Where an account's credits are.
///
/// Printed and compared as `G=100 A=70 H=30`: granted, available, held, used, expired, voided,
/// debt; what is zero is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// All that was ever granted.
    pub granted: u64,
    /// What can be spent.
    pub available: u64,
    /// Set aside in holds.
    pub held: u64,
    /// Captured and not refunded.
    pub used: u64,
    /// Lost by expiry.
    pub expired: u64,
    /// Taken back by an operator.
    pub voided: u64,
    /// Owed.
    pub debt: u64,
}

/// A key that no other call of this test has.
pub fn fresh_key() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("fresh-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Account {
    /// Opens a tenant's account and grants credits, unless there are none to grant.
    pub async fn open(api: &Api, tenant: &str, credits: u64) -> Self {
        let account = Self { api: api.clone(), tenant: tenant.to_owned() };
        let opened = json!({ "tenant": tenant });
        api.post("/admin/v1/tenants", &fresh_key(), &opened).await.check(201);
        if credits > 0 {
            account.grant(credits).await;
        }
        account
    }

    /// The same account seen through another node, or by another token.
    #[must_use]
    pub fn through(&self, api: &Api) -> Self {
        Self { api: api.clone(), tenant: self.tenant.clone() }
    }

    /// A path of the data plane below this tenant.
    pub fn path(&self, rest: &str) -> String {
        format!("/v1/tenants/{}/{rest}", self.tenant)
    }

    /// A path of the administration below this tenant.
    pub fn admin_path(&self, rest: &str) -> String {
        format!("/admin/v1/tenants/{}/{rest}", self.tenant)
    }

    /// Reads below the tenant.
    pub async fn get(&self, rest: &str) -> Reply {
        self.api.get(&self.path(rest)).await
    }

    /// Changes something below the tenant, under a key.
    pub async fn post(&self, rest: &str, key: &str, body: Value) -> Reply {
        self.api.post(&self.path(rest), key, &body).await
    }

    /// An admin act below the tenant, under a key.
    pub async fn admin(&self, rest: &str, key: &str, body: Value) -> Reply {
        self.api.post(&self.admin_path(rest), key, &body).await
    }

    /// Grants credits that never expire. Returns the lot's id.
    pub async fn grant(&self, credits: u64) -> String {
        let body = json!({ "amount": credits.to_string() });
        let granted = self.admin("grants", &fresh_key(), body).await;
        let lot = granted.check(201).body["lot"]["lot_id"].as_str();
        lot.expect("a grant names its lot").to_owned()
    }

    /// Authorizes with a key of its own.
    pub async fn authorize(&self, amount: u64) -> Reply {
        self.post("holds", &fresh_key(), json!({ "amount": amount })).await
    }

    /// Opens a hold that has to be allowed. Returns its id.
    pub async fn hold(&self, amount: u64) -> String {
        self.authorize(amount).await.check(201).text("hold_id")
    }

    /// Captures a part of a hold and ends it.
    pub async fn capture(&self, hold: &str, amount: u64) -> Reply {
        let body = json!({ "amount": amount });
        self.post(&format!("holds/{hold}/capture"), &fresh_key(), body).await
    }

    /// Opens a hold and captures all of it. Returns its id.
    pub async fn captured_hold(&self, amount: u64) -> String {
        let hold = self.hold(amount).await;
        self.capture(&hold, amount).await.check(200);
        hold
    }

    /// The balance, read strictly.
    pub async fn figures(&self) -> Figures {
        Figures::of(&self.get("balance").await.check(200).body)
    }

    /// Fails unless the balance is `expected`, such as `G=100 A=70 H=30`.
    pub async fn check_balance(&self, expected: &str) {
        let figures = self.figures().await;
        assert_eq!(figures.to_string(), expected, "the balance of {}", self.tenant);
    }

    /// All entries, oldest first, over as many pages as it takes.
    pub async fn entries(&self) -> Vec<Value> {
        let mut entries = self.all_pages("entries?limit=1000").await;
        entries.reverse();
        entries
    }

    /// The items of all pages of a list. `rest` has a query already.
    pub async fn all_pages(&self, rest: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut page = self.get(rest).await;
        loop {
            page.check(200);
            items.extend(page.body["items"].as_array().expect("a list has items").iter().cloned());
            let Some(cursor) = page.body["next_cursor"].as_str() else { break };
            page = self.get(&format!("{rest}&cursor={cursor}")).await;
        }
        assert_eq!(page.body["has_more"], false, "the last page says so");
        items
    }
}

impl Figures {
    /// Reads a balance, and fails if it does not add up.
    #[track_caller]
    pub fn of(balance: &Value) -> Self {
        let field = |name: &str| number(&balance[name]);
        let figures = Self {
            granted: field("granted"),
            available: field("available"),
            held: field("held"),
            used: field("used"),
            expired: field("expired"),
            voided: field("voided"),
            debt: field("debt"),
        };
        let Self { granted, available, held, used, expired, voided, debt } = figures;
        let allocated = balance["allocated"].as_object().map(|regions| regions.values());
        let allocated: u64 = allocated.into_iter().flatten().map(number).sum();
        let there = available + held + used + expired + voided + allocated;
        assert_eq!(granted + debt, there, "the balance does not add up: {balance:#}");
        figures
    }

    /// Adds the postings of entries up, knowing nothing of what they mean.
    pub fn sum_of(entries: &[Value]) -> Self {
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        for entry in entries {
            let mut sum = 0;
            for posting in entry["postings"].as_array().expect("an entry has postings") {
                let amount = signed(&posting["amount"]);
                sum += amount;
                *sums.entry(posting["bucket"].as_str().expect("a bucket")).or_default() += amount;
            }
            assert_eq!(sum, 0, "the postings of an entry sum to zero: {entry:#}");
        }
        // The two sources go down as credits and debts come in.
        let bucket = |name: &str| sums.get(name).copied().unwrap_or_default();
        let place = |name: &str| u64::try_from(bucket(name)).expect("no bucket is negative");
        let source = |name: &str| u64::try_from(-bucket(name)).expect("a source is not positive");
        Self {
            granted: source("granted"),
            available: place("available"),
            held: place("held"),
            used: place("used"),
            expired: place("expired"),
            voided: place("voided"),
            debt: source("debt"),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { granted, available, held, used, expired, voided, debt } = self;
        let letters = [
            ("G", granted),
            ("A", available),
            ("H", held),
            ("U", used),
            ("X", expired),
            ("V", voided),
            ("D", debt),
        ];
        let shown: Vec<String> = letters
            .iter()
            .filter(|(_, figure)| **figure != 0)
            .map(|(letter, figure)| format!("{letter}={figure}"))
            .collect();
        formatter.write_str(&shown.join(" "))
    }
}

/// An amount or a sequence of an answer: a string of digits, and nothing else.
#[track_caller]
pub fn number(value: &Value) -> u64 {
    let number = value.as_str().and_then(|digits| digits.parse().ok());
    assert!(number.is_some(), "not a string of digits: {value}");
    number.unwrap_or_default()
}

/// A signed amount of an answer.
#[track_caller]
fn signed(value: &Value) -> i64 {
    let number = value.as_str().and_then(|digits| digits.parse().ok());
    assert!(number.is_some(), "not a signed string of digits: {value}");
    number.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_print_what_is_not_zero() {
        let figures = Figures { granted: 100, available: 70, held: 30, ..Figures::default() };
        assert_eq!(figures.to_string(), "G=100 A=70 H=30");
    }

    #[test]
    fn postings_add_up_to_figures() {
        let entry = |postings: Value| json!({ "postings": postings });
        let granted = entry(json!([
            { "bucket": "granted", "amount": "-100" }, { "bucket": "available", "amount": "100" },
        ]));
        let held = entry(json!([
            { "bucket": "available", "amount": "-30" }, { "bucket": "held", "amount": "30" },
        ]));
        assert_eq!(Figures::sum_of(&[granted, held]).to_string(), "G=100 A=70 H=30");
    }
}
