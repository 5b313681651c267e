//! Books that a seed makes up: what clients and operators ask, in several accounts.

use std::ops::Bound;

use fastrand::Rng;
use purser_ledger::{
    Adjust, Category, Confirm, Extend, HoldNumber, LotNumber, Operation, Policy, PolicyChange,
    Reclaim, Refund, RefundExpired, Target, Void,
};
use purser_types::{Sequence, Span};

use super::books::{Books, authorize, capture, charge, credits, grant, release};

const TENANTS: [&str; 4] = ["acme", "Bolt", "acme-2", "zeta"];

/// Books after `steps` calls. Keys are few and soon forgotten, so they come again in every way.
pub(crate) fn books(seed: u64, steps: u32) -> Books {
    let mut rng = Rng::with_seed(seed);
    let mut books = Books::default();
    for tenant in TENANTS {
        let refund_expired =
            if rng.bool() { RefundExpired::Lapse } else { RefundExpired::Regrant { days: 1 } };
        let policy = Policy {
            debt_limit: credits(rng.u64(0..40)),
            refund_expired,
            key_retention: Span::from_secs(30),
            ..Policy::default()
        };
        books.open(tenant, policy);
    }
    for _ in 0..steps {
        if rng.u8(0..4) == 0 {
            books.now = books.now.saturating_add(Span::from_micros(rng.u64(1..20_000_000)));
        }
        if rng.u8(0..40) == 0 {
            books.sweep();
        }
        let tenant = TENANTS[rng.usize(0..TENANTS.len())];
        let operation = operation(&mut rng, &books, tenant);
        let key = format!("key {}", rng.u8(0..60));
        books.ask(tenant, operation, Some(&key));
    }
    books
}

fn operation(rng: &mut Rng, books: &Books, tenant: &str) -> Operation {
    let amount = rng.u64(1..60);
    let account = books.account(tenant);
    let head = account.head().sequence;
    let lots: Vec<LotNumber> = account.lots_from(Bound::Unbounded).map(|(lot, _)| *lot).collect();
    let holds: Vec<u64> =
        account.holds_from(Bound::Unbounded).map(|hold| hold.number.0.0).collect();
    let hold = rng.choice(holds).unwrap_or(1);
    // Ended holds and charges are somewhere among the entries.
    let ended = HoldNumber(Sequence(rng.u64(1..=head.0)));
    let target = if rng.bool() { Target::Hold(ended) } else { Target::Charge(ended) };
    match rng.u8(0..100) {
        0..15 => Operation::Grant(random_grant(rng, books)),
        15..35 => authorize(amount, rng.u64(1..120)),
        35..50 => capture(hold, amount, rng.bool()),
        50..57 => release(hold),
        57..60 => Operation::Extend(Extend {
            hold: HoldNumber(Sequence(hold)),
            until: books.now.saturating_add(Span::from_secs(rng.u64(1..300))),
            away: None,
        }),
        60..70 => charge(amount),
        70..82 => {
            let amount = rng.bool().then(|| credits(amount));
            Operation::Refund(Refund { target, amount, away: None })
        }
        82..87 => Operation::Reclaim(Reclaim { target, away: None }),
        87..90 => Operation::Void(Void {
            lot: rng.choice(lots).unwrap_or(LotNumber(Sequence(1))),
            confirm: Confirm(head),
        }),
        90..93 => Operation::Adjust(Adjust::Add { amount: credits(amount) }),
        93..96 => Operation::Adjust(Adjust::Remove { amount: credits(amount) }),
        96..98 => Operation::Freeze,
        98 => Operation::Unfreeze,
        _ => Operation::SetPolicy(PolicyChange {
            key_retention: Some(Span::from_secs(rng.u64(5..60))),
            ..PolicyChange::default()
        }),
    }
}

fn random_grant(rng: &mut Rng, books: &Books) -> purser_ledger::Grant {
    let later = |rng: &mut Rng| books.now.saturating_add(Span::from_secs(rng.u64(1..200)));
    let mut grant = grant(rng.u64(1..200));
    grant.priority = rng.u8(99..=101);
    if rng.bool() {
        grant.category = Category::Promotional;
    }
    if rng.u8(0..4) == 0 {
        grant.effective_at = Some(later(rng));
    }
    if rng.bool() {
        grant.expires_at = Some(later(rng).saturating_add(Span::from_secs(200)));
    }
    if rng.bool() {
        grant.source_ref = Some(format!("payment {}", rng.u8(0..100)).into());
    }
    grant
}
