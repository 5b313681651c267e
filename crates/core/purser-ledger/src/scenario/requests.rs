//! Lines that ask an account to change.

use std::collections::BTreeMap;

use purser_types::{
    Credits, Generation, IdempotencyKey, LogTime, Owner, Region, Sequence, TenantId, Unit,
};

use super::allocating;
use super::events;
use super::group::Group;
use super::line_error::LineError;
use super::moment::{parse_instant, parse_span};
use super::names::{Book, Names, Place};
use super::words::{Words, call_amount, number};
use super::{budgets, jobs};
use crate::command::{
    AccountName, Adjust, Authorize, Capture, Category, Charge, Close, Confirm, Context, Extend,
    Grant, HoldNumber, IfExpired, Item, Metadata, Open, Operation, Reclaim, Refund, Release,
    Shortage, Target, Void,
};
use crate::policy::{Policy, PolicyChange, RefundExpired};
use crate::rejection::Rejection;

/// What a line asks for.
#[derive(Debug)]
pub(super) struct Request {
    /// Of this book.
    pub(super) book: Book,
    /// This.
    pub(super) item: Item,
    /// What the transcript calls the lot, hold or charge that comes of it.
    pub(super) name: Option<String>,
    /// Who has the lease of a job that comes of it.
    pub(super) worker: Option<String>,
}

/// What a line is read against.
pub(super) struct Reader<'a> {
    pub(super) place: Place,
    pub(super) names: &'a Names,
    /// The book of the command before.
    pub(super) book_before: Option<&'a Book>,
    pub(super) group: &'a Group,
    pub(super) line: usize,
}

/// A book and what it is asked to do.
type Asked = (Book, Operation);

/// Reads what follows the account.
pub(super) type Read = fn(&Reader<'_>, &Book, &mut Words<'_>) -> Result<Operation, LineError>;

