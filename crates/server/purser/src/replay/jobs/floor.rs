//! The floor where all of it happens: what is shared by those who create jobs, those who work on them, and
//! those who look at what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use purser_api::Problem;
use purser_types::{Region, TenantId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::events::Outbound;
use super::plan::{JobsPlan, Work};
use crate::replay::caller::{Call, Caller, Decided};
use crate::replay::wire::{self, WireError};

/// How many complaints are kept; a fault usually makes many alike.
const COMPLAINTS_MAX: usize = 50;

/// Why a call or an event was refused, if only regions that are away could pay.
pub(super) const STRANDED: &str = "stranded";

/// How long to wait for a region that is away.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How often, before the region is taken for lost.
const ROUNDS_MAX: u32 = 180;

/// See the module's documentation.
pub(crate) struct Floor {
    pub(super) caller: Caller,
    /// The run's name: every key and every tenant starts with it, so runs do not meet.
    pub(super) run: String,
    pub(super) plan: JobsPlan,
    /// The regions, if there are several.
    pub(super) regions: Vec<Region>,
    /// What is told beside what its teller waits for.
    pub(super) tellers: TaskTracker,
    /// Where events go that are told in batches.
    pub(super) outbound: Outbound,
    names: Vec<TenantId>,
    /// Whether an operator lets a job be tried again, by the place of its work.
    redriven: Vec<AtomicBool>,
    noted: Mutex<Noted>,
}

/// What is noted on the way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Noted {
    /// How often each thing happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Answers that should not have come.
    pub(crate) complaints: Vec<String>,
    /// Tenants of whom an event waits because only regions that were away could pay.
    pub(crate) stranded: BTreeSet<usize>,
    /// The newest entry that an answer told of: whose, which, and when the answer came.
    pub(crate) newest: Option<(usize, u64, Instant)>,
}

impl Floor {
    /// A floor for the tenants of a plan.
    pub(crate) fn new(
        caller: Caller,
        (run, plan): (String, JobsPlan),
        regions: Vec<Region>,
        outbound: Outbound,
    ) -> Result<Arc<Self>, WireError> {
        let name = |payer: &super::plan::Payer| wire::tenant(&format!("{run}:{}", payer.name));
        let names = plan.tenants.iter().map(name).collect::<Result<_, _>>()?;
        let redriven = plan.works.iter().map(|_| AtomicBool::new(false)).collect();
        let (tellers, noted) = (TaskTracker::new(), Mutex::default());
        let floor = Self { caller, run, plan, regions, tellers, outbound, names, redriven, noted };
        Ok(Arc::new(floor))
    }

    /// A tenant's name at the service.
    pub(crate) fn name(&self, tenant: usize) -> &TenantId {
        &self.names[tenant]
    }

    /// The job of a work, as the service knows it.
    pub(super) fn job(place: usize) -> String {
        format!("j{place}")
    }

    /// The work of a job; nothing if it is none of ours.
    pub(super) fn place_of(&self, tenant: &str, job: &str) -> Option<usize> {
        let place = job.strip_prefix('j')?.parse().ok()?;
        let work: &Work = self.plan.works.get(place)?;
        (self.name(work.tenant).as_str() == tenant).then_some(place)
    }

    pub(super) fn is_redriven(&self, place: usize) -> bool {
        self.redriven.get(place).is_some_and(|flag| flag.load(Ordering::SeqCst))
    }

    pub(super) fn set_redriven(&self, place: usize) {
        if let Some(flag) = self.redriven.get(place) {
            flag.store(true, Ordering::SeqCst);
        }
    }

    pub(super) fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, what: &'static str) {
        *self.noted().counts.entry(what).or_default() += 1;
    }

    pub(super) fn complain(&self, what: String) {
        self.noted().complain(what);
    }

    /// Asks for a change until it is decided, and reads the answer. What is refused, or cannot be read, is
    /// complained of; a call that was given up is counted by the caller. Nothing in all three cases.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        path: String,
        key: Option<&str>,
        body: &impl Serialize,
    ) -> Option<T> {
        let what = format!("{path} under {key:?}");
        let decided = self.send(path, key, body).await?;
        self.take(&what, &decided)
    }

    /// Like [`ask`](Self::ask); while credits are stranded in regions that are away, it asks again under a
    /// new key, which is what such a refusal asks for.
    pub(super) async fn ask_again<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
        body: &impl Serialize,
    ) -> Option<T> {
        let what = format!("{path} under {key}");
        for round in 0..ROUNDS_MAX {
            let key = format!("{key}-{round}");
            let decided = self.send(path.to_owned(), Some(&key), body).await?;
            if code(&decided).as_deref() != Some(STRANDED) {
                return self.take(&what, &decided);
            }
            self.count(STRANDED);
            sleep(ASK_AGAIN_AFTER).await;
        }
        self.complain(format!("{what}: stranded {ROUNDS_MAX} times"));
        None
    }

    fn take<T: DeserializeOwned>(&self, what: &str, decided: &Decided) -> Option<T> {
        if !decided.status.is_success() {
            let code = code(decided).unwrap_or_default();
            self.complain(format!("{what}: {} {code}", decided.status));
            return None;
        }
        let read = serde_json::from_slice::<T>(&decided.body);
        read.map_err(|error| self.complain(format!("{what}: cannot be read: {error}"))).ok()
    }

    /// Asks for a change until it is decided. Nothing if it was given up.
    pub(super) async fn send(
        &self,
        path: String,
        key: Option<&str>,
        body: &impl Serialize,
    ) -> Option<Decided> {
        let body = match serde_json::to_vec(body) {
            Ok(body) => Bytes::from(body),
            Err(error) => {
                self.complain(format!("{path}: cannot be asked: {error}"));
                return None;
            }
        };
        let key = key.map(|key| format!("{}-{key}", self.run));
        let call = Call { method: Method::POST, path, key, body, entrance: None };
        self.caller.decide(&call).await.ok()
    }

    /// Reads something; nothing if that was given up. What is refused is complained of.
    pub(super) async fn read<T: DeserializeOwned>(&self, path: String) -> Option<T> {
        let decided = self.caller.decide(&Call::read(path.clone())).await.ok()?;
        if decided.status != StatusCode::OK {
            self.complain(format!("{path}: {}", decided.status));
            return None;
        }
        let read = serde_json::from_slice::<T>(&decided.body);
        read.map_err(|error| self.complain(format!("{path}: cannot be read: {error}"))).ok()
    }
}

impl Noted {
    /// Complains of what was stranded, unless a region was out of reach meanwhile.
    pub(super) fn judge_stranded(&mut self, was_out_of_reach: bool) {
        if let Some(count) = self.counts.get(STRANDED).filter(|_| !was_out_of_reach) {
            self.complain(format!("stranded {count} times, with every region within reach"));
        }
    }

    fn complain(&mut self, what: String) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(what);
        }
    }
}

/// The code of the problem that an answer tells of, if it is one.
fn code(decided: &Decided) -> Option<String> {
    let problem = (!decided.status.is_success()).then(|| serde_json::from_slice(&decided.body));
    problem?.ok().map(|problem: Problem| problem.code.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_stranded_unless_a_region_was_out_of_reach() {
        let complaints = |times: &[u64], was_out_of_reach: bool| {
            let counts = times.iter().map(|times| (STRANDED, *times)).collect();
            let mut noted = Noted { counts, ..Noted::default() };
            noted.judge_stranded(was_out_of_reach);
            noted.complaints.len()
        };
        assert_eq!(complaints(&[], false), 0);
        assert_eq!(complaints(&[3], true), 0);
        assert_eq!(complaints(&[3], false), 1);
    }
}
