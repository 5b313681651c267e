//! The tables of the configuration file, one for each concern.

use std::path::PathBuf;
use std::time::Duration;

use purser_raft::{GroupSettings, RaftTimings, WalSettings};
use purser_types::{Region, Span};
use serde::Deserialize;

use super::ConfigError;
use crate::settings::{BaseUrl, LimitSettings, PeerSettings, RetentionSettings};
use crate::webhooks::WebhookSettings;

/// `[[peer]]`: another node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PeerConfig {
    /// Its number.
    pub node: u64,
    /// `host:port` of its `peer-listen`.
    pub address: String,
    /// `http://host:port` of its `listen`.
    pub api_url: String,
    /// `http://host:port` of its `admin-listen`, if it has one.
    pub admin_url: Option<String>,
    /// The region it stands in; this node's if left out.
    pub region: Option<String>,
}

impl PeerConfig {
    pub(super) fn validate(&self, own: Region) -> Result<PeerSettings, ConfigError> {
        let region = self.region.as_deref().map_or(Ok(own), Region::parse);
        let region = region.map_err(ConfigError::Region)?;
        let has_port = self.address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
        });
        if !has_port {
            return Err(ConfigError::PeerAddress(self.address.clone()));
        }
        let url = |key: &'static str, text: &str| {
            let node = self.node;
            BaseUrl::parse(text).map_err(|source| ConfigError::PeerUrl { key, node, source })
        };
        let api = url("api-url", &self.api_url)?;
        let admin = match &self.admin_url {
            Some(text) => url("admin-url", text)?,
            None => api.clone(),
        };
        Ok(PeerSettings { region, address: self.address.clone(), api, admin })
    }
}

/// `[raft]`: how fast a lost leader is noticed.
///
/// Shorter times fail over sooner; longer ones bear slow disks and busy machines.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RaftConfig {
    /// How often a leader shows that it is alive.
    pub heartbeat_ms: u64,
    /// Shortest patience of a follower; at least two heartbeats.
    pub election_min_ms: u64,
    /// Longest patience of a follower.
    pub election_max_ms: u64,
    /// How long one step of a snapshot transfer may take.
    pub snapshot_step_ms: u64,
}

impl Default for RaftConfig {
    fn default() -> Self {
        let RaftTimings { heartbeat, election_min, election_max, snapshot_step } = RaftTimings::LAN;
        Self {
            heartbeat_ms: millis(heartbeat),
            election_min_ms: millis(election_min),
            election_max_ms: millis(election_max),
            snapshot_step_ms: millis(snapshot_step),
        }
    }
}

impl RaftConfig {
    pub(super) fn validate(self) -> Result<RaftTimings, ConfigError> {
        let ordered = self.heartbeat_ms > 0
            && self.heartbeat_ms.saturating_mul(2) <= self.election_min_ms
            && self.election_min_ms < self.election_max_ms
            && self.snapshot_step_ms > 0;
        if !ordered {
            return Err(ConfigError::RaftTimings);
        }
        Ok(RaftTimings {
            heartbeat: Duration::from_millis(self.heartbeat_ms),
            election_min: Duration::from_millis(self.election_min_ms),
            election_max: Duration::from_millis(self.election_max_ms),
            snapshot_step: Duration::from_millis(self.snapshot_step_ms),
        })
    }
}

/// How much room logs and snapshots take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageProfile {
    /// Large files, made ahead of time.
    #[default]
    Server,
    /// Everything small, for development.
    Small,
}

/// `[storage]`: logs and snapshots.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct StorageConfig {
    /// Where the other values start from.
    pub profile: StorageProfile,
    /// A snapshot is taken when a group's log has grown by so many bytes. Smaller restarts faster,
    /// larger writes less.
    pub snapshot_log_bytes: Option<u64>,
    /// How much of a group's log is kept behind a snapshot, for followers that lag.
    pub keep_log_bytes: Option<u64>,
}

impl StorageConfig {
    pub(super) const fn wal(self) -> WalSettings {
        match self.profile {
            StorageProfile::Server => WalSettings::LARGE,
            StorageProfile::Small => WalSettings::SMALL,
        }
    }

    pub(super) fn group(self) -> GroupSettings {
        let base = match self.profile {
            StorageProfile::Server => GroupSettings::SERVER,
            StorageProfile::Small => GroupSettings::SMALL,
        };
        GroupSettings {
            snapshot_log_bytes: self.snapshot_log_bytes.unwrap_or(base.snapshot_log_bytes),
            keep_log_bytes: self.keep_log_bytes.unwrap_or(base.keep_log_bytes),
            ..base
        }
    }
}

