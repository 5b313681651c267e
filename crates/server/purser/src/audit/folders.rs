//! Which folders are nodes' data folders.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file that every node's data folder has: it says whose folder it is.
const NODE_FILE: &str = "node";

/// Why there is nothing to audit.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// The disk refused.
    #[error("{} could not be read", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Neither a node's folder nor one that holds some.
    #[error("{} is no data folder of a node, and holds none", path.display())]
    NoNode {
        /// The folder.
        path: PathBuf,
    },
}

/// The nodes' folders among `dirs` and directly in them, each once, however it is spelled.
pub(crate) fn nodes_in(dirs: &[PathBuf]) -> Result<BTreeSet<PathBuf>, FolderError> {
    let mut nodes = BTreeSet::new();
    for dir in dirs {
        let failed = |source| FolderError::Read { path: dir.clone(), source };
        let dir = dir.canonicalize().map_err(failed)?;
        if is_node(&dir) {
            nodes.insert(dir);
            continue;
        }
        let found: Vec<PathBuf> =
            children(&dir)?.into_iter().filter(|child| is_node(child)).collect();
        if found.is_empty() {
            return Err(FolderError::NoNode { path: dir });
        }
        nodes.extend(found);
    }
    Ok(nodes)
}

fn is_node(dir: &Path) -> bool {
    dir.join(NODE_FILE).is_file()
}

fn children(dir: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let failed = |source| FolderError::Read { path: dir.to_owned(), source };
    let entries = fs::read_dir(dir).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_by_itself_and_among_others() {
        let root = tempfile::tempdir().unwrap();
        for name in ["us-1", "us-2", "notes"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        for name in ["us-1", "us-2"] {
            fs::write(root.path().join(name).join(NODE_FILE), "").unwrap();
        }
        let (root, one) = (root.path().to_owned(), root.path().join("us-1"));
        assert_eq!(nodes_in(std::slice::from_ref(&one)).unwrap().len(), 1);
        assert_eq!(nodes_in(&[root.clone(), one]).unwrap().len(), 2);
        let spelled_otherwise = root.join("notes/../us-1");
        assert_eq!(nodes_in(&[root.clone(), root.clone(), spelled_otherwise]).unwrap().len(), 2);
        assert!(matches!(nodes_in(&[root.join("notes")]), Err(FolderError::NoNode { .. })));
        assert!(matches!(nodes_in(&[root.join("none")]), Err(FolderError::Read { .. })));
    }
}
