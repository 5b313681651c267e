//! When a standby's node follows somebody who says that he leads a home's shard.

use crate::change::ChangeNumber;

/// Whether a leader may be followed who knows Placement up to `placed`: he never says of an account that was
/// failed over before that something has happened.
///
/// `failed_over` is the latest fail-over that the standby's node knows of; nothing if it does not know all
/// that there was when it was started, because it may have served one before.
///
/// The node then hears this leader and no other, until another one of a later term asks. Whoever leads in his
/// own eyes, and has not asked since the node has served a fail-over, may not know of it, and would be told
/// that what he has decided is safe.
pub fn may_follow(placed: ChangeNumber, failed_over: Option<ChangeNumber>) -> bool {
    failed_over.is_some_and(|failed_over| failed_over <= placed)
}