/// `[limits]`: what callers may take up.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LimitsConfig {
    /// Open connections. More for many slow callers; each takes some 20 KiB.
    pub connections_max: usize,
    /// Bytes of a request's line and headers. More for callers with large tokens or traces.
    pub header_bytes_max: usize,
    /// Bytes of request bodies in memory at once, at least 1 MiB. More for many large batches;
    /// less bounds memory tighter. A request that finds no room is refused as `overloaded`.
    pub body_bytes_max: usize,
    /// How long a connection may take to send a request's headers, or be idle.
    pub header_read_ms: u64,
    /// How long a connection may take no byte of an answer that waits for it.
    pub write_stall_ms: u64,
    /// How long a caller may take to take a whole answer. Longer for slow lines; shorter frees the
    /// memory of answers that nobody takes sooner.
    pub answer_ms: u64,
    /// Long reads at once: entries, statements, lists, one hold or charge, a balance with
    /// `at_sequence`, dry runs of void and close. More for many dashboards on fast disks; less keeps
    /// more of the disks and processors for decisions.
    pub long_reads_max: usize,
    /// How long a request may take. Longer rides out elections; shorter tells callers sooner.
    pub request_ms: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let standard = LimitSettings::STANDARD;
        Self {
            connections_max: standard.connections_max,
            header_bytes_max: standard.header_bytes_max,
            body_bytes_max: standard.body_bytes_max,
            header_read_ms: millis(standard.header_read),
            write_stall_ms: millis(standard.write_stall),
            answer_ms: millis(standard.answer),
            long_reads_max: standard.long_reads_max,
            request_ms: millis(standard.request),
        }
    }
}

impl LimitsConfig {
    pub(super) fn validate(self) -> Result<LimitSettings, ConfigError> {
        /// Below this, hyper refuses to work.
        const HEADER_BYTES_LEAST: usize = 8 << 10;
        let least = [
            ("connections-max", self.connections_max, 1),
            ("header-bytes-max", self.header_bytes_max, HEADER_BYTES_LEAST),
            ("body-bytes-max", self.body_bytes_max, purser_api::BODY_BYTES_MAX),
            ("long-reads-max", self.long_reads_max, 1),
        ];
        if let Some((name, _, least)) = least.into_iter().find(|(_, value, least)| value < least) {
            return Err(ConfigError::Limit(name, u64::try_from(least).unwrap_or(u64::MAX)));
        }
        let duration = |name, value| match value {
            0 => Err(ConfigError::Limit(name, 1)),
            value => Ok(Duration::from_millis(value)),
        };
        Ok(LimitSettings {
            connections_max: self.connections_max,
            header_bytes_max: self.header_bytes_max,
            body_bytes_max: self.body_bytes_max,
            header_read: duration("header-read-ms", self.header_read_ms)?,
            write_stall: duration("write-stall-ms", self.write_stall_ms)?,
            answer: duration("answer-ms", self.answer_ms)?,
            long_reads_max: self.long_reads_max,
            request: duration("request-ms", self.request_ms)?,
        })
    }
}

/// `[retention]`: how long accounts remember.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RetentionConfig {
    /// Decisions under idempotency keys, at least a second. Longer makes later retries safe; each
    /// key takes some 100 bytes of memory.
    pub key_seconds: u64,
    /// Ended holds and charges: how long they can be refunded. At least as long as keys, whose
    /// remembered answers are about them.
    pub record_seconds: u64,
    /// Usage events: how long after its time an event is accepted, and remembered. At least a second.
    /// Longer lets senders be down for longer; each event takes some 100 bytes of memory.
    pub event_seconds: u64,
}

impl RetentionConfig {
    pub(super) const fn validate(self) -> Result<RetentionSettings, ConfigError> {
        let Self { key_seconds, record_seconds, event_seconds } = self;
        if event_seconds == 0 {
            return Err(ConfigError::EventRetention);
        }
        if key_seconds == 0 {
            return Err(ConfigError::KeyRetention);
        }
        if record_seconds < key_seconds {
            return Err(ConfigError::RecordRetention { key_seconds });
        }
        Ok(RetentionSettings {
            keys: Span::from_secs(key_seconds),
            records: Span::from_secs(record_seconds),
            events: Span::from_secs(event_seconds),
        })
    }
}

impl Default for RetentionConfig {
    fn default() -> Self {
        let RetentionSettings { keys, records, events } = RetentionSettings::STANDARD;
        let (key_seconds, record_seconds) = (keys.as_secs(), records.as_secs());
        Self { key_seconds, record_seconds, event_seconds: events.as_secs() }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("our defaults are a few minutes at most")
}

/// The `[postgres]` section: a read model of what this region's homes have decided.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PostgresConfig {
    /// The file with the server's address, a URL or `key=value` pairs as libpq takes them: it may hold a
    /// password.
    pub address_file: PathBuf,
    /// A file with certificates in PEM: only who has one of these may vouch for the server. Without it this
    /// machine's roots count. The address needs `sslmode=verify-full` then.
    pub ca_file: Option<PathBuf>,
    /// The schema that the tables are in.
    #[serde(default = "default_schema")]
    pub schema: String,
}

fn default_schema() -> String {
    "purser".to_owned()
}

/// `[webhooks]`: what webhooks may do.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct WebhooksConfig {
    /// Set it where receivers stand in a network of your own: their addresses may then be private, and
    /// `http`. Otherwise whoever may make a webhook could have the service ask what only it can reach.
    pub allow_private_targets: bool,
}

impl WebhooksConfig {
    pub(super) const fn settings(self) -> WebhookSettings {
        WebhookSettings { allow_private_targets: self.allow_private_targets }
    }
}
