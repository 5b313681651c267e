//! Webhooks: who is told of a region's entries by a call, how far that is, and what could not be delivered.
//!
//! What a receiver gets is a [`WebhookEvent`], signed by the Standard Webhooks specification, 1.0.0.

mod words;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub use self::words::{
    AttemptsMax, OverlapSeconds, RedriveLimit, WebhookDeadLetterId, WebhookName, WebhookSecret,
    WebhookUrl,
};
use crate::body::{is_no, not_null};
use crate::changes::Change;
use crate::cursor::{Cursor, CursorScope};
use crate::entry::EntryKind;
use crate::list::PageLimit;
use crate::paths;
use crate::prose::Reason;
use crate::spelled::spelled_enum;
use crate::text::{Moment, SequenceNumber, TenantName, UnitName};

spelled_enum! {
    /// Where a new webhook begins.
    #[derive(Default)]
    WebhookStart, "where a webhook begins" {
        /// With what happens from now on.
        #[default]
        Now "now",
        /// With the first entry there is.
        Beginning "beginning",
    }
}

spelled_enum! {
    /// Whether a webhook's events are delivered.
    WebhookStatus, "the state of a webhook" {
        /// They are.
        Enabled "enabled",
        /// They wait, at least in one shard.
        Disabled "disabled",
    }
}

spelled_enum! {
    /// What becomes of a dead letter.
    WebhookDeadLetterStatus, "the state of a dead letter" {
        /// Nobody tries to deliver it.
        Dead "dead",
        /// It is tried once more.
        Redriven "redriven",
        /// There is no such dead letter: it was delivered or discarded, or there never was one.
        None "none",
    }
}

spelled_enum! {
    /// What was done to a webhook.
    WebhookActKind, "an act on a webhook" {
        /// It was made.
        Create "create",
        /// Its secret was changed.
        Rotate "rotate",
        /// It delivers again.
        Enable "enable",
        /// It delivers nothing any more.
        Disable "disable",
        /// A dead letter was redriven.
        Redrive "redrive",
        /// Many dead letters were redriven.
        RedriveAll "redrive_all",
        /// A dead letter was given up.
        Discard "discard",
    }
}

/// Says that there shall be a webhook. A repeat changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRequest {
    /// Its name.
    pub webhook: WebhookName,
    /// Where its events go.
    pub url: WebhookUrl,
    /// What they are signed with.
    pub secret: WebhookSecret,
    /// Whose events; everybody's if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub tenants: Vec<TenantName>,
    /// Which kinds; all if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<EntryKind>,
    /// How often an event is tried.
    #[serde(default)]
    pub attempts_max: AttemptsMax,
    /// Where it begins. Not part of what makes two requests the same.
    #[serde(default)]
    pub from: WebhookStart,
    /// Why, for whoever reads it later. Not part of it either.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<Reason>,
}

/// Says what a webhook's events shall be signed with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateRequest {
    /// The new secret.
    pub secret: WebhookSecret,
    /// For how long the one before signs too. 0 ends it at once: for a secret that others know.
    #[serde(default)]
    pub overlap_seconds: OverlapSeconds,
    /// Why, for whoever reads it later.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<Reason>,
}

/// Says that a webhook's events shall be delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookEnableRequest {
    /// Why, for whoever reads it later.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<Reason>,
}

/// Says why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BecauseRequest {
    /// Why, for whoever reads it later.
    pub reason: Reason,
}

/// Gives a dead letter up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookDiscardRequest {
    /// Why, for whoever reads it later.
    pub reason: Reason,
    /// Whether only to show what would happen.
    #[serde(default, skip_serializing_if = "is_no")]
    pub dry_run: bool,
    /// The `confirm` of the dry run. The act is refused if the dead letter has changed since.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
}

/// Has dead letters of a webhook tried once more, some at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRedriveRequest {
    /// Why, for whoever reads it later.
    pub reason: Reason,
    /// How many at most.
    #[serde(default)]
    pub limit: RedriveLimit,
    /// Only those that had died before; all that are dead by now if left out. Whoever goes on until none is
    /// left sends what the first answer says: what has died again since is not redriven over and over.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub died_before: Option<Moment>,
}

/// Asks for it in one shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WebhookRedriveQuery {
    /// Only in one shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub shard: Option<u32>,
    /// How many of the limit are used up: nodes say it to each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub used: Option<u32>,
}

