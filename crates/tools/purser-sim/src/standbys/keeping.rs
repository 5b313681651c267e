//! A node of the home as leader of the first shard: whom it has taken in and dropped.

use std::collections::BTreeSet;

use purser_placement::standby::{Dropping, TakingIn};
use purser_placement::{Operation, Refusal, Request};

use super::placed::{HOME, STANDBY, region, tenant};
use super::{Action, Copies, Rule, Small, Start, State};

/// What a keeper is at, one thing at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// It has looked for tenants, and is to know whether it leads.
    Looked(TakingIn),
    /// It leads, and waits for a promise.
    Leads(TakingIn),
    /// It waits for Placement to take the tenant in.
    TakesIn,
    /// It waits for Placement to drop the tenant, for this node.
    Drops(usize),
}

fn dropping() -> Dropping {
    Dropping { own: region(HOME), standby: region(STANDBY) }
}

impl State {
    pub(super) fn actions_of_keeper(&self, model: &Small, node: usize, actions: &mut Vec<Action>) {
        if self.left.keepers > 0 && (model.keepers > 1 || self.keeper.0 != node) {
            actions.push(Action::ElectKeeper(node));
        }
        if self.nodes[node].keeps.is_none() {
            return;
        }
        actions.extend([Action::StepDownKeeper(node), Action::GiveUp(node)]);
        for other in 0..self.nodes.len() {
            actions.push(Action::TakeDrop(node, other));
        }
        // Placement refuses whatever is asked of a tenant that is at home elsewhere.
        let can_take_in = self.left.asks > 0 && self.placed.now().home == region(HOME);
        if can_take_in {
            actions.extend([
                Action::Learn(node),
                Action::TakeIn(node),
                Action::Confirm(node),
                Action::Mend(node),
            ]);
            for other in 0..self.nodes.len() {
                actions.push(Action::AskPromise(node, other));
            }
        }
    }

    pub(super) fn elect_keeper(&mut self, node: usize) -> Option<()> {
        self.left.keepers = self.left.keepers.checked_sub(1)?;
        let (_, term) = self.keeper;
        let term = term.checked_add(1)?;
        self.keeper = (node, term);
        self.nodes[node].keeps = Some(term);
        Some(())
    }

    pub(super) fn step_down_keeper(&mut self, node: usize) -> Option<()> {
        let is_over = self.nodes[node].keeps.is_some_and(|term| (node, term) != self.keeper);
        if is_over {
            self.nodes[node].keeps = None;
        }
        is_over.then_some(())
    }

    /// Whether a majority confirms that a node leads the first shard.
    fn leads_first(&self, node: usize) -> bool {
        (Some(node), self.nodes[node].keeps) == (Some(self.keeper.0), Some(self.keeper.1))
    }

    pub(super) fn take_drop(&mut self, model: &Small, keeper: usize, node: usize) -> Option<()> {
        let term = self.nodes[keeper].keeps?;
        if self.nodes[keeper].task.is_some() {
            return None;
        }
        let drop = self.nodes[node].drop.as_mut().filter(|drop| drop.taken_by.is_none())?;
        drop.taken_by = Some(keeper);
        let leads = self.leads_first(keeper) || model.breaks(Rule::ClearOnlyIfLeading);
        let it = &mut self.nodes[keeper];
        it.kept.begin(term);
        let is_clear = it.kept.is_clear(Some(term)) && leads;
        it.kept.note_dropping();
        if is_clear {
            return self.note_dropped(keeper, node);
        }
        if !model.breaks(Rule::DropsWhatIsPlaced) {
            self.learn(keeper);
        }
        let it = &mut self.nodes[keeper];
        it.task = Some(Task::Drops(node));
        let followed = it.known.clone().filter(|known| dropping().is_followed(known));
        match followed {
            Some(known) => self.request(dropping().ask(vec![(tenant(), known)]), keeper),
            None => self.note_dropped(keeper, node),
        }
    }

