//! The book's words as calls of the API, and the API's answers as what the book compares.

use bytes::Bytes;
use hyper::StatusCode;
use purser_api::{
    AuthorizeRequest, Buckets, CallAmount, CaptureAmount, CaptureAnswer, CaptureRequest,
    ChargeAnswer, ChargeRequest, Consistency, GrantAnswer, GrantRequest, HoldAnswer, IfExpired,
    InvalidText, LotCategory, OnExpiry, OpenTenantRequest, PolicyRequest, Problem, Reason,
    ReclaimAnswer, ReclaimRequest, RefundAnswer, RefundExpired, RefundRequest, RegionName,
    RegrantDays, ReleaseRequest, SequenceNumber, Subject, TenantAnswer, TenantName, TtlOutOfRange,
    TtlSeconds, VoidAnswer, VoidRequest, paths,
};
use purser_client::AnswerBody;
use purser_types::{Credits, CreditsError, Region, Span, TenantId};
use serde::Serialize;

use super::book::{Asked, Capturing, Figures, Granting, Opening};
use super::caller::{Call, Decided};

/// Why a refund is made; it stands in the ledger for whoever reads it.
const REFUND_REASON: &str = "replayed job failed";
/// Why a refund is taken back.
const RECLAIM_REASON: &str = "replayed job succeeded after all";
/// Why a lot is taken back.
const VOID_REASON: &str = "replayed grant was a mistake";

/// What a call needs beside what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Handle {
    /// Nothing.
    None,
    /// The id of the hold or charge it is about.
    Work(WorkHandle),
    /// The id of the lot, and the state to confirm.
    Lot {
        /// The lot's id.
        id: String,
        /// The account's last entry, as a dry run showed it.
        confirm: SequenceNumber,
    },
}

impl Handle {
    /// The id of the hold or charge, if it is about one.
    pub(crate) fn work(&self) -> Option<&str> {
        match self {
            Self::Work(WorkHandle::Hold(id) | WorkHandle::Charge(id)) => Some(id),
            Self::None | Self::Lot { .. } => None,
        }
    }
}

/// A hold or charge as the API names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkHandle {
    /// A hold.
    Hold(String),
    /// A charge.
    Charge(String),
}

/// What an accepted call made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The entry it made.
    pub(crate) sequence: u64,
    /// The account's last entry when it was done.
    pub(crate) as_of: u64,
    /// The balance then.
    pub(crate) balance: Figures,
    /// The hold, charge or lot.
    pub(crate) id: String,
}

