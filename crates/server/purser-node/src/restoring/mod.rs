//! A node whose data folder was restored from a backup serves nothing before its groups have begun
//! another life (R9).
//!
//! ```text
//!  restore: copy ─▶ marker ─▶ the folder gets its name
//!  start:   marker ─▶ each group: its leader begins another life ─▶ marker away ─▶ serve
//! ```
//!
//! What a region's group forgets it may spend again, so it must not go on as if nothing had been. The
//! marker outlives every crash until the groups have begun the new life in their own logs, and there a life
//! begins once, however often and by however many nodes it is asked for (`Command::BeginLife`).
//!
//! Not here: what another life means for a region's books (`purser-ledger`).

mod folder;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use minicbor::{Decode, Encode};
use purser_ledger::{Command, Ledger, codec};
use purser_raft::disk::{Disk, OpenMode};
use purser_raft::{Group, GroupStatus, RESTORED_FILE, Role};
use purser_types::Life;
use tokio::sync::watch;

pub use self::folder::{RestoreError, back_up, restore};
use crate::groups::is_ready;
use crate::tasks::chain;

/// How long beginning another life may take before it is tried again.
const PATIENCE: Duration = Duration::from_secs(5);

/// After so long a group is looked at again, also if nothing is heard of it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a restore leaves in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Marker {
    /// The life that begins.
    #[n(0)]
    life: Life,
    /// The lives that the backup knew, of all its groups. A group that is in another one has begun it since.
    #[n(1)]
    known: Vec<Option<Life>>,
}

/// The marker of a restore could not be read, or not be put away.
#[derive(Debug, thiserror::Error)]
#[error("the marker of a restore, {}, cannot be used", path.display())]
pub struct MarkerError {
    /// The file.
    path: PathBuf,
    /// Why.
    #[source]
    source: io::Error,
}

/// Whether the node's groups may be used. Clones are the same gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub(crate) fn new(is_open: bool) -> Self {
        Self(Arc::new(watch::Sender::new(is_open)))
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    fn open(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when the gate is open.
    pub(crate) async fn opened(&self) {
        let mut is_open = self.0.subscribe();
        let opened = is_open.wait_for(|is_open| *is_open).await;
        opened.expect("the sender is in this very value");
    }
}

impl Marker {
    /// The marker in a node's folder; nothing if the folder was not restored, or that is dealt with.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, MarkerError> {
        let path = dir.join(RESTORED_FILE);
        let read = || {
            let file = match disk.open(&path, OpenMode::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?,
            };
            let length = usize::try_from(file.length()?).map_err(io::Error::other)?;
            let mut bytes = vec![0; length];
            file.read_at(&mut bytes, 0)?;
            codec::decode(&bytes).map(Some).map_err(io::Error::other)
        };
        read().map_err(|source| MarkerError { path: path.clone(), source })
    }

    /// Has every group begin another life, puts the marker away and opens the gate.
    ///
    /// A group that another node leads is waited for: its leader was restored as well, and begins it, or
    /// this node leads one day. Until then the node serves nothing.
    pub(crate) async fn deal_with(
        self,
        groups: &[Group<Ledger>],
        (disk, dir): (Arc<dyn Disk>, PathBuf),
        gate: &Gate,
    ) -> Result<(), MarkerError> {
        for group in groups {
            self.begin_in(group).await;
        }
        let path = dir.join(RESTORED_FILE);
        let put_away = disk.remove(&path).and_then(|()| disk.sync_dir(&dir));
        put_away.map_err(|source| MarkerError { path, source })?;
        gate.open();
        tracing::info!(life = %self.life, "restored from a backup: every group has begun another life");
        Ok(())
    }

    async fn begin_in(&self, group: &Group<Ledger>) {
        let mut status = group.watch();
        loop {
            if !self.known.contains(&group.view(|ledger, _| ledger.life())) {
                return;
            }
            let leads = |status: &GroupStatus| status.role == Role::Leader && is_ready(status);
            if leads(&group.status()) {
                let Self { known, life } = self.clone();
                let command = Bytes::from(codec::encode(&Command::BeginLife { known, life }));
                match group.propose(command, Instant::now() + PATIENCE).await {
                    // What came of it is looked at above.
                    Ok(_) => continue,
                    Err(error) => {
                        let error = chain(&error);
                        tracing::warn!(group = %group.id(), error, "another life was not begun yet");
                    }
                }
            } else {
                tracing::debug!(group = %group.id(), "another life begins when somebody leads");
            }
            // Nothing is lost by looking once too often.
            tokio::select! {
                changed = status.changed() => if changed.is_err() {
                    // The group has stopped for good, and with it the node.
                    std::future::pending::<()>().await;
                },
                () = tokio::time::sleep(LOOK_EVERY) => (),
            }
        }
    }
}
