//! The one place where inside errors become what a caller sees.
//!
//! The matches are exhaustive, so a new rejection or error does not compile until someone has said
//! what it means outside. Nothing internal stands in a `detail`; it is logged under the request's
//! id when the answer is made.

mod rejections;

use std::borrow::Cow;
use std::time::Duration;

use axum::response::Response;
use hyper::header::{self, HeaderValue};
use purser_api::{DeciderRole, Figures, InvalidBody, Problem, ProblemCode};
use purser_ledger::Rejection;
use purser_raft::{ChangeError, ProposeError, ReadError};
use purser_types::{Credits, Generation, HistoryError, Owner, Region};

pub(crate) use self::rejections::code_of;
use self::rejections::figures_of;
use crate::tasks::chain;

/// Why a request was not done, on its way to the caller.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: ProblemCode,
    detail: Cow<'static, str>,
    figures: Option<Box<Figures>>,
    /// How the log decided it, if it did.
    decided: Option<Decided>,
    /// For the log alone.
    cause: Option<Box<str>>,
}

/// How the log decided something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decided {
    /// Whose book the ids in the answer belong to.
    pub(crate) owner: Owner,
    /// Who has decided.
    pub(crate) region: Region,
    /// As home, or under an allocation.
    pub(crate) role: DeciderRole,
    /// The account's overspend bound then, if it is known.
    pub(crate) bound: Option<Credits>,
    /// Whether it was decided before, under the same key.
    pub(crate) replayed: bool,
}

/// Why a handler has no answer of its own.
#[derive(Debug)]
pub(crate) enum NotDone {
    /// It is refused.
    Refused(Refusal),
    /// Another node has answered; its answer is the answer.
    Relayed(Box<Response>),
}

