//! Every history of a home, its standby and Placement that is short enough: who can take over, and what
//! anybody was told meanwhile.
//!
//! ```text
//!  two nodes of the home                          the standby's node        Placement
//!   either may take itself for the leader of       one replica: closed,      compare-and-set; requests
//!   the shard, of the first shard, or of both      follows or frozen         wait, come twice or never
//! ```
//!
//! The steps are those that ship: `purser_placement::standby` and Placement itself. X is not: for how much a
//! home answers on its own is counted here anew, in entries instead of credits. A replica keeps what it has:
//! that consensus cuts off entries which were not committed is not played. What is made up besides is which comes next: who is elected, whose term is over without his knowing, whose knowledge of Placement
//! is old, which answer is lost, when time passes, when the home is failed over. Of consensus it is
//! assumed that what is committed stays so, that nobody commits in a term that is over, and that a leader
//! whom a majority has confirmed knows all that was committed before.
//!
//! One tenant, one shard besides the first, one standby: what there are more of is asked one by one.

mod home;
mod keeping;
mod placed;
mod replica;
mod rule;

use purser_placement::{Beginning, Operation};
use stateright::{Model, Property};

use self::home::Node;
use self::placed::{Placed, STANDBY};
use self::replica::Replica;
pub use self::rule::Rule;

/// How much may happen.
#[derive(Debug, Clone)]
pub struct Small {
    /// How the tenant came to its home.
    pub start: Start,
    /// How many entries home decides.
    pub entries: u8,
    /// How often the shard's leader changes.
    pub elections: u8,
    /// How often the leader of the first shard changes.
    pub keepers: u8,
    /// How often a standby may be silent for so long that it is dropped.
    pub silences: u8,
    /// How often Placement is asked for something.
    pub asks: u8,
    /// How many requests reach Placement twice.
    pub repeats: u8,
    /// How often the standby's node is restarted.
    pub restarts: u8,
    /// Whether a move begins and is given up.
    pub moves: bool,
    /// Whether the home is lost, or said to be.
    pub is_lost: bool,
    /// X: for how many entries home answers that the standby may lack.
    pub within: u8,
    /// Whether what the standby answers is heard later, and what may be told is told later.
    pub is_slow: bool,
    /// A rule that is broken on purpose, to see that it is missed.
    pub broken: Option<Rule>,
}

/// How the tenant came to its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It was opened there, and the standby can take it over.
    Followed,
    /// It was opened there with another standby than the home has.
    Elsewhere,
    /// It moves there, and its entries are still on their way.
    Arriving,
}

/// What may come next. Numbers are those of nodes, entries and requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A node is elected to lead the shard. Whoever led before does not know.
    Elect(usize),
    /// It learns that its term is over.
    StepDown(usize),
    /// It notices the term in which it leads.
    Notice(usize),
    /// It learns all that Placement knows, because its term is new.
    Place(usize),
    /// It has decided something, which is committed.
    Decide(usize),
    /// A node learns what Placement knows.
    Learn(usize),
    /// The leader asks the standby to follow, which answers.
    Ask(usize),
    /// The leader's question is lost.
    AskNobody(usize),
    /// The leader hears the answer, or that there is none.
    Hear(usize, bool),
    /// The standby takes entries of a leader, who hears of it.
    Replicate(usize),
    /// So much time passes that a silent standby is dropped.
    Silence,
    /// What a leader has decided has to wait for nobody any more.
    Secure(usize, u8),
    /// It is told to somebody.
    Tell(usize, u8),
    /// What counts under X is told to somebody.
    TellWithin(usize, u8),
    /// A node is elected to lead the first shard.
    ElectKeeper(usize),
    /// It learns that its term is over.
    StepDownKeeper(usize),
    /// The keeper takes up a leader's drop.
    TakeDrop(usize, usize),
    /// A leader hears that its drop is done, or not.
    HearDrop(usize),
    /// The answer to a drop is lost.
    LoseDrop(usize),
    /// The keeper looks for tenants to take in.
    TakeIn(usize),
    /// The keeper is confirmed as leader, or not.
    Confirm(usize),
    /// The keeper asks a leader to promise, who looks at what there is.
    AskPromise(usize, usize),
    /// The leader has promised, and the keeper asks Placement.
    Promise(usize),
    /// The keeper gives up what it is at.
    GiveUp(usize),
    /// The keeper has the tenant followed by whoever follows its home.
    Mend(usize),
    /// A request reaches Placement.
    Apply(usize, Copies),
    /// The same, and whoever asked hears of it.
    ApplyAndHear(usize),
    /// The home begins to be moved.
    BeginMove,
    /// The move is given up.
    AbortMove,
    /// The home is failed over to the standby.
    FailOver,
    /// What is taken over is read from the replica.
    Freeze,
    /// The standby's node is restarted.
    Restart,
    /// The standby's node learns what Placement knows.
    LearnAtStandby,
}

/// Whether a request may reach Placement again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// It may not.
    Last,
    /// It may.
    More,
}

