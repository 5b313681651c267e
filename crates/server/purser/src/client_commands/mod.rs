//! One call of the API each: the command line for people and for scripts.
//!
//! A command turns its arguments into a request of `purser-api`, sends it with `purser-client`
//! (which retries under one key until the outcome is known or time is over), and writes the answer:
//! a table for people, the API's own JSON with `--json`.
//!
//! Not here: whether anything is allowed. What the service refuses is shown as it says it.

mod account;
mod allocation;
mod arguments;
mod batch;
mod budget;
mod charge;
mod cluster;
mod connection;
mod dead_letter;
mod drain;
mod event;
mod fail_over;
mod hold;
mod job;
mod lot;
mod overspend;
mod reconcile;
mod region;
mod tables;
mod tails;
mod tenant;
mod undo;
mod verify;
mod webhook;

use clap::Subcommand;

use crate::failure::CommandError;
use crate::output::Output;
use arguments::{Call, Group};

/// A command over the API.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Open, look at, freeze and close tenants.
    Tenant(Group<tenant::TenantAction>),
    /// Give a tenant credits.
    Grant(Call<lot::Grant>),
    /// Look at lots, take them back.
    Lot(Group<lot::LotAction>),
    /// Correct an account by an operator's decision.
    Adjust(Call<lot::Adjust>),
    /// Look at an account's policy, change it.
    Policy(Group<lot::PolicyAction>),
    /// Cap what is used inside an account, and look at what the caps come to.
    Budget(Group<budget::BudgetAction>),
    /// Look at what is set aside for regions, and change it.
    Allocation(Group<allocation::AllocationAction>),
    /// Show the most that can have been spent beyond what was granted.
    Overspend(Call<overspend::Overspend>),
    /// Look at the regions, move all homes out of one, have one that is lost taken over.
    Region(Group<region::RegionAction>),
    /// Set credits aside, take them, give them back.
    Hold(Group<hold::HoldAction>),
    /// Authorize and capture in one step, and undo it.
    Charge(Group<charge::ChargeAction>),
    /// Create jobs, work on them, report how they ended.
    Job(Group<job::JobAction>),
    /// Send usage events.
    Event(Group<event::EventAction>),
    /// Look at jobs that failed as often as they may, and decide what becomes of them.
    DeadLetter(Group<dead_letter::DeadLetterAction>),
    /// Ask what an authorize would answer now, without effect.
    Check(Call<account::Check>),
    /// Show where an account's credits are.
    Balance(Call<account::Balance>),
    /// List what happened to an account, newest first.
    Entries(Call<account::Entries>),
    /// Show an account's history between two instants.
    Statement(Call<account::Statement>),
    /// Send up to 1,000 operations in one request.
    Batch(Call<batch::Batch>),
    /// Have entries told to receivers, look at what could not be delivered.
    Webhook(Group<webhook::WebhookAction>),
    /// Verify what the homes of all regions say, against whatever else tells of it.
    Verify(Call<verify::Verify>),
    /// Hold business outcomes from a file against what was charged for them.
    Reconcile(Call<reconcile::Reconcile>),
    /// Show the groups of the cluster, change who leads them and who takes part.
    Cluster(Call<cluster::Cluster>),
}

/// Sends a command and writes its answer.
#[expect(clippy::too_many_lines, reason = "an arm for each command, and nothing else")]
pub(crate) async fn run(command: ClientCommand, output: &Output) -> Result<(), CommandError> {
    match command {
        ClientCommand::Tenant(Group { connection, action }) => {
            tenant::run(action, &connection.open()?, output).await
        }
        ClientCommand::Grant(Call { connection, action }) => {
            lot::grant(action, &connection.open()?, output).await
        }
        ClientCommand::Lot(Group { connection, action }) => {
            lot::run(action, &connection.open()?, output).await
        }
        ClientCommand::Adjust(Call { connection, action }) => {
            lot::adjust(action, &connection.open()?, output).await
        }
        ClientCommand::Policy(Group { connection, action }) => {
            lot::policy(action, &connection.open()?, output).await
        }
        ClientCommand::Budget(Group { connection, action }) => {
            budget::run(action, &connection.open()?, output).await
        }
        ClientCommand::Allocation(Group { connection, action }) => {
            allocation::run(action, &connection.open()?, output).await
        }
        ClientCommand::Overspend(Call { connection, action }) => {
            overspend::run(action, &connection.open()?, output).await
        }
        ClientCommand::Region(Group { connection, action }) => {
            region::run(action, &connection.open()?, output).await
        }
        ClientCommand::Hold(Group { connection, action }) => {
            hold::run(action, &connection.open()?, output).await
        }
        ClientCommand::Charge(Group { connection, action }) => {
            charge::run(action, &connection.open()?, output).await
        }
        ClientCommand::Job(Group { connection, action }) => {
            job::run(action, &connection.open()?, output).await
        }
        ClientCommand::Event(Group { connection, action }) => {
            event::run(action, &connection.open()?, output).await
        }
        ClientCommand::DeadLetter(Group { connection, action }) => {
            dead_letter::run(action, &connection.open()?, output).await
        }
        ClientCommand::Check(Call { connection, action }) => {
            account::check(action, &connection.open()?, output).await
        }
        ClientCommand::Balance(Call { connection, action }) => {
            account::balance(action, &connection.open()?, output).await
        }
        ClientCommand::Entries(Call { connection, action }) => {
            account::entries(action, &connection.open()?, output).await
        }
        ClientCommand::Statement(Call { connection, action }) => {
            account::statement(action, &connection.open()?, output).await
        }
        ClientCommand::Batch(Call { connection, action }) => {
            batch::run(action, &connection.open()?, output).await
        }
        ClientCommand::Webhook(Group { connection, action }) => {
            webhook::run(action, &connection.open()?, output).await
        }
        ClientCommand::Verify(Call { connection, action }) => {
            verify::run(action, &connection.open()?, output).await
        }
        ClientCommand::Reconcile(Call { connection, action }) => {
            reconcile::run(action, &connection.open()?, output).await
        }
        ClientCommand::Cluster(Call { connection, action }) => {
            cluster::run(action, &connection.open()?, output).await
        }
    }
}
