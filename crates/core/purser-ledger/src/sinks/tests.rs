//! Webhooks through failures, restarts, changes of leader and moves (K061): none of an account's events is
//! skipped or comes before an earlier one, whatever happens in which order.

#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use purser_types::{
    IdempotencyKey, LogTime, OperationId, Position, Sequence, SinkName, Span, TenantId, Unit,
};

use super::*;

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    /// An account decides something, if its home is here.
    Happen(u8),
    /// An account leaves for another home.
    Leave(u8),
    /// An account comes back: all of it is told again.
    Return(u8),
    /// The leader reads the feed.
    Read(usize),
    /// The leader sends an event of the main line.
    Send(bool),
    /// The leader takes up an event, and hears later how it ended.
    Begin,
    /// The same with one that has failed before.
    BeginRetry,
    /// One that was taken up ends.
    End(bool),
    /// The leader sends an event that has failed before; if there is one, time passes until it is due.
    Retry(bool, u32),
    /// The leader proposes how far it has come.
    Advance,
    /// Another node leads. What the old one proposes is still kept, if it comes before the new one's.
    Lead { late: bool },
    /// An operator redrives a dead letter.
    Redrive(usize),
    /// An operator redrives so many dead letters.
    RedriveAll(u32),
    /// An operator enables what was disabled.
    Enable,
    /// An operator has events signed with another secret, while the one before still signs.
    Rotate,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = || prop::bool::weighted(0.6);
    prop::collection::vec(
        prop_oneof![
            4 => (0_u8..3).prop_map(Step::Happen),
            1 => (0_u8..3).prop_map(Step::Leave),
            1 => (0_u8..3).prop_map(Step::Return),
            3 => (1_usize..6).prop_map(Step::Read),
            4 => fate().prop_map(Step::Send),
            2 => Just(Step::Begin),
            2 => Just(Step::BeginRetry),
            2 => fate().prop_map(Step::End),
            4 => (fate(), any::<u32>()).prop_map(|(fate, luck)| Step::Retry(fate, luck)),
            3 => Just(Step::Advance),
            1 => any::<bool>().prop_map(|late| Step::Lead { late }),
            1 => any::<usize>().prop_map(Step::Redrive),
            1 => (0_u32..4).prop_map(Step::RedriveAll),
            1 => Just(Step::Enable),
            1 => Just(Step::Rotate),
        ],
        0..120,
    )
}

/// A shard with one webhook, its leader, and a receiver.
struct World {
    sinks: Sinks,
    index: u64,
    now: LogTime,
    /// The feed: whose entry stands where, and how often the account had left before.
    feed: Vec<(EntryName, u32)>,
    lengths: BTreeMap<AccountName, u64>,
    left: BTreeMap<AccountName, u32>,
    away: BTreeSet<AccountName>,
    leader: Dispatch<EntryName>,
    /// What the leader knows the progress by.
    step: OperationId,
    begun: Vec<Begun>,
    /// What was received, or has died in some leader's eyes.
    settled: BTreeMap<AccountName, BTreeSet<Sequence>>,
    received: BTreeSet<EntryName>,
}

/// What was taken up, and whether its account was away then.
struct Begun {
    errand: Errand<EntryName>,
    is_gone: bool,
}

const LIMITS: DispatchLimits = DispatchLimits { window: 8, lines: 2, letters: 3 };

fn name() -> SinkName {
    SinkName::parse("billing").unwrap()
}

fn terms() -> SinkTerms {
    let (tenants, kinds) = (BTreeSet::new(), BTreeSet::new());
    SinkTerms { url: "https://a.example/".into(), tenants, kinds, attempts_max: 3 }
}

fn account(number: u8) -> AccountName {
    AccountName { tenant: TenantId::parse(&format!("t{number}")).unwrap(), unit: Unit::credits() }
}

/// The webhook is not for every fourth entry.
fn is_wanted(event: &EntryName) -> bool {
    !event.sequence.0.is_multiple_of(4)
}

