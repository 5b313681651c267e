//! One request, read and let in: who asks, for whom, under which key, until when.
//!
//! Reading is strict and happens once. What comes out holds only checked values, and nobody gets a
//! [`Call`] about a tenant that its token does not reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{FromRequestParts, RawPathParams, Request};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use purser_api::{Metadata, ProblemCode, Reason, headers};
use purser_ledger::{
    AccountName, Context, HoldNumber, Item, LotNumber, Metadata as KeptMetadata, Operation as Asked,
};
use purser_types::{Epoch, IdempotencyKey, Owner, Region, TenantId, Unit};
use serde::de::DeserializeOwned;

use crate::http::Api;
use crate::http::admission::{
    ReadBody, admit, admit_to_all, authenticate, invalid_id, read_body, read_key, read_tenant,
    skip_body,
};
use crate::http::problem::Refusal;
use crate::http::routes::{Access, Effect};
use crate::http::seat::Seat;
use crate::token::Token;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static(headers::REQUEST_ID);
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(headers::IDEMPOTENCY_KEY);
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static(headers::TRACEPARENT);
/// How often a request was forwarded from node to node.
pub(crate) const HOPS: HeaderName = HeaderName::from_static("purser-hops");
/// The region whose call it is, if another has passed it on.
pub(crate) const FROM_REGION: HeaderName = HeaderName::from_static("purser-from-region");
/// The latest epoch that the sender knows of the tenants whom the request concerns.
pub(crate) const PLACED: HeaderName = HeaderName::from_static("purser-placed");
/// How long the sender waits for an answer, in milliseconds.
pub(crate) const DEADLINE_MS: HeaderName = HeaderName::from_static("purser-deadline-ms");

/// What is known about a request before it is read, and of one that cannot be read too.
#[derive(Debug, Clone)]
pub(crate) struct Meta {
    /// Names the request in logs, entries and problems.
    pub(crate) request_id: Arc<str>,
    /// When its headers had arrived.
    pub(crate) received: Instant,
    /// When it must have been answered.
    pub(crate) deadline: Instant,
    /// How often it was forwarded before.
    pub(crate) hops: u8,
    /// The region that passed it on, if one did.
    pub(crate) from_region: Option<Region>,
    /// The latest epoch that the sender knew of the tenants whom it concerns, if a node sent it.
    pub(crate) placed: Option<Epoch>,
}

/// Makes names for requests that bring none: unique over nodes and restarts, by chance, and within
/// one life of a node, by counting.
pub(crate) struct RequestIds {
    life: u64,
    count: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        // Without randomness from the system the names are still unique in this node's life.
        let life = getrandom::u64().unwrap_or_default();
        Self { life, count: AtomicU64::new(0) }
    }

    fn next(&self) -> Arc<str> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{count:x}", self.life).into()
    }
}

impl Meta {
    /// Reads what every request may bring.
    pub(crate) fn of(headers: &HeaderMap, ids: &RequestIds, longest: Duration) -> Self {
        let received = Instant::now();
        let number = |name: &HeaderName| -> Option<u64> {
            headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok())
        };
        let asked = number(&DEADLINE_MS).map_or(longest, Duration::from_millis);
        let hops = number(&HOPS).map_or(0, |hops| u8::try_from(hops).unwrap_or(u8::MAX));
        Self {
            request_id: sent_request_id(headers).unwrap_or_else(|| ids.next()),
            received,
            deadline: received + asked.min(longest),
            hops,
            from_region: headers
                .get(&FROM_REGION)
                .and_then(|value| Region::parse(value.to_str().ok()?).ok()),
            placed: number(&PLACED).map(Epoch),
        }
    }
}

/// The caller's name for the request, if it is one that can stand in logs.
fn sent_request_id(headers: &HeaderMap) -> Option<Arc<str>> {
    const BYTES_MAX: usize = 128;
    let text = headers.get(&REQUEST_ID)?.to_str().ok()?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let plain = (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed);
    plain.then(|| Arc::from(text))
}

