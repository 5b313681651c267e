//! What consensus answers to a change of a group's members, and what is sure about it.
//!
//! A change of voters is made in two steps: old and new members together, then the new ones alone.
//! The errors of both come in the same words, so what is sure depends on how many steps the change
//! may have had.

use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::type_config::alias::CommittedLeaderIdOf;

use crate::error::ChangeError;
use crate::ids::NodeId;
use crate::raft::types::TypeConfig;

/// How many entries a change needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Steps {
    /// One: if it is refused, nothing was written.
    One,
    /// One or two: when the second is refused, the first is committed.
    UpToTwo,
}

/// What an error of consensus says about a change of so many steps.
pub(super) fn change_error(
    error: RaftError<TypeConfig, ClientWriteError<TypeConfig>>,
    steps: Steps,
) -> ChangeError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => match steps {
            Steps::One => ChangeError::NotLeader { leader: forward.leader_id },
            // It led a moment ago, so it may have lost the leadership between the steps.
            Steps::UpToTwo => ChangeError::OutcomeUnknown,
        },
        // Sure, as it is about the first step: the second only drops the old members, and only
        // while the first is committed and the last change, so there is nothing to refuse.
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => {
            ChangeError::Refused(reason_of(error))
        }
        // About the second step: only that has a condition, namely that nobody has changed the
        // members since the first.
        RaftError::APIError(ClientWriteError::PreconditionFailed(_)) => ChangeError::OutcomeUnknown,
        // Written at least here, and perhaps elsewhere.
        RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)) | RaftError::Fatal(_) => {
            ChangeError::OutcomeUnknown
        }
    }
}

/// Why members cannot be changed, for who asked for it.
fn reason_of(error: ChangeMembershipError<CommittedLeaderIdOf<TypeConfig>, NodeId>) -> String {
    match error {
        ChangeMembershipError::InProgress(_) => "another change of its members is under way".into(),
        ChangeMembershipError::EmptyMembership(_) => "a group needs a voter".into(),
        ChangeMembershipError::LearnerNotFound(missing) => {
            format!("node {} is not a learner of the group", missing.node_id)
        }
        ChangeMembershipError::UncommittedLeaderLog(_) => "its leader has only just begun".into(),
        error @ (ChangeMembershipError::UnsupportedMembershipTransition(_)
        | ChangeMembershipError::NodeMetadataChanged(_)) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use openraft::error::{EmptyMembership, Fatal, ForwardToLeader, PreconditionFailed};

    use super::*;

    const LEADER: Option<NodeId> = Some(NodeId(2));

    #[track_caller]
    fn check_error(
        error: impl Into<ClientWriteError<TypeConfig>>,
        one: ChangeError,
        up_to_two: ChangeError,
    ) {
        let error = RaftError::APIError(error.into());
        assert_eq!(change_error(error.clone(), Steps::One), one);
        assert_eq!(change_error(error, Steps::UpToTwo), up_to_two);
    }

    #[test]
    fn nothing_happened_is_said_only_of_what_cannot_be_half_done() {
        let unknown = || ChangeError::OutcomeUnknown;
        let elsewhere = ForwardToLeader { leader_id: LEADER, ..ForwardToLeader::empty() };
        check_error(elsewhere.clone(), ChangeError::NotLeader { leader: LEADER }, unknown());
        check_error(ClientWriteError::LogEntryDiscarded(elsewhere), unknown(), unknown());
        let overtaken = PreconditionFailed::LastLogIdMismatch { expected: None, actual: None };
        check_error(overtaken, unknown(), unknown());
        let refused = || ChangeError::Refused("a group needs a voter".to_owned());
        let nobody = ChangeMembershipError::EmptyMembership(EmptyMembership {});
        check_error(nobody, refused(), refused());
        // The entry may be on its way to the others.
        assert_eq!(change_error(RaftError::Fatal(Fatal::Stopped), Steps::One), unknown());
    }
}
