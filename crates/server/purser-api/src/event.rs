//! Usage events: `CloudEvents` 1.0 in JSON, one or a batch, and what becomes of each.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::balance::Balance;
use crate::body::{InvalidBody, is_no, not_null, yes};
use crate::cursor::{Cursor, CursorScope};
use crate::ids::HoldId;
use crate::job::JobOutcome;
use crate::list::PageLimit;
use crate::paths;
use crate::prose::Reason;
use crate::spelled::spelled_enum;
use crate::text::{Amount, JobName, Moment, SequenceNumber, TenantName, UnitName};

/// The most events of a batch.
pub const EVENTS_MAX: usize = 1_000;

spelled_enum! {
    /// The version of `CloudEvents`.
    SpecVersion, "a version of CloudEvents" {
        /// 1.0.
        V1 "1.0",
    }
}

/// A usage event: a `CloudEvent` whose `subject` is the tenant. Other attributes are allowed, and are no
/// part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageEvent {
    /// The version of `CloudEvents`.
    pub specversion: SpecVersion,
    /// What the sender calls the event. An event is known by `source` and `id`.
    pub id: String,
    /// Who sends it.
    pub source: String,
    /// What kind of event it is: information only.
    #[serde(rename = "type")]
    pub kind: String,
    /// The tenant.
    pub subject: TenantName,
    /// When it happened; when it comes in if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub time: Option<Moment>,
    /// What was used.
    pub data: UsageData,
}

/// What was used: an `amount` that nobody has set anything aside for, or of a hold; or how a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UsageData {
    /// What the account counts.
    #[serde(default)]
    pub unit: UnitName,
    /// How much; all that is held if it is left out for a hold. Nothing happens for 0.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub amount: Option<Amount>,
    /// The hold that the work was done under. The event is its last capture.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hold_id: Option<HoldId>,
    /// The job that was worked on.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub job_id: Option<JobName>,
    /// How that ended: with a `job_id` and only there.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub outcome: Option<JobOutcome>,
    /// Whether a job that failed is tried again.
    #[serde(default = "yes")]
    pub retryable: bool,
}

/// An event that has not been read yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventText(Box<RawValue>);

/// What an unreadable event may still say of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    source: String,
    id: String,
}

impl EventText {
    /// Reads the event. The error is the detail of its `invalid_request` problem.
    pub fn read(&self) -> Result<UsageEvent, InvalidBody> {
        crate::body::read_body(self.0.get().as_bytes())
    }

    /// Its source and id, as far as they can be read.
    pub fn name(&self) -> (String, String) {
        let Named { source, id } = serde_json::from_str(self.0.get()).unwrap_or_default();
        (source, id)
    }
}

/// The events of a request.
#[derive(Debug, Clone)]
pub enum EventsRequest {
    /// One, by itself.
    One(EventText),
    /// A batch.
    Batch(Vec<EventText>),
}

impl EventsRequest {
    /// Reads a body: an object is one event, a list is a batch of 1 to 1,000.
    pub fn read(body: &[u8]) -> Result<Self, InvalidBody> {
        if body.trim_ascii_start().first() != Some(&b'[') {
            return Ok(Self::One(serde_json::from_slice(body)?));
        }
        let events: Vec<EventText> = serde_json::from_slice(body)?;
        if (1..=EVENTS_MAX).contains(&events.len()) {
            return Ok(Self::Batch(events));
        }
        let refused: serde_json::Error = serde::de::Error::custom("a batch has 1 to 1,000 events");
        Err(refused.into())
    }
}

impl utoipa::PartialSchema for EventsRequest {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        <UsageEvent as utoipa::PartialSchema>::schema()
    }
}

impl ToSchema for EventsRequest {
    fn name() -> std::borrow::Cow<'static, str> {
        UsageEvent::name()
    }

    fn schemas(
        schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>,
    ) {
        UsageEvent::schemas(schemas);
    }
}

/// What a node says to another when it passes an event on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Whether home takes the events in whatever they name: the region of the hold has refused them.
    #[serde(default, skip_serializing_if = "is_no")]
    pub at_home: bool,
}

spelled_enum! {
    /// What became of an event.
    VerdictKind, "a verdict" {
        /// It has done what it does, now.
        Applied "applied",
        /// It was taken before, and nothing more has happened.
        Duplicate "duplicate",
        /// It has done nothing, and is kept for people.
        DeadLettered "dead_lettered",
        /// It cannot be read, or its tenant is none that can be asked. It is not kept.
        Invalid "invalid",
    }
}