/// A request that was read and let in.
pub(crate) struct Call {
    /// The API it came to.
    pub(crate) api: Arc<Api>,
    /// What is known about the request.
    pub(crate) meta: Meta,
    /// Who asks.
    pub(crate) caller: Arc<Token>,
    /// Whether it may change something.
    pub(crate) effect: Effect,
    /// Whose book is asked.
    pub(crate) seat: Seat,
    /// Method, address and headers, for forwarding.
    pub(crate) parts: Parts,
    body: ReadBody,
    params: RawPathParams,
    tenant: Option<TenantId>,
    key: Option<IdempotencyKey>,
}

/// What a request says before its body.
struct Entry {
    caller: Arc<Token>,
    params: RawPathParams,
    tenant: Option<TenantId>,
    key: Option<IdempotencyKey>,
}

/// Lets a request in by what stands before its body, or says why not.
async fn let_in(api: &Api, access: Access, parts: &mut Parts) -> Result<Entry, Refusal> {
    let caller = Arc::clone(authenticate(&parts.headers, api.tokens())?);
    if !caller.allows(access.scope) {
        let detail = format!("the token needs the scope `{}`", access.scope.name());
        return Err(Refusal::new(ProblemCode::Forbidden, detail));
    }
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.map_err(|_unreadable| invalid_id("the path is not UTF-8"))?;
    let tenant = params.iter().find(|(name, _)| *name == "tenant");
    let tenant = tenant.map(|(_, text)| read_tenant(text)).transpose()?;
    match &tenant {
        Some(tenant) => admit(&caller, tenant)?,
        None if access.all_tenants => admit_to_all(&caller)?,
        None => (),
    }
    let key = if access.keyed { Some(read_key(&parts.headers)?) } else { None };
    Ok(Entry { caller, params, tenant, key })
}

impl Call {
    /// Reads a request and lets it in, or says why not: first who asks, then what.
    pub(crate) async fn read(
        api: Arc<Api>,
        access: Access,
        meta: Meta,
        request: Request,
    ) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        let Entry { caller, params, tenant, key } = match let_in(&api, access, &mut parts).await {
            Ok(entry) => entry,
            Err(refusal) => {
                skip_body(&parts.headers, body, meta.deadline).await;
                return Err(refusal);
            }
        };
        let body = read_body(&parts.headers, body, api.body_room(), meta.deadline).await?;
        let effect = access.effect;
        Ok(Self { api, meta, caller, effect, seat: Seat::Home, parts, body, params, tenant, key })
    }

    /// The body as it came.
    pub(crate) const fn body(&self) -> &Bytes {
        self.body.bytes()
    }

    /// The tenant in the path.
    pub(crate) fn tenant(&self) -> Result<&TenantId, Refusal> {
        self.tenant.as_ref().ok_or_else(|| Refusal::internal("the route names no tenant"))
    }

    /// The tenant's account in `unit`.
    pub(crate) fn account(&self, unit: Unit) -> Result<AccountName, Refusal> {
        Ok(AccountName { tenant: self.tenant()?.clone(), unit })
    }

    /// Refuses a tenant that the caller's token does not reach.
    pub(crate) fn admit(&self, tenant: &TenantId) -> Result<(), Refusal> {
        admit(&self.caller, tenant)
    }

    /// The key of a call that changes something.
    pub(crate) fn key(&self) -> Result<IdempotencyKey, Refusal> {
        let key = self.key.clone();
        key.ok_or_else(|| Refusal::internal("the route asks for no key"))
    }

    /// A path parameter, as it stands there.
    pub(crate) fn param(&self, name: &'static str) -> Result<&str, Refusal> {
        let found = self.params.iter().find(|(known, _)| *known == name);
        let missing = || Refusal::internal(format!("the route has no parameter {name}"));
        found.map(|(_, text)| text).ok_or_else(missing)
    }

    /// The hold in the path.
    pub(crate) fn hold(&self) -> Result<HoldNumber, Refusal> {
        let id: purser_api::HoldId = self.id("hold")?;
        Ok(HoldNumber(self.numbered(id.sequence, &id.owner)?))
    }

    /// The charge in the path.
    pub(crate) fn charge(&self) -> Result<HoldNumber, Refusal> {
        let id: purser_api::ChargeId = self.id("charge")?;
        Ok(HoldNumber(self.numbered(id.sequence, &id.owner)?))
    }

    /// The lot in the path.
    pub(crate) fn lot(&self) -> Result<LotNumber, Refusal> {
        let id: purser_api::LotId = self.id("lot")?;
        Ok(LotNumber(self.numbered(id.sequence, &id.owner)?))
    }

    /// A path parameter that has one spelling.
    pub(crate) fn id<T>(&self, name: &'static str) -> Result<T, Refusal>
    where
        T: std::str::FromStr<Err = purser_api::InvalidText>,
    {
        self.param(name)?.parse().map_err(|error| invalid_id(format!("{name}: {error}")))
    }

    /// Whose ids the call is about: home's, or those of an allocation.
    pub(crate) fn owner(&self) -> Owner {
        self.owner_in(self.seat)
    }

    /// Refuses a query where the call knows none: what would be ignored would be misunderstood.
    pub(crate) fn no_query(&self) -> Result<(), Refusal> {
        match self.parts.uri.query() {
            None | Some("") => Ok(()),
            Some(_) => Err(Refusal::invalid("this call takes no query")),
        }
    }

    /// The query part of the address.
    pub(crate) fn query<Q: DeserializeOwned>(&self) -> Result<Q, Refusal> {
        let query = self.parts.uri.query().unwrap_or_default();
        serde_urlencoded::from_str(query)
            .map_err(|error| Refusal::invalid(format!("the query cannot be read: {error}")))
    }

    /// The unit in the query of a call that has no other parameter there.
    pub(crate) fn unit(&self) -> Result<Unit, Refusal> {
        match self.parts.uri.query() {
            None => Ok(Unit::credits()),
            Some(_) => Ok(self.query::<purser_api::UnitQuery>()?.unit.0),
        }
    }

    /// The body.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        Ok(purser_api::read_body(self.body())?)
    }

    /// The body, or defaults if there is none.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Refusal> {
        Ok(purser_api::read_optional_body(self.body())?)
    }

    /// What the ledger is asked, with the circumstances of this call.
    pub(crate) fn item(&self, asked: Asked) -> Result<Item, Refusal> {
        Ok(Item::new(self.context(self.key()?), asked))
    }

    /// The circumstances of an operation under `key`.
    pub(crate) fn context(&self, key: IdempotencyKey) -> Context {
        Context {
            key: Some(key),
            actor: Some(self.caller.name.clone()),
            reason: None,
            request_id: Some((&*self.meta.request_id).into()),
            metadata: KeptMetadata::default(),
        }
    }
}

