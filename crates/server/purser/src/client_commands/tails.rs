//! What lost homes of a tenant had decided besides: `purser tenant tails` and `write-off-tail`.

use clap::Args;
use purser_api::{EpochNumber, TailAnswer, TailsAnswer, WriteOffTailAnswer, WriteOffTailRequest};

use super::arguments::{Account, Key, Safety, Why};
use super::connection::Service;
use super::tables::{self, Column, Facts};
use crate::failure::CommandError;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct WriteOffTail {
    #[command(flatten)]
    account: Account,
    /// The last epoch of the lost home, as `tails` shows it.
    epoch: EpochNumber,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    safety: Safety,
    #[command(flatten)]
    key: Key,
}

impl WriteOffTail {
    fn request(&self) -> WriteOffTailRequest {
        WriteOffTailRequest {
            reason: self.why.reason.clone(),
            dry_run: self.safety.dry_run,
            confirm: self.safety.confirm.clone(),
        }
    }
}

/// Lists the tails that are open.
pub(super) async fn list(
    account: &Account,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let found = service.admin_account(account).tails(&service.read()).await;
    Ok(output.answer(&service.found(found)?, table)?)
}

/// Writes one off, or shows what that would do.
pub(super) async fn write_off(
    args: &WriteOffTail,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let (account, call) = (service.admin_account(&args.account), service.call(&args.key));
    let ended = account.write_off_tail(&args.epoch, &args.request(), &call).await;
    Ok(output.answer(&service.done(ended, output)?, show)?)
}

fn table(answer: &TailsAnswer) -> String {
    use Column::{Number, Text};
    let columns = [
        Text("REGION"),
        Number("EPOCH"),
        Number("SET ASIDE"),
        Number("FORKED AT"),
        Number("BOOKED"),
        Number("SPENT"),
        Number("MATCHED"),
        Number("UNANSWERED"),
        Number("HELD"),
    ];
    let row = |tail: &TailAnswer| {
        let TailAnswer { region, epoch, set_aside, forked_at, booked, .. } = tail;
        let TailAnswer { spent, matched, unanswered, held, .. } = tail;
        vec![
            region.to_string(),
            epoch.to_string(),
            set_aside.to_string(),
            forked_at.to_string(),
            booked.to_string(),
            spent.to_string(),
            matched.to_string(),
            unanswered.to_string(),
            held.to_string(),
        ]
    };
    tables::table(&columns, answer.tails.iter().map(row))
}

fn show(answer: &WriteOffTailAnswer) -> String {
    let WriteOffTailAnswer { dry_run, confirm, tail, balance } = answer;
    let facts = Facts::new()
        .with("lost home", &tail.region)
        .with("epoch", &tail.epoch)
        .with("set aside", &tail.set_aside)
        .with("spent", &tail.spent)
        .with("matched", &tail.matched)
        .with("unanswered", &tail.unanswered)
        .with("held", &tail.held);
    let facts = tables::dry_run(*dry_run, confirm.as_ref()).and(facts);
    tables::available(facts, balance).text()
}
