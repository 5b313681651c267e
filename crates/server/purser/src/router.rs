//! `purser router`: passes calls on to the nodes, as its configuration file says.
//!
//! The order is that of `serve`, less the files: a router has none.

use std::path::PathBuf;

use purser_node::{ApiAddresses, ApiListeners, Recorder, Router};
use purser_raft::PeerSwitch;
use serde::Serialize;

use crate::check_config;
use crate::failure::CommandError;
use crate::output::Output;
use crate::signals::StopSignals;

/// Run a router: it takes any call and passes it on to the node that can answer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file. `purser check-config --router` checks one without starting anything.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Where a router listens.
#[derive(Debug, Serialize)]
struct Serving {
    api: String,
    /// Nothing if the API's listener serves the admin API too.
    admin: Option<String>,
}

impl Serving {
    fn at(addresses: ApiAddresses) -> Self {
        let url = |address| format!("http://{address}");
        Self { api: url(addresses.api), admin: addresses.admin.map(url) }
    }

    fn text(&self) -> String {
        let Self { api, admin } = self;
        let admin = admin.as_ref().map(|admin| format!("\nAdmin  {admin}")).unwrap_or_default();
        format!("API    {api}{admin}")
    }
}

/// Runs a router until it is asked to stop, or until it cannot go on.
pub(crate) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    let (config, settings) = check_config::load_router(&args.config)?;
    let mut signals = StopSignals::listen()?;
    let recorder = Recorder::install()
        .map_err(|error| CommandError::broken("metrics cannot be recorded", error))?;
    let listeners = ApiListeners::bind_router(&settings)
        .await
        .map_err(|error| CommandError::broken("a port cannot be used", error))?;
    let addresses = listeners.addresses();
    let router = Router::start(&settings, listeners, Some(recorder), PeerSwitch::default())
        .map_err(|error| CommandError::broken("the router did not start", error))?;
    output.answer(&Serving::at(addresses), Serving::text)?;
    tokio::select! {
        () = signals.next() => {
            let grace = config.grace();
            tracing::info!(?grace, "stopping");
            signals.unless_impatient(router.shutdown(grace)).await;
            Ok(())
        }
        failure = router.failed() => {
            router.kill().await;
            Err(CommandError::broken("the router cannot go on", failure))
        }
    }
}
