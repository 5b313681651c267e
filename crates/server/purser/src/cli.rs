//! The command line: which commands there are, and how a process runs one.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::failure::CommandError;
use crate::output::{Format, Output};
use crate::telemetry::{self, Logs};
use crate::{
    audit, backup, bench, check_config, client_commands, dev, generate, replay, router, scenario,
    serve,
};

/// The longest time that an option may name, in seconds: a day. More is a slip, and much more cannot
/// be added to a clock.
pub(crate) const SECONDS_MAX: u64 = 86_400;

/// Authorize, capture and account for credits.
#[derive(Debug, Parser)]
#[command(name = "purser", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Print answers as JSON, for programs.
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Args),
    Serve(serve::Args),
    Router(router::Args),
    CheckConfig(check_config::Args),
    #[command(flatten)]
    Client(client_commands::ClientCommand),
    Replay(replay::Args),
    Bench(bench::Args),
    Audit(audit::Args),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
    Scenario(scenario::Args),
    Openapi(generate::OpenapiArgs),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
}

/// Runs a command to its end: logs, runtime, the command itself, its exit code.
pub(crate) fn main(cli: Cli) -> ExitCode {
    let output = Output::new(if cli.json { Format::Programs } else { Format::People });
    match start(cli.command, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.report(&output);
            ExitCode::from(error.exit_code())
        }
    }
}

fn start(command: Command, output: &Output) -> Result<(), CommandError> {
    telemetry::start(command.logs())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::broken("the runtime did not start", error))?;
    let done = runtime.block_on(command.run(output));
    // What still runs here is what a command gave up, such as the recovery of a node that was asked
    // to stop meanwhile. Nobody waits for it.
    runtime.shutdown_background();
    done
}

impl Command {
    /// How loud the command's logs are: a server is read by machines, the rest by people who wait
    /// for an answer.
    fn logs(&self) -> Logs {
        match self {
            Self::Serve(_) | Self::Router(_) => Logs::Server,
            _ => Logs::Quiet,
        }
    }

    async fn run(self, output: &Output) -> Result<(), CommandError> {
        // Boxed, because the largest command's state would otherwise be part of every other's.
        match self {
            Self::Dev(args) => Box::pin(dev::run(args, output)).await,
            Self::Serve(args) => Box::pin(serve::run(args, output)).await,
            Self::Router(args) => Box::pin(router::run(args, output)).await,
            Self::CheckConfig(args) => check_config::run(&args, output),
            Self::Client(command) => Box::pin(client_commands::run(command, output)).await,
            Self::Replay(args) => Box::pin(replay::run(args, output)).await,
            Self::Bench(args) => Box::pin(bench::run(args, output)).await,
            Self::Audit(args) => Box::pin(audit::run(args, output)).await,
            Self::Backup(args) => backup::back_up(&args, output),
            Self::Restore(args) => backup::restore(&args, output),
            Self::Scenario(args) => scenario::run(&args, output),
            Self::Openapi(args) => generate::openapi(args, output),
            Self::Completions(args) => generate::completions(&args, Cli::command(), output),
            Self::Man(args) => generate::man(&args, Cli::command(), output),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("purser").chain(line.split_whitespace()))
    }

    #[track_caller]
    fn check_refused(line: &str, kind: ErrorKind) {
        let error = parse(line).expect_err(line);
        assert_eq!(error.kind(), kind, "{line}: {error}");
        assert_eq!(error.exit_code(), 2, "{line}");
    }

