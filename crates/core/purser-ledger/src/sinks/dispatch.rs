//! What a webhook is told next: the leader's own, lost with it and made again from the [`Sink`].
//!
//! An account with something to tell is in one place: in a queue of the main line, which is ready, under way
//! or held, or on a line of its own, which waits for its time or is under way. So its events are told one
//! at a time and in order. Redriven dead letters stand apart; their order is lost in any case.
//!
//! Not here: sending, the clock, chance. Whoever uses it reads the feed from [`Dispatch::reads_from`],
//! offers what it finds, takes errands, says how they ended, and proposes what [`Dispatch::advance`] gives.

mod agenda;
mod errand;
mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use purser_types::{LogTime, OperationId, Position, Sequence};

use self::agenda::Agenda;
pub use self::errand::{DispatchLimits, Errand, ErrandWay, Offer};
use self::window::Window;
use super::command::{Advance, ChangedLetter, ChangedLine};
use super::{DeadLetter, EntryName, LetterChange, Line, Sink, delay_after};
use crate::command::AccountName;

/// See the module's documentation.
#[derive(Debug)]
pub struct Dispatch<T> {
    limits: DispatchLimits,
    attempts_max: u32,
    window: Window,
    queues: BTreeMap<AccountName, Queue<T>>,
    /// Accounts whose queue can be told of at once.
    ready: VecDeque<AccountName>,
    lines: BTreeMap<AccountName, Line>,
    /// Accounts whose line the main line has added to since an event of it was taken up.
    extended: BTreeSet<AccountName>,
    redriven: BTreeMap<EntryName, u32>,
    /// Accounts that wait for their time.
    agenda: Agenda<Waiting>,
    /// Redriven dead letters that do. Accounts and these take turns: thousands of them hold nobody up.
    redrives: Agenda<EntryName>,
    /// Whether it is a redriven one's turn.
    is_redrives_turn: bool,
    /// Dead letters, redriven ones too.
    letters_count: usize,
    /// What has changed since the last advance.
    changed: Changes,
    /// What the last advance said of letters, until it is known to be kept.
    told: BTreeSet<EntryName>,
}

/// What an account still has to be told on the main line. Never empty.
#[derive(Debug)]
struct Queue<T> {
    events: VecDeque<Queued<T>>,
    /// How often the first one has failed, where there is no room for a line.
    attempts: u32,
}

#[derive(Debug)]
struct Queued<T> {
    slot: u64,
    sequence: Sequence,
    at: LogTime,
    content: T,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Waiting {
    Held(AccountName),
    Line(AccountName),
}

#[derive(Debug, Default)]
struct Changes {
    cursor: bool,
    lines: BTreeSet<AccountName>,
    letters: BTreeMap<EntryName, LetterChange>,
    disable: bool,
    /// How many events have ended.
    settled: usize,
}

impl<T: Clone> Dispatch<T> {
    /// Goes on from what is replicated.
    pub fn resume(sink: &Sink, limits: DispatchLimits) -> Self {
        let lines = sink.lines.iter().map(|(account, line)| (account.clone(), line.clone()));
        let lines: BTreeMap<_, _> = lines.collect();
        let mut agenda = Agenda::default();
        for (account, line) in &lines {
            agenda.add(line.due, Waiting::Line(account.clone()));
        }
        let mut dispatch = Self {
            limits,
            attempts_max: sink.terms.attempts_max,
            window: Window::new(sink.cursor),
            queues: BTreeMap::new(),
            ready: VecDeque::new(),
            agenda,
            redrives: Agenda::default(),
            is_redrives_turn: false,
            lines,
            extended: BTreeSet::new(),
            redriven: BTreeMap::new(),
            letters_count: 0,
            changed: Changes::default(),
            told: BTreeSet::new(),
        };
        dispatch.follow(sink);
        dispatch
    }

