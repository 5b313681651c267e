//! Dead letters: listing, inspecting, redriving and discarding jobs that failed as often as they may.

use std::ops::Bound;

use hyper::StatusCode;
use purser_api as api;
use purser_api::{
    DeadLettersQuery, DiscardAnswer, DiscardRequest, JobAnswer, JobDetail, ProblemCode as Code,
    RedriveRequest, UnitQuery, paths,
};
use purser_ledger::{
    Account, AccountName, Confirm, DiscardJob, HoldNumber, Job, Ledger, Operation as Asked,
    RedriveJob,
};
use purser_types::{JobId, Sequence, TenantId, Unit};

use super::lifecycle::confirmed;
use super::rehearsal::{Rehearsed, rehearse};
use crate::http::call::{Call, Remarks};
use crate::http::convert::Shown;
use crate::http::describe::{Description, Tag};
use crate::http::jobs;
use crate::http::operation::Operation;
use crate::http::paging::{invalid_cursor, open_cursor};
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::token::Token;

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let act = |summary| Description::new(Access::ADMIN, Tag::Jobs, summary).query::<UnitQuery>();
    routes
        .call(
            (Verb::Get, paths::ADMIN_DEAD_LETTERS),
            Operation::ListDeadLetters,
            Description::new(
                Access::ADMIN_READ,
                Tag::Jobs,
                "Lists dead letters of tenants whose home is in a region, as the asked node knows them.",
            )
            .query::<DeadLettersQuery>()
            .answers_list::<api::Job>()
            .refuses(&[Code::InvalidCursor, Code::RegionNotFound, Code::HomeUnreachable]),
            list,
        )
        .call(
            (Verb::Get, paths::ADMIN_DEAD_LETTER),
            Operation::GetDeadLetter,
            Description::new(Access::ADMIN_READ, Tag::Jobs, "Shows a job with its history.")
                .query::<UnitQuery>()
                .answers::<JobDetail>(200)
                .refuses(&[Code::JobNotFound]),
            jobs::get,
        )
        .call(
            (Verb::Post, paths::ADMIN_DEAD_LETTER_REDRIVE),
            Operation::RedriveDeadLetter,
            act("Lets a dead letter be tried again: once, however often it is asked for.")
                .body::<RedriveRequest>()
                .answers::<JobAnswer>(200)
                .refuses(&[Code::JobNotFound, Code::JobNotDead, Code::AccountClosed]),
            redrive,
        )
        .call(
            (Verb::Post, paths::ADMIN_DEAD_LETTER_DISCARD),
            Operation::DiscardDeadLetter,
            act(
                "Lets nothing become of a job that has not ended. A dry run shows the effect and what \
                 to confirm.",
            )
            .body::<DiscardRequest>()
            .answers::<DiscardAnswer>(200)
            .refuses(&[Code::ConfirmationRequired, Code::StaleConfirmation])
            .refuses(&[Code::JobNotFound, Code::JobEnded, Code::AccountClosed]),
            discard,
        )
}

