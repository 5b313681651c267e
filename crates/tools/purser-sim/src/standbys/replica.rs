//! The standby's node: what it has of the shard, and whom it hears.

use purser_placement::ChangeNumber;
use purser_placement::standby::may_follow;

use super::placed::{STANDBY, region};
use super::{Rule, Small, State};

/// See the module's documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Replica {
    held: Held,
    /// How many entries it has.
    pub(super) log: u8,
    /// The highest term of which it has taken entries.
    heard: u64,
    /// The latest fail-over that this node knows of.
    failed_over: ChangeNumber,
    /// Whether all is known that Placement knew when this node was started.
    is_confirmed: bool,
    /// How many entries it had when the home was first taken over from it.
    pub(super) taken: Option<u8>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum Held {
    #[default]
    Closed,
    /// Nobody is heard but who leads in this term.
    Follows(u64),
    Frozen,
}

impl State {
    /// A leader asks the standby's node to follow, which answers.
    pub(super) fn follow(&mut self, model: &Small, term: u64, placed: ChangeNumber) -> bool {
        let replica = &mut self.replica;
        let is_confirmed = replica.is_confirmed || model.breaks(Rule::ConfirmedAtStart);
        let failed_over = is_confirmed.then_some(replica.failed_over);
        let is_later = match replica.held {
            Held::Follows(heard) => heard <= term,
            Held::Closed | Held::Frozen => true,
        };
        let may = may_follow(placed, failed_over) || model.breaks(Rule::KnowsOfFailOvers);
        if may && is_later {
            replica.held = Held::Follows(term);
        }
        may && is_later
    }

    /// The standby takes all the entries that a leader has, who hears of it.
    pub(super) fn replicate(&mut self, model: &Small, node: usize) -> Option<()> {
        let Held::Follows(heard) = self.replica.held else { return None };
        let leader = &mut self.nodes[node];
        let term = leader.leading?;
        // Consensus itself takes nothing of a term that it knows to be over.
        let is_heard = term == heard || model.breaks(Rule::HearsWhoHasAsked);
        if !is_heard || term < self.replica.heard {
            return None;
        }
        self.replica.heard = term;
        self.replica.log = self.replica.log.max(leader.shown);
        leader.matched = Some(leader.shown.into());
        Some(())
    }

    /// Whoever takes over asks for what the replica has.
    pub(super) fn freeze(&mut self, model: &Small) -> Option<()> {
        let placed = self.placed.now();
        if placed.home != region(STANDBY) {
            return None;
        }
        let replica = &mut self.replica;
        if !model.breaks(Rule::LearnsBeforeFrozen) {
            replica.failed_over = placed.failed_over;
        }
        let is_deaf = !model.breaks(Rule::FrozenIsDeaf) && !model.breaks(Rule::StopsToFollow);
        if replica.held == Held::Closed && !is_deaf && replica.taken.is_some() {
            // It hears whom it has heard, until it is stopped.
            replica.held = Held::Follows(replica.heard);
            return Some(());
        }
        if !model.breaks(Rule::StopsToFollow) {
            replica.held = Held::Frozen;
        }
        replica.taken = replica.taken.or(Some(replica.log));
        Some(())
    }

    pub(super) fn restart(&mut self) -> Option<()> {
        self.left.restarts = self.left.restarts.checked_sub(1)?;
        let replica = &mut self.replica;
        (replica.held, replica.is_confirmed) = (Held::Closed, false);
        replica.failed_over = ChangeNumber::NONE;
        Some(())
    }

    pub(super) fn learn_at_standby(&mut self) -> Option<()> {
        self.replica.failed_over = self.placed.now().failed_over;
        self.replica.is_confirmed = true;
        Some(())
    }
}