impl World {
    fn new() -> Self {
        let mut sinks = Sinks::new();
        let create =
            SinkAct::Create { terms: terms(), secret: "one".into(), from: Position::default() };
        let (now, operation) = (LogTime::ZERO, OperationId { index: 1, ordinal: 0 });
        let done = apply(&mut sinks, &command(create), Moment { now, operation }).unwrap();
        let leader = Dispatch::resume(&sinks[&name()], LIMITS);
        Self {
            sinks,
            index: 1,
            now,
            feed: Vec::new(),
            lengths: BTreeMap::new(),
            left: BTreeMap::new(),
            away: BTreeSet::new(),
            leader,
            step: done.step,
            begun: Vec::new(),
            settled: BTreeMap::new(),
            received: BTreeSet::new(),
        }
    }

    fn sink(&self) -> &Sink {
        &self.sinks[&name()]
    }

    fn act(&mut self, act: SinkAct) -> Result<SinkDone, SinkRefusal> {
        self.index += 1;
        let operation = OperationId { index: self.index, ordinal: 0 };
        apply(&mut self.sinks, &command(act), Moment { now: self.now, operation })
    }

    fn redrive_all(
        &mut self,
        key: &str,
        limit: u32,
        died_before: Option<LogTime>,
    ) -> Result<RedriveTally, SinkRefusal> {
        let key = IdempotencyKey::parse(key).unwrap();
        let done = self.act(SinkAct::RedriveAll(RedriveAll { key, limit, died_before }))?;
        Ok(done.tally.unwrap())
    }

    fn redrive_some(&mut self, limit: u32) {
        let dead = self.sink().letters.len();
        let key = self.index.to_string();
        let tally = self.redrive_all(&key, limit, None).unwrap();
        assert_eq!(usize::try_from(tally.redriven + tally.left).unwrap(), dead);
        assert_eq!(self.sink().letters.len(), usize::try_from(tally.left).unwrap());
        let sink = Arc::clone(&self.sinks[&name()]);
        self.leader.follow(&sink);
    }

