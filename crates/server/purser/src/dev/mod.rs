//! `purser dev`: a whole cluster on this machine, for a first look and for daily work.
//!
//! ```text
//!                   ┌── us/1 ─┐
//!  front door ──────┼── eu/1 ─┼─ the wire between regions: delay, cuts
//!   │               └── ap/1 ─┘
//!   └── /dev/…: kill, start, cut, heal, slow, status, from another terminal
//! ```
//!
//! It is the real thing: real consensus, real files, the real API. What it adds are demo tenants,
//! traffic, distance, and a way to break nodes and wires on purpose. All of it is one process with
//! one data folder, and it opens no connection to another machine.

mod banner;
pub(crate) mod control;
mod fleet;
mod folder;
mod front_door;
pub(crate) mod layout;
mod passage;
mod seed;
mod settings;
mod traffic;
mod wire;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use purser_api::RegionName;
use purser_client::Client;
use purser_node::{PostgresConfig, Recorder, RegionSettings};
use purser_postgres::Database;
use purser_types::Region;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::failure::CommandError;
use crate::output::Output;
use crate::read_model;
use crate::signals::StopSignals;
use banner::Banner;
use control::{ControlCall, StatusAnswer};
use fleet::{BoundNode, Fleet, FleetError, NodeStartError};
use folder::DataFolder;
use front_door::FrontDoor;
use layout::{BASE_PORT_MAX, DevLayout, NodeName, NodesPerRegion};
use wire::{DEFAULT_WAN, Delay, Distances, Wire};

/// The token of every development cluster. No secret: it opens nothing beyond this machine.
pub(crate) const DEV_TOKEN: &str = "dev";
/// Where the front door is unless told otherwise.
const DEFAULT_BASE_PORT: u16 = 7_700;
/// How long traffic, and requests at the front door, may take to finish at the end.
const GRACE: Duration = Duration::from_secs(5);
/// How many pieces of work the traffic of one region is ahead of the next, so that regions do not
/// do the same at the same time.
const TRAFFIC_DISTANCE: usize = 5;

/// Run three regions on this machine, with demo tenants and traffic; break and mend them.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Where the front door listens; the nodes are on the ports above.
    #[arg(
        long,
        global = true,
        value_name = "PORT",
        default_value_t = DEFAULT_BASE_PORT,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(BASE_PORT_MAX)),
    )]
    base_port: u16,
    /// Where the data is kept.
    #[arg(long, value_name = "DIR", default_value = "data/dev")]
    data: PathBuf,
    /// Keep the data in a temporary folder that is removed at the end.
    #[arg(long, conflicts_with = "data")]
    ephemeral: bool,
    /// How many nodes each region has; as many as the data was made with, else one.
    #[arg(long, value_enum, value_name = "COUNT")]
    nodes: Option<NodesPerRegion>,
    /// Round trips between regions in milliseconds, or none.
    #[arg(long, value_name = "PAIRS", default_value = DEFAULT_WAN, value_parser = read_distances)]
    wan: Distances,
    /// Fail a region over by itself after so many seconds of silence; only when asked if left out.
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(RegionSettings::FAIL_OVER_SECONDS),
    )]
    fail_over_after: Option<u64>,
    /// Keep a read model in the PostgreSQL database whose address stands in this file, as `[postgres]` in
    /// a node's configuration does.
    #[arg(long, value_name = "ADDRESS-FILE")]
    postgres: Option<PathBuf>,
    /// Whether demo tenants spend credits all the time.
    #[arg(long, value_enum, default_value_t = Traffic::On)]
    traffic: Traffic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Traffic {
    /// A few operations a second.
    On,
    /// None.
    Off,
}

/// What to do with a cluster that runs in another terminal.
#[derive(Debug, Subcommand)]
enum Action {
    /// End a node like a killed process.
    Kill {
        /// The node, such as us/2.
        node: NodeName,
    },
    /// Start a node again, from its data.
    Start {
        /// The node, such as us/2.
        node: NodeName,
    },
    /// Cut a region off from all others: everything between them is lost.
    Cut {
        /// The region, such as eu.
        region: RegionName,
    },
    /// Mend what cut and slow have done to a region.
    Heal {
        /// The region, such as eu.
        region: RegionName,
    },
    /// Slow a region down: add a delay to each direction from and to it.
    Slow {
        /// The region, such as eu.
        region: RegionName,
        /// The delay, such as 500ms; 0ms for none.
        by: Delay,
    },
    /// Show which nodes run, and what lies between the regions.
    Status,
}

impl Action {
    fn call(&self) -> ControlCall {
        match self {
            Self::Kill { node } => ControlCall::kill(node),
            Self::Start { node } => ControlCall::start(node),
            Self::Cut { region } => ControlCall::cut(region.clone()),
            Self::Heal { region } => ControlCall::heal(region.clone()),
            Self::Slow { region, by } => ControlCall::slow(region.clone(), *by),
            Self::Status => ControlCall::status(),
        }
    }
}

fn read_distances(text: &str) -> Result<Distances, wire::InvalidDistances> {
    Distances::parse(text, &DevLayout::region_names())
}

/// Runs a cluster, or talks to one that runs.
pub(crate) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    let Some(action) = &args.action else {
        return Box::pin(run_cluster(&args, output)).await;
    };
    let status = action.call().send(&format!("127.0.0.1:{}", args.base_port)).await?;
    output.answer(&status, show_status)?;
    Ok(())
}

