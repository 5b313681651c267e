//! A development cluster, `purser dev`, in a folder of its own, and routers in front of it.
//!
//! The places are those that its layout promises: the regions' ports follow the front door's in steps
//! of ten, and a node's id is the end of its port and one more.

use std::fmt::Write;
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::http::Api;
use crate::ports::{free_address, free_dev_base};
use crate::program::{Ended, Running, printed, run};
use crate::wait::wait_for;

/// How long a start or a stop may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// The token that every development cluster knows.
const TOKEN: &str = "dev";

/// A development cluster.
#[derive(Debug)]
pub struct Dev {
    running: Running,
    base: u16,
    data: TempDir,
}

impl Dev {
    /// The regions, in the order of their ports.
    pub const REGIONS: [&str; 3] = ["us", "eu", "ap"];

    /// Starts one, with more arguments than it needs.
    pub fn start(more: &[&str]) -> Self {
        let (base, data) = (free_dev_base(), tempfile::tempdir().expect("a temporary folder"));
        let folder = data.path().join("dev").display().to_string();
        let base_port = base.to_string();
        let arguments = [&["dev", "--base-port", &base_port, "--data", &folder], more].concat();
        let running = Running::start(arguments, &data.path().join("output"));
        Self { running, base, data }
    }

    /// Where the front door is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.base)
    }

    /// The front door.
    pub fn api(&self) -> Api {
        Api::new(self.url(), TOKEN)
    }

    /// The node whose API is so many ports above the front door.
    pub fn node(&self, distance: u16) -> Api {
        Api::new(format!("http://127.0.0.1:{}", self.base + distance), TOKEN)
    }

    /// The banner, once its last line is there.
    pub async fn banner(&mut self) -> Vec<String> {
        wait_for("the banner is printed", DEADLINE, async || {
            assert_eq!(self.running.ended(), None, "{}", self.running.printed());
            let text = self.running.printed();
            let whole =
                text.lines().any(|line| line.starts_with("Break it")) && text.ends_with('\n');
            whole.then(|| text.lines().map(str::to_owned).collect())
        })
        .await
    }

    /// Waits until every shard of every region has a leader.
    pub async fn wait_until_ready(&self) {
        wait_until_ready(&self.api(), "the cluster").await;
    }

    /// `purser dev ACTION`, as one types it in another terminal.
    pub async fn control(&self, action: &[&str]) -> Ended {
        let base = self.base.to_string();
        let arguments = [&["dev"], action, &["--base-port", &base]].concat();
        run(arguments, &[]).await
    }

    /// Interrupts it as Ctrl-C does, and gives all that it has printed once it has ended well.
    pub async fn stop(self) -> String {
        let Self { running, data, .. } = self;
        running.signal(Signal::INT);
        let status = running.wait_for_end(DEADLINE).await;
        let printed = printed(&data.path().join("output"));
        assert_eq!(status.code(), Some(0), "{printed}");
        printed
    }

    /// Starts `purser router` in a region, in front of `nodes` nodes of each region, and waits until it
    /// is ready. Calls for node `id` go to `api_of(id)` if that is something, else where it listens.
    pub async fn router(
        &self,
        region: &str,
        nodes: u16,
        api_of: impl Fn(u16, SocketAddr) -> Option<SocketAddr>,
    ) -> Router {
        let address = free_address();
        let mut text = format!(
            "node = 91\ncluster = \"purser-dev\"\nregion = \"{region}\"\nlisten = \"{address}\"\n\
             shards = 2\n\
             [regions]\nnumbers = {{ us = 0, eu = 1, ap = 2 }}\nplacement-voters = [11, 21, 31]\n"
        );
        for (region, first) in Self::REGIONS.iter().zip([10, 20, 30]) {
            for place in 0..nodes {
                let (id, port) = (first + place + 1, self.base + first + place);
                let listens = SocketAddr::from(([127, 0, 0, 1], port));
                let api = api_of(id, address).unwrap_or(listens);
                let written = write!(
                    text,
                    "[[peer]]\nnode = {id}\nregion = \"{region}\"\naddress = \"127.0.0.1:{}\"\n\
                     api-url = \"http://{api}\"\n",
                    port + 5
                );
                written.expect("a string takes all");
            }
        }
        let folder = self.data.path();
        let token = folder.join("router.token");
        std::fs::write(&token, TOKEN).expect("a file is written");
        let written = write!(
            text,
            "[[token]]\nname = \"dev\"\ntoken-file = {token:?}\nscopes = [\"admin\"]\n"
        );
        written.expect("a string takes all");
        let config = folder.join(format!("router-{}.toml", address.port()));
        std::fs::write(&config, text).expect("a file is written");
        let arguments = ["router".as_ref(), "--config".as_ref(), config.as_os_str()];
        let running = Running::start(arguments, &config.with_extension("log"));
        let router = Router { running, address };
        wait_until_ready(&router.api(), "the router").await;
        router
    }
}

/// A running `purser router`.
#[derive(Debug)]
pub struct Router {
    running: Running,
    address: SocketAddr,
}

impl Router {
    /// The router as the administrator sees it.
    pub fn api(&self) -> Api {
        Api::new(format!("http://{}", self.address), TOKEN)
    }

    /// Asks it to stop (SIGTERM) and waits until it has.
    pub async fn stop(self) -> ExitStatus {
        self.running.signal(Signal::TERM);
        self.running.wait_for_end(DEADLINE).await
    }
}

async fn wait_until_ready(api: &Api, what: &str) {
    wait_for(format!("{what} is ready"), DEADLINE, async || {
        api.try_get("/readyz").await.is_ok_and(|reply| reply.status == 200).then_some(())
    })
    .await;
}