    fn rotate(&mut self) {
        let (secret, overlap) = (self.index.to_string().into(), Span::from_secs(60));
        let before = self.sink().signing(self.now).count();
        let rotated = self.act(SinkAct::Rotate { secret, overlap });
        let is_full = before == SECRETS_MAX;
        assert_eq!(rotated.err(), is_full.then_some(SinkRefusal::TooManySecrets));
        let expected = if is_full { before } else { before + 1 };
        assert_eq!(self.sink().signing(self.now).count(), expected);
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Happen(number) => self.happen(account(number)),
            Step::Leave(number) => {
                if self.away.insert(account(number)) {
                    *self.left.entry(account(number)).or_default() += 1;
                }
            }
            Step::Return(number) => {
                let account = account(number);
                if self.away.remove(&account) {
                    let length = self.lengths.remove(&account).unwrap_or_default();
                    (0..length).for_each(|_| self.happen(account.clone()));
                }
            }
            Step::Read(count) => self.read(count),
            Step::Send(is_well) => {
                let errand = self.leader.take();
                self.begin(errand);
                self.end(is_well, 0);
            }
            Step::Begin => {
                let errand = self.leader.take();
                self.begin(errand);
            }
            Step::BeginRetry => self.begin_retry(),
            Step::End(is_well) => self.end(is_well, 7),
            Step::Retry(is_well, luck) => {
                self.begin_retry();
                self.end(is_well, luck);
            }
            Step::Advance => self.advance(),
            Step::Lead { late } => {
                if let Some(advance) = self.leader.advance(self.step).filter(|_| late) {
                    let kept = self.act(SinkAct::Advance(advance));
                    assert!(matches!(kept, Ok(_) | Err(SinkRefusal::OtherStep)), "{kept:?}");
                }
                self.resume();
            }
            Step::Redrive(place) => {
                let letters = self.sink().letters.iter().map(|(event, _)| event.clone());
                let letters: Vec<_> = letters.collect();
                if let Some(event) = letters.get(place % letters.len().max(1)) {
                    for is_first in [true, false] {
                        let done = self.act(SinkAct::Redrive(event.clone())).unwrap();
                        assert_eq!(done.is_changed, is_first);
                    }
                    let sink = Arc::clone(&self.sinks[&name()]);
                    self.leader.follow(&sink);
                }
            }
            Step::RedriveAll(limit) => self.redrive_some(limit),
            Step::Enable => {
                if self.act(SinkAct::Enable).unwrap().is_changed {
                    // The leader's next advance is refused, and it begins anew.
                    self.advance();
                }
            }
            Step::Rotate => self.rotate(),
        }
        assert!(self.sink().lines.len() <= LIMITS.lines);
        assert!(self.sink().letters.len() + self.sink().redriven.len() <= LIMITS.letters);
        assert!(self.leader.reads_from() >= self.sink().cursor);
    }

    fn read(&mut self, count: usize) {
        let from = usize::try_from(self.leader.reads_from().0).unwrap();
        let cursor = |place: usize| Position(place.try_into().unwrap());
        let count = count.min(self.leader.room());
        let records = self.feed.iter().enumerate().skip(from).take(count);
        let next = cursor(from + records.len());
        let here = records.filter(|(_, (event, left))| self.is_here(&event.account, *left));
        let offers: Vec<_> = here
            .map(|(place, (event, _))| Offer {
                event: event.clone(),
                at: self.now,
                cursor: cursor(place + 1),
                content: is_wanted(event).then(|| event.clone()),
            })
            .collect();
        self.leader.offer(offers, next);
    }

    fn happen(&mut self, account: AccountName) {
        if self.away.contains(&account) {
            return;
        }
        let length = self.lengths.entry(account.clone()).or_default();
        *length += 1;
        let sequence = Sequence(*length);
        let left = self.left.get(&account).copied().unwrap_or_default();
        self.feed.push((EntryName { account, sequence }, left));
    }

    /// Whether an account is here and has left so often.
    fn is_here(&self, account: &AccountName, left: u32) -> bool {
        !self.away.contains(account) && self.left.get(account).copied().unwrap_or_default() == left
    }

    fn begin(&mut self, errand: Option<Errand<EntryName>>) {
        let is_gone = |errand: &Errand<EntryName>| {
            !matches!(errand.way, ErrandWay::Main(_)) && self.away.contains(&errand.event.account)
        };
        let begun = errand.map(|errand| Begun { is_gone: is_gone(&errand), errand });
        self.begun.extend(begun);
    }

    fn begin_retry(&mut self) {
        self.now = self.now.max(self.leader.next_due().unwrap_or(self.now));
        let errand = self.leader.take_due(self.now);
        self.begin(errand);
    }

    /// Ends what was taken up last.
    fn end(&mut self, is_well: bool, luck: u32) {
        let Some(Begun { errand, is_gone }) = self.begun.pop() else { return };
        if is_gone {
            return self.leader.gone(errand, self.now);
        }
        let event = errand.event.clone();
        if !is_wanted(&event) {
            // Only a line is asked about such a one.
            assert_eq!(errand.way, ErrandWay::Line);
            return self.leader.done(errand, self.now);
        }
        if let ErrandWay::Main(content) = &errand.way {
            assert_eq!(*content, event);
        }
        if !matches!(errand.way, ErrandWay::Redriven) {
            let settled = self.settled.entry(event.account.clone()).or_default();
            let earlier = (1..event.sequence.0).map(Sequence);
            let earlier = earlier.map(|sequence| EntryName { sequence, ..event.clone() });
            let skipped = earlier.filter(|it| is_wanted(it) && !settled.contains(&it.sequence));
            let skipped: Vec<_> = skipped.collect();
            assert!(skipped.is_empty(), "{event:?} is sent before {skipped:?}");
        }
        if is_well {
            self.settled.entry(event.account.clone()).or_default().insert(event.sequence);
            self.received.insert(event);
            self.leader.done(errand, self.now);
            return;
        }
        let is_alone = matches!(errand.way, ErrandWay::Redriven);
        self.leader.failed(errand, "no", (self.now, luck));
        // What the leader has given up is behind it, whether that is kept or not.
        if !is_alone && self.leader.has_given_up(&event) {
            self.settled.entry(event.account.clone()).or_default().insert(event.sequence);
        }
    }

    fn advance(&mut self) {
        let Some(advance) = self.leader.advance(self.step) else { return };
        match self.act(SinkAct::Advance(advance)) {
            Ok(done) => {
                self.step = done.step;
                let sink = Arc::clone(&self.sinks[&name()]);
                self.leader.kept(&sink);
            }
            Err(refusal) => {
                assert_eq!(refusal, SinkRefusal::OtherStep);
                self.resume();
            }
        }
    }

    fn resume(&mut self) {
        self.begun.clear();
        self.leader = Dispatch::resume(self.sink(), LIMITS);
        self.step = self.sink().step;
    }

    /// From now on the receiver takes everything.
    fn come_to_rest(&mut self) {
        while !self.begun.is_empty() {
            self.end(true, 0);
        }
        for _ in 0..1_000 {
            self.play(Step::Enable);
            self.play(Step::Read(5));
            self.play(Step::Send(true));
            self.play(Step::Retry(true, 0));
            self.advance();
        }
    }
}