impl Reader<'_> {
    /// Reads the words after the verb.
    pub(super) fn request(&self, verb: &str, mut words: Words<'_>) -> Result<Request, LineError> {
        let context = self.context(&mut words)?;
        let worker = words.named("as").map(str::to_owned);
        let name = ["lot", "hold", "charge"].into_iter().find_map(|kind| words.named(kind));
        let shortage = shortage(&mut words)?;
        let (book, operation) = self.operation(verb, &mut words)?;
        words.end()?;
        let item = match events::in_region(&book, &operation, &context) {
            Some(item) => item,
            None => Item { shortage, ..Item::new(context, operation) },
        };
        Ok(Request { book, item, name: name.map(str::to_owned), worker })
    }

    fn operation(&self, verb: &str, words: &mut Words<'_>) -> Result<Asked, LineError> {
        match verb {
            "capture" => return self.capture(words),
            "release" => return self.release(words),
            "extend" => return self.extend(words),
            "refund" => return self.refund(words),
            "reclaim" => return self.reclaim(words),
            "void" => return self.void(words),
            _ => (),
        }
        let read: Read = match verb {
            "open" => |_, _, words| open(words),
            "grant" => |_, _, words| grant(words),
            "authorize" => |_, _, words| authorize(words),
            "charge" => |_, _, words| charge(words),
            "adjust" => |_, _, words| adjust(words),
            "policy" => |_, _, words| Ok(Operation::SetPolicy(policy_change(words)?)),
            "freeze" => |_, _, _| Ok(Operation::Freeze),
            "unfreeze" => |_, _, _| Ok(Operation::Unfreeze),
            "close" => |reader, book, words| reader.close(book, words),
            other => match budgets::reader(other) {
                Some(read) => read,
                None => jobs::reader(other)
                    .or_else(|_unknown| events::reader(other))
                    .or_else(|_unknown| allocating::reader(other))?,
            },
        };
        let book = book(self.place, self.group, words)?;
        let operation = read(self, &book, words)?;
        Ok((book, operation))
    }

    /// The allocation of a region that the line names: the newest that home knows, or that of the
    /// `generation=` that the line names.
    pub(super) fn owner(
        &self,
        account: &AccountName,
        words: &mut Words<'_>,
    ) -> Result<Owner, LineError> {
        let region = Region::parse(words.plain("region")?)?;
        let home = self.group.book(&Book::at_home(account.clone()));
        let home = home.and_then(|home| home.home_side().ok());
        let newest = home.and_then(|home| home.generations.get(&region).copied());
        Ok(Owner { region, generation: generation(words, newest)? })
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

    fn capture(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (book, target, away) = self.target(words)?;
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
        let capture = Capture { hold, amount, is_final, allow_debt, if_expired, away };
        Ok((book, Operation::Capture(capture)))
    }

    fn release(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (book, target, away) = self.target(words)?;
        Ok((book, Operation::Release(Release { hold: target.number(), away })))
    }

    fn extend(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (book, target, away) = self.target(words)?;
        let until = words.named("until").ok_or(LineError::Missing("until"))?;
        let extend = Extend { hold: target.number(), until: parse_instant(until)?, away };
        Ok((book, Operation::Extend(extend)))
    }

    fn refund(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (book, target, away) = self.target(words)?;
        let amount = words.plain_or_none().map(call_amount).transpose()?;
        Ok((book, Operation::Refund(Refund { target, amount, away })))
    }

    fn reclaim(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let (book, target, away) = self.target(words)?;
        Ok((book, Operation::Reclaim(Reclaim { target, away })))
    }

    fn void(&self, words: &mut Words<'_>) -> Result<Asked, LineError> {
        let word = words.plain("lot")?;
        let (book, lot) = self.names.lot(self.place, word, self.book_before)?;
        let confirm = self.confirm(&book, words)?;
        Ok((book, Operation::Void(Void { lot, confirm })))
    }

    fn close(&self, book: &Book, words: &mut Words<'_>) -> Result<Operation, LineError> {
        Ok(Operation::Close(Close { confirm: self.confirm(book, words)? }))
    }

    /// A hold or charge, or at home one of a region's, as `eu:h1`, whose allocation is closed.
    fn target(&self, words: &mut Words<'_>) -> Result<(Book, Target, Option<Owner>), LineError> {
        let word = words.plain("hold or charge")?;
        let (place, word) = match (self.place, word.split_once(':')) {
            (None, Some((region, name))) => (Some(Region::parse(region)?), name),
            (place, _) => (place, word),
        };
        let (book, target) = self.names.target(place, word, self.book_before)?;
        let away = book.owner.filter(|_| self.place.is_none());
        let book = if away.is_some() { Book::at_home(book.account) } else { book };
        Ok((book, target, away))
    }

    /// The hold that an event names, and whose it is; by its number if it is `#7`.
    pub(super) fn event_hold(&self, word: &str) -> Result<(HoldNumber, Option<Owner>), LineError> {
        if let Some(number) = word.strip_prefix('#').and_then(|number| number.parse().ok()) {
            return Ok((HoldNumber(Sequence(number)), None));
        }
        let (place, name) = match word.split_once(':') {
            Some((region, name)) => (Some(Region::parse(region)?), name),
            None => (self.place, word),
        };
        let (book, target) = self.names.target(place, name, self.book_before)?;
        Ok((target.number(), book.owner))
    }

    /// The sequence that the line confirms; the book's last one if it says none.
    pub(super) fn confirm(&self, book: &Book, words: &mut Words<'_>) -> Result<Confirm, LineError> {
        let last = || self.group.book(book).map_or(Sequence::ZERO, |book| book.head().sequence);
        match words.named("confirm").map(str::parse) {
            None => Ok(Confirm(last())),
            Some(Ok(sequence)) => Ok(Confirm(Sequence(sequence))),
            Some(Err(_)) => Err(LineError::Choice { what: "confirm", allowed: "a sequence" }),
        }
    }
}

/// The book of the account that a line names first: at home its own, and so in a group that was home;
/// in a region that of its newest allocation there, or of the `generation=` that the line names.
pub(super) fn book(place: Place, group: &Group, words: &mut Words<'_>) -> Result<Book, LineError> {
    let account = account(words)?;
    let Some(region) = place else { return Ok(Book::at_home(account)) };
    // A group that was home has a book of home.
    let was_home =
        group.ledger.account(&account).is_some() || group.ledger.away(&account).is_some();
    let newest = group.newest(&account).map(|owner| owner.generation);
    let newest = newest.or_else(|| was_home.then_some(Generation::HOME));
    let owner = Owner { region, generation: generation(words, newest)? };
    Ok(Book { account, owner: Some(owner) })
}

