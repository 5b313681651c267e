//! Rules that are broken on purpose, to see that somebody misses them.
//!
//! The steps are the shipped ones: what breaks is the node around them, which leaves one out, or takes it
//! without what it rests on.

/// A rule that a node can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// R1: what is told waits for the standby.
    WaitsForStandbys,
    /// A standby acknowledges nothing that counts before it has said in this term that it follows.
    FollowsInItsTerm,
    /// An acknowledgment counts in the term in which the standby has said that it follows.
    AcknowledgedInItsTerm,
    /// Nothing is told of a tenant that is known to have been failed over.
    RefusesWhenFenced,
    /// R6: a new leader tells nothing within X before the standby has what there was at first.
    WaitsAtFirst,
    /// A new leader knows who stands by for whom only once it knows what Placement knew in its term.
    PlacedInItsTerm,
    /// A standby is waited for until Placement has dropped it.
    DroppedByPlacement,
    /// A leader that has dropped a standby knows then what Placement knows: whoever was failed over before.
    PlacedBeforeDropped,
    /// A leader that has a standby dropped promises nothing meanwhile.
    LeavesBeforeDropped,
    /// A tenant is taken in when the shards have promised.
    ShardsPromise,
    /// Only a leader promises whom a majority confirms.
    PromisesIfLeading,
    /// Only a leader promises that knows Placement as far as whoever asks.
    PromisesAsPlaced,
    /// A leader promises when the standby has all that there was.
    PromisesWhatIsThere,
    /// It promises if it believes what it believed when it was asked.
    PromiseHolds,
    /// A keeper takes in only if it led after it had looked.
    LeadsBeforeItTakesIn,
    /// A keeper takes in only what is at home here.
    TakesInWhatIsHere,
    /// Placement takes in only as it was seen.
    TakesInWhatWasSeen,
    /// Once a keeper has asked for a tenant, somebody may be promotable.
    UnclearOnceItAsks,
    /// A keeper says without asking that nobody is promotable only while it leads.
    ClearOnlyIfLeading,
    /// A keeper drops all the tenants there are, and not those it happens to know.
    DropsWhatIsPlaced,
    /// It drops until none is left.
    DropsUntilNoneIsLeft,
    /// A standby's node follows only who knows of the fail-overs that it has served.
    KnowsOfFailOvers,
    /// One that was started anew knows of none before it was told what Placement knows.
    ConfirmedAtStart,
    /// It hears nobody but the leader that has asked last.
    HearsWhoHasAsked,
    /// A replica stops to follow before anything is taken over.
    StopsToFollow,
    /// Its node knows of the fail-over before that.
    LearnsBeforeFrozen,
    /// One that was not open hears nobody while it is taken over from.
    FrozenIsDeaf,
}