    fn note_dropped(&mut self, keeper: usize, node: usize) -> Option<()> {
        let it = &mut self.nodes[keeper];
        it.kept.note_dropped();
        it.task = None;
        self.answer_drop(keeper, node, true)
    }

    /// Whoever asked may have given up waiting.
    fn answer_drop(&mut self, keeper: usize, node: usize, is_dropped: bool) -> Option<()> {
        let drop = self.nodes[node].drop.as_mut();
        if let Some(drop) = drop.filter(|drop| drop.taken_by == Some(keeper)) {
            drop.answer = Some(is_dropped);
        }
        Some(())
    }

    fn request(&mut self, requests: Vec<Request>, keeper: usize) -> Option<()> {
        for request in requests {
            self.left.asks = self.left.asks.checked_sub(1)?;
            self.placed.wire.push((request, Some(keeper)));
        }
        Some(())
    }

    pub(super) fn take_in(&mut self, model: &Small, keeper: usize) -> Option<()> {
        let (standby, log) = (region(STANDBY), self.log);
        let it = &mut self.nodes[keeper];
        let term = it.keeps.filter(|_| it.task.is_none())?;
        it.kept.begin(term);
        // That it does not look again where it has seen nobody missing is not played: it saves time only.
        let known = it.known.clone().filter(|it| TakingIn::lacks(region(HOME), standby, it))?;
        // A tenant that comes here is at home here with its first entry.
        let is_here = model.start != Start::Arriving || log > 0;
        if is_here || model.breaks(Rule::TakesInWhatIsHere) {
            it.kept.note_at_home(tenant(), known.epoch);
        }
        let taking_in = TakingIn::of(standby, vec![(tenant(), known)], &it.kept)?;
        it.task = Some(Task::Looked(taking_in));
        // Only where others may be elected, it matters what comes in between.
        if model.keepers > 0 { Some(()) } else { self.confirm(model, keeper) }
    }

    pub(super) fn confirm(&mut self, model: &Small, keeper: usize) -> Option<()> {
        let leads = self.leads_first(keeper) || model.breaks(Rule::LeadsBeforeItTakesIn);
        let it = &mut self.nodes[keeper];
        let Some(Task::Looked(taking_in)) = it.task.take_if(|task| matches!(task, Task::Looked(_)))
        else {
            return None;
        };
        it.task = leads.then_some(Task::Leads(taking_in));
        Some(())
    }

    /// The first half of a promise: whoever leads, as a majority confirms, looks at what there is.
    pub(super) fn ask_promise(&mut self, model: &Small, keeper: usize, node: usize) -> Option<()> {
        let Some(Task::Leads(taking_in)) = &self.nodes[keeper].task else { return None };
        let placed = taking_in.placed();
        let is_confirmed = self.nodes[node].leading == Some(self.leader.1);
        if self.nodes[node].promising.is_some()
            || (self.leader.0 != node || !is_confirmed) && !model.breaks(Rule::PromisesIfLeading)
        {
            return None;
        }
        if model.breaks(Rule::ShardsPromise) {
            return self.ask_to_take_in(model, keeper);
        }
        let log = self.log;
        let it = &mut self.nodes[node];
        if is_confirmed {
            it.shown = log;
        }
        let placed = if model.breaks(Rule::PromisesAsPlaced) { it.as_of } else { placed };
        let promising =
            it.watched.promise(region(STANDBY), (placed, it.as_of), Some(it.shown.into()));
        it.promising = Some((promising?, keeper));
        Some(())
    }

    /// The second half: the standby has all that there was.
    pub(super) fn promise(&mut self, model: &Small, node: usize) -> Option<()> {
        let it = &mut self.nodes[node];
        let (promising, keeper) = it.promising.clone()?;
        if it.matched < Some(promising.written) && !model.breaks(Rule::PromisesWhatIsThere) {
            return None;
        }
        it.promising = None;
        if promising.holds(&it.watched, it.leading) || model.breaks(Rule::PromiseHolds) {
            self.ask_to_take_in(model, keeper)
        } else {
            Some(())
        }
    }

