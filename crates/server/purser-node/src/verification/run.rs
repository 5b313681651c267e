//! One verification: how far it has come, and what its checks have found.

use std::sync::{Mutex, MutexGuard, PoisonError};

use purser_api::{
    GroupNumber, Moment, TotalAmount, VerificationAnswer, VerificationCheck, VerificationId,
    VerificationOutcome, VerificationSubject,
};
use purser_types::{LogTime, Region};

use super::{Scope, tell};

/// See the module's documentation.
pub(crate) struct Run {
    id: VerificationId,
    scope: Scope,
    rebuilds: bool,
    answer: Mutex<VerificationAnswer>,
}

/// One comparison, while it is made.
#[derive(Debug)]
pub(crate) struct Check {
    subject: VerificationSubject,
    group: Option<GroupNumber>,
    /// How much was compared.
    pub(crate) compared: u64,
    /// How many accounts were rightly left out.
    pub(crate) left_out: u64,
    differences_count: u64,
    credits: u128,
    differences: Vec<String>,
    not_compared: Vec<String>,
}

impl Check {
    /// Nothing is compared yet.
    pub(crate) const fn new(subject: VerificationSubject, group: Option<GroupNumber>) -> Self {
        Self {
            subject,
            group,
            compared: 0,
            left_out: 0,
            differences_count: 0,
            credits: 0,
            differences: Vec::new(),
            not_compared: Vec::new(),
        }
    }

    /// Something differs, by so many credits.
    pub(crate) fn differs(&mut self, text: String, credits: u128) {
        self.differ((1, credits), text);
    }

    /// So much differs, by so many credits; the first of it is told.
    pub(crate) fn differ(&mut self, (count, credits): (u64, u128), first: String) {
        self.differences_count = self.differences_count.saturating_add(count);
        self.credits = self.credits.saturating_add(credits);
        tell(&mut self.differences, first);
    }

    /// What was found is wrong by so many credits, all together.
    pub(crate) const fn amounts_to(&mut self, credits: u128) {
        self.credits = credits;
    }

    /// Something could not be compared.
    pub(crate) fn not_compared(&mut self, text: String) {
        tell(&mut self.not_compared, text);
    }

    /// What it came to.
    pub(super) fn finish(self) -> VerificationCheck {
        let outcome = outcome(self.differences_count, self.not_compared.is_empty());
        VerificationCheck {
            subject: self.subject,
            group: self.group,
            outcome,
            compared: self.compared,
            left_out: self.left_out,
            differences_count: self.differences_count,
            credits: TotalAmount(self.credits),
            differences: self.differences,
            not_compared: self.not_compared,
        }
    }
}

const fn outcome(differences: u64, is_complete: bool) -> VerificationOutcome {
    match (differences, is_complete) {
        (0, true) => VerificationOutcome::Sound,
        (0, false) => VerificationOutcome::Incomplete,
        (_, _) => VerificationOutcome::Different,
    }
}

impl Run {
    /// One that begins.
    pub(super) fn new(
        id: VerificationId,
        (region, (scope, rebuilds)): (Region, (Scope, bool)),
        now: LogTime,
    ) -> Self {
        let answer = VerificationAnswer {
            verification_id: id,
            region: region.into(),
            outcome: VerificationOutcome::Running,
            started_at: Moment(now),
            ended_at: None,
            doing: None,
            bytes_done: 0,
            bytes_total: 0,
            differences_count: 0,
            credits: TotalAmount(0),
            first_difference: None,
            checks: Vec::new(),
        };
        Self { id, scope, rebuilds, answer: Mutex::new(answer) }
    }

    /// Its id.
    pub(crate) const fn id(&self) -> VerificationId {
        self.id
    }

    /// Whether everything is compared.
    pub(crate) fn is_whole(&self) -> bool {
        self.scope == Scope::All
    }

    /// Whether the read model is built again first.
    pub(crate) const fn rebuilds(&self) -> bool {
        self.rebuilds
    }

    /// Whether it goes on.
    pub(crate) fn is_running(&self) -> bool {
        self.answer().outcome == VerificationOutcome::Running
    }

    /// How it stands.
    pub(crate) fn shown(&self) -> VerificationAnswer {
        self.answer().clone()
    }

    pub(super) fn doing(&self, text: String) {
        self.answer().doing = Some(text);
    }

    pub(super) fn set_total(&self, bytes: u64) {
        self.answer().bytes_total = bytes;
    }

    pub(super) fn folded(&self, bytes: u64) {
        let mut answer = self.answer();
        answer.bytes_done = answer.bytes_done.saturating_add(bytes);
        // Histories grow meanwhile, and what came after the start is folded too.
        answer.bytes_total = answer.bytes_total.max(answer.bytes_done);
    }

    pub(super) fn add(&self, check: Check) {
        let check = check.finish();
        let mut answer = self.answer();
        answer.differences_count = answer.differences_count.saturating_add(check.differences_count);
        answer.credits = TotalAmount(answer.credits.0.saturating_add(check.credits.0));
        if answer.first_difference.is_none() {
            answer.first_difference = check.differences.first().cloned();
        }
        answer.checks.push(check);
    }

    pub(super) fn end(&self, now: LogTime) -> VerificationAnswer {
        let mut answer = self.answer();
        let is_complete = answer.checks.iter().all(|check| check.not_compared.is_empty());
        answer.outcome = outcome(answer.differences_count, is_complete);
        answer.ended_at = Some(Moment(now));
        answer.doing = None;
        answer.clone()
    }

    fn answer(&self) -> MutexGuard<'_, VerificationAnswer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        let id = VerificationId { node: purser_api::NodeNumber(1), number: 1 };
        Run::new(id, (Region::parse("us").unwrap(), (Scope::All, false)), LogTime::ZERO)
    }

    #[test]
    fn what_could_not_be_compared_is_never_called_sound() {
        let run = run();
        let mut check = Check::new(VerificationSubject::Replicas, Some(GroupNumber(0)));
        check.not_compared("node 2 is away".to_owned());
        run.add(check);
        assert!(run.is_running());
        assert_eq!(run.end(LogTime::ZERO).outcome, VerificationOutcome::Incomplete);
    }

    #[test]
    fn differences_and_credits_add_up_and_the_first_one_is_named() {
        let run = run();
        run.add(Check::new(VerificationSubject::Ledger, Some(GroupNumber(0))));
        let mut check = Check::new(VerificationSubject::ReadModel, None);
        check.differ((3, 7), "entries acme/credits/5: missing".to_owned());
        check.differs("lots acme/credits/2: missing".to_owned(), 10);
        run.add(check);
        let answer = run.end(LogTime::ZERO);
        assert_eq!(answer.outcome, VerificationOutcome::Different);
        assert_eq!((answer.differences_count, answer.credits), (4, TotalAmount(17)));
        let first = "entries acme/credits/5: missing".to_owned();
        assert_eq!(answer.first_difference, Some(first));
    }
}
