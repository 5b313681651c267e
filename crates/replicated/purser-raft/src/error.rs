//! Why something could not be done. Every error says whether anything happened.

use std::io;
use std::path::PathBuf;

use purser_types::CorruptSnapshot;

use crate::ids::{ClusterId, NodeId};

/// Why a command has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Nothing happened: another node leads, none does right now, or this one leads and has not yet
    /// heard enough clocks to judge its own.
    #[error("this node does not lead the group")]
    NotLeader {
        /// Who leads, if this node knows.
        leader: Option<NodeId>,
    },
    /// Nothing happened: too many commands are waiting.
    #[error("too many commands are waiting")]
    Overloaded,
    /// Nothing happened: the command is too large for the log.
    #[error("the command is larger than {max} bytes")]
    TooLarge {
        /// The most bytes a command may have.
        max: usize,
    },
    /// Nothing happened: this node leads, but its clock runs ahead of the group's.
    #[error("the clock of this node is ahead of the clocks of its group")]
    ClockAhead,
    /// Nothing happened: the group has stopped on this node.
    #[error("the group has stopped on this node")]
    Stopped,
    /// The command may have been applied, may be applied later, or never.
    #[error("the outcome of the command is unknown")]
    OutcomeUnknown,
}

/// Why a read can not be given. Nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Another node leads, or none does right now.
    #[error("this node does not lead the group")]
    NotLeader {
        /// Who leads, if this node knows.
        leader: Option<NodeId>,
    },
    /// Leadership could not be confirmed in time.
    #[error("leadership could not be confirmed in time")]
    TimedOut,
    /// The group has stopped on this node.
    #[error("the group has stopped on this node")]
    Stopped,
}

/// Why it is not known that another node has an entry. Nothing happened; it may have it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeError {
    /// Another node leads, or none does right now, so this one is not told.
    #[error("this node does not lead the group")]
    NotLeader {
        /// Who leads, if this node knows.
        leader: Option<NodeId>,
    },
    /// The node has not acknowledged the entry in time, or the group does not replicate to it.
    #[error("the entry was not acknowledged in time")]
    TimedOut,
    /// The group has stopped on this node.
    #[error("the group has stopped on this node")]
    Stopped,
}

/// Why the group's members or leader could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Nothing happened: another node leads, none does right now, or this one leads and has not yet
    /// heard enough clocks to judge its own.
    #[error("this node does not lead the group")]
    NotLeader {
        /// Who leads, if this node knows.
        leader: Option<NodeId>,
    },
    /// Nothing happened: the change is not possible now, or never.
    #[error("the change is refused: {0}")]
    Refused(String),
    /// Nothing happened: the group has stopped on this node.
    #[error("the group has stopped on this node")]
    Stopped,
    /// The change may have come about, or half of it, or may yet.
    #[error("the outcome of the change is unknown")]
    OutcomeUnknown,
}

/// Why a node or a group could not be opened. Nothing was changed that a later opening minds.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk refused.
    #[error("{} could not be read or written", path.display())]
    Disk {
        /// File or folder.
        path: PathBuf,
        /// What the disk said.
        #[source]
        source: io::Error,
    },
    /// Another process has the data folder.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The folder belongs to another node.
    #[error("the data folder belongs to node {actual}, not to node {expected}")]
    OtherNode {
        /// Who wants to open it.
        expected: NodeId,
        /// Whose it is.
        actual: NodeId,
    },
    /// The folder belongs to another cluster.
    #[error("the data folder belongs to cluster {actual}, not to cluster {expected}")]
    OtherCluster {
        /// Which cluster the settings name.
        expected: ClusterId,
        /// Whose it is.
        actual: ClusterId,
    },
    /// A file is not what was written.
    #[error("{} is damaged at offset {offset}: {detail}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        detail: String,
    },
    /// The snapshot does not describe a state of this machine.
    #[error("the snapshot could not be restored")]
    Snapshot(#[from] CorruptSnapshot),
    /// The group is open already.
    #[error("the group is open already")]
    AlreadyOpen,
    /// The log and the snapshot do not fit together, or consensus refused to start.
    #[error("the group could not be started: {0}")]
    Start(String),
}

/// Why a node or a group has stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// It was asked to.
    #[error("shut down")]
    ShutDown,
    /// The log could not be written. Nothing is acknowledged after that, and nothing is retried:
    /// after a failed sync the kernel may have dropped what it could not write.
    #[error("the write-ahead log failed: {0}")]
    Log(String),
    /// A command could not be applied.
    #[error("a command could not be applied: {0}")]
    Apply(String),
    /// Consensus gave up, or a task ended that must not.
    #[error("consensus stopped: {0}")]
    Consensus(String),
}
