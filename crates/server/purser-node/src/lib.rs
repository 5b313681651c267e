//! A node of Purser: composes Raft groups that host ledgers, and serves the API over them.
//!
//! ```text
//!            HTTP                      this node                        other nodes
//!  caller ─────────▶ serve ──▶ http ──▶ routing ──▶ group of the shard ◀──▶ groups
//!                                │         │ not the leader
//!                                │         └──▶ forward ─────────────────▶ serve
//!                                └── convert: bodies ⇄ commands, receipts
//! ```
//!
//! A [`Node`] is started from checked [`NodeSettings`], which may come from a [`NodeConfig`] file. A
//! [`Router`] is the same without groups: it passes on whatever comes.
//! Several nodes can live in one process: nothing here is global but what `tracing` and `metrics`
//! keep.
//!
//! Not here: whether an operation is allowed (the ledger decides), how entries are replicated
//! (`purser-raft`), what bodies look like (`purser-api`). This crate translates between them.
//!
//! What is kept here:
//!
//! - A request whose outcome is unknown is never sent to another node again.
//! - Every mutating call names its idempotency key, and a token reaches only its own tenants.
//! - Nothing internal stands in an answer; it stands in the log, under the request's id.

mod config;
mod feed;
mod groups;
mod http;
mod listeners;
mod metrics;
mod node;
mod regions;
mod restoring;
mod router;
mod serve;
mod settings;
mod shards;
mod task;
mod tasks;
mod token;
mod verification;
mod webhooks;

pub use config::{
    ConfigError, LimitsConfig, NodeConfig, PeerConfig, PostgresConfig, RaftConfig, RegionsConfig,
    RetentionConfig, RouterConfig, StorageConfig, StorageProfile, TokenConfig, WebhooksConfig,
};
pub use feed::{Feed, FeedCursor, FeedError, FeedItem, FeedPage};
pub use groups::GroupsError;
pub use http::openapi_document;
pub use listeners::{Addresses, ApiAddresses, ApiListeners, BindError, Listeners};
pub use metrics::{Recorder, RecorderError};
pub use node::{Node, StartError, Surroundings};
pub use regions::Monotonic;
pub use restoring::{MarkerError, RestoreError, back_up, restore};
pub use router::{Router, RouterStartError};
pub use settings::{
    BaseUrl, ClusterName, InvalidBaseUrl, InvalidClusterName, LimitSettings, NodeSettings,
    PeerSettings, RegionNumber, RegionSettings, RetentionSettings, RouterSettings, VoucherKey,
};
pub use shards::{InvalidShardCount, Shard, ShardCount};
pub use tasks::NodeFailure;
pub use token::{InvalidTokenHash, Scope, Token, TokenHash};
pub use verification::{ReadModel, ReadModelDifference, ReadModelError, ReadModelVerdict};
pub use webhooks::WebhookSettings;
