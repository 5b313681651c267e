//! Jobs: one method for each call of the contract, for callers, for workers and for operators.

use purser_api::{
    CreateJobRequest, DeadLettersQuery, DiscardAnswer, DiscardRequest, Job, JobAnswer, JobDetail,
    JobName, JobsQuery, LeaseAnswer, LeaseQuery, LeaseRequest, List, OutcomeRequest,
    RedriveRequest, RenewRequest, paths,
};

use crate::account::Account;
use crate::admin::{Admin, AdminAccount};
use crate::call::{Answer, Call};
use crate::client::{Client, Request, with_query};
use crate::error::ClientError;

impl Client {
    /// Takes jobs that are due, of all tenants. Needs a token that reaches all of them.
    ///
    /// A call that is not answered is sent again: what an attempt leased that nobody heard of is due once
    /// more when that lease runs out.
    pub async fn lease_jobs(
        &self,
        query: &LeaseQuery,
        body: &LeaseRequest,
        call: &Call,
    ) -> Result<LeaseAnswer, ClientError> {
        let request = Request::state(with_query(paths::JOBS_LEASE, query), body);
        Ok(self.send(request, call.time).await?.body)
    }
}

impl Account {
    /// Creates a job, and sets aside or charges what it costs. The same `job_id` with the same content
    /// answers with the job as it stands.
    pub async fn create_job(
        &self,
        body: &CreateJobRequest,
        call: &Call,
    ) -> Result<Answer<JobAnswer>, ClientError> {
        let path = self.path(paths::JOBS);
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// Reports how an attempt of a job ended. May be called by whoever knows it, any number of times.
    pub async fn report_outcome(
        &self,
        job: &JobName,
        body: &OutcomeRequest,
        call: &Call,
    ) -> Result<Answer<JobAnswer>, ClientError> {
        let path = self.path_of(paths::JOB_OUTCOME, job);
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// Keeps a job for longer.
    pub async fn renew_job(
        &self,
        job: &JobName,
        body: &RenewRequest,
        call: &Call,
    ) -> Result<Answer<JobAnswer>, ClientError> {
        let path = self.path_of(paths::JOB_RENEW, job);
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// One job and its history.
    pub async fn job(&self, job: &JobName, call: &Call) -> Result<JobDetail, ClientError> {
        let request = Request::get(self.path_of(paths::JOB, job));
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Jobs, newest first. The query's unit is this account's.
    pub async fn jobs(&self, query: &JobsQuery, call: &Call) -> Result<List<Job>, ClientError> {
        let query = JobsQuery { unit: self.unit_name(), ..query.clone() };
        self.list(paths::JOBS, &query, call).await
    }
}

impl Admin {
    /// Dead letters of a region, in the order of their tenants' names.
    pub async fn dead_letters(
        &self,
        query: &DeadLettersQuery,
        call: &Call,
    ) -> Result<List<Job>, ClientError> {
        let path = with_query(paths::ADMIN_DEAD_LETTERS, query);
        Ok(self.client.send(Request::get(path), call.time).await?.body)
    }
}

impl AdminAccount {
    /// One dead letter and its history.
    pub async fn dead_letter(&self, job: &JobName, call: &Call) -> Result<JobDetail, ClientError> {
        let path = paths::fill(paths::ADMIN_DEAD_LETTER, &[self.tenant_id(), job]);
        self.read_at(&path, call).await
    }

    /// Lets a dead letter be tried again: once, however often it is called.
    pub async fn redrive(
        &self,
        job: &JobName,
        body: &RedriveRequest,
        call: &Call,
    ) -> Result<Answer<JobAnswer>, ClientError> {
        let path = paths::fill(paths::ADMIN_DEAD_LETTER_REDRIVE, &[self.tenant_id(), job]);
        self.change_at(path, body, call).await
    }

    /// Lets nothing become of a job, or shows what that would do.
    pub async fn discard(
        &self,
        job: &JobName,
        body: &DiscardRequest,
        call: &Call,
    ) -> Result<Answer<DiscardAnswer>, ClientError> {
        let path = paths::fill(paths::ADMIN_DEAD_LETTER_DISCARD, &[self.tenant_id(), job]);
        self.change_at(path, body, call).await
    }
}
