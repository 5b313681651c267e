//! `purser event`: sending usage events.

use clap::{Args, Subcommand};
use purser_api::{
    Amount, EventsAnswer, HoldId, JobName, JobOutcome, Moment, SpecVersion, TenantName, UnitName,
    UsageData, UsageEvent,
};

use super::arguments::Account;
use super::connection::Service;
use super::tables::{self, Column};
use crate::failure::CommandError;
use crate::output::Output;

/// Send usage events.
#[derive(Debug, Subcommand)]
pub(crate) enum EventAction {
    /// Send an event: it counts once, however often it is sent.
    Send(SendEvent),
}

#[derive(Debug, Args)]
pub(crate) struct SendEvent {
    #[command(flatten)]
    account: Account,
    /// What you call the event.
    id: String,
    /// How much was used; all that is held if left out for a hold.
    #[arg(required_unless_present_any = ["hold", "job"])]
    amount: Option<Amount>,
    /// Who sends it. An event is known by this and its id.
    #[arg(long, default_value = "purser-cli")]
    source: String,
    /// What kind of event it is: information only.
    #[arg(long = "type", default_value = "usage")]
    kind: String,
    /// When it happened; now if left out.
    #[arg(long)]
    time: Option<Moment>,
    /// The hold that the work was done under.
    #[arg(long, conflicts_with = "job")]
    hold: Option<HoldId>,
    /// The job that was worked on.
    #[arg(long, requires = "outcome", conflicts_with = "amount")]
    job: Option<JobName>,
    /// How that ended: `succeeded` or `failed`.
    #[arg(long, requires = "job")]
    outcome: Option<JobOutcome>,
    /// The job failed, and trying again is of no use.
    #[arg(long, requires = "job")]
    for_good: bool,
}

impl SendEvent {
    fn event(self) -> UsageEvent {
        UsageEvent {
            specversion: SpecVersion::V1,
            id: self.id,
            source: self.source,
            kind: self.kind,
            subject: TenantName(self.account.tenant().clone()),
            time: self.time,
            data: UsageData {
                unit: UnitName(self.account.unit().clone()),
                amount: self.amount,
                hold_id: self.hold,
                job_id: self.job,
                outcome: self.outcome,
                retryable: !self.for_good,
            },
        }
    }
}

/// Runs a command about usage events.
pub(super) async fn run(
    action: EventAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    match action {
        EventAction::Send(args) => {
            let sent = service.client.send_events(&[args.event()], &service.read()).await;
            output.answer(&service.said(sent)?, show)?;
        }
    }
    Ok(())
}

fn show(answer: &EventsAnswer) -> String {
    let columns = [
        Column::Text("SOURCE"),
        Column::Text("ID"),
        Column::Text("VERDICT"),
        Column::Text("REASON"),
    ];
    let rows = answer.verdicts.iter().map(|it| {
        let (source, id) = (it.source.clone(), it.id.clone());
        vec![source, id, it.verdict.to_string(), tables::or_none(it.reason.as_ref())]
    });
    tables::table(&columns, rows)
}
