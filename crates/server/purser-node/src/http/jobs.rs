//! Jobs: create, report, renew, and reading them. They are decided at home, from whichever region they
//! are asked for.

use std::collections::VecDeque;
use std::ops::Bound;

use hyper::StatusCode;
use purser_api as api;
use purser_api::{
    Consistency, CreateJobRequest, JobAnswer, JobDetail, JobName, JobsQuery, OutcomeRequest,
    ProblemCode as Code, RenewRequest, UnitQuery, paths,
};
use purser_ledger::{Account, Fact, HoldNumber, Job, JobEffect};
use purser_types::{HistoryReader, JobId, LogTime, Sequence};

use crate::http::call::{Call, Remarks};
use crate::http::convert::{self, Shown, debt_added};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::paging::{Found, Page};
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls of the resource.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let spend = |summary| Description::new(Access::SPEND, Tag::Jobs, summary).query::<UnitQuery>();
    let read = |summary| Description::new(Access::READ, Tag::Jobs, summary);
    routes
        .call(
            (Verb::Post, paths::JOBS),
            Operation::CreateJob,
            spend("Creates a job, and sets aside or charges what it costs in the same step.")
                .body::<CreateJobRequest>()
                .answers::<JobAnswer>(201)
                .or_finds()
                .refuses(&[Code::InsufficientCredits, Code::AccountFrozen, Code::AccountClosed])
                .refuses(&[Code::JobIdConflict, Code::TooManyQueues, Code::AmountOverflow])
                .refuses(&[Code::BudgetExceeded, Code::BudgetNotFound]),
            create,
        )
        .call(
            (Verb::Get, paths::JOBS),
            Operation::ListJobs,
            read("Lists jobs, newest first.")
                .query::<JobsQuery>()
                .answers_list::<api::Job>()
                .refuses(&[Code::InvalidCursor]),
            list,
        )
        .call(
            (Verb::Get, paths::JOB),
            Operation::GetJob,
            read("Shows a job with its history.")
                .query::<UnitQuery>()
                .answers::<JobDetail>(200)
                .refuses(&[Code::JobNotFound]),
            get,
        )
        .call(
            (Verb::Post, paths::JOB_OUTCOME),
            Operation::ReportOutcome,
            spend(
                "Reports how an attempt of a job ended. A delivered job is paid once, one that \
                 failed is not, however often and in whichever order outcomes come.",
            )
            .body::<OutcomeRequest>()
            .answers::<JobAnswer>(200)
            .refuses(&[Code::JobNotFound, Code::AccountClosed, Code::TooManyParts]),
            report,
        )
        .call(
            (Verb::Post, paths::JOB_RENEW),
            Operation::RenewJob,
            spend("Keeps a job for longer.")
                .body::<RenewRequest>()
                .answers::<JobAnswer>(200)
                .refuses(&[Code::JobNotFound, Code::LeaseLost, Code::AccountClosed]),
            renew,
        )
}

impl Call {
    /// The job in the path.
    pub(crate) fn job(&self) -> Result<JobId, Refusal> {
        Ok(self.id::<JobName>("job")?.0)
    }
}

async fn create(call: Call) -> Handled {
    let request: CreateJobRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(convert::create_job(&request)?)?.noting(&request.metadata)?;
    // Home decides in any case, so it says nothing of what a region should have.
    let done = call.spend(&account, item, Consistency::Strict).await?;
    let answer = done.shown(&account).job_answer(&done.receipt)?;
    let status = if done.receipt.is_found { StatusCode::OK } else { StatusCode::CREATED };
    Ok(Reply::decided(status, &answer, done.decided)?)
}

async fn report(call: Call) -> Handled {
    let request: OutcomeRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let asked = convert::outcome(call.job()?, &request);
    let mut item = call.item(asked)?.noting(&request.metadata)?;
    if let Some(reason) = &request.reason {
        item = item.because(reason);
    }
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).job_answer(&done.receipt)?;
    if !done.decided.replayed && !done.receipt.is_found {
        call.api.metrics().record_debt_added(debt_added(&done.receipt));
        let late = |effect| effect == JobEffect::CapturedLate;
        if matches!(&done.receipt.entry.fact, Fact::JobOutcome(change) if late(change.effect)) {
            call.api.metrics().record_late_capture();
        }
    }
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn renew(call: Call) -> Handled {
    let request: RenewRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(convert::renew_job(call.job()?, &request))?;
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).job_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

