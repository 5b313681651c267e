//! The desk where calls are made: each goes to the service, and into its tenant's journal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use purser_types::TenantId;
use tokio::time::Instant;

use super::book::Asked;
use super::caller::{Call, Caller, Decided};
use super::job::Repeat;
use super::journal::Journal;
use super::tally::{Counts, count};
use super::wire::{self, Handle, Receipt, Verdict, WireError};

/// Makes calls and keeps the journals.
pub(crate) struct Desk {
    caller: Caller,
    /// The run's name: every key and every tenant starts with it, so runs do not meet.
    run: String,
    tenants: Vec<Client>,
}

/// One tenant at the desk.
struct Client {
    name: TenantId,
    journal: Mutex<Journal>,
}

/// One call as a job makes it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Who pays: a place at the desk.
    pub(crate) tenant: usize,
    /// What the call is named by within the run.
    pub(crate) name: String,
    /// What is asked.
    pub(crate) asked: Asked,
    /// The id of what it is about.
    pub(crate) handle: Handle,
    /// Whether it is sent twice.
    pub(crate) repeat: Repeat,
    /// Since when the caller has been waiting.
    pub(crate) due: Instant,
}

impl Desk {
    /// A desk for tenants of these names.
    pub(crate) fn new<'a>(
        caller: Caller,
        run: String,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Self, WireError> {
        let client = |name: &str| {
            let name = wire::tenant(&format!("{run}:{name}"))?;
            Ok(Client { name, journal: Mutex::default() })
        };
        let tenants = names.map(client).collect::<Result<_, WireError>>()?;
        Ok(Self { caller, run, tenants })
    }

    /// How many tenants there are.
    pub(crate) fn tenants_count(&self) -> usize {
        self.tenants.len()
    }

    /// A tenant's name at the service.
    pub(crate) fn name(&self, tenant: usize) -> &TenantId {
        &self.tenants[tenant].name
    }

    /// What was asked of a tenant.
    pub(crate) fn journal(&self, tenant: usize) -> MutexGuard<'_, Journal> {
        self.tenants[tenant].journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes calls without a journal.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The idempotency key of the call with this name.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}-{name}", self.run)
    }

    /// Makes a call. Returns what it made, if it was done.
    ///
    /// An answer that cannot be read, or that differs between two sendings of one call, is noted in
    /// the journal.
    pub(crate) async fn ask(self: &Arc<Self>, request: Request) -> Option<Receipt> {
        let key = self.key(&request.name);
        let Request { tenant, asked, handle, repeat, due, .. } = request;
        let call = match wire::call(self.name(tenant), &asked, &handle, key.clone()) {
            Ok(call) => call,
            Err(error) => {
                self.journal(tenant).complain(format!("key {key}: {error}"));
                return None;
            }
        };
        self.journal(tenant).open(&key, asked.clone());
        let first = match repeat {
            Repeat::Never => self.send(tenant, &asked, &call).await,
            Repeat::Afterwards => {
                let first = self.send(tenant, &asked, &call).await;
                self.count(&asked, &first, due.elapsed());
                self.send(tenant, &asked, &call).await;
                return done(first);
            }
            Repeat::AtOnce => {
                let twice = (self.send(tenant, &asked, &call), self.send(tenant, &asked, &call));
                let (first, second) = tokio::join!(twice.0, twice.1);
                self.check_racers(tenant, &key, &first, &second);
                first.or(second)
            }
        };
        self.count(&asked, &first, due.elapsed());
        done(first)
    }

    async fn send(&self, tenant: usize, asked: &Asked, call: &Call) -> Option<Sent> {
        let decided = self.caller.decide(call).await.ok()?;
        let key = call.key.as_deref().unwrap_or_default();
        if decided.replayed {
            self.caller.tally().lock().replayed += 1;
        }
        match wire::verdict(asked, &decided) {
            Ok(verdict) => {
                self.journal(tenant).close(key, &verdict);
                Some(Sent { verdict, replayed: decided.replayed })
            }
            Err(error) => {
                let Decided { status, body, .. } = &decided;
                let text = String::from_utf8_lossy(body);
                let what = format!("key {key}: answer {status} cannot be read ({error}): {text}");
                self.journal(tenant).complain(what);
                None
            }
        }
    }

    /// Of two calls with one key, at most one may have made the effect.
    fn check_racers(&self, tenant: usize, key: &str, first: &Option<Sent>, second: &Option<Sent>) {
        if let (Some(first), Some(second)) = (first, second)
            && matches!(first.verdict, Verdict::Done(_))
            && !first.replayed
            && !second.replayed
        {
            let what = format!("key {key}: sent twice, and neither answer was marked as replayed");
            self.journal(tenant).complain(what);
        }
    }

    fn count(&self, asked: &Asked, sent: &Option<Sent>, wait: Duration) {
        let Some(sent) = sent else { return };
        let mut counts = self.caller.tally().lock();
        count(&mut counts.decided, operation(asked));
        if let Verdict::Refused(refusal) = &sent.verdict {
            count(&mut counts.refused, refusal.code.clone());
        }
        if let Some(waits) = waits_of(&mut counts, asked) {
            waits.add(wait);
        }
        if let Some(waits) = &mut counts.outage {
            waits.add(wait);
        }
    }
}

/// One answer to a call.
struct Sent {
    verdict: Verdict,
    replayed: bool,
}

fn done(sent: Option<Sent>) -> Option<Receipt> {
    match sent?.verdict {
        Verdict::Done(receipt) => Some(receipt),
        Verdict::Refused(_) => None,
    }
}

fn waits_of<'a>(counts: &'a mut Counts, asked: &Asked) -> Option<&'a mut super::tally::Waits> {
    match asked {
        Asked::Authorize { .. } => Some(&mut counts.authorize),
        Asked::Capture(_) => Some(&mut counts.capture),
        Asked::Open(_)
        | Asked::Grant(_)
        | Asked::Release { .. }
        | Asked::Charge { .. }
        | Asked::Refund { .. }
        | Asked::Reclaim { .. }
        | Asked::Void { .. } => None,
    }
}

/// What a call is counted as.
const fn operation(asked: &Asked) -> &'static str {
    match asked {
        Asked::Open(_) => "open",
        Asked::Grant(_) => "grant",
        Asked::Authorize { .. } => "authorize",
        Asked::Capture(_) => "capture",
        Asked::Release { .. } => "release",
        Asked::Charge { .. } => "charge",
        Asked::Refund { .. } => "refund",
        Asked::Reclaim { .. } => "reclaim",
        Asked::Void { .. } => "void",
    }
}