fn show_status(status: &StatusAnswer) -> String {
    let nodes = status.nodes.iter().map(|node| {
        let reason = node.reason.as_deref().unwrap_or_default();
        format!("{:8} {:8} {}  {reason}", node.node, node.state.name(), node.api)
    });
    let links = status.links.iter().map(|link| {
        let [one, other] = &link.regions;
        let state = if link.is_cut { "cut" } else { "open" };
        format!("{:8} {state:8} {} ms", format!("{one}-{other}"), link.round_trip_ms)
    });
    nodes.chain(links).map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

async fn run_cluster(args: &Args, output: &Output) -> Result<(), CommandError> {
    let mut signals = StopSignals::listen()?;
    let database = args.postgres.as_deref().map(database).transpose()?;
    let data = DataFolder::open((!args.ephemeral).then_some(args.data.as_path()))?;
    let nodes = data.settle_nodes(args.nodes)?;
    let layout = DevLayout::new(args.base_port, data.path(), nodes);
    let layout = DevLayout { fail_over_after: args.fail_over_after, ..layout };
    let listener = TcpListener::bind(layout.front_door).await;
    let listener = listener.map_err(|error| port_taken(error, layout.front_door.port()))?;
    let wire = Wire::lay(&layout, args.wan.clone()).await;
    let wire = wire.map_err(|error| CommandError::broken("there is no wire", error))?;
    let bound = BoundNode::bind_all(&layout, &wire).await.map_err(not_started)?;
    let recorder = Recorder::install()
        .map_err(|error| CommandError::broken("metrics cannot be recorded", error))?;
    output.answer(&Banner::of(&layout, args.ephemeral), Banner::text)?;
    let fleet = tokio::select! {
        started = Fleet::start_all((layout, wire), bound, recorder, database) => started.map_err(not_started)?,
        // A long recovery must not make the process deaf. What was read so far is only read.
        () = signals.next() => return Ok(()),
    };
    let cluster = Cluster::new(fleet);
    let lived = tokio::select! {
        lived = cluster.live(listener, args.traffic, output) => lived,
        () = signals.next() => Ok(()),
    };
    output.note("stopping; Ctrl-C again to stop at once");
    signals.unless_impatient(cluster.end()).await;
    lived
}

fn database(address_file: &Path) -> Result<Database, CommandError> {
    let (address_file, schema) = (address_file.to_owned(), Database::SCHEMA_DEFAULT.to_owned());
    read_model::database(&PostgresConfig { address_file, ca_file: None, schema })
}

/// A cluster and what runs beside its nodes.
struct Cluster {
    fleet: Arc<Fleet>,
    traffic: Companion,
    door: Companion,
}

/// A task that runs beside the nodes.
#[derive(Default)]
struct Companion {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Companion {
    /// Ends the task, within [`GRACE`].
    async fn end(&self, what: &'static str) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!(what, "something was still running at the end");
        }
    }
}

impl Cluster {
    fn new(fleet: Fleet) -> Self {
        let (traffic, door) = (Companion::default(), Companion::default());
        Self { fleet: Arc::new(fleet), traffic, door }
    }

    /// Serves, brings the demo data in, and then goes on for ever. Returns only what went wrong.
    async fn live(
        &self,
        listener: TcpListener,
        traffic: Traffic,
        output: &Output,
    ) -> Result<(), CommandError> {
        let (ready, is_ready) = watch::channel(false);
        let door = Arc::new(FrontDoor::new(Arc::clone(&self.fleet), is_ready));
        self.door.tasks.spawn(door.serve(listener, self.door.stop.clone()));
        self.fleet.ready().await;
        let regions = region_clients(self.fleet.layout())?;
        seed::bring_in(&regions).await?;
        ready.send_replace(true);
        output.note("ready");
        if traffic == Traffic::On {
            for (place, (_, client)) in regions.into_iter().enumerate() {
                let first = place * TRAFFIC_DISTANCE;
                let flow = traffic::flow(client, first, self.traffic.stop.clone());
                self.traffic.tasks.spawn(flow);
            }
        }
        self.fleet.note_failures().await;
        Ok(())
    }

    /// Ends everything in the order of the requests, so that nobody asks what is gone already.
    async fn end(&self) {
        self.traffic.end("traffic").await;
        self.door.end("requests at the front door").await;
        self.fleet.end().await;
    }
}

/// A client for the nodes of each region.
fn region_clients(layout: &DevLayout) -> Result<Vec<(Region, Client)>, CommandError> {
    let clients = layout.regions.iter().map(|(region, nodes)| {
        let urls = nodes.iter().map(|node| format!("http://{}", node.api));
        Ok((*region, client(urls.collect())?))
    });
    clients.collect()
}

fn client(base_urls: Vec<String>) -> Result<Client, CommandError> {
    Client::new(base_urls, DEV_TOKEN)
        .map_err(|error| CommandError::broken("the demo data has no client", error))
}

/// Tells a taken port in words that say what to do.
fn port_taken(error: io::Error, port: u16) -> CommandError {
    if error.kind() == io::ErrorKind::AddrInUse {
        let text = format!(
            "port {port} is taken, perhaps by another `purser dev`; choose others with --base-port"
        );
        return CommandError::Failed(text);
    }
    CommandError::broken(format!("port {port} cannot be used"), error)
}

fn not_started(error: FleetError) -> CommandError {
    match error {
        FleetError::Start { cause: NodeStartError::Bind(bind), .. } => {
            port_taken(bind.source, bind.address.port())
        }
        error => CommandError::broken("the cluster did not start", error),
    }
}
