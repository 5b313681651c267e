//! The rules by which a home, its standbys and Placement agree on who can take over.
//!
//! ```text
//!  Watched, Pace: a shard's leader       Kept: the leader of the first shard       Placement
//!    Acknowledges ── silent ─▶ Leaving ── drop ─▶ dropping ──── not promotable ──────▶ │
//!         ▲                       └─▶ Dropped ◀── it is so ◀──────────────────────────┤
//!         └── follows, has all ──────────┘                                            │
//!    promises ◀─────────────────────────────────── taking in ── promotable, if seen ─▶ │
//! ```
//!
//! Everything here is a step of somebody who may be stopped before or after it, and whose messages may be
//! late, lost or repeated:
//!
//! - A leader waits for every standby that it has not itself seen dropped, for whichever tenant Placement
//!   may have it stand by as far as the leader knows. A new leader begins with all of them.
//! - When it has had one dropped, it learns of every fail-over from before that, and tells nothing of those
//!   tenants.
//! - A tenant becomes promotable when all shards' leaders have promised that: each leads, knows Placement as
//!   far as whoever asks, and has no drop under way.
//! - A drop is a change of Placement, so whoever asks for a standby back on the strength of what a shard
//!   said before comes too late.
//! - An acknowledgment counts only of a standby that has said, in this leader's term, that it follows
//!   somebody who knows of every fail-over that it has served. A standby hears only the
//!   leader that it has told so last, and stops following before it takes over. So an old home that is alive is
//!   never told that what it decides then is safe.
//!
//! [`Vigil`] is apart from that: when a region is failed over although nobody asks.
//!
//! `purser-sim` plays these very steps in every order (`purser_sim::standbys`). Not here: asking, waiting and
//! reading the clock, which the node does around them; and which entries count under X (the ledger's).

mod following;
mod keeping;
mod pace;
mod vigil;
mod watching;

pub use following::may_follow;
pub use keeping::{Dropping, Kept, TakingIn};
pub use pace::{Look, Pace, Step};
pub use vigil::Vigil;
pub use watching::{Fenced, Following, Need, Promising, Watched, check_home};
