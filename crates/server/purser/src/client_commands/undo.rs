//! Refund and reclaim, of holds and of charges alike.

use std::str::FromStr;

use clap::Args;
use purser_api::{
    CallAmount, ReclaimAnswer, ReclaimRequest, RefundAnswer, RefundRequest, SubjectId,
};

use super::arguments::{Account, Key, Why};
use super::connection::Service;
use super::tables;
use crate::failure::CommandError;
use crate::output::Output;

/// An id that can stand on the command line.
pub(crate) trait Id:
    Clone + Send + Sync + FromStr<Err: std::error::Error + Send + Sync>
{
}

impl<T: Clone + Send + Sync + FromStr<Err: std::error::Error + Send + Sync>> Id for T {}

/// A refund of a hold or of a charge.
#[derive(Debug, Args)]
pub(crate) struct Refund<I: Id + 'static> {
    #[command(flatten)]
    pub(super) account: Account,
    /// What was captured or charged.
    pub(super) id: I,
    /// How much; all that is refundable if left out.
    amount: Option<CallAmount>,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    pub(super) key: Key,
}

impl<I: Id + 'static> Refund<I> {
    pub(super) async fn run(
        &self,
        subject: SubjectId,
        service: &Service,
        output: &Output,
    ) -> Result<(), CommandError> {
        let request = RefundRequest { amount: self.amount, reason: self.why.reason.clone() };
        let account = service.account(&self.account);
        let done = account.refund(&subject, &request, &service.call(&self.key)).await;
        output.answer(&service.done(done, output)?, show_refund)?;
        Ok(())
    }
}

/// A reclaim of a hold or of a charge.
#[derive(Debug, Args)]
pub(crate) struct Reclaim<I: Id + 'static> {
    #[command(flatten)]
    pub(super) account: Account,
    /// What was refunded.
    pub(super) id: I,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    pub(super) key: Key,
}

impl<I: Id + 'static> Reclaim<I> {
    pub(super) async fn run(
        &self,
        subject: SubjectId,
        service: &Service,
        output: &Output,
    ) -> Result<(), CommandError> {
        let request = ReclaimRequest { reason: self.why.reason.clone() };
        let account = service.account(&self.account);
        let done = account.reclaim(&subject, &request, &service.call(&self.key)).await;
        output.answer(&service.done(done, output)?, show_reclaim)?;
        Ok(())
    }
}

fn show_refund(answer: &RefundAnswer) -> String {
    let facts = tables::subject(&answer.subject)
        .with("refunded now", &answer.refunded)
        .with("lapsed", &answer.lapsed)
        .with("debt canceled", &answer.debt_cancelled)
        .with("refundable", &answer.refundable)
        .with_some("regranted", answer.regranted_lot.as_ref());
    tables::available(facts, &answer.balance).text()
}

fn show_reclaim(answer: &ReclaimAnswer) -> String {
    let facts = tables::subject(&answer.subject)
        .with("reclaimed", &answer.reclaimed)
        .with("debt added", &answer.debt_added);
    tables::available(facts, &answer.balance).text()
}