/// The whole world at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    placed: Placed,
    nodes: [Node; 2],
    /// Who leads the shard, and in which term.
    leader: (usize, u64),
    /// Who leads the first shard.
    keeper: (usize, u64),
    replica: Replica,
    /// How many entries are committed. They are numbered from 1.
    log: u8,
    /// The entries that somebody was told of, after they had waited for whom they have to.
    told: Entries,
    /// Those that somebody was told of because they stay within X.
    told_within: Entries,
    /// How often so much time has passed that a silent standby is dropped.
    silences: u8,
    left: Left,
}

/// How much may happen still.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Left {
    entries: u8,
    elections: u8,
    keepers: u8,
    silences: u8,
    asks: u8,
    repeats: u8,
    restarts: u8,
}

/// A set of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Entries(u8);

impl Entries {
    const fn has(self, entry: u8) -> bool {
        self.0 & (1 << entry) != 0
    }

    fn add(&mut self, entry: u8) {
        self.0 |= 1 << entry;
    }

    fn remove(&mut self, entry: u8) {
        self.0 &= !(1 << entry);
    }

    /// The last of them; 0 if there is none.
    fn last(self) -> u8 {
        match self.0.checked_ilog2() {
            Some(last) => u8::try_from(last).unwrap_or(u8::MAX),
            None => 0,
        }
    }
}

/// R1: what a rule of what is told, or of who follows whom, is there for.
pub const NOTHING_LOST: &str = "whoever can take over, or has, knows of all that anybody was told";

/// R6: the same for what is told without waiting.
pub const WITHIN_X: &str = "no more is lost than X";

/// What a rule of taking in and dropping is there for.
pub const WAITED_FOR: &str = "nobody can be promoted who is not waited for";

impl Small {
    /// A tenant that can be taken over, one entry, and nobody who changes.
    pub const FOLLOWED: Self = Self {
        start: Start::Followed,
        entries: 1,
        elections: 0,
        keepers: 0,
        silences: 0,
        asks: 0,
        repeats: 0,
        restarts: 0,
        moves: false,
        is_lost: true,
        within: 0,
        is_slow: false,
        broken: None,
    };

    fn breaks(&self, rule: Rule) -> bool {
        self.broken == Some(rule)
    }

    fn start(&self) -> State {
        let is_arriving = self.start == Start::Arriving;
        let mut told = Entries::default();
        if is_arriving {
            // Somebody was told of it where the tenant comes from.
            told.add(1);
        }
        let mut state = State {
            placed: Placed::new(self.start),
            nodes: [Node::default(), Node::default()],
            leader: (0, 0),
            keeper: (1, 0),
            replica: Replica::default(),
            log: 0,
            told,
            told_within: Entries::default(),
            silences: 0,
            left: Left {
                entries: 1,
                elections: 1,
                keepers: 1,
                silences: 0,
                asks: 1,
                repeats: 0,
                restarts: 0,
            },
        };
        let mut first = vec![
            Action::Learn(1),
            Action::ElectKeeper(usize::from(self.start != Start::Elsewhere)),
            Action::Elect(0),
            Action::Notice(0),
            Action::Place(0),
            Action::LearnAtStandby,
        ];
        if self.start == Start::Followed {
            first.extend([
                Action::Ask(0),
                Action::Hear(0, true),
                Action::Replicate(0),
                Action::TakeIn(1),
                Action::Confirm(1),
                Action::AskPromise(1, 0),
                Action::Promise(0),
                Action::ApplyAndHear(0),
            ]);
        }
        // Step by step, whatever may come in between later.
        let whole = Self { broken: None, is_slow: true, keepers: 1, ..self.clone() };
        for action in first {
            assert!(state.act(&whole, action).is_some(), "{action:?} can be done");
        }
        state.left = Left {
            entries: self.entries,
            elections: self.elections,
            keepers: self.keepers,
            silences: self.silences,
            asks: self.asks,
            repeats: self.repeats,
            restarts: self.restarts,
        };
        state
    }
}

impl Model for Small {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for node in 0..state.nodes.len() {
            state.actions_of_leader(self, node, actions);
            state.actions_of_keeper(self, node, actions);
        }
        for request in 0..state.placed.wire.len() {
            actions.extend([
                Action::Apply(request, Copies::Last),
                Action::Apply(request, Copies::More),
                Action::ApplyAndHear(request),
            ]);
        }
        actions.extend([Action::Silence, Action::Restart, Action::LearnAtStandby]);
        if self.moves {
            actions.extend([Action::BeginMove, Action::AbortMove]);
        }
        if self.is_lost {
            actions.extend([Action::FailOver, Action::Freeze]);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        state.act(self, action)?;
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_: &Self, state: &State| state.is_nothing_lost()),
            Property::always(WITHIN_X, |model: &Self, state: &State| state.lost() <= model.within),
            Property::always("an epoch has one home", |_: &Self, state: &State| {
                !state.placed.is_torn
            }),
            Property::always(WAITED_FOR, |_: &Self, state: &State| {
                let (leader, term) = state.leader;
                let it = &state.nodes[leader];
                !(state.is_promotable() && it.leading == Some(term) && it.has_dropped())
            }),
            Property::sometimes("somebody is told of all", |model: &Self, state: &State| {
                model.entries == 0 || state.told.has(model.entries)
            }),
            Property::sometimes("a standby is dropped", |model: &Self, state: &State| {
                model.silences == 0 || state.nodes.iter().any(Node::has_dropped)
            }),
            Property::sometimes("a standby is taken in", |model: &Self, state: &State| {
                // Who can be promoted at first is taken in only after a drop.
                let is_taken_in = model.start != Start::Followed || state.placed.was_dropped;
                state.is_promotable() && (model.silences == 0 || is_taken_in)
            }),
            Property::sometimes("a home is taken over", |model: &Self, state: &State| {
                !model.is_lost || state.replica.taken.is_some()
            }),
        ]
    }
}