    /// Takes note of what operators have decided about dead letters.
    pub fn follow(&mut self, sink: &Sink) {
        let is_known = |event: &EntryName| sink.redriven.get(event).is_some();
        self.redriven.retain(|event, _| is_known(event));
        self.redrives.retain(is_known);
        for (event, redriven) in sink.redriven.iter() {
            let is_own = self.redriven.contains_key(event)
                || self.told.contains(event)
                || self.changed.letters.contains_key(event);
            if !is_own {
                self.redriven.insert(event.clone(), redriven.attempts);
                self.redrives.add(redriven.due, event.clone());
            }
        }
        let dying = self.changed.letters.values();
        let dying = dying.filter(|change| matches!(change, LetterChange::Died(_))).count();
        let kept = sink.letters.len().saturating_add(sink.redriven.len());
        self.letters_count = kept.saturating_add(dying).saturating_add(self.told.len());
    }

    /// Where the feed is to be read on.
    pub const fn reads_from(&self) -> Position {
        self.window.end()
    }

    /// How many events may be read now.
    pub fn room(&self) -> usize {
        self.limits.window.saturating_sub(self.window.len())
    }

    /// Takes a page of the feed that was read from [`Dispatch::reads_from`] on and goes up to `next`.
    pub fn offer(&mut self, page: impl IntoIterator<Item = Offer<T>>, next: Position) {
        for Offer { event: EntryName { account, sequence }, at, cursor, content } in page {
            let slot = self.window.push(cursor, at);
            if let Some(line) = self.lines.get_mut(&account) {
                line.pass(sequence);
                self.changed.lines.insert(account.clone());
                self.extended.insert(account);
                self.window.settle(slot);
            } else if let Some(content) = content {
                let queued = Queued { slot, sequence, at, content };
                if let Some(queue) = self.queues.get_mut(&account) {
                    queue.events.push_back(queued);
                } else {
                    self.ready.push_back(account.clone());
                    self.queues.insert(account, Queue { events: [queued].into(), attempts: 0 });
                }
            } else {
                self.window.settle(slot);
            }
        }
        if self.window.end() != next {
            let slot = self.window.push(next, LogTime::MAX);
            self.window.settle(slot);
        }
        self.changed.cursor |= self.window.shrink();
    }

    /// The next event of the main line. An account has one under way at most.
    pub fn take(&mut self) -> Option<Errand<T>> {
        let account = self.ready.pop_front()?;
        self.head_of(account)
    }

    /// The next event that has failed before and whose time has come.
    pub fn take_due(&mut self, now: LogTime) -> Option<Errand<T>> {
        let is_redriven = if self.is_redrives_turn {
            self.redrives.is_due(now)
        } else {
            !self.agenda.is_due(now)
        };
        if is_redriven {
            let event = self.redrives.take_due(now)?;
            self.is_redrives_turn = false;
            return Some(Errand { event, way: ErrandWay::Redriven });
        }
        let waiting = self.agenda.take_due(now)?;
        self.is_redrives_turn = true;
        match waiting {
            Waiting::Held(account) => self.head_of(account),
            Waiting::Line(account) => {
                let sequence = self.lines.get(&account)?.next;
                self.extended.remove(&account);
                Some(Errand { event: EntryName { account, sequence }, way: ErrandWay::Line })
            }
        }
    }

    /// When something that has failed is tried again.
    pub fn next_due(&self) -> Option<LogTime> {
        self.agenda.next_due().into_iter().chain(self.redrives.next_due()).min()
    }

    fn head_of(&self, account: AccountName) -> Option<Errand<T>> {
        let Queued { sequence, content, .. } = self.queues.get(&account)?.events.front()?;
        let (sequence, content) = (*sequence, content.clone());
        Some(Errand { event: EntryName { account, sequence }, way: ErrandWay::Main(content) })
    }

    /// An errand is done: the event was delivered, or it is none of the webhook's.
    pub fn done(&mut self, errand: Errand<T>, now: LogTime) {
        self.changed.settled = self.changed.settled.saturating_add(1);
        let Errand { event, way } = errand;
        match way {
            ErrandWay::Main(_) => self.step_main(event.account),
            ErrandWay::Line => self.step_line(event, now),
            ErrandWay::Redriven => {
                self.redriven.remove(&event);
                self.change_letter(event, LetterChange::Settled);
            }
        }
    }