async fn redrive(call: Call) -> Handled {
    let request: RedriveRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let asked = Asked::RedriveJob(RedriveJob { job: call.job()? });
    let done = call.decide(&account, call.item(asked)?.because(&request.reason)).await?;
    let answer = done.shown(&account).job_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn discard(call: Call) -> Handled {
    let request: DiscardRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let job = call.job()?;
    if request.dry_run {
        return discard_dry(&call, &account, job).await;
    }
    let confirm = confirmed(request.confirm)?;
    let item = call.item(Asked::DiscardJob(DiscardJob { job, confirm }))?.because(&request.reason);
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).discard_answer(&done.receipt, None)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

/// What is confirmed is the job, not the account: ten thousand may be discarded one after the other.
async fn discard_dry(call: &Call, account: &AccountName, job: JobId) -> Handled {
    let id = job.clone();
    let look = call.look(account, move |seen, now, _| {
        let job = seen.account().job(&id, now, seen.history());
        let job = job.map_err(|error| Refusal::of_history(&error))?;
        let job = job.ok_or_else(|| Refusal::not_found(Code::JobNotFound))?;
        Ok(Confirm(job.changed_by))
    });
    let confirm = look.await?;
    let act = move |_| Asked::DiscardJob(DiscardJob { job, confirm });
    let Rehearsed { done, .. } = rehearse(call, account, act).await?;
    let answer = done.shown(account).discard_answer(&done.receipt, Some(confirm))?;
    Ok(Reply::read(&answer)?)
}

async fn list(call: Call) -> Handled {
    let query: DeadLettersQuery = call.query()?;
    let own = *call.api.region();
    if let Some(other) = query.region.as_ref().map(|it| it.0).filter(|region| *region != own) {
        let regions = call.api.regions();
        let known = regions.filter(|it| it.links().others().any(|known| known == other));
        let unknown = || Refusal::new(Code::RegionNotFound, format!("there is no region {other}"));
        return Err(call.to_shard(known.ok_or_else(unknown)?, other, None).await);
    }
    let scope = query.scope();
    let after = match &query.cursor {
        Some(cursor) => Some(Place::read(&open_cursor(&scope, cursor)?)?),
        None => None,
    };
    let (limit, owner, caller) = (query.limit.get(), call.owner(), call.caller.clone());
    let listing = call.read_long(|| {
        let groups = call.api.groups().all().iter();
        let shards: Vec<_> = groups.map(|group| group.machine()).collect();
        move || {
            let admits = |account: &Account| admits(account, &query, &caller);
            let mut found = letters_after(&shards, after.as_ref(), limit + 1, admits, |job| {
                query.queue.as_ref().is_none_or(|queue| queue.0 == job.queue)
            });
            let more = found.len() > limit;
            found.truncate(limit);
            let last = found.last().filter(|_| more).map(|(account, job)| Place::of(account, job));
            let next_cursor = last.map(|place| scope.seal(&place.write()));
            let show = |(account, job): &(&Account, &Job)| {
                Shown::new(account.name(), &owner).with_homes(account.homes()).job(job)
            };
            let items = found.iter().map(show).collect::<Result<_, _>>()?;
            Ok(api::List { items, has_more: more, next_cursor })
        }
    });
    Ok(Reply::read(&listing.await?)?)
}

fn admits(account: &Account, query: &DeadLettersQuery, caller: &Token) -> bool {
    let tenant = &account.name().tenant;
    query.tenant.as_ref().is_none_or(|wanted| wanted.0 == *tenant) && caller.reaches(tenant)
}

/// The first `count` dead letters behind `after`: by the names of accounts, then in the order in which
/// the jobs were made.
fn letters_after<'a>(
    shards: &'a [Ledger],
    after: Option<&Place>,
    count: usize,
    admits: impl Fn(&Account) -> bool,
    wanted: impl Fn(&Job) -> bool,
) -> Vec<(&'a Account, &'a Job)> {
    let accounts =
        shards.iter().flat_map(Ledger::accounts_with_dead_jobs).map(|account| &**account);
    let is_behind = |account: &&Account| after.is_none_or(|it| it.account <= *account.name());
    let mut accounts: Vec<&Account> =
        accounts.filter(is_behind).filter(|account| admits(account)).collect();
    accounts.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    let letters = accounts.into_iter().flat_map(|account| {
        let inside = after.filter(|it| it.account == *account.name());
        let from = inside.map_or(Bound::Unbounded, |it| Bound::Excluded(&it.job));
        let jobs: Vec<&Job> =
            account.dead_jobs_from(from).filter(|job| wanted(job)).take(count).collect();
        jobs.into_iter().map(move |job| (account, job))
    });
    letters.take(count).collect()
}

/// Where a page ends. No name contains the separator.
struct Place {
    account: AccountName,
    job: HoldNumber,
}

impl Place {
    fn of(account: &Account, job: &Job) -> Self {
        Self { account: account.name().clone(), job: job.number }
    }

    fn write(&self) -> String {
        let Self { account, job } = self;
        format!("{}/{}/{}", account.tenant, account.unit, job.0.0)
    }

    fn read(text: &str) -> Result<Self, Refusal> {
        let mut parts = text.splitn(3, '/');
        let mut next = || parts.next().ok_or_else(invalid_cursor);
        let (tenant, unit, number) = (next()?, next()?, next()?);
        let place = TenantId::parse(tenant).ok().zip(Unit::parse(unit).ok());
        let place = place.zip(number.parse().ok());
        let ((tenant, unit), number) = place.ok_or_else(invalid_cursor)?;
        let job = HoldNumber(Sequence(number));
        Ok(Self { account: AccountName { tenant, unit }, job })
    }
}