impl From<Refusal> for NotDone {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// How long callers are asked to wait after an answer that asks them to come later.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Refusal {
    /// A refusal without figures.
    pub(crate) fn new(code: ProblemCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), figures: None, decided: None, cause: None }
    }

    /// A request that cannot be read.
    pub(crate) fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemCode::InvalidRequest, detail)
    }

    /// The service failed. `cause` goes to the log alone.
    pub(crate) fn internal(cause: impl Into<Box<str>>) -> Self {
        let detail = "the service failed; the cause is in its log, under the request's id";
        let cause = Some(cause.into());
        Self { cause, ..Self::new(ProblemCode::InternalError, detail) }
    }

    /// No node is known to be able to answer.
    pub(crate) fn not_ready() -> Self {
        let detail = "no node leads the account's shard right now; nothing happened";
        Self::new(ProblemCode::NotReady, detail)
    }

    /// The node's data folder was restored from a backup, and its groups have not begun another life.
    pub(crate) fn restored() -> Self {
        let detail = "the node was restored from a backup and does not serve yet; nothing happened";
        Self::new(ProblemCode::NotReady, detail)
    }

    /// The region that decides can not be reached.
    pub(crate) fn unreachable(region: Region) -> Self {
        let detail =
            format!("region {region} decides about this and cannot be reached; nothing happened");
        Self::new(ProblemCode::HomeUnreachable, detail)
    }

    /// The account's home is on its way to another region.
    pub(crate) fn home_moves() -> Self {
        let detail = "the account's home is moving to another region, and is not there yet; nothing \
                      happened";
        Self::new(ProblemCode::NotReady, detail)
    }

    /// A call that changes nothing went to the node that leads, and no answer came back.
    pub(crate) fn unanswered() -> Self {
        let detail = "the node that leads the account's shard did not answer in time; a read \
                      changes nothing";
        Self::new(ProblemCode::NotReady, detail)
    }

    /// There is too much to do right now.
    pub(crate) fn overloaded(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemCode::Overloaded, detail)
    }

    /// The request may have been done.
    pub(crate) fn outcome_unknown() -> Self {
        let detail = "the request may have been done, may be done later, or never; the same \
                      request under the same key finds out";
        Self::new(ProblemCode::OutcomeUnknown, detail)
    }

    /// A thing that the account does not have.
    pub(crate) fn not_found(code: ProblemCode) -> Self {
        Self::new(code, lower_first(code.title()))
    }

    /// The same refusal with figures.
    pub(crate) fn with_figures(self, figures: Figures) -> Self {
        Self { figures: Some(Box::new(figures)), ..self }
    }

    /// What the ledger refused, about an account that `owner` decides about.
    pub(crate) fn of_rejection(rejection: &Rejection, owner: &Owner) -> Self {
        let code = match code_of(rejection) {
            // Nobody has asked about an allocation: a region's book has ended, and home will answer for
            // what is in there.
            ProblemCode::AllocationEnded | ProblemCode::AllocationNotFound
                if owner.generation != Generation::HOME =>
            {
                ProblemCode::NotReady
            }
            code => code,
        };
        let mut detail = rejection.to_string();
        if rejection.is_remembered() && code.retry() == purser_api::Retry::NewKey {
            detail.push_str("; this answer is kept under the idempotency key: ask with a new key");
        }
        Self::new(code, detail).with_figures(figures_of(rejection, owner))
    }

    /// The same refusal, as the log decided it.
    pub(crate) fn decided(self, decided: Decided) -> Self {
        Self { decided: Some(decided), ..self }
    }

    /// How the log decided it, if it did.
    pub(crate) const fn decision(&self) -> Option<Decided> {
        self.decided
    }

    /// What consensus refused to propose.
    pub(crate) fn of_propose(error: &ProposeError) -> Self {
        match error {
            ProposeError::NotLeader { .. } | ProposeError::Stopped => Self::not_ready(),
            ProposeError::Overloaded => {
                Self::overloaded("too many requests are waiting; nothing happened")
            }
            ProposeError::TooLarge { max } => {
                let detail = format!("the request is larger than {max} bytes in the log");
                Self::new(ProblemCode::BodyTooLarge, detail)
            }
            ProposeError::ClockAhead => {
                let detail = "the clock of the deciding node is wrong; nothing happened";
                Self {
                    cause: Some(error.to_string().into()),
                    ..Self::new(ProblemCode::NotReady, detail)
                }
            }
            ProposeError::OutcomeUnknown => Self::outcome_unknown(),
        }
    }

    /// A read that consensus could not confirm.
    pub(crate) fn of_read(error: &ReadError) -> Self {
        let refusal = match error {
            ReadError::NotLeader { .. } | ReadError::Stopped => Self::not_ready(),
            ReadError::TimedOut => Self::unanswered(),
        };
        Self { cause: Some(error.to_string().into()), ..refusal }
    }

    /// A change of members or leader that did not come about.
    pub(crate) fn of_change(error: &ChangeError) -> Self {
        match error {
            ChangeError::NotLeader { .. } | ChangeError::Stopped => Self::not_ready(),
            ChangeError::Refused(reason) => {
                let detail = format!("the group refuses the change: {reason}");
                Self {
                    cause: Some(error.to_string().into()),
                    ..Self::new(ProblemCode::ChangeRefused, detail)
                }
            }
            ChangeError::OutcomeUnknown => {
                let detail = "the change may have been made, or half of it, or may be made later; \
                              the same request goes on from there";
                Self::new(ProblemCode::OutcomeUnknown, detail)
            }
        }
    }

    /// An entry that could not be read.
    pub(crate) fn of_history(error: &HistoryError) -> Self {
        Self::internal(chain(error))
    }

    /// The same refusal with a cause that goes to the log alone.
    pub(crate) fn caused_by(self, cause: &str) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    /// The code.
    pub(crate) const fn code(&self) -> ProblemCode {
        self.code
    }

    /// The problem document, and the log's line where the service is to blame or knows more than
    /// it tells.
    pub(crate) fn into_problem(self, request_id: &str) -> Problem {
        if self.code.status() >= 500 || self.cause.is_some() {
            let (code, cause) = (self.code.name(), self.cause.as_deref());
            tracing::warn!(request_id, code, cause, "request was not done");
        }
        let mut figures = self.figures.map(|figures| *figures).unwrap_or_default();
        if self.code.retry() == purser_api::Retry::Later {
            let millis = RETRY_AFTER.as_millis();
            figures.retry_after_ms = u64::try_from(millis).ok();
        }
        Problem::new(self.code, self.detail, request_id).with_figures(figures)
    }
}