    /// The account of an errand is not here any more: its new home tells all of it, or this one when the account
    /// is back. Not for the main line, which has its events already.
    pub fn gone(&mut self, errand: Errand<T>, now: LogTime) {
        match errand.way {
            ErrandWay::Main(_) | ErrandWay::Redriven => self.done(errand, now),
            // It was back before it was known to be gone.
            ErrandWay::Line if self.extended.contains(&errand.event.account) => {
                self.agenda.add(now, Waiting::Line(errand.event.account));
            }
            ErrandWay::Line => {
                self.lines.remove(&errand.event.account);
                self.changed.lines.insert(errand.event.account);
            }
        }
    }

    /// An errand has failed. `luck` is chance, for the wait.
    pub fn failed(&mut self, errand: Errand<T>, error: &str, (now, luck): (LogTime, u32)) {
        let Errand { event, way } = errand;
        let account = event.account.clone();
        if matches!(way, ErrandWay::Line) && self.begins_anew(&event) {
            self.agenda.add(now, Waiting::Line(account));
            return;
        }
        let attempts = self.attempts_of(&event, &way).saturating_add(1);
        let due = now.saturating_add(delay_after(attempts, luck));
        let is_redriven = matches!(way, ErrandWay::Redriven);
        let has_room = is_redriven || self.letters_count < self.limits.letters;
        let is_last = attempts >= self.attempts_max;
        if is_last && has_room {
            return self
                .bury((event, way), DeadLetter { attempts, error: error.into(), died_at: now });
        }
        self.changed.disable |= is_last;
        match way {
            ErrandWay::Main(_) if self.lines.len() < self.limits.lines => {
                self.park(&account, (attempts, due), error);
            }
            ErrandWay::Main(_) => {
                if let Some(queue) = self.queues.get_mut(&account) {
                    queue.attempts = attempts;
                    self.agenda.add(due, Waiting::Held(account));
                }
            }
            ErrandWay::Line => {
                if let Some(line) = self.lines.get_mut(&account) {
                    (line.attempts, line.due, line.error) = (attempts, due, error.into());
                    self.changed.lines.insert(account.clone());
                    self.agenda.add(due, Waiting::Line(account));
                }
            }
            ErrandWay::Redriven => {
                // What was discarded meanwhile is not tried again.
                if let Some(known) = self.redriven.get_mut(&event) {
                    *known = attempts;
                    let change = LetterChange::Tried { attempts, due };
                    self.change_letter(event.clone(), change);
                    self.redrives.add(due, event);
                }
            }
        }
    }

    fn attempts_of(&self, event: &EntryName, way: &ErrandWay<T>) -> u32 {
        match way {
            ErrandWay::Main(_) => self.queues.get(&event.account).map_or(0, |queue| queue.attempts),
            ErrandWay::Line => self.lines.get(&event.account).map_or(0, |line| line.attempts),
            ErrandWay::Redriven => self.redriven.get(event).copied().unwrap_or(0),
        }
    }

    /// Makes an event a dead letter; its account goes on with the next one.
    fn bury(&mut self, (event, way): (EntryName, ErrandWay<T>), letter: DeadLetter) {
        let now = letter.died_at;
        let change = match way {
            ErrandWay::Redriven => {
                self.redriven.remove(&event);
                LetterChange::DiedAgain(letter)
            }
            ErrandWay::Main(_) | ErrandWay::Line => {
                self.letters_count = self.letters_count.saturating_add(1);
                LetterChange::Died(letter)
            }
        };
        self.change_letter(event.clone(), change);
        match way {
            ErrandWay::Main(_) => self.step_main(event.account),
            ErrandWay::Line => self.step_line(event, now),
            ErrandWay::Redriven => (),
        }
    }

    /// What has died stays so until that is kept, also if it was redriven, told again and died meanwhile.
    fn change_letter(&mut self, event: EntryName, change: LetterChange) {
        let known = self.changed.letters.entry(event).or_insert_with(|| change.clone());
        if !matches!(known, LetterChange::Died(_)) {
            *known = change;
        }
    }