/// Adds what the caller said about an operation.
pub(crate) trait Remarks: Sized {
    /// Adds a reason.
    fn because(self, reason: &Reason) -> Self;
    /// Adds notes.
    fn noting(self, metadata: &Metadata) -> Result<Self, Refusal>;
}

impl Remarks for Item {
    fn because(mut self, reason: &Reason) -> Self {
        self.context.reason = Some(reason.as_str().into());
        self
    }

    fn noting(mut self, metadata: &Metadata) -> Result<Self, Refusal> {
        if !metadata.is_empty() {
            let pairs = metadata.pairs().map(|(key, value)| (key.into(), value.into())).collect();
            self.context.metadata = KeptMetadata::from_pairs(pairs)
                .map_err(|error| Refusal::invalid(error.to_string()))?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn a_request_keeps_its_own_id_if_that_can_stand_in_a_log() {
        let ids = RequestIds::new();
        let of = |pairs: &[(&'static str, &str)]| {
            Meta::of(&headers(pairs), &ids, Duration::from_secs(10))
        };
        assert_eq!(&*of(&[("request-id", "job-7")]).request_id, "job-7");
        assert_ne!(&*of(&[("request-id", "two words")]).request_id, "two words");
        assert_ne!(of(&[]).request_id, of(&[]).request_id);
    }

    #[test]
    fn a_sender_may_wait_shorter_but_not_longer() {
        let ids = RequestIds::new();
        let patience = |millis: &str| {
            let meta = Meta::of(
                &headers(&[("purser-deadline-ms", millis)]),
                &ids,
                Duration::from_secs(10),
            );
            meta.deadline - meta.received
        };
        assert_eq!(patience("250"), Duration::from_millis(250));
        assert_eq!(patience("999999"), Duration::from_secs(10));
        assert_eq!(patience("soon"), Duration::from_secs(10));
    }
}
