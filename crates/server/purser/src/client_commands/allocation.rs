//! `purser allocation`: what is set aside for regions, and what an operator does about it.

use clap::{Args, Subcommand};
use purser_api::{
    Allocation, AllocationAnswer, AllocationRequest, Amount, CallAmount, GenerationNumber,
    ModeOrder, OnExpiry, RecallRequest, RegionName, TakeBackAnswer, TakeBackRequest,
    TransferRequest,
};

use super::arguments::{Account, Key, Safety, Why};
use super::connection::Service;
use super::tables::{self, Column, Facts};
use crate::failure::CommandError;
use crate::output::Output;

/// Look at what is set aside for regions, and change it.
#[derive(Debug, Subcommand)]
pub(crate) enum AllocationAction {
    /// List what is set aside for regions.
    List(Account),
    /// Change what a region may do with its allocation. What is left out stays as it is.
    Set(Set),
    /// Ask credits back from a region.
    Recall(Recall),
    /// Ask credits back from one region for another.
    Transfer(Transfer),
    /// Take back what is out in a region that is not heard of: first with `--dry-run`, then with the
    /// `--confirm` it shows.
    TakeBack(TakeBack),
    /// End an allocation of which nothing more will be heard: first with `--dry-run`, then with the
    /// `--confirm` it shows.
    WriteOff(TakeBack),
}

/// Which allocation.
#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    account: Account,
    /// The region.
    region: RegionName,
    /// Which of its allocations; the newest that is not closed if left out.
    #[arg(long)]
    generation: Option<GenerationNumber>,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    key: Key,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Change {
    /// What the region may do: `local`, `strict` or `ending`.
    #[arg(long)]
    mode: Option<ModeOrder>,
    /// How much it may spend beyond what it was granted.
    #[arg(long, value_name = "AMOUNT")]
    overdraft: Option<Amount>,
    /// What becomes of it when its lease has run out: `keep` or `take_back`.
    #[arg(long)]
    on_expiry: Option<OnExpiry>,
}

impl Set {
    fn request(&self) -> AllocationRequest {
        AllocationRequest {
            mode: self.change.mode,
            overdraft: self.change.overdraft.clone(),
            on_expiry: self.change.on_expiry,
            generation: self.named.generation.clone(),
            reason: self.why.reason.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Recall {
    #[command(flatten)]
    named: Named,
    /// How much of its free credits the region may keep.
    #[arg(long, value_name = "AMOUNT", default_value = "0")]
    keep: Amount,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    key: Key,
}

impl Recall {
    fn request(&self) -> RecallRequest {
        RecallRequest {
            keep: self.keep.clone(),
            generation: self.named.generation.clone(),
            reason: self.why.reason.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Transfer {
    #[command(flatten)]
    account: Account,
    /// How much.
    amount: CallAmount,
    /// Who has them.
    #[arg(long, value_name = "REGION")]
    from: RegionName,
    /// Who is to have them.
    #[arg(long, value_name = "REGION")]
    to: RegionName,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    key: Key,
}

impl Transfer {
    fn request(&self) -> TransferRequest {
        TransferRequest {
            from: self.from.clone(),
            to: self.to.clone(),
            amount: self.amount,
            reason: self.why.reason.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct TakeBack {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    safety: Safety,
    #[command(flatten)]
    key: Key,
}

impl TakeBack {
    fn request(&self) -> TakeBackRequest {
        TakeBackRequest {
            generation: self.named.generation.clone(),
            reason: self.why.reason.clone(),
            dry_run: self.safety.dry_run,
            confirm: self.safety.confirm.clone(),
        }
    }
}

/// Runs a command about allocations.
pub(super) async fn run(
    action: AllocationAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let of = |account: &Account| service.admin_account(account).allocations();
    match action {
        AllocationAction::List(args) => {
            service.list(of(&args).list(&service.read()).await, output, table)?;
        }
        AllocationAction::Set(args) => {
            let (allocations, call) = (of(&args.named.account), service.call(&args.key));
            let set = allocations.set(&args.named.region, &args.request(), &call).await;
            output.answer(&service.done(set, output)?, show_change)?;
        }
        AllocationAction::Recall(args) => {
            let (allocations, call) = (of(&args.named.account), service.call(&args.key));
            let asked = allocations.recall(&args.named.region, &args.request(), &call).await;
            output.answer(&service.done(asked, output)?, show_change)?;
        }
        AllocationAction::Transfer(args) => {
            let (allocations, call) = (of(&args.account), service.call(&args.key));
            let asked = allocations.transfer(&args.request(), &call).await;
            output.answer(&service.done(asked, output)?, show_change)?;
        }
        AllocationAction::TakeBack(args) => {
            let (allocations, call) = (of(&args.named.account), service.call(&args.key));
            let taken = allocations.take_back(&args.named.region, &args.request(), &call).await;
            output.answer(&service.done(taken, output)?, show_take_back)?;
        }
        AllocationAction::WriteOff(args) => {
            let (allocations, call) = (of(&args.named.account), service.call(&args.key));
            let ended = allocations.write_off(&args.named.region, &args.request(), &call).await;
            output.answer(&service.done(ended, output)?, show_take_back)?;
        }
    }
    Ok(())
}

fn show_change(answer: &AllocationAnswer) -> String {
    tables::available(facts(&answer.allocation), &answer.balance).text()
}

fn show_take_back(answer: &TakeBackAnswer) -> String {
    let facts = tables::dry_run(answer.dry_run, answer.confirm.as_ref())
        .with("brought home", &answer.brought_home)
        .with("debt repaid", &answer.debt_repaid)
        .and(facts(&answer.allocation));
    tables::available(facts, &answer.balance).text()
}

fn facts(allocation: &Allocation) -> Facts {
    let recall = allocation.recall.as_ref().map(|recall| format!("all but {}", recall.keep));
    let transfer = allocation.transfer.as_ref();
    Facts::new()
        .with("allocation", &allocation.allocation_id)
        .with("status", allocation.status)
        .with("mode", allocation.mode)
        .with("on expiry", allocation.on_expiry)
        .with("granted", &allocation.granted)
        .with("spent", &allocation.spent)
        .with("returned", &allocation.returned)
        .with("out", &allocation.outstanding)
        .with("right", &allocation.right)
        .with("overdraft", &allocation.overdraft)
        .with("unresolved", &allocation.unresolved)
        .with_some("asked back", recall)
        .with_some("for another", transfer.map(|it| format!("{} for {}", it.amount, it.to)))
}

fn table(allocations: &[Allocation]) -> String {
    use Column::{Number, Text};
    let columns = [
        Text("ALLOCATION"),
        Text("STATUS"),
        Text("MODE"),
        Number("OUT"),
        Number("HELD"),
        Number("RIGHT"),
        Number("UNSETTLED"),
        Number("OVERDRAFT"),
        Number("SPENT"),
        Number("REPORTED"),
        Number("LEASE"),
    ];
    let seconds = |millis: Option<u64>| tables::or_none(millis.map(tables::seconds));
    tables::table(
        &columns,
        allocations.iter().map(|allocation| {
            vec![
                allocation.allocation_id.to_string(),
                allocation.status.to_string(),
                allocation.mode.to_string(),
                allocation.outstanding.to_string(),
                allocation.held.to_string(),
                allocation.right.to_string(),
                allocation.unsettled.to_string(),
                allocation.overdraft.to_string(),
                allocation.spent.to_string(),
                seconds(allocation.report_age_ms),
                seconds(allocation.lease_remaining_ms),
            ]
        }),
    )
}
