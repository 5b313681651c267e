//! Opens and funds the tenants of a measurement. Doing it again changes nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use purser_api::{
    CallAmount, GrantRequest, InvalidText, OpenTenantRequest, PolicyRequest, Problem, ProblemCode,
    SourceRef, TenantName, UnitName, paths,
};
use purser_client::AnswerBody;
use purser_types::{Credits, TenantId};
use tokio::task::{JoinError, JoinSet};

use super::worker::Target;
use crate::output::{Output, Progress};
use crate::replay::caller::{ATTEMPT_MAX, Call, Caller, CallerSettings, Undecided};

/// How many tenants are set up at once.
const AT_ONCE: usize = 64;
/// How long a call is repeated before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a tenant gets: enough for 2 × 10^14 pairs.
const FUNDS: Credits = match Credits::from_u64(1_000_000_000_000_000) {
    Ok(funds) => funds,
    Err(_) => Credits::ZERO,
};

/// Why a tenant could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FundError {
    /// The service does not decide.
    #[error("the service does not decide")]
    Undecided(#[from] Undecided),
    /// The service refuses.
    #[error("{path} was refused: {answer}")]
    Refused {
        /// The path.
        path: String,
        /// The answer.
        answer: String,
    },
    /// A request cannot be made.
    #[error("a request could not be made")]
    Text(#[from] InvalidText),
    /// A request cannot be written.
    #[error("a request could not be written")]
    Json(#[from] serde_json::Error),
    /// A task of this program ended by itself.
    #[error("a part of the set-up failed")]
    Task(#[from] JoinError),
}

/// Opens and funds every tenant of the target.
pub(crate) async fn fund(target: &Arc<Target>, output: &Output) -> Result<(), FundError> {
    let settings = CallerSettings {
        regions: Vec::new(),
        addresses: target.addresses.clone(),
        authorization: target.authorization.clone(),
        patience: PATIENCE,
        attempt_max: ATTEMPT_MAX,
    };
    let caller = Arc::new(Caller::new(settings, Arc::default()));
    let progress = output.progress("tenants opened", Some(u64::from(target.tenants)));
    let mut running = JoinSet::new();
    for place in 0..target.tenants {
        while running.len() >= AT_ONCE {
            finish_one(&mut running, &progress).await?;
        }
        let caller = Arc::clone(&caller);
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        running.spawn(async move { fund_one(&caller, &Target::tenant(place)).await });
    }
    while !running.is_empty() {
        finish_one(&mut running, &progress).await?;
    }
    progress.finish(target.tenants);
    Ok(())
}

async fn finish_one(
    running: &mut JoinSet<Result<(), FundError>>,
    progress: &Progress,
) -> Result<(), FundError> {
    if let Some(ended) = running.join_next().await {
        ended??;
        progress.advance(1);
    }
    Ok(())
}

async fn fund_one(caller: &Caller, name: &str) -> Result<(), FundError> {
    let tenant = TenantId::parse(name).expect("names here are letters, a dash and digits");
    let open = OpenTenantRequest {
        tenant: TenantName(tenant),
        unit: UnitName::default(),
        home: None,
        standbys: None,
        policy: PolicyRequest::default(),
    };
    let body = Bytes::from(serde_json::to_vec(&open)?);
    let call = Call::change(paths::ADMIN_TENANTS.to_owned(), format!("{name}-open"), body);
    must(caller, &call, Some(ProblemCode::TenantExists)).await?;

    // The source makes a second grant harmless, also when its key has been forgotten.
    let mut grant = GrantRequest::new(CallAmount::from_credits(FUNDS)?);
    grant.source_ref = Some(SourceRef::parse("purser bench")?);
    let body = Bytes::from(serde_json::to_vec(&grant)?);
    let path = paths::fill(paths::ADMIN_GRANTS, &[&name]);
    must(caller, &Call::change(path, format!("{name}-grant"), body), None).await
}

async fn must(caller: &Caller, call: &Call, except: Option<ProblemCode>) -> Result<(), FundError> {
    let decided = caller.decide(call).await?;
    let problem = || Problem::from_json(&decided.body).ok()?.known_code();
    if decided.status.is_success() || (except.is_some() && problem() == except) {
        return Ok(());
    }
    let answer = String::from_utf8_lossy(&decided.body).into_owned();
    Err(FundError::Refused { path: call.path.clone(), answer })
}