    fn ask_to_take_in(&mut self, model: &Small, keeper: usize) -> Option<()> {
        let it = &mut self.nodes[keeper];
        let Some(Task::Leads(taking_in)) = it.task.take_if(|task| matches!(task, Task::Leads(_)))
        else {
            return Some(());
        };
        let mut unclear = it.kept.clone();
        let kept = if model.breaks(Rule::UnclearOnceItAsks) { &mut unclear } else { &mut it.kept };
        let requests = taking_in.ask(kept);
        it.task = Some(Task::TakesIn);
        self.request(requests, keeper)
    }

    pub(super) fn give_up(&mut self, keeper: usize) -> Option<()> {
        let task = self.nodes[keeper].task.take()?;
        for (_, by) in self.placed.wire.iter_mut().filter(|(_, by)| *by == Some(keeper)) {
            *by = None;
        }
        for node in &mut self.nodes {
            node.promising.take_if(|(_, asked_by)| *asked_by == keeper);
        }
        match task {
            Task::Drops(node) => self.answer_drop(keeper, node, false),
            Task::Looked(_) | Task::Leads(_) | Task::TakesIn => Some(()),
        }
    }

    pub(super) fn mend(&mut self, keeper: usize) -> Option<()> {
        let it = &self.nodes[keeper];
        let known = it.known.clone().filter(|_| it.task.is_none())?;
        let (standby, home) = (region(STANDBY), region(HOME));
        let is_followed = known.standbys.iter().all(|listed| listed.region == standby);
        if known.home != home || is_followed {
            return None;
        }
        let (epoch, seen, standbys) = (known.epoch, known.change, BTreeSet::from([standby]));
        let operation = Operation::SetStandbys { epoch, seen, standbys };
        self.left.asks = self.left.asks.checked_sub(1)?;
        self.placed.wire.push((Request { tenant: tenant(), operation }, None));
        Some(())
    }

    /// A request reaches Placement.
    pub(super) fn apply(
        &mut self,
        model: &Small,
        (place, copies): (usize, Copies),
        is_heard: bool,
    ) -> Option<()> {
        let (request, by) = self.placed.wire.get(place)?.clone();
        match copies {
            Copies::Last => drop(self.placed.wire.remove(place)),
            Copies::More => {
                self.left.repeats = self.left.repeats.checked_sub(1)?;
                self.placed.wire.get_mut(place)?.1 = None;
            }
        }
        let mut operation = request.operation;
        if let Operation::SetStandby { seen, promotable: true, .. } = &mut operation
            && model.breaks(Rule::TakesInWhatWasSeen)
        {
            *seen = self.placed.now().change;
        }
        let result = self.placed.change(operation);
        match by.filter(|_| is_heard) {
            Some(keeper) => self.hear_placement(model, keeper, result.err().flatten()),
            // Without an answer, whoever waits gives up at some time.
            None if is_heard => None,
            None => Some(()),
        }
    }

    fn hear_placement(
        &mut self,
        model: &Small,
        keeper: usize,
        refusal: Option<Refusal>,
    ) -> Option<()> {
        self.learn_tenant(keeper);
        match self.nodes[keeper].task.take()? {
            Task::Drops(node) => {
                if refusal.is_some_and(|refusal| !Dropping::goes_on_after(&refusal)) {
                    return self.answer_drop(keeper, node, false);
                }
                let known = self.nodes[keeper].known.clone();
                match known.filter(|known| dropping().is_left(known)) {
                    Some(known) if !model.breaks(Rule::DropsUntilNoneIsLeft) => {
                        self.nodes[keeper].task = Some(Task::Drops(node));
                        self.request(dropping().ask(vec![(tenant(), known)]), keeper)
                    }
                    _ => self.note_dropped(keeper, node),
                }
            }
            Task::TakesIn => Some(()),
            task @ (Task::Looked(_) | Task::Leads(_)) => {
                self.nodes[keeper].task = Some(task);
                Some(())
            }
        }
    }

    /// An answer shows the tenant, and nothing else.
    fn learn_tenant(&mut self, node: usize) {
        self.nodes[node].known = Some(self.placed.now());
    }
}