/// Answers a redrive of many dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookRedriveAnswer {
    /// The webhook.
    pub webhook: WebhookName,
    /// How many are tried once more by this call.
    pub redriven: u64,
    /// How many of those that it was about are left for the next one.
    pub left: u64,
    /// It was about those that had died before.
    pub died_before: Moment,
}

/// Asks about a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WebhookQuery {
    /// Only in one shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub shard: Option<u32>,
}

/// Asks for dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WebhookDeadLettersQuery {
    /// How many at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// Where the page starts: at the first if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub cursor: Option<Cursor>,
    /// Only in one shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub shard: Option<u32>,
}

impl WebhookDeadLettersQuery {
    /// What the list's cursors are bound to.
    pub fn scope(&self, webhook: &WebhookName) -> CursorScope {
        CursorScope::new(paths::ADMIN_WEBHOOK_DEAD_LETTERS)
            .with("webhook", webhook.0.as_str())
            .with_filter("shard", self.shard.as_ref())
    }
}

/// A webhook of a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookAnswer {
    /// Its name.
    pub webhook: WebhookName,
    /// Whether its events are delivered.
    pub status: WebhookStatus,
    /// Where they go.
    pub url: WebhookUrl,
    /// Whose; everybody's if empty.
    pub tenants: Vec<TenantName>,
    /// Which kinds; all if empty.
    pub kinds: Vec<EntryKind>,
    /// How often an event is tried.
    pub attempts_max: AttemptsMax,
    /// When it was made.
    pub created_at: Moment,
    /// How many secrets sign now: up to three after rotations.
    pub secrets_count: u32,
    /// How far it is in each shard that was asked.
    #[schema(max_items = 1_024)]
    pub shards: Vec<WebhookShard>,
}

/// How far a webhook is in one shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookShard {
    /// The shard.
    pub shard: u32,
    /// Why its events wait; `null` if they are delivered.
    pub disabled: Option<String>,
    /// Accounts whose events wait, because one has failed.
    pub parked: u64,
    /// How the one failed that is tried again next; `null` if none has.
    pub last_error: Option<String>,
    /// Events that nobody tries to deliver any more.
    pub dead_letters: u64,
    /// Dead letters that are tried once more.
    pub redriven: u64,
    /// What was last done to it, oldest first.
    #[schema(max_items = 32)]
    pub history: Vec<WebhookAct>,
}

/// Something that was done to a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookAct {
    /// When.
    pub at: Moment,
    /// What.
    pub act: WebhookActKind,
    /// By whom; `null` if it was the service itself.
    pub actor: Option<String>,
    /// Why; `null` if that was not said.
    pub reason: Option<String>,
    /// Which dead letter; `null` if it was not about one.
    pub dead_letter_id: Option<WebhookDeadLetterId>,
}

/// The webhooks of a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhooksAnswer {
    /// The webhooks, by name.
    #[schema(max_items = 16)]
    pub items: Vec<WebhookAnswer>,
}

/// Answers that a webhook is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookRemoved {
    /// The webhook.
    pub webhook: WebhookName,
}

/// An event that nobody tries to deliver any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookDeadLetter {
    /// Its id.
    pub dead_letter_id: WebhookDeadLetterId,
    /// Whose.
    pub tenant: TenantName,
    /// What the account counts.
    pub unit: UnitName,
    /// The entry.
    pub sequence: SequenceNumber,
    /// What becomes of it.
    pub status: WebhookDeadLetterStatus,
    /// How often it was tried.
    pub attempts: u32,
    /// How it failed last.
    pub error: String,
    /// When that was.
    pub died_at: Moment,
}

/// Answers discard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookDiscardAnswer {
    /// Whether this only shows what would happen.
    pub dry_run: bool,
    /// What to send as `confirm` to do it; left out if it was done, or if there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
    /// The dead letter, after the act.
    #[serde(flatten)]
    pub answer: WebhookDeadLetterAnswer,
}

/// Answers a decision about a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookDeadLetterAnswer {
    /// Which.
    pub dead_letter_id: WebhookDeadLetterId,
    /// What becomes of it.
    pub status: WebhookDeadLetterStatus,
}

/// What a receiver gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEvent {
    /// `purser.entry.` and the kind of the entry.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happened.
    pub timestamp: Moment,
    /// The entry, as `GET /v1/changes` tells it.
    pub data: Change,
}

impl WebhookEvent {
    /// The event of a change.
    pub fn of(change: Change) -> Self {
        let kind = format!("purser.entry.{}", change.entry.kind);
        Self { kind, timestamp: change.entry.log_time.clone(), data: change }
    }
}
