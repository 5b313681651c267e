//! Taking due jobs, over all tenants: from the groups of this region, and then from other regions.
//!
//! ```text
//!  asked ─┬─ own region ─┬─ groups that this node leads: their logs
//!         │              └─ others: ?region=own&group=N, to whoever leads
//!         └─ each other region, while jobs are wanted ── ?region=R, to a node there ── the same
//! ```
//!
//! A group is asked only if this node's copy of it has a job that is due, those first that are due first,
//! so a poll of an empty queue writes nothing and asks nobody within the region. What was leased and not
//! heard of is due again once the lease runs out; so nobody is asked twice.

use std::collections::BTreeSet;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::join_all;
use hyper::http::uri::PathAndQuery;
use purser_api::{LeaseAnswer, LeaseQuery, LeaseRequest, ProblemCode as Code, RegionName, paths};
use purser_ledger::{AccountName, Answer, Command, Context, LeaseJobs, LeasedJob, Ledger, codec};
use purser_raft::{Group, GroupId, NodeId, ProposeError};
use purser_types::Region;

use crate::http::call::Call;
use crate::http::convert::{Shown, term};
use crate::http::describe::{Description, Tag};
use crate::http::forward::{ForwardError, HOPS_MAX};
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::regions::Regions;

/// The part of what is left of a call's time that another node gets for its answer.
const PART: u32 = 2;

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    // Jobs of all tenants, so a token that reaches all of them. A repeat takes other jobs, so there is
    // nothing for a key to do.
    let access = Access { all_tenants: true, ..Access::SPEND_EACH };
    routes.call(
        (Verb::Post, paths::JOBS_LEASE),
        Operation::LeaseJobs,
        Description::new(
            access,
            Tag::Jobs,
            "Takes jobs that are due, of all tenants, those that are due first at first. A lease that \
             runs out makes its job due again.",
        )
        .query::<LeaseQuery>()
        .body::<LeaseRequest>()
        .answers::<LeaseAnswer>(200)
        .refuses(&[Code::RegionNotFound, Code::NotFound, Code::HomeUnreachable])
        .refuses(&[Code::OutcomeUnknown]),
        lease,
    )
}

async fn lease(call: Call) -> Handled {
    let request: LeaseRequest = call.json()?;
    let query: LeaseQuery = call.query()?;
    let (own, region) = (*call.api.region(), query.region.as_ref().map(|region| region.0));
    if let Some(other) = region.filter(|region| *region != own) {
        let regions = call.api.regions();
        let known = regions.filter(|it| it.links().others().any(|known| known == other));
        let unknown = || Refusal::new(Code::RegionNotFound, format!("there is no region {other}"));
        return Err(call.to_shard(known.ok_or_else(unknown)?, other, None).await);
    }
    if let Some(group) = query.group {
        let group = call.api.groups().numbered(GroupId(group.0));
        let missing = || Refusal::new(Code::NotFound, "the region has no such group");
        return of_leader(&call, group.ok_or_else(missing)?, &request).await;
    }
    let mut all = Leasing { call: &call, request, answer: LeaseAnswer::default() };
    let failed = all.own_region().await.err();
    if let Some(regions) = call.api.regions().filter(|_| region.is_none()) {
        all.other_regions(regions).await;
    }
    // What others have is the worker's, whatever became of this region's.
    if let Some(failed) = failed.filter(|_| all.answer.jobs.is_empty()) {
        return Err(failed);
    }
    Ok(Reply::read(&all.answer)?)
}

/// One group's jobs, by its leader.
async fn of_leader(call: &Call, group: &Group<Ledger>, request: &LeaseRequest) -> Handled {
    loop {
        match propose(call, group, request).await? {
            Leased::Here(answer) => return Ok(Reply::read(&answer)?),
            Leased::Elsewhere(leader) => call.elsewhere(group, leader, call.effect).await?,
        }
    }
}

/// What came of asking this node's copy of a group.
enum Leased {
    /// It leads, and has leased these.
    Here(LeaseAnswer),
    /// Another leads, or none is known to. Nothing has happened.
    Elsewhere(Option<NodeId>),
}

async fn propose(
    call: &Call,
    group: &Group<Ledger>,
    request: &LeaseRequest,
) -> Result<Leased, NotDone> {
    let command = Command::LeaseJobs(LeaseJobs {
        queue: request.queue.0.clone(),
        max: request.max.get(),
        term: term(request.lease_seconds),
        context: Context {
            actor: Some(call.caller.name.clone()),
            request_id: Some((&*call.meta.request_id).into()),
            ..Context::default()
        },
    });
    let command = Bytes::from(codec::encode(&command));
    let (answer, index) = match group.propose_indexed(command, call.meta.deadline).await {
        Ok(answered) => answered,
        Err(ProposeError::NotLeader { leader }) => return Ok(Leased::Elsewhere(leader)),
        Err(error) => return Err(Refusal::of_propose(&error).into()),
    };
    let Answer::Leased(leased) = answer else {
        return Err(Refusal::internal("a lease was answered like another command").into());
    };
    let count = leased.len();
    let leased = secured(call, leased, index).await;
    if leased.is_empty() && count > 0 {
        return Err(Refusal::outcome_unknown().into());
    }
    let jobs = leased.iter().map(|LeasedJob { account, job }| {
        let (owner, homes) = (*call.api.owner(), call.homes_of(account));
        Shown::new(account, &owner).with_homes(&homes).leased_job(job)
    });
    let jobs = jobs.collect::<Result<_, _>>()?;
    Ok(Leased::Here(LeaseAnswer { jobs, unknown_regions: Vec::new() }))
}

