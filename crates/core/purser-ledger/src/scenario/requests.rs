//! Lines that ask an account to change.

use std::collections::BTreeMap;

use purser_types::{Credits, IdempotencyKey, LogTime, Region, Sequence, TenantId, Unit};

use super::line_error::LineError;
use super::moment::{parse_instant, parse_span};
use super::names::Names;
use super::words::{Words, call_amount};
use crate::account::Account;
use crate::command::{
    AccountName, Adjust, Authorize, Capture, Category, Charge, Close, Confirm, Context, Extend,
    Grant, IfExpired, Item, Metadata, Open, Operation, Reclaim, Refund, Release, Target, Void,
};
use crate::ledger::Ledger;
use crate::policy::{Policy, PolicyChange, RefundExpired};

/// What a line asks for.
#[derive(Debug)]
pub(super) struct Request {
    /// Of this account.
    pub(super) account: AccountName,
    /// This.
    pub(super) item: Item,
    /// What the transcript calls the lot, hold or charge that comes of it.
    pub(super) name: Option<String>,
}

/// What a line is read against.
pub(super) struct Reader<'a> {
    pub(super) names: &'a Names,
    /// The account of the command before.
    pub(super) account_before: Option<&'a AccountName>,
    pub(super) ledger: &'a Ledger,
    pub(super) line: usize,
}

/// An account and what it is asked to do.
type Asked = (AccountName, Operation);

impl Reader<'_> {
    /// Reads the words after the verb.
    pub(super) fn request(&self, verb: &str, mut words: Words<'_>) -> Result<Request, LineError> {
        let context = self.context(&mut words)?;
        let name = ["lot", "hold", "charge"].into_iter().find_map(|kind| words.named(kind));
        let (account, operation) = self.operation(verb, &mut words)?;
        words.end()?;
        let item = Item { context, operation };
        Ok(Request { account, item, name: name.map(str::to_owned) })
    }

    fn operation(&self, verb: &str, words: &mut Words<'_>) -> Result<Asked, LineError> {
        match verb {
            "open" => self.open(words),
            "grant" => grant(words),
            "authorize" => authorize(words),
            "capture" => self.capture(words),
            "release" => self.release(words),
            "extend" => self.extend(words),
            "charge" => charge(words),
            "refund" => self.refund(words),
            "reclaim" => self.reclaim(words),
            "void" => self.void(words),
            "adjust" => adjust(words),
            "policy" => Self::policy(words),
            "freeze" => Ok((account(words)?, Operation::Freeze)),
            "unfreeze" => Ok((account(words)?, Operation::Unfreeze)),
            "close" => self.close(words),
            unknown => Err(LineError::UnknownCommand(unknown.to_owned())),
        }
    }

    /// Who asks, and why. Each request has a key of its own if the transcript names none.
    fn context(&self, words: &mut Words<'_>) -> Result<Context, LineError> {
        let own_key = format!("line {}", self.line);
        let key = IdempotencyKey::parse(words.named("key").unwrap_or(&own_key))?;
        let metadata = words.named_with("meta.");
        let metadata = metadata.into_iter().map(|(key, value)| (key.into(), value.into()));
        Ok(Context {
            key: Some(key),
            actor: words.named("actor").map(Into::into),
            reason: words.named("reason").map(Into::into),
            request_id: None,
            metadata: Metadata::from_pairs(metadata.collect::<BTreeMap<_, _>>())?,
        })
    }

    fn open(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let account = account(words)?;
        let home = Region::parse(words.named("home").unwrap_or("here"))?;
        let policy = Policy::default().changed(&policy_change(words)?);
        Ok((account, Operation::Open(Open { home, policy })))
    }

    fn capture(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (account, target) = self.target(words)?;
        let allow_debt = words.flag("allow_debt");
        let amount = words.plain_or_none().map(Credits::parse).transpose()?;
        let is_final = match words.named("final") {
            None | Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(LineError::Choice { what: "final", allowed: "true or false" }),
        };
        let if_expired = match words.named("if_expired") {
            None | Some("refuse") => IfExpired::Refuse,
            Some("charge") => IfExpired::Charge,
            Some(_) => {
                return Err(LineError::Choice { what: "if_expired", allowed: "refuse or charge" });
            }
        };
        let hold = target.number();
        let capture = Capture { hold, amount, is_final, allow_debt, if_expired };
        Ok((account, Operation::Capture(capture)))
    }

    fn release(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (account, target) = self.target(words)?;
        Ok((account, Operation::Release(Release { hold: target.number() })))
    }

    fn extend(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (account, target) = self.target(words)?;
        let until = words.named("until").ok_or(LineError::Missing("until"))?;
        let extend = Extend { hold: target.number(), until: parse_instant(until)? };
        Ok((account, Operation::Extend(extend)))
    }

    fn refund(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (account, target) = self.target(words)?;
        let amount = words.plain_or_none().map(call_amount).transpose()?;
        Ok((account, Operation::Refund(Refund { target, amount })))
    }

    fn reclaim(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (account, target) = self.target(words)?;
        Ok((account, Operation::Reclaim(Reclaim { target })))
    }

    fn void(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (account, lot) = self.names.lot(words.plain("lot")?, self.account_before)?;
        let confirm = self.confirm(&account, words)?;
        Ok((account, Operation::Void(Void { lot, confirm })))
    }

    fn close(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let account = account(words)?;
        let confirm = self.confirm(&account, words)?;
        Ok((account, Operation::Close(Close { confirm })))
    }

    fn policy(words: &mut Words<'_>) -> Result<Asked, LineError> {
        Ok((account(words)?, Operation::SetPolicy(policy_change(words)?)))
    }

    fn target(&self, words: &mut Words<'_>) -> Result<(AccountName, Target), LineError> {
        self.names.target(words.plain("hold or charge")?, self.account_before)
    }

    /// The sequence that the line confirms; the account's last one if it says none.
    fn confirm(&self, name: &AccountName, words: &mut Words<'_>) -> Result<Confirm, LineError> {
        let last = || self.account(name).map_or(Sequence::ZERO, |account| account.head().sequence);
        match words.named("confirm").map(str::parse) {
            None => Ok(Confirm(last())),
            Some(Ok(sequence)) => Ok(Confirm(Sequence(sequence))),
            Some(Err(_)) => Err(LineError::Choice { what: "confirm", allowed: "a sequence" }),
        }
    }

    fn account(&self, name: &AccountName) -> Option<&Account> {
        self.ledger.account(name).map(|account| &**account)
    }
}