/// The generation that a line names; the newest if it names none, the first if there is none.
fn generation(words: &mut Words<'_>, newest: Option<Generation>) -> Result<Generation, LineError> {
    let named = number(words, "generation")?.map(Generation);
    Ok(named.or(newest).unwrap_or_else(|| Generation::HOME.next()))
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

/// What the leader has found out about credits that are out: `exhausted`, or `stranded=40:eu,us`.
fn shortage(words: &mut Words<'_>) -> Result<Option<Shortage>, LineError> {
    if words.flag("exhausted") {
        return Ok(Some(Shortage::Exhausted));
    }
    if let Some(available) = words.named("not_covered") {
        let (available, short_by) =
            available.split_once('/').ok_or(LineError::Missing("short_by"))?;
        let (available, short_by) = (Credits::parse(available)?, Credits::parse(short_by)?);
        let debt = Credits::ZERO;
        let refusal =
            Rejection::InsufficientCredits { available, short_by, debt, debt_limit: None };
        return Ok(Some(Shortage::NotCovered(Box::new(refusal))));
    }
    let Some(stranded) = words.named("stranded") else { return Ok(None) };
    let (amount, regions) = stranded.split_once(':').ok_or(LineError::Missing("regions"))?;
    let regions = regions.split(',').map(Region::parse).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Shortage::Stranded { amount: Credits::parse(amount)?, regions }))
}

fn amount(words: &mut Words<'_>) -> Result<Credits, LineError> {
    call_amount(words.plain("amount")?)
}

fn open(words: &mut Words<'_>) -> Result<Operation, LineError> {
    let home = Region::parse(words.named("home").unwrap_or("here"))?;
    let policy = Policy::default().changed(&policy_change(words)?);
    Ok(Operation::Open(Open { home, policy, epoch: None }))
}

fn grant(words: &mut Words<'_>) -> Result<Operation, LineError> {
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
    Ok(Operation::Grant(grant))
}

pub(super) fn instant(words: &mut Words<'_>, name: &str) -> Result<Option<LogTime>, LineError> {
    Ok(words.named(name).map(parse_instant).transpose()?)
}

fn authorize(words: &mut Words<'_>) -> Result<Operation, LineError> {
    let amount = amount(words)?;
    let ttl = words.named("ttl").map(parse_span).transpose()?.unwrap_or(Authorize::TTL_DEFAULT);
    if ttl < Authorize::TTL_MIN || Authorize::TTL_MAX < ttl {
        return Err(LineError::Choice { what: "ttl", allowed: "1s to 7d" });
    }
    let reference = words.named("reference").map(Into::into);
    Ok(Operation::Authorize(Authorize { amount, ttl, reference, budgets: budgets::named(words)? }))
}

fn charge(words: &mut Words<'_>) -> Result<Operation, LineError> {
    let allow_debt = words.flag("allow_debt");
    let amount = amount(words)?;
    let reference = words.named("reference").map(Into::into);
    Ok(Operation::Charge(Charge { amount, allow_debt, reference, budgets: budgets::named(words)? }))
}

fn adjust(words: &mut Words<'_>) -> Result<Operation, LineError> {
    let change = words.plain("amount")?;
    let adjust = if let Some(added) = change.strip_prefix('+') {
        Adjust::Add { amount: call_amount(added)? }
    } else if let Some(removed) = change.strip_prefix('-') {
        Adjust::Remove { amount: call_amount(removed)? }
    } else {
        return Err(LineError::Choice { what: "adjust", allowed: "+ or - and an amount" });
    };
    Ok(Operation::Adjust(adjust))
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
    if let Some(choice) = words.named("on_expiry") {
        policy.on_expiry = Some(allocating::expiry_choice(choice)?);
    }
    if let Some(cap) = words.named("takeback_cap") {
        policy.takeback_cap = Some(Credits::parse(cap)?);
    }
    if let Some(limit) = words.named("unacknowledged_max") {
        policy.unacknowledged_max = Some(Credits::parse(limit)?);
    }
    if let Some(span) = words.named("event_age") {
        policy.event_age = Some(parse_span(span)?);
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
