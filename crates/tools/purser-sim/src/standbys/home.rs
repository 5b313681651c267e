//! A node of the home as leader of the shard: what it believes, and what it tells.

use purser_placement::standby::{
    Following, Kept, Look, Need, Pace, Promising, Step, Watched, check_home,
};
use purser_placement::{ChangeNumber, TenantPlacement};
use purser_types::{Epoch, Span};

use super::keeping::Task;
use super::placed::{HOME, STANDBY, region};
use super::{Action, Entries, Rule, Small, State};

/// After how long a silent standby is dropped.
const SILENCE: Span = Span::from_secs(3);

/// See the module's documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Node {
    /// The term in which it leads the shard, as it believes.
    pub(super) leading: Option<u64>,
    /// How many entries it has shown.
    pub(super) shown: u8,
    /// What the standby has acknowledged in this term.
    pub(super) matched: Option<u64>,
    pub(super) watched: Watched,
    pace: Pace,
    look: Option<Looking>,
    pub(super) drop: Option<Dropped>,
    /// A promise that waits for an acknowledgment, and for which keeper.
    pub(super) promising: Option<(Promising, usize)>,
    answers: Answers,
    /// Entries that have waited for whom they have to, and are about to be told.
    secured: Entries,
    /// The tenant, as far as this node knows.
    pub(super) known: Option<TenantPlacement>,
    /// Up to where it knows Placement.
    pub(super) as_of: ChangeNumber,
    /// The term in which it leads the first shard, as it believes.
    pub(super) keeps: Option<u64>,
    pub(super) kept: Kept,
    pub(super) task: Option<Task>,
}

/// What may be told within X, in a term.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Answers {
    term: u64,
    /// Up to which entry the standby is to have everything at first.
    first: Option<u8>,
}

/// A question to the standby.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Looking {
    term: u64,
    following: Option<Following>,
    written: Option<u64>,
    /// What the standby has answered.
    follows: bool,
}

/// A drop that the keeper was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Dropped {
    term: u64,
    /// The keeper that has taken it up.
    pub(super) taken_by: Option<usize>,
    /// What it has answered.
    pub(super) answer: Option<bool>,
}

impl Node {
    /// Whether it leads and waits for no standby.
    pub(super) fn has_dropped(&self) -> bool {
        let following = self.watched.following(region(STANDBY));
        self.watched.current(self.leading).is_some() && following == Some(Following::Dropped)
    }
}

impl State {
    pub(super) fn actions_of_leader(&self, model: &Small, node: usize, actions: &mut Vec<Action>) {
        let it = &self.nodes[node];
        // With one election only, it is another node's.
        if self.left.elections > 0 && (model.elections > 1 || self.leader.0 != node) {
            actions.push(Action::Elect(node));
        }
        if it.leading.is_none() && it.watched == Watched::default() {
            return;
        }
        actions.extend([
            Action::StepDown(node),
            Action::Notice(node),
            Action::Place(node),
            Action::Learn(node),
            Action::Decide(node),
            Action::Ask(node),
            Action::Hear(node, true),
            Action::Replicate(node),
            Action::HearDrop(node),
            Action::LoseDrop(node),
            Action::Promise(node),
        ]);
        if model.silences > 0 {
            actions.extend([Action::AskNobody(node), Action::Hear(node, false)]);
        }
        for entry in 1..=it.shown {
            actions.extend([Action::Secure(node, entry), Action::Tell(node, entry)]);
        }
        if model.within > 0 {
            actions.extend((0..=it.shown).map(|entry| Action::TellWithin(node, entry)));
        }
    }

    pub(super) fn elect(&mut self, node: usize) -> Option<()> {
        self.left.elections = self.left.elections.checked_sub(1)?;
        let (_, term) = self.leader;
        let term = term.checked_add(1)?;
        self.leader = (node, term);
        let (leader, log) = (&mut self.nodes[node], self.log);
        (leader.leading, leader.shown, leader.matched) = (Some(term), log, None);
        Some(())
    }

    pub(super) fn step_down(&mut self, node: usize) -> Option<()> {
        let is_over = self.nodes[node].leading.is_some_and(|term| (node, term) != self.leader);
        if is_over {
            self.nodes[node].leading = None;
        }
        is_over.then_some(())
    }

    pub(super) fn notice(&mut self, node: usize) -> Option<()> {
        let it = &mut self.nodes[node];
        let is_new = it.watched.begin(it.leading);
        if is_new {
            it.pace = Pace::default();
        }
        is_new.then_some(())
    }

    pub(super) fn place(&mut self, model: &Small, node: usize) -> Option<()> {
        let it = &self.nodes[node];
        let term = it.watched.current(it.leading).filter(|_| it.watched.lacks_placement())?;
        if !model.breaks(Rule::PlacedInItsTerm) {
            self.learn(node);
        }
        self.nodes[node].watched.note_placed(term).then_some(())
    }

    pub(super) fn learn(&mut self, node: usize) -> Option<()> {
        let (known, as_of) = (self.placed.now(), self.placed.latest());
        let it = &mut self.nodes[node];
        (it.known, it.as_of) = (Some(known), as_of);
        Some(())
    }

    /// Whoever leads commits the next entry. Nobody decides who knows that the home is elsewhere.
    pub(super) fn decide(&mut self, node: usize) -> Option<()> {
        let it = &mut self.nodes[node];
        let is_elsewhere = it.known.as_ref().is_some_and(|known| known.home != region(HOME));
        if (Some(node), it.leading) != (Some(self.leader.0), Some(self.leader.1)) || is_elsewhere {
            return None;
        }
        self.left.entries = self.left.entries.checked_sub(1)?;
        self.log = self.log.checked_add(1)?;
        it.shown = self.log;
        Some(())
    }

