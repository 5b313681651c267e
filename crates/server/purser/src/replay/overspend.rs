//! What the service says about overspending while the jobs run: `GET /admin/v1/overspend`, once a
//! second.
//!
//! Read leniently: a service that does not know the path is not wrong for that, and then nothing is
//! known. Not here: what was overspent in truth, which the comparison finds, and at each moment
//! [`sampled`](super::sampled).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use super::caller::{Call, Caller, CallerSettings};

/// The call.
const OVERSPEND: &str = "/admin/v1/overspend";
/// How often it is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long one answer may take: it is added up over regions, one of which may be out of reach.
const ANSWER_MAX: Duration = Duration::from_secs(8);

/// What was heard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct OverspendHeard {
    /// Answers with a bound.
    pub(crate) answers: u64,
    /// Answers that left some region out, or that did not come.
    pub(crate) incomplete: u64,
    /// The largest bound that was shown.
    pub(crate) bound_max: Option<u64>,
    /// The last answer.
    pub(crate) last: Option<Overspend>,
    /// Each answer with a bound, and when it was given.
    #[serde(skip)]
    pub(crate) samples: Vec<Sample>,
}

/// A bound that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When it was asked for.
    pub(crate) asked_at: Instant,
    /// When the answer had come: it says how things were at some moment between the two.
    pub(crate) answered_at: Instant,
    /// The bound.
    pub(crate) bound: u64,
    /// Regions whose homes it is without.
    pub(crate) unknown_regions: Vec<String>,
}

/// One answer; what it does not say is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Overspend {
    pub(crate) bound: Option<u64>,
    pub(crate) realised: Option<u64>,
    pub(crate) ceiling: Option<u64>,
    pub(crate) stranded: Option<u64>,
    /// Regions that were not heard, so that the figures are without them.
    pub(crate) unknown_regions: Vec<String>,
}

impl Overspend {
    /// Reads an answer. Amounts are texts of digits, or numbers.
    fn read(answer: &Value) -> Self {
        let amount = |name: &str| match &answer[name] {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        let unknown = answer["unknown_regions"].as_array().into_iter().flatten();
        Self {
            bound: amount("bound"),
            realised: amount("realised"),
            ceiling: amount("ceiling"),
            stranded: amount("stranded"),
            unknown_regions: unknown.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}

impl OverspendHeard {
    fn note(&mut self, overspend: Overspend, asked_at: Instant) {
        if let Some(bound) = overspend.bound {
            let unknown_regions = overspend.unknown_regions.clone();
            let answered_at = Instant::now();
            self.samples.push(Sample { asked_at, answered_at, bound, unknown_regions });
        }
        self.answers += u64::from(overspend.bound.is_some());
        self.incomplete += u64::from(!overspend.unknown_regions.is_empty());
        self.bound_max = self.bound_max.max(overspend.bound);
        self.last = Some(overspend);
    }

    /// Whether `overspent` is beyond every bound that was shown; nothing if none was.
    pub(crate) fn is_exceeded_by(&self, overspent: u64) -> Option<bool> {
        self.bound_max.map(|bound| bound < overspent)
    }
}

/// Asks while it lives.
pub(crate) struct Listener {
    caller: Arc<Caller>,
    heard: Arc<Mutex<OverspendHeard>>,
    asking: JoinSet<()>,
}

impl Listener {
    /// Starts asking.
    pub(crate) fn start(settings: &CallerSettings) -> Self {
        let settings = CallerSettings {
            patience: Duration::ZERO,
            attempt_max: ANSWER_MAX,
            ..settings.clone()
        };
        let caller = Arc::new(Caller::new(settings, Arc::default()));
        let heard = Arc::new(Mutex::default());
        let mut asking = JoinSet::new();
        let (asks, notes) = (Arc::clone(&caller), Arc::clone(&heard));
        asking.spawn(async move {
            let mut ticks = interval(ASK_EVERY);
            loop {
                ticks.tick().await;
                ask(&asks, &notes).await;
            }
        });
        Self { caller, heard, asking }
    }

    /// Asks once more, and says what was heard. All that was decided must be booked by then.
    pub(crate) async fn end(mut self) -> OverspendHeard {
        self.asking.shutdown().await;
        ask(&self.caller, &self.heard).await;
        lock(&self.heard).clone()
    }
}

fn lock(heard: &Mutex<OverspendHeard>) -> MutexGuard<'_, OverspendHeard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ask(caller: &Caller, heard: &Mutex<OverspendHeard>) {
    let asked_at = Instant::now();
    match caller.decide(&Call::read(OVERSPEND.to_owned())).await {
        Ok(decided) if decided.status == StatusCode::OK => {
            match serde_json::from_slice::<Value>(&decided.body) {
                Ok(answer) => lock(heard).note(Overspend::read(&answer), asked_at),
                Err(_unreadable) => lock(heard).incomplete += 1,
            }
        }
        // The service does not tell: nothing is known.
        Ok(_) => (),
        Err(_undecided) => lock(heard).incomplete += 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_largest_bound_is_kept_and_what_is_not_said_is_not_zero() {
        let (mut heard, now) = (OverspendHeard::default(), Instant::now());
        assert_eq!(heard.is_exceeded_by(1), None);
        let seven = json!({ "bound": "7", "realised": 2, "stranded": null });
        heard.note(Overspend::read(&seven), now);
        heard.note(Overspend::read(&json!({ "bound": "0", "unknown_regions": ["eu"] })), now);
        assert_eq!((heard.answers, heard.incomplete, heard.bound_max), (2, 1, Some(7)));
        assert_eq!((heard.is_exceeded_by(7), heard.is_exceeded_by(8)), (Some(false), Some(true)));
        let last = heard.last.unwrap();
        assert_eq!((last.bound, last.realised, last.stranded), (Some(0), None, None));
        heard = OverspendHeard::default();
        heard.note(Overspend::read(&json!({})), now);
        assert_eq!((heard.answers, heard.bound_max, heard.samples.len()), (0, None, 0));
    }
}