/// The account that a line names first.
pub(super) fn account(words: &mut Words<'_>) -> Result<AccountName, LineError> {
    let word = words.plain("account")?;
    let (tenant, unit) = match word.split_once('/') {
        Some((tenant, unit)) => (tenant, Unit::parse(unit)?),
        None => (word, Unit::credits()),
    };
    Ok(AccountName { tenant: TenantId::parse(tenant)?, unit })
}

fn amount(words: &mut Words<'_>) -> Result<Credits, LineError> {
    call_amount(words.plain("amount")?)
}

fn grant(words: &mut Words<'_>) -> Result<Asked, LineError> {
    let account = account(words)?;
    let amount = amount(words)?;
    let category = match words.named("category") {
        None | Some("paid") => Category::Paid,
        Some("promotional") => Category::Promotional,
        Some(_) => {
            return Err(LineError::Choice { what: "category", allowed: "paid or promotional" });
        }
    };
    let priority = match words.named("priority").map(str::parse) {
        None => Grant::PRIORITY_DEFAULT,
        Some(Ok(priority)) => priority,
        Some(Err(_)) => return Err(LineError::Choice { what: "priority", allowed: "0 to 255" }),
    };
    let grant = Grant {
        amount,
        category,
        priority,
        effective_at: instant(words, "start")?,
        expires_at: instant(words, "exp")?,
        source_ref: words.named("source").map(Into::into),
    };
    Ok((account, Operation::Grant(grant)))
}

fn instant(words: &mut Words<'_>, name: &str) -> Result<Option<LogTime>, LineError> {
    Ok(words.named(name).map(parse_instant).transpose()?)
}

fn authorize(words: &mut Words<'_>) -> Result<Asked, LineError> {
    let account = account(words)?;
    let amount = amount(words)?;
    let ttl = words.named("ttl").map(parse_span).transpose()?.unwrap_or(Authorize::TTL_DEFAULT);
    if ttl < Authorize::TTL_MIN || Authorize::TTL_MAX < ttl {
        return Err(LineError::Choice { what: "ttl", allowed: "1s to 7d" });
    }
    let reference = words.named("reference").map(Into::into);
    Ok((account, Operation::Authorize(Authorize { amount, ttl, reference })))
}

fn charge(words: &mut Words<'_>) -> Result<Asked, LineError> {
    let account = account(words)?;
    let allow_debt = words.flag("allow_debt");
    let amount = amount(words)?;
    let reference = words.named("reference").map(Into::into);
    Ok((account, Operation::Charge(Charge { amount, allow_debt, reference })))
}

fn adjust(words: &mut Words<'_>) -> Result<Asked, LineError> {
    let account = account(words)?;
    let change = words.plain("amount")?;
    let adjust = if let Some(added) = change.strip_prefix('+') {
        Adjust::Add { amount: call_amount(added)? }
    } else if let Some(removed) = change.strip_prefix('-') {
        Adjust::Remove { amount: call_amount(removed)? }
    } else {
        return Err(LineError::Choice { what: "adjust", allowed: "+ or - and an amount" });
    };
    Ok((account, Operation::Adjust(adjust)))
}

fn policy_change(words: &mut Words<'_>) -> Result<PolicyChange, LineError> {
    let mut policy = PolicyChange::default();
    if let Some(limit) = words.named("debt_limit") {
        policy.debt_limit = Some(Credits::parse(limit)?);
    }
    if let Some(choice) = words.named("refund_expired") {
        policy.refund_expired = Some(refund_expired(choice)?);
    }
    if let Some(span) = words.named("key_retention") {
        policy.key_retention = Some(parse_span(span)?);
    }
    if let Some(span) = words.named("record_retention") {
        policy.record_retention = Some(parse_span(span)?);
    }
    Ok(policy)
}

fn refund_expired(choice: &str) -> Result<RefundExpired, LineError> {
    let days = choice.strip_prefix("regrant:").and_then(|days| days.strip_suffix('d'));
    match (choice, days.map(str::parse)) {
        ("lapse", _) => Ok(RefundExpired::Lapse),
        (_, Some(Ok(days))) => Ok(RefundExpired::Regrant { days }),
        (_, Some(Err(_)) | None) => {
            Err(LineError::Choice { what: "refund_expired", allowed: "lapse or regrant:7d" })
        }
    }
}
