//! What the measurements of jobs and events share: a service to ask, tenants to ask for, many asking at once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hyper::{Method, StatusCode};
use purser_api::paths;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::{ClusterError, SpawnedCluster};
use crate::failure::CommandError;
use crate::replay::caller::{ATTEMPT_MAX, Call, Caller, CallerSettings, Undecided};
use crate::replay::connection::{self, Callees, InvalidToken};
use crate::replay::setup::wall_time;
use crate::replay::tally::Waits;

/// How long a call is repeated before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a tenant gets: more than any measurement uses.
const FUNDS: u64 = 1_000_000_000_000_000;

/// Whom to ask.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Whom {
    #[command(flatten)]
    callees: Callees,
    /// Start three nodes of this program, one region, for the measurement, and end them afterwards.
    #[arg(long, conflicts_with_all = ["url", "token"])]
    spawn: bool,
    /// Into how many groups the nodes of `--spawn` divide the accounts.
    #[arg(long, default_value_t = 1, requires = "spawn")]
    shards: u16,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The service does not decide.
    #[error("the service does not decide")]
    Undecided(#[from] Undecided),
    /// The nodes could not be started.
    #[error("the nodes did not start")]
    Cluster(#[from] ClusterError),
    /// The token cannot be sent.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// The service refuses.
    #[error("{path} was refused: {status}: {body}")]
    Refused {
        /// The path.
        path: String,
        /// The status.
        status: StatusCode,
        /// The answer.
        body: String,
    },
    /// An answer is not what it should be.
    #[error("{path}: the answer cannot be read")]
    Unreadable {
        /// The path.
        path: String,
    },
    /// A task of this program ended by itself.
    #[error("a part of the measurement failed")]
    Task(#[from] tokio::task::JoinError),
}

impl From<AskError> for CommandError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Undecided(undecided) => Self::unreached("nothing was measured", undecided),
            AskError::Token(invalid) => Self::Usage(invalid.to_string()),
            error => Self::broken("nothing was measured", error),
        }
    }
}

/// Asks a service.
pub(crate) struct Asking {
    caller: Caller,
    /// The run's name, with which every tenant, queue and key starts.
    pub(crate) run: String,
    /// The nodes that were started for it; they end with it.
    _cluster: Option<SpawnedCluster>,
}

impl Asking {
    /// Whoever asks `whom`.
    pub(crate) async fn new(whom: &Whom) -> Result<Arc<Self>, AskError> {
        let cluster =
            if whom.spawn { Some(SpawnedCluster::start(None, whom.shards).await?) } else { None };
        let (addresses, token) = match &cluster {
            Some(cluster) => (cluster.addresses(), cluster.token()),
            None => (whom.callees.url.clone(), &*whom.callees.token),
        };
        let settings = CallerSettings {
            addresses,
            regions: Vec::new(),
            authorization: connection::bearer(token)?,
            patience: PATIENCE,
            attempt_max: ATTEMPT_MAX,
        };
        let run = format!("b{:x}", wall_time().as_millis());
        let caller = Caller::new(settings, Arc::default());
        Ok(Arc::new(Self { caller, run, _cluster: cluster }))
    }

    /// Asks for a change, under a key of the run.
    pub(crate) async fn change(
        &self,
        path: &str,
        key: &str,
        body: &Value,
    ) -> Result<Value, AskError> {
        let key = Some(format!("{}-{key}", self.run));
        self.ask(Method::POST, path, (key, body.to_string())).await
    }

    /// Asks for a change that has no key.
    pub(crate) async fn change_unkeyed(&self, path: &str, body: &Value) -> Result<Value, AskError> {
        self.ask(Method::POST, path, (None, body.to_string())).await
    }

    /// Reads.
    pub(crate) async fn read(&self, path: &str) -> Result<Value, AskError> {
        self.ask(Method::GET, path, (None, String::new())).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        (key, body): (Option<String>, String),
    ) -> Result<Value, AskError> {
        let body = Bytes::from(body);
        let call = Call { method, path: path.to_owned(), key, body, entrance: None };
        let decided = self.caller.decide(&call).await?;
        if !decided.status.is_success() {
            let body = String::from_utf8_lossy(&decided.body).into_owned();
            return Err(AskError::Refused { path: call.path, status: decided.status, body });
        }
        serde_json::from_slice(&decided.body)
            .map_err(|_unreadable| AskError::Unreadable { path: call.path })
    }

    /// Opens and funds so many tenants, and tells their names.
    pub(crate) async fn open(&self, count: u32) -> Result<Vec<String>, AskError> {
        let names: Vec<String> = (0..count).map(|place| format!("{}:t{place}", self.run)).collect();
        let open = |name: &String| self.open_one(name.clone());
        {
            let mut opened = std::pin::pin!(stream::iter(&names).map(open).buffer_unordered(64));
            while let Some(one) = opened.next().await {
                one?;
            }
        }
        Ok(names)
    }

    async fn open_one(&self, name: String) -> Result<(), AskError> {
        let (tenants, body) = (paths::ADMIN_TENANTS, json!({ "tenant": name }));
        self.change(tenants, &format!("open-{name}"), &body).await?;
        let grants = paths::fill(paths::ADMIN_GRANTS, &[&name]);
        let body = json!({ "amount": FUNDS.to_string() });
        self.change(&grants, &format!("grant-{name}"), &body).await?;
        Ok(())
    }
}

/// Does something `count` times, so many at once, and tells how long each took.
pub(crate) async fn many<F: Future<Output = Result<(), AskError>>>(
    count: u64,
    at_once: usize,
    act: impl Fn(u64) -> F,
) -> Result<Waits, AskError> {
    let timed = |number| {
        let acted = act(number);
        async move {
            let since = Instant::now();
            acted.await.map(|()| since.elapsed())
        }
    };
    let mut waits = Waits::default();
    let mut acts = std::pin::pin!(stream::iter(0..count).map(timed).buffer_unordered(at_once));
    while let Some(took) = acts.next().await {
        waits.add(took?);
    }
    Ok(waits)
}
