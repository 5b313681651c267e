//! The folder of a development cluster's data, and what it remembers beside the nodes' own files.
//!
//! ```text
//!  nodes-per-region   1 or 3: a group's first members are written into its log, so a folder keeps
//!                     the number that it was made with
//!  voucher.key        what vouchers are signed with
//!  us-1, eu-1, …      one folder for each node
//! ```

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::dev::layout::NodesPerRegion;
use crate::failure::CommandError;

/// Signs vouchers. No secret, like [`super::DEV_TOKEN`]: what it opens is on this machine.
const VOUCHER_KEY: &str = "purser dev: this key is public, it opens nothing beyond this machine\n";

/// Where the data lies. A temporary folder is removed when this is dropped.
#[derive(Debug)]
pub(super) enum DataFolder {
    /// It stays.
    Durable(PathBuf),
    /// It goes.
    Temporary(TempDir),
}

/// The file with the key that vouchers are signed with.
pub(super) fn voucher_key(data: &Path) -> PathBuf {
    data.join("voucher.key")
}

fn nodes_file(data: &Path) -> PathBuf {
    data.join("nodes-per-region")
}

impl DataFolder {
    /// Makes a folder, or a temporary one if none is named.
    pub(super) fn open(data: Option<&Path>) -> Result<Self, CommandError> {
        let Some(data) = data else {
            let folder = tempfile::Builder::new().prefix("purser-dev-").tempdir();
            let failed = |error| CommandError::broken("there is no temporary folder", error);
            return folder.map(Self::Temporary).map_err(failed);
        };
        let made = std::fs::create_dir_all(data).and_then(|()| data.canonicalize());
        made.map(Self::Durable).map_err(|error| {
            CommandError::broken(format!("{} cannot be made", data.display()), error)
        })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Durable(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }

    /// How many nodes a region has here: as many as before, else as many as are asked for, else
    /// one. Fails if another number is asked for than there was.
    pub(super) fn settle_nodes(
        &self,
        asked: Option<NodesPerRegion>,
    ) -> Result<NodesPerRegion, CommandError> {
        let file = nodes_file(self.path());
        let unusable = |error: io::Error| {
            CommandError::broken(format!("{} cannot be used", self.path().display()), error)
        };
        let nodes = match std::fs::read_to_string(&file) {
            Ok(text) => self.known_nodes(text.trim(), asked)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let nodes = asked.unwrap_or(NodesPerRegion::One);
                std::fs::write(&file, format!("{}\n", nodes.count())).map_err(unusable)?;
                nodes
            }
            Err(error) => return Err(unusable(error)),
        };
        std::fs::write(voucher_key(self.path()), VOUCHER_KEY).map_err(unusable)?;
        Ok(nodes)
    }

    fn known_nodes(
        &self,
        known: &str,
        asked: Option<NodesPerRegion>,
    ) -> Result<NodesPerRegion, CommandError> {
        let folder = self.path().display();
        let known = NodesPerRegion::parse(known).ok_or_else(|| {
            CommandError::Failed(format!("{folder} does not look like data of `purser dev`"))
        })?;
        match asked {
            Some(asked) if asked != known => {
                let count = known.count();
                Err(CommandError::Failed(format!(
                    "{folder} was made with --nodes {count} and keeps that; choose another folder \
                     with --data"
                )))
            }
            _ => Ok(known),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_the_number_of_nodes_that_it_was_made_with() {
        let place = tempfile::tempdir().unwrap();
        let settle = |asked| {
            let folder = DataFolder::open(Some(place.path())).unwrap();
            folder.settle_nodes(asked).map_err(|error| error.to_string())
        };
        assert_eq!(settle(Some(NodesPerRegion::Three)), Ok(NodesPerRegion::Three));
        assert_eq!(settle(None), Ok(NodesPerRegion::Three));
        let refused = settle(Some(NodesPerRegion::One)).unwrap_err();
        assert!(refused.contains("--nodes 3"), "{refused}");
    }

    #[test]
    fn a_new_folder_has_one_node_a_region() {
        let folder = DataFolder::open(None).unwrap();
        assert_eq!(folder.settle_nodes(None).unwrap(), NodesPerRegion::One);
    }
}
