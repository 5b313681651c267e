//! A typed client of Purser's HTTP API.
//!
//! Every call that changes something has an idempotency key, the caller's or a random one, and all
//! attempts of a call send the same. So the client may send again whatever may not have arrived,
//! with jittered back-off, to the next node of the region, until the call's time is over. What it
//! cannot find out it says: [`ClientError`] tells *refused*, *nothing happened* and *unknown*
//! apart.
//!
//! It knows the contract (`purser-api`) and nothing of the ledger or the server. One client is for
//! one region; which region to ask is the caller's choice.
//!
//! ```no_run
//! use purser_client::api::{AuthorizeRequest, CallAmount, CaptureRequest};
//! use purser_client::{Call, Client};
//! use purser_types::TenantId;
//!
//! # async fn work(amount: CallAmount) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(["http://127.0.0.1:7710"], "dev")?;
//! let account = client.account(TenantId::parse("acme")?);
//! let mut held = account.hold_credits(&AuthorizeRequest::new(amount), &Call::new()).await?;
//! // The work. If it fails and `held` is dropped, the credits go back.
//! held.capture(&CaptureRequest::default(), &Call::new()).await?;
//! # Ok(())
//! # }
//! ```

mod account;
mod admin;
mod allocations;
mod backoff;
mod body;
mod budgets;
mod call;
mod client;
mod cluster;
mod error;
mod events;
mod held;
mod jobs;
mod retry;
mod settings;
mod webhooks;

pub use purser_api as api;

pub use account::Account;
pub use admin::{Admin, AdminAccount};
pub use allocations::Allocations;
pub use backoff::Backoff;
pub use body::AnswerBody;
pub use budgets::Budgets;
pub use call::{Answer, Call};
pub use client::Client;
pub use cluster::Cluster;
pub use error::{AttemptError, ClientError};
pub use held::HeldCredits;
pub use settings::{ClientSettings, SettingsError};
pub use webhooks::Webhooks;