/// Why an accepted call's answer is useless.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The trace holds an amount that no call may name.
    #[error("an amount {0}")]
    Amount(#[from] CreditsError),
    /// A value is not what the API takes.
    #[error(transparent)]
    Text(#[from] InvalidText),
    /// A hold may not live that long.
    #[error(transparent)]
    Ttl(#[from] TtlOutOfRange),
    /// A tenant's name is not one.
    #[error("tenant {name:?} {source}")]
    Tenant {
        /// The name.
        name: String,
        /// Why not.
        source: purser_types::IdError,
    },
    /// A call about a hold or lot came without its id.
    #[error("the call needs the id of what it is about")]
    NoHandle,
    /// An answer or a body is not JSON of the agreed shape.
    #[error("unreadable: {0}")]
    Json(#[from] serde_json::Error),
}

/// Checks the name of a tenant.
pub(crate) fn tenant(name: &str) -> Result<TenantId, WireError> {
    TenantId::parse(name).map_err(|source| WireError::Tenant { name: name.to_owned(), source })
}

/// Who is to decide, where the service spans regions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Where the tenant's home is to be; the service chooses if there is none.
    pub(crate) home: Option<Region>,
    /// Whether home must decide.
    pub(crate) is_strict: bool,
}

/// The call that asks for `asked`.
pub(crate) fn call(
    tenant: &TenantId,
    asked: &Asked,
    handle: &Handle,
    choice: Choice,
    key: String,
) -> Result<Call, WireError> {
    let (path, body) = path_and_body(tenant, asked, handle, choice)?;
    Ok(Call::change(path, key, body))
}

/// The dry run that comes before a lot is taken back.
pub(crate) fn void_dry_run(tenant: &TenantId, lot: &str, key: String) -> Result<Call, WireError> {
    let request = VoidRequest { reason: Reason::parse(VOID_REASON)?, dry_run: true, confirm: None };
    let path = paths::fill(paths::ADMIN_LOT_VOID, &[tenant, &lot]);
    Ok(Call::change(path, key, json(&request)?))
}

/// The state that a dry run wants confirmed.
pub(crate) fn confirmation(body: &Bytes) -> Result<SequenceNumber, WireError> {
    let answer = VoidAnswer::from_json(body)?;
    answer.confirm.ok_or(WireError::NoHandle)
}

fn path_and_body(
    tenant: &TenantId,
    asked: &Asked,
    handle: &Handle,
    choice: Choice,
) -> Result<(String, Bytes), WireError> {
    let at = |template: &str| paths::fill(template, &[tenant]);
    let about = |of_hold: &str, of_charge: &str| match handle {
        Handle::Work(WorkHandle::Hold(id)) => Ok(paths::fill(of_hold, &[tenant, id])),
        Handle::Work(WorkHandle::Charge(id)) => Ok(paths::fill(of_charge, &[tenant, id])),
        Handle::None | Handle::Lot { .. } => Err(WireError::NoHandle),
    };
    let reason = Reason::parse;
    let consistency = if choice.is_strict { Consistency::Strict } else { Consistency::Local };
    Ok(match asked {
        Asked::Open(opening) => {
            (paths::ADMIN_TENANTS.to_owned(), json(&open_request(tenant, *opening, choice.home)?)?)
        }
        Asked::Grant(granting) => (at(paths::ADMIN_GRANTS), json(&grant_request(granting)?)?),
        Asked::Authorize { amount, ttl } => {
            let mut request = AuthorizeRequest::new(call_amount(*amount)?);
            request.ttl_seconds = Some(ttl_seconds(*ttl)?);
            request.consistency = consistency;
            (at(paths::HOLDS), json(&request)?)
        }
        Asked::Capture(capturing) => {
            let path = about(paths::HOLD_CAPTURE, paths::HOLD_CAPTURE)?;
            (path, json(&capture_request(capturing)?)?)
        }
        Asked::Release { .. } => {
            let path = about(paths::HOLD_RELEASE, paths::HOLD_RELEASE)?;
            (path, json(&ReleaseRequest::default())?)
        }
        Asked::Charge { amount, allow_debt } => {
            let mut request = ChargeRequest::new(call_amount(*amount)?);
            request.allow_debt = *allow_debt;
            request.consistency = consistency;
            (at(paths::CHARGES), json(&request)?)
        }
        Asked::Refund { amount, .. } => {
            let amount = amount.map(call_amount).transpose()?;
            let request = RefundRequest { amount, reason: reason(REFUND_REASON)? };
            (about(paths::HOLD_REFUND, paths::CHARGE_REFUND)?, json(&request)?)
        }
        Asked::Reclaim { .. } => {
            let request = ReclaimRequest { reason: reason(RECLAIM_REASON)? };
            (about(paths::HOLD_RECLAIM, paths::CHARGE_RECLAIM)?, json(&request)?)
        }
        Asked::Void { .. } => {
            let Handle::Lot { id, confirm } = handle else { return Err(WireError::NoHandle) };
            let confirm = Some(confirm.clone());
            let request = VoidRequest { reason: reason(VOID_REASON)?, dry_run: false, confirm };
            (paths::fill(paths::ADMIN_LOT_VOID, &[tenant, id]), json(&request)?)
        }
    })
}

fn open_request(
    tenant: &TenantId,
    opening: Opening,
    home: Option<Region>,
) -> Result<OpenTenantRequest, WireError> {
    let regrant = |days| RefundExpired::RegrantDays(RegrantDays(days));
    let cap = Some(opening.takeback_cap).filter(|cap| *cap > 0);
    let takeback_cap = cap.map(Credits::from_u64).transpose()?.map(Into::into);
    let policy = PolicyRequest {
        debt_limit: Some(Credits::from_u64(opening.debt_limit)?.into()),
        refund_expired: opening.regrant_days.map(regrant),
        on_expiry: takeback_cap.is_some().then_some(OnExpiry::TakeBack),
        takeback_cap,
        unacknowledged_max: Some(Credits::from_u64(opening.unacknowledged_max)?.into()),
        event_age_seconds: None,
    };
    let tenant = TenantName(tenant.clone());
    let home = home.map(RegionName);
    Ok(OpenTenantRequest { tenant, unit: Default::default(), home, standbys: None, policy })
}

fn grant_request(granting: &Granting) -> Result<GrantRequest, WireError> {
    let mut request = GrantRequest::new(call_amount(granting.amount)?);
    let promotional = granting.promotional;
    request.category = if promotional { LotCategory::Promotional } else { LotCategory::Paid };
    request.priority = granting.priority;
    request.effective_at = granting.effective_at.map(Into::into);
    request.expires_at = granting.expires_at.map(Into::into);
    Ok(request)
}

fn capture_request(capturing: &Capturing) -> Result<CaptureRequest, WireError> {
    let amount = |amount| {
        let credits = Credits::from_u64(amount).map_err(WireError::Amount)?;
        CaptureAmount::from_credits(credits).map_err(WireError::Text)
    };
    Ok(CaptureRequest {
        amount: capturing.amount.map(amount).transpose()?,
        r#final: capturing.last,
        allow_debt: capturing.allow_debt,
        if_expired: if capturing.even_if_expired { IfExpired::Charge } else { IfExpired::Refuse },
        ..CaptureRequest::default()
    })
}

fn call_amount(amount: u64) -> Result<CallAmount, WireError> {
    Ok(CallAmount::from_credits(Credits::from_u64(amount)?)?)
}

fn ttl_seconds(ttl: Span) -> Result<TtlSeconds, WireError> {
    let seconds = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
    Ok(TtlSeconds::try_from(seconds)?)
}

fn json(body: &impl Serialize) -> Result<Bytes, WireError> {
    Ok(serde_json::to_vec(body)?.into())
}

/// How a call was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was done.
    Done(Receipt),
    /// It was refused.
    Refused(Refusal),
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The problem's code.
    pub(crate) code: String,
    /// What was available, if the refusal says so.
    pub(crate) available: Option<u64>,
    /// What was missing, if the refusal says so.
    pub(crate) short_by: Option<u64>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.code)?;
        for (name, figure) in [("available", self.available), ("short by", self.short_by)] {
            if let Some(figure) = figure {
                write!(formatter, ", {name} {figure}")?;
            }
        }
        Ok(())
    }
}

