//! `purser dev`: a whole cluster on this machine, for a first look and for daily work.
//!
//! ```text
//!                   ┌── us/1 ──┐
//!  front door ──────┼── us/2 ──┼── one process, one data folder, loopback only
//!   │               └── us/3 ──┘
//!   └── /dev/…: kill, start, status, from another terminal
//! ```
//!
//! It is the real thing: real consensus, real files, the real API. What it adds are demo tenants,
//! traffic and a way to break nodes on purpose. It opens no connection to another machine.

mod banner;
pub(crate) mod control;
mod fleet;
mod front_door;
mod layout;
mod passage;
mod seed;
mod traffic;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use purser_client::Client;
use purser_node::Recorder;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::failure::CommandError;
use crate::output::Output;
use crate::signals::StopSignals;
use banner::Banner;
use control::StatusAnswer;
use fleet::{BoundNode, Fleet, FleetError, NodeStartError};
use front_door::FrontDoor;
use layout::{BASE_PORT_MAX, DevLayout, NodeName};

/// The token of every development cluster. No secret: it opens nothing beyond this machine.
pub(crate) const DEV_TOKEN: &str = "dev";
/// Where the front door is unless told otherwise.
const DEFAULT_BASE_PORT: u16 = 7_700;
/// How long traffic, and requests at the front door, may take to finish at the end.
const GRACE: Duration = Duration::from_secs(5);

/// Run a cluster on this machine, with demo tenants and traffic; break and mend its nodes.
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
    /// Show which nodes run.
    Status,
}

/// Runs a cluster, or talks to one that runs.
pub(crate) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    let front_door = format!("127.0.0.1:{}", args.base_port);
    let status = match &args.action {
        None => return Box::pin(run_cluster(&args, output)).await,
        Some(Action::Kill { node }) => control::ask_kill(&front_door, node).await?,
        Some(Action::Start { node }) => control::ask_start(&front_door, node).await?,
        Some(Action::Status) => control::ask_status(&front_door).await?,
    };
    output.answer(&status, show_status)?;
    Ok(())
}

fn show_status(status: &StatusAnswer) -> String {
    let lines = status.nodes.iter().map(|node| {
        let reason = node.reason.as_deref().unwrap_or_default();
        format!("{:8} {:8} {}  {reason}", node.node, node.state.name(), node.api)
    });
    lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

async fn run_cluster(args: &Args, output: &Output) -> Result<(), CommandError> {
    let mut signals = StopSignals::listen()?;
    let data = DataFolder::open(args)?;
    let layout = DevLayout::new(args.base_port, data.path());
    let listener = TcpListener::bind(layout.front_door).await;
    let listener = listener.map_err(|error| port_taken(error, layout.front_door.port()))?;
    let bound = BoundNode::bind_all(&layout).await.map_err(not_started)?;
    let recorder = Recorder::install()
        .map_err(|error| CommandError::broken("metrics cannot be recorded", error))?;
    output.answer(&Banner::of(&layout, args.ephemeral), Banner::text)?;
    let fleet = tokio::select! {
        started = Fleet::start_all(layout, bound, recorder) => started.map_err(not_started)?,
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
        let nodes = self.fleet.layout().nodes().map(|node| format!("http://{}", node.api));
        seed::bring_in(&client(nodes.collect())?).await?;
        ready.send_replace(true);
        output.note("ready");
        if traffic == Traffic::On {
            let front_door = format!("http://{}", self.fleet.layout().front_door);
            let flow = traffic::flow(client(vec![front_door])?, self.traffic.stop.clone());
            self.traffic.tasks.spawn(flow);
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

fn client(base_urls: Vec<String>) -> Result<Client, CommandError> {
    Client::new(base_urls, DEV_TOKEN)
        .map_err(|error| CommandError::broken("the demo data has no client", error))
}

/// Where the data lies. A temporary folder is removed when this is dropped.
enum DataFolder {
    Durable(PathBuf),
    Temporary(TempDir),
}

impl DataFolder {
    fn open(args: &Args) -> Result<Self, CommandError> {
        if args.ephemeral {
            let folder = tempfile::Builder::new().prefix("purser-dev-").tempdir();
            let failed = |error| CommandError::broken("there is no temporary folder", error);
            return folder.map(Self::Temporary).map_err(failed);
        }
        let made = std::fs::create_dir_all(&args.data).and_then(|()| args.data.canonicalize());
        made.map(Self::Durable).map_err(|error| {
            CommandError::broken(format!("{} cannot be made", args.data.display()), error)
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Durable(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
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