/// What became of one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventVerdict {
    /// Who sent it.
    pub source: String,
    /// What the sender calls it.
    pub id: String,
    /// What became of it.
    pub verdict: VerdictKind,
    /// Why it has done nothing: `unmatched`, `too_old`, `in_future`, `conflict`, or a problem's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
}

/// Answers events: a verdict for each, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventsAnswer {
    /// The verdicts.
    pub verdicts: Vec<EventVerdict>,
}

/// An event that has done nothing and waits for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ParkedEvent {
    /// The entry that parked it: what it is called by in paths.
    pub entry: SequenceNumber,
    /// Who sent it.
    pub source: String,
    /// What the sender calls it.
    pub id: String,
    /// What kind of event it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happened, by its sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub time: Option<Moment>,
    /// Since when it waits.
    pub parked_at: Moment,
    /// Why: `unmatched`, `too_old`, `in_future`, `conflict`, or a problem's code.
    pub reason: String,
    /// What it says was used.
    pub data: UsageData,
    /// What the event had said that came first under this source and id, if they conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub first_data: Option<UsageData>,
    /// What to confirm when it is discarded: the last entry about it.
    pub sequence: SequenceNumber,
}

/// Asks for parked events, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ParkedEventsQuery {
    /// What the account counts.
    #[serde(default)]
    #[param(default = "credits")]
    pub unit: UnitName,
    /// Only those that wait for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub reason: Option<String>,
    /// How many at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// Where the page starts: at the newest if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub cursor: Option<Cursor>,
}

impl ParkedEventsQuery {
    /// What the list's cursors are bound to.
    pub fn scope(&self, tenant: &purser_types::TenantId) -> CursorScope {
        CursorScope::new(paths::ADMIN_PARKED_EVENTS)
            .with_filter("tenant", Some(tenant))
            .with_filter("unit", Some(&self.unit))
            .with_filter("reason", self.reason.as_ref())
    }
}

/// Takes a parked event after all. Pressed twice, it is taken once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedriveEventRequest {
    /// Why, for whoever reads the history.
    pub reason: Reason,
    /// Whether its amount is charged, whatever hold it names.
    #[serde(default, skip_serializing_if = "is_no")]
    pub as_charge: bool,
}

/// Answers redrive and discard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ParkedEventAnswer {
    /// Who sent the event.
    pub source: String,
    /// What the sender calls it.
    pub id: String,
    /// What was done, by the kind of its entry.
    pub effect: String,
    /// Whether this only shows what would happen.
    pub dry_run: bool,
    /// What to send as `confirm` to discard it; left out if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
    /// The entry that did it, or would.
    pub sequence: SequenceNumber,
    /// The balance afterwards.
    pub balance: Balance,
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: &str = r#"{"specversion":"1.0","id":"e1","source":"/m","type":"used","subject":"acme",
        "data":{"amount":5},"traceparent":"00-x"}"#;

    #[test]
    fn an_event_is_read_strictly_where_it_matters_and_may_have_other_attributes() {
        let read = |text: &str| {
            let EventsRequest::One(event) = EventsRequest::read(text.as_bytes()).unwrap() else {
                panic!("an object is one event")
            };
            event.read()
        };
        assert_eq!(read(USED).unwrap().subject.0.as_str(), "acme");
        for (good, bad) in [
            ("\"1.0\"", "\"0.3\""),
            ("{\"amount\":5}", "{\"quantity\":5}"),
            ("\"acme\"", "\"a b\""),
            ("{\"amount\":5}", "\"eA==\""),
        ] {
            assert!(read(&USED.replace(good, bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bad_event_does_not_spoil_a_batch_and_keeps_its_name() {
        let batch = format!(r#"[{USED},{{"id":"e2","source":"/m"}},7]"#);
        let EventsRequest::Batch(events) = EventsRequest::read(batch.as_bytes()).unwrap() else {
            panic!("a list is a batch")
        };
        let read: Vec<bool> = events.iter().map(|event| event.read().is_ok()).collect();
        assert_eq!(read, [true, false, false]);
        assert_eq!(events[1].name(), ("/m".to_owned(), "e2".to_owned()));
        assert!(EventsRequest::read(b"[]").is_err());
    }
}
