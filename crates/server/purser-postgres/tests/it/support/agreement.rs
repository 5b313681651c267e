//! What the tables and a live ledger must agree on, account by account and lot by lot.
//!
//! Read with statements of its own and compared with the live accounts, so it shares nothing with the
//! projector or with the verification.

use std::collections::BTreeMap;
use std::ops::Bound;

use purser_ledger::{Account, HoldState, Ledger, Lot, LotPhase};
use tokio_postgres::Client;

/// Amounts by their names.
type Figures = BTreeMap<&'static str, i64>;

const LOT_FIGURES: [&str; 8] =
    ["amount", "waiting", "free", "held", "used", "expired", "voided", "allocated"];

const BALANCE_FIGURES: [&str; 9] =
    ["sequence", "granted", "available", "held", "used", "expired", "voided", "debt", "pending"];

/// Checks that the tables have exactly the accounts whose home is here, with their balances, lots and
/// live holds, all entries up to their last, and an event for each.
pub(crate) async fn check_agrees(client: &Client, ledger: &Ledger) {
    let mut accounts = 0;
    for account in ledger.accounts_from(Bound::Unbounded) {
        accounts += 1;
        check_balance(client, account).await;
        check_lots(client, account).await;
        check_holds(client, account).await;
        check_entries(client, account).await;
    }
    let rows = client.query("SELECT FROM balances", &[]).await.unwrap();
    assert_eq!(rows.len(), accounts, "accounts in the tables");
}

async fn check_balance(client: &Client, account: &Account) {
    let figures = BALANCE_FIGURES.join(", ");
    let query = format!(
        "SELECT {figures}, hash, authorized::TEXT, captured::TEXT, released::TEXT, refunded::TEXT,
             reclaimed::TEXT, allocated::TEXT
         FROM balances WHERE tenant = $1 AND unit = $2"
    );
    let (tenant, unit) = (account.name().tenant.as_str(), account.name().unit.as_str());
    let row = client.query_one(&query, &[&tenant, &unit]).await.unwrap();
    let balance = account.balance();
    let live = [
        account.head().sequence.0,
        balance.granted.get(),
        balance.available.get(),
        balance.held.get(),
        balance.used.get(),
        balance.expired.get(),
        balance.voided.get(),
        balance.debt.get(),
        balance.pending.get(),
    ];
    for (name, live) in BALANCE_FIGURES.into_iter().zip(live) {
        assert_eq!(row.get::<_, i64>(name), i64::try_from(live).unwrap(), "{tenant}: {name}");
    }
    assert_eq!(row.get::<_, &[u8]>("hash"), account.head().hash, "{tenant}: hash");
    let out: u64 = balance.allocated.values().map(|out| out.get()).sum();
    let totals = [
        ("authorized", balance.authorized.to_string()),
        ("captured", balance.captured.to_string()),
        ("released", balance.released.to_string()),
        ("refunded", balance.refunded.to_string()),
        ("reclaimed", balance.reclaimed.to_string()),
        ("allocated", out.to_string()),
    ];
    for (name, live) in totals {
        assert_eq!(row.get::<_, &str>(name), live, "{tenant}: {name}");
    }
}

async fn check_lots(client: &Client, account: &Account) {
    let figures = LOT_FIGURES.join(", ");
    let query = format!(
        "SELECT number, phase, {figures} FROM lots WHERE tenant = $1 AND unit = $2 ORDER BY number"
    );
    let (tenant, unit) = (account.name().tenant.as_str(), account.name().unit.as_str());
    let rows = client.query(&query, &[&tenant, &unit]).await.unwrap();
    let found = rows.iter().map(|row| {
        let figures: Figures = LOT_FIGURES.map(|name| (name, row.get(name))).into();
        (row.get::<_, i64>("number"), (row.get::<_, String>("phase"), figures))
    });
    let live = account.lots_from(Bound::Unbounded).map(|(number, lot)| {
        (i64::try_from(number.0.0).unwrap(), (phase(lot).to_owned(), figures_of(lot)))
    });
    let (found, live): (BTreeMap<_, _>, BTreeMap<_, _>) = (found.collect(), live.collect());
    assert_eq!(found, live, "{tenant}: lots");
}

fn phase(lot: &Lot) -> &'static str {
    match lot.phase {
        LotPhase::Pending => "pending",
        LotPhase::Active => "active",
        LotPhase::Expired => "expired",
        LotPhase::Voided => "voided",
    }
}

fn figures_of(lot: &Lot) -> Figures {
    let parts = [
        lot.terms.amount,
        lot.waiting,
        lot.free,
        lot.held,
        lot.used,
        lot.expired,
        lot.voided,
        lot.allocated,
    ];
    let parts = parts.map(|part| i64::try_from(part.get()).unwrap());
    LOT_FIGURES.into_iter().zip(parts).collect()
}

async fn check_holds(client: &Client, account: &Account) {
    let query = "SELECT number, amount, captured, held FROM holds
         WHERE tenant = $1 AND unit = $2 AND allocation = 0 AND state = 'active' ORDER BY number";
    let (tenant, unit) = (account.name().tenant.as_str(), account.name().unit.as_str());
    let rows = client.query(query, &[&tenant, &unit]).await.unwrap();
    let found: Vec<[i64; 4]> =
        rows.iter().map(|row| [0, 1, 2, 3].map(|column| row.get(column))).collect();
    let live = account.holds_from(Bound::Unbounded).map(|hold| {
        assert_eq!(hold.state, HoldState::Active);
        let figures = [hold.number.0.0, hold.amount.get(), hold.captured.get(), hold.held.get()];
        figures.map(|figure| i64::try_from(figure).unwrap())
    });
    assert_eq!(found, live.collect::<Vec<_>>(), "{tenant}: live holds");
}

async fn check_entries(client: &Client, account: &Account) {
    let query = "SELECT count(*), count(outbox.sequence), max(sequence)
         FROM entries LEFT JOIN outbox USING (tenant, unit, sequence)
         WHERE tenant = $1 AND unit = $2";
    let (tenant, unit) = (account.name().tenant.as_str(), account.name().unit.as_str());
    let row = client.query_one(query, &[&tenant, &unit]).await.unwrap();
    let last = i64::try_from(account.head().sequence.0).unwrap();
    let counts = [0, 1, 2].map(|column| row.get::<_, i64>(column));
    assert_eq!(counts, [last; 3], "{tenant}: entries, events, last entry");
}
