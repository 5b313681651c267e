//! Answers as people read them: facts line by line, lists as tables.
//!
//! Amounts are written as plain digits, so that they can be pasted into the next command. What has
//! no value is a dash.

use comfy_table::{CellAlignment, Table, presets};
use purser_api::{
    Balance, Buckets, BudgetLabel, Charge, Entry, Hold, Lot, LotShare, Moment, Policy,
    RefundExpired, SequenceNumber, Statement, Subject, Tenant,
};

/// What stands where there is no value.
const NONE: &str = "-";

/// Names and values, one pair a line.
#[derive(Debug, Default)]
pub(super) struct Facts(Vec<(&'static str, String)>);

impl Facts {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// One more line.
    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.0.push((name, value.to_string()));
        self
    }

    /// One more line if there is a value.
    #[must_use]
    pub(super) fn with_some(self, name: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// These lines, then those.
    #[must_use]
    pub(super) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Values stand one below the other.
    pub(super) fn text(&self) -> String {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let lines = self.0.iter().map(|(name, value)| format!("{name:width$}  {value}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Column {
    /// Text, which begins at the left.
    Text(&'static str),
    /// A number, which ends at the right.
    Number(&'static str),
}

/// Rows below a line of names.
pub(super) fn table(columns: &[Column], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|column| match column {
        Column::Text(name) | Column::Number(name) => *name,
    }));
    table.add_rows(rows);
    for (column, made) in columns.iter().zip(table.column_iter_mut()) {
        made.set_padding((0, 2));
        if matches!(column, Column::Number(_)) {
            made.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// A value, or a dash.
pub(super) fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

/// A time in seconds and tenths of one.
pub(super) fn seconds(millis: u64) -> String {
    const MILLIS_PER_SECOND: u64 = 1_000;
    const MILLIS_PER_TENTH: u64 = 100;
    let tenths = millis % MILLIS_PER_SECOND / MILLIS_PER_TENTH;
    format!("{}.{tenths} s", millis / MILLIS_PER_SECOND)
}

fn or_never(expires_at: Option<&Moment>) -> String {
    expires_at.map_or_else(|| "never".to_owned(), ToString::to_string)
}

/// Lots and how much of each, in their order.
pub(super) fn shares(shares: &[LotShare]) -> String {
    if shares.is_empty() {
        return NONE.to_owned();
    }
    let shares = shares.iter().map(|share| format!("{} of {}", share.amount, share.lot_id));
    shares.collect::<Vec<_>>().join(", ")
}

/// Budgets in their order; nothing if there are none.
pub(super) fn names<'a>(budgets: impl Iterator<Item = &'a BudgetLabel>) -> Option<String> {
    let names: Vec<String> = budgets.map(ToString::to_string).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// What a dry run says about itself; nothing if the act was done.
pub(super) fn dry_run(dry_run: bool, confirm: Option<&SequenceNumber>) -> Facts {
    let facts = Facts::new();
    let facts = if dry_run { facts.with("dry run", "nothing was changed") } else { facts };
    facts.with_some("to do it", confirm.map(|number| format!("--confirm {number}")))
}

/// Facts about a tenant's account.
pub(super) fn tenant(tenant: &Tenant) -> Facts {
    let facts = Facts::new()
        .with("tenant", &tenant.tenant)
        .with("unit", &tenant.unit)
        .with("status", tenant.status)
        .with("home", &tenant.home)
        .with("opened", &tenant.opened_at)
        .with("sequence", &tenant.sequence);
    policy(facts, &tenant.policy)
}

/// Adds a policy to facts.
pub(super) fn policy(facts: Facts, policy: &Policy) -> Facts {
    facts
        .with("debt limit", &policy.debt_limit)
        .with("refund expired", refund_expired(policy.refund_expired))
        .with("take-back cap", &policy.takeback_cap)
        .with("on expiry", policy.on_expiry)
        .with("unacknowledged max", &policy.unacknowledged_max)
        .with("event age, seconds", policy.event_age_seconds)
}

fn refund_expired(policy: RefundExpired) -> String {
    match policy {
        RefundExpired::Lapse => "lapse".to_owned(),
        RefundExpired::RegrantDays(days) => format!("regrant for {} days", days.0),
    }
}

/// A table of tenants.
pub(super) fn tenants(tenants: &[Tenant]) -> String {
    use Column::{Number, Text};
    let columns = [Text("TENANT"), Text("UNIT"), Text("STATUS"), Text("HOME"), Number("SEQUENCE")];
    table(
        &columns,
        tenants.iter().map(|tenant| {
            vec![
                tenant.tenant.to_string(),
                tenant.unit.to_string(),
                tenant.status.to_string(),
                tenant.home.to_string(),
                tenant.sequence.to_string(),
            ]
        }),
    )
}

/// Facts about a balance.
pub(super) fn balance(balance: &Balance) -> Facts {
    buckets(Facts::new(), &balance.buckets)
        .with("pending", &balance.pending)
        .with("as of", &balance.as_of.log_time)
        .with("sequence", &balance.as_of.sequence)
        .with("age", format_args!("{} ms", balance.age_ms))
}

/// Adds buckets to facts.
pub(super) fn buckets(facts: Facts, buckets: &Buckets) -> Facts {
    let facts = facts
        .with("available", &buckets.available)
        .with("held", &buckets.held)
        .with("used", &buckets.used)
        .with("expired", &buckets.expired)
        .with("voided", &buckets.voided)
        .with("debt", &buckets.debt)
        .with("granted", &buckets.granted);
    if buckets.allocated.is_empty() {
        return facts;
    }
    let allocated =
        buckets.allocated.iter().map(|(region, amount)| format!("{amount} in {region}"));
    facts.with("allocated", allocated.collect::<Vec<_>>().join(", "))
}

/// What a command that changed an account says about it at the end.
pub(super) fn available(facts: Facts, balance: &Balance) -> Facts {
    let buckets = &balance.buckets;
    let facts = facts.with("available", &buckets.available);
    if buckets.debt.0.is_zero() { facts } else { facts.with("debt", &buckets.debt) }
}

/// Facts about a hold.
pub(super) fn hold(hold: &Hold) -> Facts {
    Facts::new()
        .with("hold", &hold.hold_id)
        .with("status", hold.status)
        .with("amount", &hold.amount)
        .with("captured", &hold.captured_total)
        .with("still held", &hold.held_remaining)
        .with("refunded", &hold.refunded_total)
        .with("created", &hold.created_at)
        .with("expires", &hold.expires_at)
        .with("lots", shares(&hold.lots))
        .with_some("budgets", names(hold.budgets.iter().map(|it| &it.budget)))
        .with_some("reference", hold.reference.as_ref())
}

/// A table of holds.
pub(super) fn holds(holds: &[Hold]) -> String {
    use Column::{Number, Text};
    let columns = [
        Text("HOLD"),
        Text("STATUS"),
        Number("AMOUNT"),
        Number("CAPTURED"),
        Number("HELD"),
        Text("EXPIRES"),
        Text("REFERENCE"),
    ];
    table(
        &columns,
        holds.iter().map(|hold| {
            vec![
                hold.hold_id.to_string(),
                hold.status.to_string(),
                hold.amount.to_string(),
                hold.captured_total.to_string(),
                hold.held_remaining.to_string(),
                hold.expires_at.to_string(),
                or_none(hold.reference.as_ref()),
            ]
        }),
    )
}

/// Facts about a charge.
pub(super) fn charge(charge: &Charge) -> Facts {
    Facts::new()
        .with("charge", &charge.charge_id)
        .with("amount", &charge.amount)
        .with("refunded", &charge.refunded_total)
        .with("created", &charge.created_at)
        .with("lots", shares(&charge.lots))
        .with_some("budgets", names(charge.budgets.iter().map(|it| &it.budget)))
        .with_some("reference", charge.reference.as_ref())
}

/// Facts about what was refunded or reclaimed.
pub(super) fn subject(subject: &Subject) -> Facts {
    match subject {
        Subject::Hold(of_hold) => hold(of_hold),
        Subject::Charge(of_charge) => charge(of_charge),
    }
}

/// Facts about a lot.
pub(super) fn lot(lot: &Lot) -> Facts {
    Facts::new()
        .with("lot", &lot.lot_id)
        .with("status", lot.status)
        .with("category", lot.category)
        .with("priority", lot.priority)
        .with("amount", &lot.amount)
        .with("free", &lot.free)
        .with("held", &lot.held)
        .with("used", &lot.used)
        .with("effective", &lot.effective_at)
        .with("expires", or_never(lot.expires_at.as_ref()))
        .with_some("source", lot.source_ref.as_ref())
}

/// A table of lots.
pub(super) fn lots(lots: &[Lot]) -> String {
    use Column::{Number, Text};
    let columns = [
        Text("LOT"),
        Text("STATUS"),
        Text("CATEGORY"),
        Number("PRIORITY"),
        Number("AMOUNT"),
        Number("FREE"),
        Number("HELD"),
        Number("USED"),
        Text("EXPIRES"),
        Text("SOURCE"),
    ];
    table(
        &columns,
        lots.iter().map(|lot| {
            vec![
                lot.lot_id.to_string(),
                lot.status.to_string(),
                lot.category.to_string(),
                lot.priority.to_string(),
                lot.amount.to_string(),
                lot.free.to_string(),
                lot.held.to_string(),
                lot.used.to_string(),
                or_never(lot.expires_at.as_ref()),
                or_none(lot.source_ref.as_ref()),
            ]
        }),
    )
}

/// A table of entries.
pub(super) fn entries(entries: &[Entry]) -> String {
    use Column::{Number, Text};
    let columns = [
        Number("SEQUENCE"),
        Text("LOG TIME"),
        Text("KIND"),
        Text("POSTINGS"),
        Text("ABOUT"),
        Text("ACTOR"),
    ];
    table(
        &columns,
        entries.iter().map(|entry| {
            vec![
                entry.sequence.to_string(),
                entry.log_time.to_string(),
                entry.kind.to_string(),
                postings(entry),
                about(entry),
                entry.actor.clone(),
            ]
        }),
    )
}

/// An account's history between two instants.
pub(super) fn statement(statement: &Statement) -> String {
    let between = Facts::new()
        .with("tenant", &statement.tenant)
        .with("unit", &statement.unit)
        .with("from", &statement.from)
        .with("to", &statement.to)
        .with("entries", statement.entry_count);
    let sides = [("OPENING", &statement.opening), ("CLOSING", &statement.closing)];
    let sides = sides.map(|(name, side)| format!("{name}\n{}", buckets(Facts::new(), side).text()));
    let [opening, closing] = sides;
    let history = entries(&statement.items);
    [between.text(), opening, history, closing].join("\n\n")
}

fn postings(entry: &Entry) -> String {
    let postings = entry.postings.iter();
    let postings = postings.map(|posting| format!("{} {:+}", posting.bucket, posting.amount.get()));
    postings.collect::<Vec<_>>().join(", ")
}

/// What an entry is about: its hold, its charge or its lot.
fn about(entry: &Entry) -> String {
    let hold = entry.hold_id.as_ref().map(ToString::to_string);
    let charge = entry.charge_id.as_ref().map(ToString::to_string);
    let lot = entry.lot_id.as_ref().map(ToString::to_string);
    or_none(hold.or(charge).or(lot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_in_one_column() {
        let rows = [vec!["a".to_owned(), "5".to_owned()], vec!["bb".to_owned(), "1000".to_owned()]];
        let text = table(&[Column::Text("LOT"), Column::Number("FREE")], rows.into_iter());
        assert_eq!(text, "LOT  FREE\na       5\nbb   1000");
    }

    #[test]
    fn values_begin_in_one_column() {
        let text = Facts::new().with("hold", "h7-0-us").with("held", 5).with("used", 0).text();
        assert_eq!(text, "hold  h7-0-us\nheld  5\nused  0");
    }
}
