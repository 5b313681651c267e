//! The commands that a ledger is filled with.

use purser_ledger::{
    AccountName, Answer, Authorize, Capture, Category, Command, Context, Grant, HoldNumber,
    IfExpired, Item, Open, Operation, Policy, Rejection,
};
use purser_types::{Credits, IdempotencyKey, Region, Sequence, TenantId, Unit};

/// What each hold takes.
const COST: Credits = amount(5);
/// What each account gets: enough for 10^14 holds.
const FUNDS: Credits = amount(1_000_000_000_000_000);

const fn amount(amount: u64) -> Credits {
    match Credits::from_u64(amount) {
        Ok(amount) => amount,
        Err(_) => Credits::ZERO,
    }
}

/// An operation was not accepted, or answered with something else than its entry.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAccepted {
    /// It was refused.
    #[error("an operation was refused")]
    Refused(#[source] Rejection),
    /// There is no outcome.
    #[error("an operation has no outcome")]
    NoOutcome,
}

/// The account with a number, from 0.
pub(super) fn account(number: u32) -> AccountName {
    let tenant = TenantId::parse(&format!("bench-{number}"));
    let tenant = tenant.expect("letters, a dash and digits are a tenant's name");
    AccountName { tenant, unit: Unit::credits() }
}

/// Opens an account.
pub(super) fn open(account: &AccountName) -> Command {
    let home = Region::parse("bench").expect("letters are a region's name");
    command(account, None, Operation::Open(Open { home, policy: Policy::default(), epoch: None }))
}

/// Funds an account with one lot that never ends.
pub(super) fn grant(account: &AccountName) -> Command {
    let grant = Grant {
        amount: FUNDS,
        category: Category::Paid,
        priority: Grant::PRIORITY_DEFAULT,
        effective_at: None,
        expires_at: None,
        source_ref: None,
    };
    command(account, None, Operation::Grant(grant))
}

/// Opens a hold that lives as long as it may.
pub(super) fn authorize(account: &AccountName, key: Option<&str>) -> Command {
    let asked = Authorize {
        amount: COST,
        ttl: Authorize::TTL_MAX,
        reference: None,
        budgets: Box::default(),
    };
    command(account, key, Operation::Authorize(asked))
}

/// Takes all of a hold.
pub(super) fn capture(account: &AccountName, hold: Sequence, key: Option<&str>) -> Command {
    let asked = Capture {
        hold: HoldNumber(hold),
        amount: None,
        is_final: true,
        allow_debt: false,
        if_expired: IfExpired::Refuse,
        away: None,
    };
    command(account, key, Operation::Capture(asked))
}

fn command(account: &AccountName, key: Option<&str>, operation: Operation) -> Command {
    let key = key.map(|key| IdempotencyKey::parse(key).expect("keys here are letters and digits"));
    let context = Context { key, ..Context::default() };
    Command::at_home(account.clone(), vec![Item::new(context, operation)])
}

/// The sequence of the entry that a command made.
pub(super) fn sequence_of(answer: Answer) -> Result<Sequence, NotAccepted> {
    let Answer::Account(outcomes) = answer else { return Err(NotAccepted::NoOutcome) };
    let outcome = outcomes.into_iter().next().ok_or(NotAccepted::NoOutcome)?;
    let receipt = outcome.result.map_err(NotAccepted::Refused)?;
    Ok(receipt.entry.sequence)
}