/// A problem document as a response.
pub(crate) fn problem_response(problem: &Problem) -> Response {
    let body = serde_json::to_vec(problem).expect("a problem is plain text and numbers");
    let mut response = Response::new(body.into());
    *response.status_mut() = hyper::StatusCode::from_u16(problem.status)
        .expect("the table of codes has statuses of HTTP only");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(Problem::MEDIA_TYPE));
    if let Some(millis) = problem.figures.retry_after_ms {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(millis.div_ceil(1_000)));
    }
    if problem.status == 401 {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

impl From<InvalidBody> for Refusal {
    fn from(error: InvalidBody) -> Self {
        Self::invalid(error.to_string())
    }
}

fn lower_first(title: &str) -> String {
    let mut characters = title.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use purser_types::{Region, Sequence};

    use super::*;

    fn owner() -> Owner {
        Owner::home(Region::parse("us").unwrap())
    }

    fn credits(amount: u64) -> Credits {
        Credits::from_u64(amount).unwrap()
    }

    #[test]
    fn a_refusal_for_lack_of_credits_says_how_to_go_on() {
        let rejection = Rejection::InsufficientCredits {
            available: credits(10),
            short_by: credits(20),
            debt: Credits::ZERO,
            debt_limit: None,
        };
        let problem = Refusal::of_rejection(&rejection, &owner()).into_problem("r1");
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["status"], 402);
        assert_eq!(json["available"], "10");
        assert_eq!(json["short_by"], "20");
        assert_eq!(json["retry"], "new_key");
        assert_eq!(json["request_id"], "r1");
        assert!(problem.detail.ends_with("ask with a new key"), "{}", problem.detail);
    }

    #[test]
    fn nothing_internal_stands_in_an_answer() {
        let error =
            HistoryError::Disk(std::io::Error::other("/var/lib/purser: input/output error"));
        let problem = Refusal::of_history(&error).into_problem("r1");
        let json = serde_json::to_string(&problem).unwrap();
        assert!(!json.contains("/var/lib") && !json.contains("input/output"), "{json}");
    }

    #[test]
    fn a_refused_change_says_why() {
        let refused = ChangeError::Refused("node 4 is not a learner of the group".to_owned());
        let problem = Refusal::of_change(&refused).into_problem("r1");
        assert_eq!((problem.status, &*problem.code), (409, "change_refused"));
        assert!(problem.detail.contains("node 4 is not a learner"), "{}", problem.detail);
        let problem = Refusal::of_change(&ChangeError::OutcomeUnknown).into_problem("r1");
        assert_eq!((problem.status, problem.retry), (504, purser_api::Retry::SameKey));
        // A change of members has no key to speak of.
        assert!(!problem.detail.contains("key"), "{}", problem.detail);
    }

    #[test]
    fn who_asks_too_early_is_told_when_to_come_back() {
        let problem = Refusal::not_ready().into_problem("r1");
        assert_eq!(problem_response(&problem).headers()[header::RETRY_AFTER], "1");
        let refused = Rejection::AlreadyReleased { sequence: Sequence(7) };
        let problem = Refusal::of_rejection(&refused, &owner()).into_problem("r1");
        assert!(!problem_response(&problem).headers().contains_key(header::RETRY_AFTER));
    }
}