/// Reads the answer to `asked`.
pub(crate) fn verdict(asked: &Asked, decided: &Decided) -> Result<Verdict, WireError> {
    if decided.status.is_success() {
        return receipt(asked, &decided.body).map(Verdict::Done);
    }
    let problem = Problem::from_json(&decided.body)?;
    let figure = |amount: &Option<purser_api::Amount>| amount.as_ref().map(|it| it.0.get());
    Ok(Verdict::Refused(Refusal {
        code: problem.code.into_owned(),
        available: figure(&problem.figures.available),
        short_by: figure(&problem.figures.short_by),
    }))
}

/// Reads the answer to a call that reads.
pub(crate) fn read<T: AnswerBody>(decided: &Decided) -> Result<Result<T, Refusal>, WireError> {
    if decided.status == StatusCode::OK {
        return Ok(Ok(T::from_json(&decided.body)?));
    }
    let problem = Problem::from_json(&decided.body)?;
    Ok(Err(Refusal { code: problem.code.into_owned(), available: None, short_by: None }))
}

fn receipt(asked: &Asked, body: &Bytes) -> Result<Receipt, WireError> {
    let (sequence, id, balance) = match asked {
        Asked::Open(_) => {
            let answer = TenantAnswer::from_json(body)?;
            (answer.tenant.sequence.0.0, String::new(), answer.balance)
        }
        Asked::Grant(_) => {
            let answer = GrantAnswer::from_json(body)?;
            let id = answer.lot.lot_id;
            (id.sequence.0, id.to_string(), answer.balance)
        }
        Asked::Authorize { .. } | Asked::Release { .. } => {
            let answer = HoldAnswer::from_json(body)?;
            (answer.hold.sequence.0.0, answer.hold.hold_id.to_string(), answer.balance)
        }
        Asked::Capture(_) => {
            let answer = CaptureAnswer::from_json(body)?;
            (answer.hold.sequence.0.0, answer.hold.hold_id.to_string(), answer.balance)
        }
        Asked::Charge { .. } => {
            let answer = ChargeAnswer::from_json(body)?;
            (answer.charge.sequence.0.0, answer.charge.charge_id.to_string(), answer.balance)
        }
        Asked::Refund { .. } => {
            let answer = RefundAnswer::from_json(body)?;
            let (sequence, id) = subject(&answer.subject);
            (sequence, id, answer.balance)
        }
        Asked::Reclaim { .. } => {
            let answer = ReclaimAnswer::from_json(body)?;
            let (sequence, id) = subject(&answer.subject);
            (sequence, id, answer.balance)
        }
        Asked::Void { .. } => {
            let answer = VoidAnswer::from_json(body)?;
            let id = answer.lot.lot_id.to_string();
            (answer.balance.as_of.sequence.0.0, id, answer.balance)
        }
    };
    let as_of = balance.as_of.sequence.0.0;
    let pending = balance.pending.0.get();
    Ok(Receipt { sequence, as_of, balance: figures(&balance.buckets, pending), id })
}

fn subject(subject: &Subject) -> (u64, String) {
    match subject {
        Subject::Charge(charge) => (charge.sequence.0.0, charge.charge_id.to_string()),
        Subject::Hold(hold) => (hold.sequence.0.0, hold.hold_id.to_string()),
    }
}

/// The API's buckets in the book's words.
pub(crate) fn figures(buckets: &Buckets, pending: u64) -> Figures {
    Figures {
        granted: buckets.granted.0.get(),
        available: buckets.available.0.get(),
        held: buckets.held.0.get(),
        used: buckets.used.0.get(),
        expired: buckets.expired.0.get(),
        voided: buckets.voided.0.get(),
        debt: buckets.debt.0.get(),
        pending,
    }
}
