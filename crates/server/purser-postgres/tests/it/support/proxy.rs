//! Between a projector and the server: cuts the connection at a chosen message, or holds it up.
//!
//! It understands no more of the protocol than where a message of the client ends, and which one commits.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::{Buf, BytesMut};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// What becomes of messages of clients.
#[derive(Debug, Default)]
struct Plan {
    /// After so many more of them the connection is cut, once.
    cut_after: Option<u32>,
    /// The next commit reaches the server, and its answer nobody; then the connection is cut, once.
    loses_commit: bool,
    /// Commits wait.
    holds_commits: bool,
    /// So many connections are refused.
    refuses: u32,
    /// How many connections were cut or refused.
    cuts: u32,
}

/// See the module's documentation.
pub(crate) struct Proxy {
    folder: TempDir,
    database: String,
    plan: Arc<Mutex<Plan>>,
    gate: Arc<Semaphore>,
    held: Arc<Semaphore>,
}

#[derive(Clone)]
struct Wire {
    upstream: PathBuf,
    plan: Arc<Mutex<Plan>>,
    gate: Arc<Semaphore>,
    held: Arc<Semaphore>,
}

enum Fate {
    Pass,
    Hold,
    Cut,
    PassAndCut,
}

impl Proxy {
    /// Before the server of this address.
    pub(crate) fn before(address: &str) -> Self {
        let config: Config = address.parse().unwrap();
        let Some(Host::Unix(upstream)) = config.get_hosts().first() else {
            panic!("the proxy stands before a socket of the system: {address}");
        };
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let (gate, held) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let wire = Wire {
            upstream: upstream.join(".s.PGSQL.5432"),
            plan: Arc::default(),
            gate: Arc::clone(&gate),
            held: Arc::clone(&held),
        };
        let plan = Arc::clone(&wire.plan);
        super::in_background(async move {
            while let Ok((client, _)) = listener.accept().await {
                let wire = wire.clone();
                super::in_background(async move {
                    // A connection that ends is what the tests are about.
                    wire.carry(client).await.unwrap_or_default();
                });
            }
        });
        let database = config.get_dbname().unwrap().to_owned();
        Self { folder, database, plan, gate, held }
    }

    /// The address by which the server is reached through it.
    pub(crate) fn address(&self) -> String {
        let folder: &Path = self.folder.path();
        format!("host={} user=postgres dbname={}", folder.display(), self.database)
    }

    /// Cuts a connection after so many more messages.
    pub(crate) fn cut_after(&self, messages: u32) {
        self.plan.lock().unwrap().cut_after = Some(messages);
    }

    /// Loses the answer to the next commit.
    pub(crate) fn lose_commit(&self) {
        self.plan.lock().unwrap().loses_commit = true;
    }

    /// Refuses so many connections.
    pub(crate) fn refuse(&self, connections: u32) {
        self.plan.lock().unwrap().refuses = connections;
    }

    /// Holds commits up until [`Proxy::let_commit`].
    pub(crate) fn hold_commits(&self) {
        self.plan.lock().unwrap().holds_commits = true;
    }

    /// Waits until a commit is held up.
    pub(crate) async fn wait_for_held(&self) {
        self.held.acquire().await.unwrap().forget();
    }

    /// Lets the commit that is held up through, and all later ones.
    pub(crate) fn let_commit(&self) {
        self.plan.lock().unwrap().holds_commits = false;
        self.gate.add_permits(1);
    }

    /// How many connections were cut or refused so far.
    pub(crate) fn cuts(&self) -> u32 {
        self.plan.lock().unwrap().cuts
    }
}

impl Wire {
    async fn carry(self, mut client: UnixStream) -> std::io::Result<()> {
        if self.refuses() {
            return Ok(());
        }
        let mut server = UnixStream::connect(&self.upstream).await?;
        let (mut read, mut answered) = (BytesMut::new(), vec![0; 64 << 10]);
        let mut has_started = false;
        loop {
            while let Some(length) = message_length(&read, has_started) {
                let message = read.split_to(length);
                let fate = if has_started { self.fate(&message) } else { Fate::Pass };
                has_started = true;
                match fate {
                    Fate::Pass => server.write_all(&message).await?,
                    Fate::Cut => return Ok(()),
                    Fate::PassAndCut => {
                        server.write_all(&message).await?;
                        // Its answer says that it is done; it goes no further.
                        let _length = server.read(&mut answered).await?;
                        return Ok(());
                    }
                    Fate::Hold => {
                        self.held.add_permits(1);
                        self.gate.acquire().await.expect("never closed").forget();
                        server.write_all(&message).await?;
                    }
                }
            }
            tokio::select! {
                more = client.read_buf(&mut read) => if more? == 0 { return Ok(()); },
                more = server.read(&mut answered) => match more? {
                    0 => return Ok(()),
                    length => client.write_all(&answered[..length]).await?,
                },
            }
        }
    }

    fn refuses(&self) -> bool {
        let mut plan = self.plan.lock().unwrap();
        if plan.refuses == 0 {
            return false;
        }
        plan.refuses -= 1;
        plan.cuts += 1;
        true
    }

    fn fate(&self, message: &[u8]) -> Fate {
        let mut plan = self.plan.lock().unwrap();
        if let Some(left) = plan.cut_after {
            plan.cut_after = left.checked_sub(1);
            if plan.cut_after.is_none() {
                plan.cuts += 1;
                return Fate::Cut;
            }
        }
        let commits = message.first() == Some(&b'Q') && message[5..].starts_with(b"COMMIT");
        if commits && plan.loses_commit {
            plan.loses_commit = false;
            plan.cuts += 1;
            return Fate::PassAndCut;
        }
        if commits && plan.holds_commits { Fate::Hold } else { Fate::Pass }
    }
}

/// The length of the first message, if all of it was read. The first one of a connection has no type.
fn message_length(read: &BytesMut, has_started: bool) -> Option<usize> {
    let type_bytes = usize::from(has_started);
    let mut length = read.get(type_bytes..type_bytes + 4)?;
    let length = usize::try_from(length.get_u32()).unwrap() + type_bytes;
    (length <= read.len()).then_some(length)
}