impl State {
    /// Does it, if there is anything to do.
    fn act(&mut self, model: &Small, action: Action) -> Option<()> {
        match action {
            Action::Elect(node) => self.elect(node),
            Action::StepDown(node) => self.step_down(node),
            Action::Notice(node) => self.notice(node),
            Action::Place(node) => self.place(model, node),
            Action::Decide(node) => self.decide(node),
            Action::Learn(node) => self.learn(node),
            Action::Ask(node) => self.ask(model, node, true),
            Action::AskNobody(node) => self.ask(model, node, false),
            Action::Hear(node, is_heard) => self.hear(model, node, is_heard),
            Action::Replicate(node) => self.replicate(model, node),
            Action::Silence => {
                self.left.silences = self.left.silences.checked_sub(1)?;
                self.silences = self.silences.checked_add(1)?;
                Some(())
            }
            Action::Secure(node, entry) => self.secure(model, node, entry),
            Action::Tell(node, entry) => self.tell(model, node, entry),
            Action::TellWithin(node, entry) => self.tell_within(model, node, entry),
            Action::ElectKeeper(node) => self.elect_keeper(node),
            Action::StepDownKeeper(node) => self.step_down_keeper(node),
            Action::TakeDrop(keeper, node) => self.take_drop(model, keeper, node),
            Action::HearDrop(node) => self.hear_drop(model, node),
            Action::LoseDrop(node) => self.nodes[node].drop.take().map(|_| ()),
            Action::TakeIn(keeper) => self.take_in(model, keeper),
            Action::Confirm(keeper) => self.confirm(model, keeper),
            Action::AskPromise(keeper, node) => self.ask_promise(model, keeper, node),
            Action::Promise(node) => self.promise(model, node),
            Action::GiveUp(keeper) => self.give_up(keeper),
            Action::Mend(keeper) => self.mend(keeper),
            Action::Apply(request, copies) => self.apply(model, (request, copies), false),
            Action::ApplyAndHear(request) => self.apply(model, (request, Copies::Last), true),
            Action::BeginMove => self.ask_placement(|epoch| Operation::BeginMove {
                epoch,
                to: placed::region(placed::THIRD),
            }),
            Action::AbortMove => self.ask_placement(|epoch| Operation::AbortMove { epoch }),
            Action::FailOver => self.fail_over(),
            Action::Freeze => self.freeze(model),
            Action::Restart => self.restart(),
            Action::LearnAtStandby => self.learn_at_standby(),
        }
    }

    /// An operator's or mover's step, at once.
    fn ask_placement(
        &mut self,
        operation: impl FnOnce(purser_types::Epoch) -> Operation,
    ) -> Option<()> {
        if matches!(self.placed.now().beginning, Beginning::Aborted | Beginning::FailedOver) {
            // Once is enough.
            return None;
        }
        let epoch = self.placed.now().epoch;
        self.placed.change(operation(epoch)).ok()
    }

    fn fail_over(&mut self) -> Option<()> {
        let (epoch, to) = (self.placed.now().epoch, placed::region(STANDBY));
        if self.placed.now().home == to {
            return None;
        }
        self.placed.change(Operation::FailOver { epoch, to }).ok()
    }

    fn is_promotable(&self) -> bool {
        self.placed.now().is_promotable_to(placed::region(STANDBY))
    }

    /// How many entries are in what is taken over, or could be at once; nothing if nobody can take over.
    fn taken_over(&self) -> Option<u8> {
        let is_taken_over = self.placed.now().home == placed::region(STANDBY);
        let can_take_over = is_taken_over || self.is_promotable();
        can_take_over.then_some(self.replica.taken.unwrap_or(self.replica.log))
    }

    /// Whether everything is there that anybody was told after it had waited.
    fn is_nothing_lost(&self) -> bool {
        self.taken_over().is_none_or(|has| self.told.last() <= has)
    }

    /// How many entries are not there of which anybody was told besides.
    fn lost(&self) -> u8 {
        let Some(has) = self.taken_over() else { return 0 };
        let lost = (1..=self.log).filter(|entry| *entry > has && self.told_within.has(*entry));
        u8::try_from(lost.count()).unwrap_or(u8::MAX)
    }
}
