//! `purser serve`: one node, as its configuration file says.
//!
//! The order is fixed: arguments, telemetry, settings, ports, files, addresses, run. Whatever is
//! wrong shows before the first request is accepted, and nothing is opened for a file that is
//! refused.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use purser_node::{Addresses, Listeners, Node, Recorder, Surroundings};
use serde::Serialize;

use crate::check_config;
use crate::failure::CommandError;
use crate::output::Output;
use crate::read_model::{ReadModel, database};
use crate::signals::StopSignals;

/// Run one node of a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file. `purser check-config` checks one without starting anything.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Where a node listens.
#[derive(Debug, Serialize)]
struct Serving {
    api: String,
    /// Nothing if the API's listener serves the admin API too.
    admin: Option<String>,
    peers: SocketAddr,
}

impl Serving {
    fn at(addresses: Addresses) -> Self {
        let url = |address| format!("http://{address}");
        let Addresses { api, admin, peer } = addresses;
        Self { api: url(api), admin: admin.map(url), peers: peer }
    }

    fn text(&self) -> String {
        let Self { api, admin, peers } = self;
        let admin = admin.as_ref().map(|admin| format!("Admin  {admin}\n")).unwrap_or_default();
        format!("API    {api}\n{admin}Peers  {peers}")
    }
}

/// Runs a node until it is asked to stop, or until it cannot go on.
pub(crate) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    let (config, settings) = check_config::load(&args.config)?;
    let mut signals = StopSignals::listen()?;
    let recorder = Recorder::install()
        .map_err(|error| CommandError::broken("metrics cannot be recorded", error))?;
    let listeners = Listeners::bind(&settings)
        .await
        .map_err(|error| CommandError::broken("a port cannot be used", error))?;
    let addresses = listeners.addresses();
    let surroundings = Surroundings { recorder: Some(recorder), ..Surroundings::real() };
    let starting = Node::start(settings, listeners, surroundings);
    let node = tokio::select! {
        started = starting => {
            started.map_err(|error| CommandError::broken("the node did not start", error))?
        }
        // A long recovery must not make the process deaf. What was read so far is only read.
        () = signals.next() => return Ok(()),
    };
    let _read_model = match &config.postgres {
        Some(postgres) => {
            let (database, shards) = (database(postgres)?, (&*config.region, node.feeds()));
            let started = ReadModel::start(&database, shards);
            let read_model =
                started.map_err(|error| CommandError::settings("the region".to_owned(), error))?;
            node.attach_read_model(read_model.kept());
            Some(read_model)
        }
        None => None,
    };
    output.answer(&Serving::at(addresses), Serving::text)?;
    until_stopped(&node, &mut signals, config.grace()).await
}

async fn until_stopped(
    node: &Node,
    signals: &mut StopSignals,
    grace: Duration,
) -> Result<(), CommandError> {
    tokio::select! {
        () = signals.next() => {
            tracing::info!(?grace, "stopping");
            signals.unless_impatient(node.shutdown(grace)).await;
            Ok(())
        }
        failure = node.failed() => {
            node.kill().await;
            Err(CommandError::broken("the node cannot go on", failure))
        }
    }
}