    /// Takes an account off the main line.
    fn park(&mut self, account: &AccountName, (attempts, due): (u32, LogTime), error: &str) {
        let Some(Queue { events, .. }) = self.queues.remove(account) else { return };
        let (Some(first), Some(last)) = (events.front(), events.back()) else { return };
        let line = Line {
            next: first.sequence,
            passed: last.sequence,
            attempts,
            due,
            error: error.into(),
            since: first.at,
        };
        events.iter().for_each(|queued| self.window.settle(queued.slot));
        self.changed.cursor |= self.window.shrink();
        self.lines.insert(account.clone(), line);
        self.changed.lines.insert(account.clone());
        self.agenda.add(due, Waiting::Line(account.clone()));
    }

    /// Goes on with an account's next event on the main line.
    fn step_main(&mut self, account: AccountName) {
        let Some(queue) = self.queues.get_mut(&account) else { return };
        queue.attempts = 0;
        if let Some(queued) = queue.events.pop_front() {
            self.window.settle(queued.slot);
            self.changed.cursor |= self.window.shrink();
        }
        if queue.events.is_empty() {
            self.queues.remove(&account);
        } else {
            self.ready.push_back(account);
        }
    }

    /// Goes on with an account's next event on its own line, or ends that. It goes behind all whose time has
    /// come already.
    fn step_line(&mut self, EntryName { account, sequence }: EntryName, now: LogTime) {
        let Some(line) = self.lines.get_mut(&account) else { return };
        if line.next == sequence {
            line.next = sequence.next();
            (line.attempts, line.due) = (0, now);
        }
        self.changed.lines.insert(account.clone());
        if line.next > line.passed {
            self.lines.remove(&account);
            self.extended.remove(&account);
        } else {
            self.agenda.add(now, Waiting::Line(account));
        }
    }

    /// Whether a line has begun anew while an event of it was under way.
    fn begins_anew(&self, EntryName { account, sequence }: &EntryName) -> bool {
        self.lines.get(account).is_some_and(|line| line.next != *sequence)
    }

    /// How many events have ended that no advance has told of.
    pub const fn settled(&self) -> usize {
        self.changed.settled
    }

    /// What has changed since the last advance; nothing if nothing has. If it is refused, or nobody knows
    /// whether it was kept, the dispatch is of no use any more.
    pub fn advance(&mut self, after: OperationId) -> Option<Advance> {
        let Changes { cursor, lines, letters, disable, settled: _ } =
            std::mem::take(&mut self.changed);
        if !cursor && lines.is_empty() && letters.is_empty() && !disable {
            return None;
        }
        self.told = letters.keys().cloned().collect();
        let line = |account: AccountName| {
            let line = self.lines.get(&account).cloned();
            ChangedLine { account, line }
        };
        let letter = |(event, change)| ChangedLetter { event, change };
        let full = || format!("there are {} dead letters", self.letters_count);
        Some(Advance {
            after,
            cursor: self.window.start(),
            lines: lines.into_iter().map(line).collect(),
            letters: letters.into_iter().map(letter).collect(),
            disable: disable.then(|| full().into()),
        })
    }

    /// The last advance was kept, and `sink` is what it made.
    pub fn kept(&mut self, sink: &Sink) {
        self.told.clear();
        self.follow(sink);
    }

    /// Whether an event has become a dead letter since the last advance.
    #[cfg(test)]
    pub(super) fn has_given_up(&self, event: &EntryName) -> bool {
        matches!(self.changed.letters.get(event), Some(LetterChange::Died(_)))
    }

    /// How many events wait: read or passed over, and not delivered.
    pub fn pending(&self) -> u64 {
        let lines = self.lines.values().map(|line| line.passed.0.saturating_sub(line.next.0));
        let parked = lines.fold(0_u64, |sum, more| sum.saturating_add(more).saturating_add(1));
        let others = self.window.unsettled().saturating_add(self.redriven.len());
        parked.saturating_add(u64::try_from(others).unwrap_or(u64::MAX))
    }

    /// When the event was decided that waits longest on the main line, or with which a line began.
    pub fn oldest(&self) -> Option<LogTime> {
        let lines = self.lines.values().map(|line| line.since);
        lines.chain(self.window.oldest()).min()
    }
}