    #[test]
    fn the_table_of_commands_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one list of all calls")]
    fn every_call_has_its_command() {
        for line in [
            "dev",
            "dev --ephemeral --traffic off --base-port 9000",
            "dev --fail-over-after 30",
            "dev kill us/2 --base-port 9000",
            "dev start us/2",
            "dev status --json",
            "serve --config purser.toml",
            "router --config router.toml",
            "check-config purser.toml",
            "check-config --router router.toml",
            "tenant open acme --unit tokens --debt-limit 50 --refund-expired regrant:7",
            "tenant list --status frozen --limit 10",
            "tenant freeze acme --reason fraud --key k1",
            "tenant move acme --to eu",
            "tenant home acme --json",
            "tenant close acme --reason gone --dry-run",
            "tenant close acme --reason gone --confirm 17 --url http://a:1,http://b:1",
            "grant acme 1000 --category promotional --expires-at 2030-01-01T00:00:00Z",
            "lot list acme --status active",
            "lot void acme l7-0-us --reason mistake --dry-run",
            "adjust acme --add 5 --reason goodwill",
            "policy set acme --debt-limit 60",
            "policy set acme --takeback-cap 100 --on-expiry take_back",
            "allocation list acme --unit tokens --json",
            "allocation set acme eu --overdraft 50 --on-expiry keep --reason launch",
            "allocation set acme eu --mode ending --generation 3 --reason drained",
            "allocation recall acme eu --keep 10 --reason audit",
            "allocation transfer acme 40 --from eu --to ap --reason demand",
            "allocation take-back acme eu --reason lost --dry-run",
            "allocation write-off acme eu --reason lost --confirm 17",
            "overspend --region us --limit 5",
            "verify --region us --rebuild-read-model",
            "reconcile outcomes.csv --repair --complete",
            "region list --json",
            "region drain us --to eu",
            "region drain us --stop",
            "hold create acme 30 --ttl 60 --reference job-1 --metadata model=large --json",
            "hold list acme --state active",
            "hold capture acme h7-0-us 25 --partial --if-expired charge",
            "hold capture acme h7-0-us",
            "hold release acme h7-0-us",
            "hold extend acme h7-0-us 2030-01-01T00:00:00Z",
            "hold refund acme h7-0-us 20 --reason failed",
            "charge create acme 30 --allow-debt",
            "charge reclaim acme c7-0-us --reason delivered",
            "job create acme j1 30 --queue video --enqueue --max-attempts 3 --backoff 10",
            "job create acme j1 30 --charge --allow-debt --lease 60 --reference frame-7",
            "job get acme j1",
            "job list acme --state dead",
            "job lease video --max 5 --lease 60 --region us",
            "job renew acme j1 00ff00000000000000000000000000a1 --lease 60",
            "job outcome acme j1 succeeded",
            "job outcome acme j1 failed --for-good --reason gone --key k1",
            "event send acme e1 5 --source meter-7 --time 2030-01-01T00:00:00Z",
            "event send acme e1 --hold h7-0-us",
            "event send acme e1 --job j1 --outcome failed --for-good",
            "dead-letter list --queue video --tenant acme",
            "dead-letter get acme j1",
            "dead-letter redrive acme j1 --reason mended",
            "dead-letter discard acme j1 --reason gone --dry-run",
            "check acme 30",
            "balance acme --consistency stale",
            "entries acme --limit 5",
            "statement acme --from 2030-01-01T00:00:00Z",
            "batch -",
            "webhook add billing --to https://a.example/hook --tenant acme --kind charge",
            "webhook list --json",
            "webhook rotate billing --overlap 0",
            "webhook disable billing --reason maintenance",
            "webhook dead-letters billing --limit 5",
            "webhook redrive billing acme~credits~7 --reason mended",
            "webhook discard billing acme~credits~7 --reason old --dry-run",
            "webhook remove billing",
            "cluster --json",
            "cluster transfer 0 2 --url http://a:1",
            "cluster add-learner 15 4",
            "cluster set-voters 15 1 2 4 --timeout 30",
            "replay trace.csv --speed 100",
            "bench --concurrency 1,16",
            "audit data/dev",
            "backup data/us-1 --to backups/us-1",
            "restore backups/us-1 --to data/us-1 --json",
            "scenario story.txt --check",
            "openapi",
            "completions zsh",
            "man pages",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn a_command_that_makes_no_sense_is_refused_before_anything_is_sent() {
        check_refused("hold create acme 0", ErrorKind::ValueValidation);
        check_refused("hold create acme 3.5", ErrorKind::ValueValidation);
        check_refused("hold create a/b 30", ErrorKind::ValueValidation);
        check_refused("hold create acme 30 --ttl 0", ErrorKind::ValueValidation);
        check_refused("hold capture acme c7-0-us", ErrorKind::ValueValidation);
        check_refused("hold refund acme h7-0-us", ErrorKind::MissingRequiredArgument);
        check_refused("job create acme j1 30 --lease 60 --enqueue", ErrorKind::ArgumentConflict);
        check_refused("job lease video --max 1001", ErrorKind::ValueValidation);
        check_refused("job outcome acme j1 lost", ErrorKind::ValueValidation);
        check_refused("dead-letter discard acme j1 --reason x", ErrorKind::MissingRequiredArgument);
        check_refused("adjust acme --reason x", ErrorKind::MissingRequiredArgument);
        check_refused("adjust acme --add 1 --remove 1 --reason x", ErrorKind::ArgumentConflict);
        check_refused("tenant close acme --reason gone", ErrorKind::MissingRequiredArgument);
        check_refused("lot void acme l7-0-us --reason x", ErrorKind::MissingRequiredArgument);
        check_refused("allocation set acme eu --reason x", ErrorKind::MissingRequiredArgument);
        check_refused(
            "allocation take-back acme eu --reason x",
            ErrorKind::MissingRequiredArgument,
        );
        check_refused("allocation transfer acme 0 --from eu --to ap", ErrorKind::ValueValidation);
        check_refused("entries acme --limit 1001", ErrorKind::ValueValidation);
        check_refused("balance acme --timeout 18446744073709551615", ErrorKind::ValueValidation);
        check_refused("tenant move acme", ErrorKind::MissingRequiredArgument);
        check_refused("region drain us --to eu --stop", ErrorKind::ArgumentConflict);
        check_refused("webhook add billing --to ftp://a.example", ErrorKind::ValueValidation);
        check_refused(
            "webhook discard billing acme~credits~7 --reason old",
            ErrorKind::MissingRequiredArgument,
        );
        check_refused("cluster transfer 0", ErrorKind::MissingRequiredArgument);
        check_refused("cluster set-voters 0", ErrorKind::MissingRequiredArgument);
        check_refused("cluster add-learner 0 +4", ErrorKind::ValueValidation);
        check_refused("dev --ephemeral --data x", ErrorKind::ArgumentConflict);
        check_refused("dev kill us", ErrorKind::ValueValidation);
        check_refused("dev --base-port 65535", ErrorKind::ValueValidation);
    }

    #[test]
    fn a_service_that_cannot_be_reached_is_exit_code_3() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for call in ["balance acme", "hold create acme 30 --key k1"] {
            let Cli { command, .. } = parse(&format!("{call} --url {url} --timeout 1")).unwrap();
            let error = runtime.block_on(command.run(&Output::new(Format::Programs))).unwrap_err();
            assert_eq!(error.exit_code(), 3, "{call}: {error}");
        }
    }
}