fn command(act: SinkAct) -> SinkCommand {
    SinkCommand { sink: name(), act, actor: None, reason: None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn every_event_is_received_in_order_or_is_a_dead_letter(steps in steps()) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.play(step));
        world.come_to_rest();
        let sink = world.sink();
        prop_assert_eq!(sink.cursor.0, u64::try_from(world.feed.len()).unwrap());
        prop_assert_eq!((sink.lines.len(), sink.redriven.len()), (0, 0));
        prop_assert_eq!(world.leader.pending(), 0);
        for (event, left) in &world.feed {
            if !world.is_here(&event.account, *left) {
                continue;
            }
            let is_dead = sink.letters.get(event).is_some();
            let is_received = world.received.contains(event);
            prop_assert_eq!(is_wanted(event), is_dead || is_received, "{:?}", event);
        }
        let pieces: Vec<_> = pieces_of_sinks(world.sinks.clone()).collect();
        let mut restored = Sinks::new();
        for piece in pieces {
            let decoded = crate::codec::decode(&piece).unwrap();
            let crate::account::Piece::Sink(piece) = decoded else { unreachable!("a webhook's") };
            piece.restore(&mut restored).unwrap();
        }
        prop_assert_eq!(restored, world.sinks);
    }
}

#[test]
fn an_advance_that_follows_another_step_changes_nothing() {
    let mut world = World::new();
    world.play(Step::Happen(0));
    world.play(Step::Read(1));
    world.play(Step::Send(true));
    let late = world.leader.advance(world.step).unwrap();
    world.resume();
    world.play(Step::Read(1));
    world.play(Step::Send(false));
    world.play(Step::Advance);
    let before = world.sink().clone();
    assert_eq!(world.act(SinkAct::Advance(late)), Err(SinkRefusal::OtherStep));
    assert_eq!(*world.sink(), before);
    assert_eq!(before.lines.len(), 1);
}

