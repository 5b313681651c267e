//! The desk where calls are made: each goes to the service, and into its tenant's journal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use purser_api::DeciderRole;
use purser_types::TenantId;
use tokio::time::Instant;

use super::book::Asked;
use super::caller::{Call, Caller, Decided, Decider};
use super::job::Repeat;
use super::journal::Journal;
use super::regional_counts::{RegionalCounts, Way};
use super::spread::Spread;
use super::tally::{Counts, count};
use super::wire::{self, Choice, Handle, Receipt, Verdict, WireError};

/// Makes calls and keeps the journals.
pub(crate) struct Desk {
    caller: Caller,
    /// The run's name: every key and every tenant starts with it, so runs do not meet.
    run: String,
    tenants: Vec<Client>,
    spread: Option<Spread>,
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

/// A call on its way.
struct Outgoing {
    tenant: usize,
    asked: Asked,
    call: Call,
    is_strict: bool,
    /// Whether the tenant has called the region before with something that spends.
    is_later: bool,
}

impl Desk {
    /// A desk for tenants of these names, whose calls are spread over regions if there are several.
    pub(crate) fn new<'a>(
        caller: Caller,
        run: String,
        names: impl Iterator<Item = &'a str>,
        spread: Option<Spread>,
    ) -> Result<Self, WireError> {
        let client = |name: &str| {
            let name = wire::tenant(&format!("{run}:{name}"))?;
            Ok(Client { name, journal: Mutex::default() })
        };
        let tenants = names.map(client).collect::<Result<_, WireError>>()?;
        Ok(Self { caller, run, tenants, spread })
    }

    /// How calls are spread over regions, if there are several.
    pub(crate) fn spread(&self) -> Option<&Spread> {
        self.spread.as_ref()
    }

    /// The place of a tenant's home, if there are several regions.
    pub(crate) fn home(&self, tenant: usize) -> Option<usize> {
        self.spread.as_ref().map(|spread| spread.home(tenant))
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
        let Request { tenant, repeat, due, .. } = request;
        let outgoing = match self.prepare(request, &key) {
            Ok(outgoing) => outgoing,
            Err(error) => {
                self.journal(tenant).complain(format!("key {key}: {error}"));
                return None;
            }
        };
        let first = match repeat {
            Repeat::Never => self.send(&outgoing).await,
            Repeat::Afterwards => {
                let first = self.send(&outgoing).await;
                self.count(&outgoing, &first, due.elapsed());
                self.send(&outgoing).await;
                return done(first);
            }
            Repeat::AtOnce => {
                let (first, second) = tokio::join!(self.send(&outgoing), self.send(&outgoing));
                self.check_racers(tenant, &key, &first, &second);
                first.or(second)
            }
        };
        self.count(&outgoing, &first, due.elapsed());
        done(first)
    }

    /// Makes a call of what is asked, chooses where it comes in, and enters it in the journal.
    fn prepare(&self, request: Request, key: &str) -> Result<Outgoing, WireError> {
        let Request { tenant, name, asked, handle, .. } = request;
        let spends = matches!(asked, Asked::Authorize { .. } | Asked::Charge { .. });
        let spread = self.spread.as_ref();
        let entrance = spread.map(|spread| spread.entrance(tenant, &name));
        let choice = Choice {
            home: spread.and_then(|spread| spread.regions().get(spread.home(tenant)).copied()),
            is_strict: spends && spread.is_some_and(|spread| spread.is_strict(&name)),
        };
        let call = wire::call(self.name(tenant), &asked, &handle, choice, key.to_owned())?;
        let mut journal = self.journal(tenant);
        journal.open(key, asked.clone(), handle.work().map(str::to_owned));
        let mut is_later = false;
        if let Some(place) = entrance.filter(|_| spends) {
            let before = journal.spends_at.entry(place).or_default();
            is_later = *before > 0;
            *before += 1;
        }
        let (call, is_strict) = (call.at(entrance), choice.is_strict);
        Ok(Outgoing { tenant, asked, call, is_strict, is_later })
    }

    async fn send(&self, outgoing: &Outgoing) -> Option<Sent> {
        let Outgoing { tenant, asked, call, .. } = outgoing;
        let decided = self.caller.decide(call).await.ok()?;
        let key = call.key.as_deref().unwrap_or_default();
        if decided.replayed {
            self.caller.tally().lock().replayed += 1;
        }
        match wire::verdict(asked, &decided) {
            Ok(verdict) => {
                let Decided { replayed, by, bound, .. } = decided;
                self.journal(*tenant).close(key, &verdict, by);
                Some(Sent { verdict, replayed, by, bound })
            }
            Err(error) => {
                let Decided { status, body, .. } = &decided;
                let text = String::from_utf8_lossy(body);
                let what = format!("key {key}: answer {status} cannot be read ({error}): {text}");
                self.journal(*tenant).complain(what);
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

    fn count(&self, outgoing: &Outgoing, sent: &Option<Sent>, wait: Duration) {
        let Some(sent) = sent else { return };
        let asked = &outgoing.asked;
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
        if let (Some(spread), Some(by)) = (&self.spread, sent.by) {
            count_regional(&mut counts.regional, spread, (outgoing, sent, by), wait);
        }
    }
}

/// Counts who decided a call, and how long that took.
fn count_regional(
    counts: &mut RegionalCounts,
    spread: &Spread,
    (outgoing, sent, by): (&Outgoing, &Sent, Decider),
    wait: Duration,
) {
    counts.note_bound(sent.bound);
    let Some(entrance) = outgoing.call.entrance else { return };
    let is_here = spread.place_of(&by.region) == Some(entrance);
    counts.passed_on += u64::from(!is_here);
    if let Some(cut) = counts.cuts.get_mut(&entrance) {
        cut.count_decided(by, is_here);
    }
    let is_spend = matches!(outgoing.asked, Asked::Authorize { .. } | Asked::Charge { .. });
    if !is_spend || !matches!(sent.verdict, Verdict::Done(_)) {
        return;
    }
    let way = match (is_here, by.role, outgoing.is_strict) {
        (true, DeciderRole::Allocation, _) => Way::Local,
        (true, DeciderRole::Home, _) => Way::AtHome,
        (false, _, true) => Way::Strict,
        (false, _, false) => Way::PassedOn,
    };
    counts.waits.entry(way).or_default().add(wait);
    if outgoing.is_later && !outgoing.is_strict {
        counts.later.add(is_here);
        let tenant = outgoing.tenant;
        if spread.home(tenant) != entrance && !spread.is_scarce(tenant) {
            counts.later_away.add(is_here);
        }
    }
}

/// One answer to a call.
struct Sent {
    verdict: Verdict,
    replayed: bool,
    by: Option<Decider>,
    bound: Option<u64>,
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
