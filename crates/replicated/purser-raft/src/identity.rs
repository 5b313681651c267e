//! The file that says whose data folder it is.
//!
//! ```text
//!  magic 8 │ format u32 │ cluster 16 │ node u64 │ crc u32
//! ```
//!
//! A folder that is opened by another node, or in another cluster, could acknowledge what it does
//! not have; so it is refused.

use std::path::Path;

use crate::codec::{Decoder, Encoder, Malformed};
use crate::disk::{Disk, OpenMode, read_all, replace_file};
use crate::error::OpenError;
use crate::ids::{ClusterId, NodeId};

/// The name of the file.
pub(crate) const IDENTITY_FILE: &str = "node";
/// The name of the (empty) file that is locked while the folder is in use.
pub const LOCK_FILE: &str = "lock";
/// The name of the file that says that the folder was restored from a backup. What is in it is its writer's
/// affair.
pub const RESTORED_FILE: &str = "restored";
/// The folder of the write-ahead log.
pub(crate) const WAL_DIR: &str = "wal";
/// The folder of the groups' folders.
pub(crate) const GROUPS_DIR: &str = "groups";
/// In a group's folder, the folder of its history.
pub(crate) const HISTORY_DIR: &str = "history";
/// In a group's folder, the folder of its snapshots.
pub(crate) const SNAPSHOTS_DIR: &str = "snapshots";

const MAGIC: &[u8; 8] = b"PURSNOD1";
const FORMAT: u32 = 1;

/// Whose data folder it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
}

impl Identity {
    fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.raw(MAGIC).u32(FORMAT).raw(self.cluster.as_bytes()).u64(self.node.0);
        let mut bytes = encoder.finish();
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let magic: [u8; 8] = decoder.array()?;
        let format = decoder.u32()?;
        let cluster = ClusterId::from_bytes(decoder.array()?);
        let node = NodeId(decoder.u64()?);
        let identity = Self { cluster, node };
        if magic != *MAGIC || format != FORMAT || identity.encode() != bytes {
            return Err(Malformed("not the identity of a node"));
        }
        Ok(identity)
    }

    /// Reads the identity of the folder `dir`; `None` if it has none yet.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, OpenError> {
        let path = dir.join(IDENTITY_FILE);
        let file = match disk.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(OpenError::Disk { path, source }),
        };
        let bytes =
            read_all(&*file).map_err(|source| OpenError::Disk { path: path.clone(), source })?;
        let identity = Self::decode(&bytes).map_err(|malformed| OpenError::Damaged {
            file: path,
            offset: 0,
            detail: malformed.0.to_owned(),
        })?;
        Ok(Some(identity))
    }

    /// Makes sure that the folder `dir` is that of `node`, in `cluster` if that is given. A new
    /// folder becomes so.
    pub(crate) fn claim(
        disk: &dyn Disk,
        dir: &Path,
        node: NodeId,
        cluster: Option<ClusterId>,
    ) -> Result<Self, OpenError> {
        let disk_error = |source| OpenError::Disk { path: dir.to_path_buf(), source };
        if let Some(found) = Self::read(disk, dir)? {
            // A process that was killed may have named the file without making that durable.
            disk.sync_dir(dir).map_err(disk_error)?;
            if found.node != node {
                return Err(OpenError::OtherNode { expected: node, actual: found.node });
            }
            return match cluster {
                Some(expected) if expected != found.cluster => {
                    Err(OpenError::OtherCluster { expected, actual: found.cluster })
                }
                _ => Ok(found),
            };
        }
        let cluster = cluster.map_or_else(ClusterId::random, Ok).map_err(disk_error)?;
        let identity = Self { cluster, node };
        replace_file(disk, dir, IDENTITY_FILE, &identity.encode()).map_err(disk_error)?;
        Ok(identity)
    }
}