    pub(super) fn ask(&mut self, model: &Small, node: usize, arrives: bool) -> Option<()> {
        let it = &self.nodes[node];
        let term = it.watched.current(it.leading)?;
        if it.look.is_some() || it.drop.is_some() {
            return None;
        }
        let (written, placed) = (Some(it.shown.into()), it.as_of);
        let following = it.watched.following(region(STANDBY));
        let follows = arrives && self.follow(model, term, placed);
        if !follows && model.silences == 0 {
            // Nothing comes of it.
            return None;
        }
        self.nodes[node].look = Some(Looking { term, following, written, follows });
        if model.is_slow { Some(()) } else { self.hear(model, node, true) }
    }

    /// The rest of a look: the answer is heard, or not.
    pub(super) fn hear(&mut self, model: &Small, node: usize, is_heard: bool) -> Option<()> {
        let (at, standby) = (self.time(), region(STANDBY));
        let it = &mut self.nodes[node];
        let Looking { term, following, written, follows } = it.look.take()?;
        let look = Look { at, written, follows: follows && is_heard, acknowledged: it.matched };
        let is_placed = it.watched.is_placed();
        let promotable = it.known.as_ref().is_some_and(|known| known.is_promotable_to(standby));
        let step = it.pace.step(following, (&look, SILENCE), || is_placed && !promotable);
        match step {
            Step::Wait => {
                if model.silences == 0 {
                    it.pace = Pace::default();
                }
                return Some(());
            }
            Step::Note(following) => {
                it.watched.note(term, standby, following);
            }
            Step::Drop if model.breaks(Rule::DroppedByPlacement) => {
                it.watched.note(term, standby, Following::Dropped);
            }
            Step::Drop => {
                if !model.breaks(Rule::LeavesBeforeDropped) {
                    it.watched.note_leaving(term, standby);
                }
                it.drop = Some(Dropped { term, taken_by: None, answer: None });
                return Some(());
            }
        }
        it.pace = Pace::default();
        Some(())
    }

    pub(super) fn hear_drop(&mut self, model: &Small, node: usize) -> Option<()> {
        let is_dropped = self.nodes[node].drop.as_ref()?.answer?;
        let Dropped { term, .. } = self.nodes[node].drop.take()?;
        if is_dropped {
            if !model.breaks(Rule::PlacedBeforeDropped) {
                self.learn(node);
            }
            let it = &mut self.nodes[node];
            it.pace = Pace::default();
            it.watched.note(term, region(STANDBY), Following::Dropped);
        }
        Some(())
    }

    pub(super) fn secure(&mut self, model: &Small, node: usize, entry: u8) -> Option<()> {
        let it = &mut self.nodes[node];
        if it.secured.has(entry) || self.told.has(entry) || entry > it.shown {
            return None;
        }
        let leading = if model.breaks(Rule::AcknowledgedInItsTerm) {
            let (_, last) = self.leader;
            (1..=last).find(|term| it.watched.current(Some(*term)).is_some())
        } else {
            it.leading
        };
        let has_it = it.matched >= Some(entry.into());
        let is_secured = match it.watched.need(leading, region(STANDBY), it.known.as_ref()) {
            Need::None => true,
            Need::Acknowledged => has_it,
            Need::Unsure => has_it && model.breaks(Rule::FollowsInItsTerm),
        };
        if !is_secured && !model.breaks(Rule::WaitsForStandbys) {
            return None;
        }
        it.secured.add(entry);
        if model.is_slow { Some(()) } else { self.tell(model, node, entry) }
    }

    pub(super) fn tell(&mut self, model: &Small, node: usize, entry: u8) -> Option<()> {
        let it = &mut self.nodes[node];
        if !it.secured.has(entry) {
            return None;
        }
        it.secured.remove(entry);
        let is_home = check_home(it.known.as_ref(), Some(Epoch(1))).is_ok();
        if is_home || model.breaks(Rule::RefusesWhenFenced) {
            self.told.add(entry);
        }
        Some(())
    }

    /// What counts under X is told, if no more than X would be lost with it. The entries count for one
    /// credit each; entry 0 is a call that decides nothing. What there is at first is waited for, because
    /// nothing is known of it.
    pub(super) fn tell_within(&mut self, model: &Small, node: usize, entry: u8) -> Option<()> {
        let it = &mut self.nodes[node];
        let need = it.watched.need(it.leading, region(STANDBY), it.known.as_ref());
        let term = it.leading?;
        if model.within == 0 || need != Need::Acknowledged || self.told_within.has(entry) {
            return None;
        }
        if it.answers.term != term {
            it.answers = Answers { term, first: None };
        }
        let shown = it.shown;
        let first = *it.answers.first.get_or_insert(shown);
        let has = it.matched.and_then(|matched| u8::try_from(matched).ok());
        let has = has.filter(|has| *has >= first);
        let has = has.or_else(|| {
            model.breaks(Rule::WaitsAtFirst).then_some(first.max(entry.saturating_sub(1)))
        });
        let is_within = has.is_some_and(|has| entry.saturating_sub(has) <= model.within);
        let is_home = check_home(it.known.as_ref(), Some(Epoch(1))).is_ok();
        if is_within && (is_home || model.breaks(Rule::RefusesWhenFenced)) {
            self.told_within.add(entry);
            self.told_within.remove(0);
        }
        Some(())
    }

    /// What the clocks show.
    fn time(&self) -> Span {
        Span::from_micros(SILENCE.as_micros() * u64::from(self.silences))
    }
}