/// The most entries of one job that are shown: it may be renewed without end.
const HISTORY_MAX: usize = 1_000;

/// Shows the job in the path, also to operators.
pub(crate) async fn get(call: Call) -> Handled {
    let account = call.account(call.unit()?)?;
    let (id, owner, name) = (call.job()?, call.owner(), account.clone());
    let detail = call.study_written(&account, move |account, history, now| {
        let shown = Shown::new(&name, &owner).with_homes(account.homes());
        let failed = |error| Refusal::of_history(&error);
        let job = account.job(&id, now, history).map_err(failed)?;
        let job = job.ok_or_else(|| Refusal::not_found(Code::JobNotFound))?;
        let mut entries = Vec::new();
        let mut next = Some(job.changed_by);
        while let Some(sequence) = next.filter(|_| entries.len() < HISTORY_MAX) {
            let Some(hashed) = account.entry(sequence, history).map_err(failed)? else { break };
            next = hashed.entry.fact.job().and_then(|job| job.changed_before);
            entries.push(shown.entry(&hashed)?);
        }
        entries.reverse();
        Ok(JobDetail { job: shown.job(&job)?, history: entries, has_older: next.is_some() })
    });
    Ok(Reply::read(&detail.await?)?)
}

async fn list(call: Call) -> Handled {
    let query: JobsQuery = call.query()?;
    let account = call.account(query.unit.0.clone())?;
    let page = Page::open(query.scope(&account.tenant), query.limit, query.cursor.as_ref())?;
    let (owner, name) = (call.owner(), account.clone());
    let list = call.study_written(&account, move |account, history, now| {
        let shown = Shown::new(&name, &owner).with_homes(account.homes());
        let from = Bound::Unbounded;
        let jobs = match query.state {
            Some(api::JobStatus::Dead) => newest(account.dead_jobs_from(from), &page, None),
            Some(state @ (api::JobStatus::Queued | api::JobStatus::Leased)) => {
                newest(account.jobs_from(from), &page, Some(state))
            }
            state => all_jobs(account, (history, now), &page, state)?,
        };
        page.close(&jobs, |job| shown.job(job))
    });
    Ok(Reply::read(&list.await?)?)
}

/// A page of jobs that are in memory, oldest first: the newest of them.
fn newest<'a>(
    jobs: impl Iterator<Item = &'a Job>,
    page: &Page,
    state: Option<api::JobStatus>,
) -> Found<Job> {
    let mut newest = VecDeque::new();
    for job in jobs.take_while(|job| page.admits(job.number.0)) {
        if state.is_none_or(|state| state == convert::job_status(job.state)) {
            newest.push_front(job);
            newest.truncate(page.limit() + 1);
        }
    }
    let items: Vec<Job> = newest.iter().take(page.limit()).map(|job| (*job).clone()).collect();
    let next = (newest.len() > items.len()).then(|| items.last().map(|job| job.number.0));
    Found { items, next: next.flatten() }
}

/// How many entries a page of jobs may look through. A page of a rare filter is then short, or empty, and
/// goes on behind what was looked through.
const ENTRIES_SCANNED_MAX: usize = 5_000;

/// The jobs of a page, ended or not: by the entries that made them, newest first.
fn all_jobs(
    account: &Account,
    (history, now): (&dyn HistoryReader, LogTime),
    page: &Page,
    state: Option<api::JobStatus>,
) -> Result<Found<Job>, Refusal> {
    let failed = |error| Refusal::of_history(&error);
    let mut found = Found { items: Vec::new(), next: None };
    let Some(from) = page.newest(account.head().sequence) else { return Ok(found) };
    let entries = account.entries_back_from(from, history).map_err(failed)?;
    for (scanned, entry) in entries.enumerate() {
        let entry = entry.map_err(failed)?.entry;
        if found.items.len() == page.limit() || scanned == ENTRIES_SCANNED_MAX {
            found.next = Some(Sequence(entry.sequence.0.saturating_add(1)));
            break;
        }
        let Fact::JobCreated(made) = &entry.fact else { continue };
        let job = account.job(&made.job.id, now, history).map_err(failed)?;
        // The name may belong to a later job by now.
        let is_this = |job: &Job| job.number == HoldNumber(entry.sequence);
        let stands = |job: &Job| state.is_none_or(|it| it == convert::job_status(job.state));
        found.items.extend(job.filter(|job| is_this(job) && stands(job)));
    }
    Ok(found)
}