/// The leases that no fail-over can make undone, so that two workers never have one job. What is left out
/// is nobody's until its lease runs out; one tenant's standby is no other tenant's affair.
async fn secured(call: &Call, mut leased: Vec<LeasedJob>, index: u64) -> Vec<LeasedJob> {
    let Some(regions) = call.api.regions() else { return leased };
    // The rest is for the answer.
    let left = call.meta.deadline.saturating_duration_since(Instant::now());
    let deadline = Instant::now() + left / PART;
    let accounts: BTreeSet<AccountName> = leased.iter().map(|it| it.account.clone()).collect();
    let securing = accounts.into_iter().map(|account| async move {
        match regions.watch(&account).secure(&account, index, deadline).await {
            Ok(()) => Some(account),
            Err(error) => {
                let tenant = account.tenant.as_str();
                tracing::debug!(tenant, %error, "jobs were leased and are not given out");
                None
            }
        }
    });
    let secured: BTreeSet<AccountName> = join_all(securing).await.into_iter().flatten().collect();
    leased.retain(|job| secured.contains(&job.account));
    leased
}

/// Jobs that are being collected.
struct Leasing<'a> {
    call: &'a Call,
    request: LeaseRequest,
    answer: LeaseAnswer,
}

impl Leasing<'_> {
    /// What is still wanted; nothing if there are enough.
    fn wanted(&self) -> Option<LeaseRequest> {
        let has = u32::try_from(self.answer.jobs.len()).unwrap_or(u32::MAX);
        let max = self.request.max.get().checked_sub(has)?.try_into().ok()?;
        Some(LeaseRequest { max, ..self.request.clone() })
    }

    /// Takes from the groups of this region that have something, as far as this node knows.
    async fn own_region(&mut self) -> Result<(), NotDone> {
        let mut failed = None;
        let (call, queue) = (self.call, &self.request.queue.0);
        let groups = call.api.groups().all().iter();
        let mut due: Vec<_> = groups
            .filter_map(|group| {
                let now = group.now();
                let first = group.view(|ledger, _| ledger.first_job_due(queue))?;
                (first <= now).then_some((first, group))
            })
            .collect();
        due.sort_by_key(|(first, _)| *first);
        for (_, group) in due {
            let Some(wanted) = self.wanted() else { break };
            let leader = match propose(call, group, &wanted).await {
                Ok(Leased::Here(part)) => {
                    self.answer.jobs.extend(part.jobs);
                    continue;
                }
                Ok(Leased::Elsewhere(leader)) => leader,
                // What others have is the worker's, whatever became of this.
                Err(not_done) => {
                    failed = Some(not_done);
                    self.note_unknown([(*call.api.region()).into()]);
                    continue;
                }
            };
            let own = *call.api.region();
            let path = format!("{}?region={own}&group={}", paths::JOBS_LEASE, group.id().0);
            let leader = leader.filter(|leader| *leader != call.api.node());
            self.take_from(own, leader, &path, &wanted).await;
        }
        failed.filter(|_| self.answer.jobs.is_empty()).map_or(Ok(()), Err)
    }

    /// Takes from other regions, as long as more is wanted.
    async fn other_regions(&mut self, regions: &Regions) {
        for region in regions.links().others() {
            let Some(wanted) = self.wanted() else { return };
            let is_reachable = regions.links().is_reachable(region);
            let nodes = if is_reachable { regions.links().nodes(region, None) } else { Vec::new() };
            let path = format!("{}?region={region}", paths::JOBS_LEASE);
            self.take_from(region, nodes, &path, &wanted).await;
        }
    }

    /// Takes from the first of some nodes that hears of it. If none answers, the region is named.
    async fn take_from(
        &mut self,
        region: Region,
        nodes: impl IntoIterator<Item = NodeId>,
        path: &str,
        wanted: &LeaseRequest,
    ) {
        for node in nodes {
            match ask(self.call, node, path, wanted).await {
                Ok(part) => {
                    self.answer.jobs.extend(part.jobs);
                    self.note_unknown(part.unknown_regions);
                    return;
                }
                Err(ForwardError::NotSent) => (),
                Err(ForwardError::MaybeSent) => break,
            }
        }
        self.note_unknown([region.into()]);
    }

    fn note_unknown(&mut self, regions: impl IntoIterator<Item = RegionName>) {
        for region in regions {
            if !self.answer.unknown_regions.contains(&region) {
                self.answer.unknown_regions.push(region);
            }
        }
    }
}

/// Asks one node, in the caller's name, for a part of what is left of the call's time.
async fn ask(
    call: &Call,
    node: NodeId,
    path: &str,
    wanted: &LeaseRequest,
) -> Result<LeaseAnswer, ForwardError> {
    let path = PathAndQuery::try_from(path).map_err(|_unreadable| ForwardError::NotSent)?;
    let body = serde_json::to_vec(wanted).map_err(|_unwritable| ForwardError::NotSent)?;
    let onward = call.onward(node, None).filter(|_| call.meta.hops < HOPS_MAX);
    let onward = onward.ok_or(ForwardError::NotSent)?;
    let left = call.meta.deadline.saturating_duration_since(Instant::now());
    let asking = call.api.forwarder().send(call, onward, (path, body.into()));
    let answered = tokio::time::timeout(left / PART, asking).await;
    let (response, body) = answered.map_err(|_elapsed| ForwardError::MaybeSent)??;
    if !response.status().is_success() {
        tracing::debug!(%node, status = %response.status(), "a node leased nothing");
        return Err(ForwardError::MaybeSent);
    }
    serde_json::from_slice(&body).map_err(|error| {
        tracing::warn!(%node, %error, "a node has leased in a way that cannot be read");
        ForwardError::MaybeSent
    })
}