#[test]
fn a_repeated_command_changes_nothing_and_another_webhook_of_the_name_is_refused() {
    let mut world = World::new();
    let create = |secret: &str, terms| SinkAct::Create {
        terms,
        secret: secret.into(),
        from: Position::default(),
    };
    assert!(!world.act(create("one", terms())).unwrap().is_changed);
    assert_eq!(world.act(create("two", terms())), Err(SinkRefusal::Exists));
    let other = SinkTerms { attempts_max: 4, ..terms() };
    assert_eq!(world.act(create("one", other)), Err(SinkRefusal::Exists));
    for is_first in [true, false] {
        let overlap = Span::from_secs(60);
        let rotate = SinkAct::Rotate { secret: "two".into(), overlap };
        assert_eq!(world.act(rotate).unwrap().is_changed, is_first);
    }
    let signing = |world: &World, seconds| {
        let at = LogTime::ZERO.saturating_add(Span::from_secs(seconds));
        world.sink().signing(at).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(signing(&world, 59), ["two", "one"]);
    assert_eq!(signing(&world, 60), ["two"]);
    for (act, is_changed) in [
        (SinkAct::Enable, false),
        (SinkAct::Disable { why: "because".into() }, true),
        (SinkAct::Disable { why: "again".into() }, false),
        (SinkAct::Enable, true),
        (SinkAct::Remove, true),
        (SinkAct::Remove, false),
    ] {
        assert_eq!(world.act(act.clone()).unwrap().is_changed, is_changed, "{act:?}");
    }
    assert_eq!(world.act(SinkAct::Enable), Err(SinkRefusal::Unknown));
}

fn seconds(count: u64) -> LogTime {
    LogTime::ZERO.saturating_add(Span::from_secs(count))
}

fn signing(world: &World, at: u64) -> Vec<&str> {
    world.sink().signing(seconds(at)).collect()
}

#[test]
fn a_secret_signs_until_its_own_end_however_often_others_follow() {
    let mut world = World::new();
    let rotate = |secret: &str, overlap| SinkAct::Rotate {
        secret: secret.into(),
        overlap: Span::from_secs(overlap),
    };
    world.act(rotate("two", 60)).unwrap();
    world.now = seconds(10);
    world.act(rotate("three", 10)).unwrap();
    assert_eq!(signing(&world, 19), ["three", "two", "one"]);
    assert_eq!(signing(&world, 20), ["three", "one"]);
    assert_eq!(signing(&world, 60), ["three"]);
    let before = world.sink().clone();
    assert_eq!(world.act(rotate("four", 60)), Err(SinkRefusal::TooManySecrets));
    assert_eq!(*world.sink(), before);
    // Repeated, or with one that still signs, it is not one more.
    assert!(!world.act(rotate("three", 10)).unwrap().is_changed);
    world.act(rotate("one", 60)).unwrap();
    assert_eq!(signing(&world, 11), ["one", "three", "two"]);
    // When the first has ended, there is room for another.
    world.now = seconds(20);
    world.act(rotate("four", 60)).unwrap();
    assert_eq!(signing(&world, 20), ["four", "one", "three"]);
    // What others know must not sign any more, nor must what came before it.
    world.act(rotate("five", 0)).unwrap();
    assert_eq!(signing(&world, 20), ["five"]);
}

/// A world in which the main line has passed over all events of these accounts.
fn with_lines(accounts: u8, events: u64) -> World {
    let mut world = World::new();
    let limits = DispatchLimits { window: 100, lines: 10, letters: 10 };
    world.leader = Dispatch::resume(world.sink(), limits);
    for number in 0..accounts {
        (0..events).for_each(|_| world.happen(account(number)));
    }
    world.read(100);
    for _ in 0..accounts {
        let errand = world.leader.take().unwrap();
        world.leader.failed(errand, "no", (world.now, 0));
    }
    world.now = seconds(3_600);
    world
}

#[test]
fn accounts_that_are_due_take_turns_whatever_their_names() {
    let mut world = with_lines(3, 3);
    let mut told = Vec::new();
    // The clock stands still: it is not what tells who has waited longest.
    while let Some(errand) = world.leader.take_due(world.now) {
        told.push((errand.event.account.clone(), errand.event.sequence.0));
        world.leader.done(errand, world.now);
    }
    let expected = (1..=3).flat_map(|sequence| (0..3).map(move |it| (account(it), sequence)));
    assert_eq!(told, expected.collect::<Vec<_>>());
}

#[test]
fn thousands_of_redriven_dead_letters_hold_up_no_account() {
    let mut world = with_lines(1, 5);
    // They are due for longer than the account is.
    let letter = DeadLetter { attempts: 3, error: "no".into(), died_at: LogTime::ZERO };
    let sink = Arc::make_mut(world.sinks.get_mut(&name()).unwrap());
    for number in 1..=3_000 {
        let event = EntryName { account: account(9), sequence: Sequence(number) };
        sink.letters.insert(event, letter.clone());
    }
    let tally = world.redrive_all("all", 3_000, None).unwrap();
    assert_eq!((tally.redriven, tally.left), (3_000, 0));
    let sink = Arc::clone(&world.sinks[&name()]);
    world.leader.follow(&sink);
    let taken = (0..10).map(|_| {
        let errand = world.leader.take_due(world.now).unwrap();
        let way = errand.way.clone();
        world.leader.done(errand, world.now);
        way
    });
    let of_lines = taken.filter(|way| *way == ErrandWay::Line).count();
    assert_eq!(of_lines, 5);
}

#[test]
fn dead_letters_are_redriven_in_pages_each_once_under_its_key() {
    let mut world = World::new();
    let letter = |at| DeadLetter { attempts: 3, error: "no".into(), died_at: seconds(at) };
    let event = |number| EntryName { account: account(1), sequence: Sequence(number) };
    let sink = Arc::make_mut(world.sinks.get_mut(&name()).unwrap());
    for number in 1..=5 {
        sink.letters.insert(event(number), letter(10));
    }
    world.now = seconds(20);
    let first = world.redrive_all("first", 2, None).unwrap();
    assert_eq!((first.redriven, first.left), (2, 3));
    assert!(first.died_before > world.now);
    // Those two die again, and what is asked again is answered as it was.
    world.now = seconds(30);
    let sink = Arc::make_mut(world.sinks.get_mut(&name()).unwrap());
    for number in 1..=2 {
        sink.redriven.remove(&event(number));
        sink.letters.insert(event(number), letter(30));
    }
    let before = world.sink().clone();
    assert_eq!(world.redrive_all("first", 2, None), Ok(first));
    assert_eq!(world.redrive_all("first", 3, None), Err(SinkRefusal::OtherRedrive));
    assert_eq!(*world.sink(), before);
    // What died again is not redriven by those who go on with the rest.
    let rest = world.redrive_all("second", 2, Some(first.died_before)).unwrap();
    assert_eq!((rest.redriven, rest.left), (2, 1));
    let rest = world.redrive_all("third", 2, Some(first.died_before)).unwrap();
    assert_eq!((rest.redriven, rest.left), (1, 0));
    // All of it is one act in the history, and one that finds nothing is none.
    let redrives = |world: &World| {
        let notes = world.sink().notes.iter();
        notes
            .filter(|note| note.act == NotedAct::RedriveAll)
            .map(|note| note.at)
            .collect::<Vec<_>>()
    };
    assert_eq!(redrives(&world), [seconds(30)]);
    world.now = seconds(40);
    world.redrive_all("fourth", 2, Some(first.died_before)).unwrap();
    assert_eq!(redrives(&world), [seconds(30)]);
    let dead: Vec<_> = world.sink().letters.iter().map(|(event, _)| event.clone()).collect();
    assert_eq!(dead, [event(1), event(2)]);
    let redriven: Vec<_> = world.sink().redriven.iter().map(|(event, _)| event.clone()).collect();
    assert_eq!(redriven, [event(3), event(4), event(5)]);
}

#[test]
fn what_was_done_is_remembered_with_who_and_why_up_to_a_number() {
    let mut world = World::new();
    let said = |act, actor: &str, reason: &str| SinkCommand {
        sink: name(),
        act,
        actor: Some(actor.into()),
        reason: Some(reason.into()),
    };
    let say = |world: &mut World, command| {
        world.index += 1;
        let operation = OperationId { index: world.index, ordinal: 0 };
        apply(&mut world.sinks, &command, Moment { now: world.now, operation }).unwrap()
    };
    world.now = seconds(7);
    let disable = SinkAct::Disable { why: "maintenance".into() };
    // A repeat changes nothing, and is nothing to remember.
    for _ in 0..2 {
        say(&mut world, said(disable.clone(), "kim", "maintenance"));
    }
    let acts: Vec<_> = world.sink().notes.iter().map(|note| note.act).collect();
    assert_eq!(acts, [NotedAct::Create, NotedAct::Disable]);
    let last = world.sink().notes.last().unwrap();
    assert_eq!((last.at, last.actor.as_deref()), (seconds(7), Some("kim")));
    assert_eq!(last.reason.as_deref(), Some("maintenance"));
    for _ in 0..NOTES_MAX {
        say(&mut world, said(SinkAct::Enable, "kim", "well again"));
        say(&mut world, said(disable.clone(), "kim", "maintenance"));
    }
    assert_eq!(world.sink().notes.len(), NOTES_MAX);
    assert_eq!(world.sink().notes.first().map(|note| note.act), Some(NotedAct::Enable));
}
