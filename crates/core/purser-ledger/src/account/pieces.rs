//! An account in a snapshot: a list of small pieces, so that no account is ever one big buffer.
//!
//! Equal accounts give equal pieces: pieces are cut by count, never by how the maps happen to be
//! laid out. What can be derived (burn-down order, agenda, sources) is rebuilt, not stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use minicbor::{Decode, Encode};
use purser_types::{
    CorruptSnapshot, CowMap, Credits, Epoch, Generation, LogTime, Owner, Position, Region, Sequence,
};

use super::due::{dues_of_lot, end_of_hold};
use super::grants::source_digest;
use super::{Account, AccountNumber, Debt, Head, HoldKey, Side};
use crate::answer::Remembered;
use crate::balance::Balance;
use crate::budgets::{Budget, BudgetFigures};
use crate::codec;
use crate::command::{AccountName, HoldNumber, LotNumber};
use crate::digest::Digest16;
use crate::events::{Mark as EventMark, ParkedEvent};
use crate::hold::Hold;
use crate::home::{Allocation, AwayDecision, AwayRequest, Home, HomeSpan, Tail};
use crate::jobs::LiveJob;
use crate::ledger::{Arrival, Mark};
use crate::lot::Lot;
use crate::moving::{Departure, Gone};
use crate::region::RegionSide;
use crate::sinks::SinkPiece;
use crate::standing::Standing;
use crate::time_ring::{Kept, TimeRing};

/// Pairs in one piece: large enough for the pieces' own cost not to show, small enough to build one
/// in a few microseconds.
const PAIRS_MAX: usize = 256;

/// Budgets in one piece: with their periods they are ten times as large as other pairs.
const BUDGETS_IN_PIECE: usize = 32;

/// A piece of an account. The first piece of each account is its header.
#[derive(Encode, Decode)]
pub(crate) enum Piece {
    #[n(0)]
    Header(#[n(0)] Box<Header>),
    #[n(1)]
    Marks(#[n(0)] Vec<(Sequence, Position)>),
    #[n(2)]
    Lots(#[n(0)] Vec<(LotNumber, Lot)>),
    #[n(3)]
    Holds(#[n(0)] Vec<Hold>),
    #[n(4)]
    Ended(#[n(0)] Interval, #[n(1)] Vec<(HoldNumber, Kept<Position>)>),
    #[n(5)]
    Debts(#[n(0)] Vec<(Sequence, Debt)>),
    #[n(6)]
    Keys(#[n(0)] Interval, #[n(1)] Vec<Digested<Remembered>>),
    #[n(7)]
    Owing(#[n(0)] Vec<(HoldKey, Position)>),
    #[n(8)]
    Away(#[n(0)] Interval, #[n(1)] Vec<(HoldKey, Kept<Position>)>),
    #[n(9)]
    Duplicates(#[n(0)] Interval, #[n(1)] Vec<(HoldKey, Kept<()>)>),
    #[n(10)]
    Requests(#[n(0)] Interval, #[n(1)] Vec<Digested<AwayRequest>>),
    /// Not of an account, but of the group: what stands before all accounts.
    #[n(11)]
    PassedOn(#[n(0)] Vec<Digested<Mark>>),
    /// Of an account that is being taken over.
    #[n(12)]
    Arrival(#[n(0)] Arrival),
    /// Not of an account, but of the group: what stands before all accounts.
    #[n(13)]
    Gone(#[n(0)] Vec<(AccountName, AccountNumber, Gone)>),
    #[n(14)]
    Decided(#[n(0)] Interval, #[n(1)] Vec<Digested<AwayDecision>>),
    /// Not of an account, but of the group: what stands before all accounts.
    #[n(15)]
    Departed(#[n(0)] AccountName, #[n(1)] AccountNumber, #[n(2)] KeysPart),
    #[n(16)]
    Jobs(#[n(0)] Vec<LiveJob>),
    #[n(17)]
    EndedJobs(#[n(0)] Interval, #[n(1)] Vec<Digested<Position>>),
    #[n(18)]
    Events(#[n(0)] Interval, #[n(1)] Vec<Digested<EventMark>>),
    #[n(19)]
    ParkedEvents(#[n(0)] Vec<ParkedEvent>),
    #[n(30)]
    Budgets(#[n(0)] Vec<(Budget, Vec<BudgetFigures>)>),
    /// Not of an account, but of the group: what stands before all accounts.
    #[n(40)]
    Sink(#[n(0)] SinkPiece),
    #[n(20)]
    EventsAhead(#[n(0)] Interval, #[n(1)] Vec<Digested<EventMark>>),
}

/// Some keys of one interval.
#[derive(Encode, Decode)]
pub(crate) struct KeysPart {
    #[n(0)]
    interval: Interval,
    #[n(1)]
    keys: Vec<Digested<Remembered>>,
}

impl KeysPart {
    /// Adds them to a ring that is being rebuilt.
    pub(crate) fn restore(self, ring: &mut TimeRing<Digest16, Remembered>) {
        let pairs = self.keys.into_iter().map(Digested::into_pair);
        ring.restore(self.interval.starts_at, self.interval.ends_at, pairs);
    }
}

/// What an account has only one of.
#[derive(Encode, Decode)]
pub(crate) struct Header {
    #[n(0)]
    number: AccountNumber,
    #[n(1)]
    name: AccountName,
    #[n(2)]
    standing: Standing,
    #[n(3)]
    balance: Balance,
    #[n(4)]
    head: Head,
    #[n(7)]
    home_side: Option<HomeSide>,
    #[n(8)]
    region_side: Option<Box<RegionSide>>,
}

/// What home's book has besides, but for its holds away.
#[derive(Encode, Decode)]
struct HomeSide {
    #[n(0)]
    epoch: Epoch,
    #[n(1)]
    allocations: Vec<Allocation>,
    #[n(2)]
    generations: BTreeMap<Region, Generation>,
    #[n(3)]
    realised: Credits,
    #[n(4)]
    closed: BTreeMap<Owner, Sequence>,
    #[n(5)]
    reversals: Vec<HoldKey>,
    #[n(6)]
    #[cbor(skip_if = "codec::is_none")]
    spans: Vec<HomeSpan>,
    #[n(7)]
    #[cbor(skip_if = "codec::is_none")]
    tails: Vec<Tail>,
    #[n(8)]
    stopped: Option<Departure>,
}

/// A bucket of a time ring.
#[derive(Clone, Copy, Encode, Decode)]
pub(crate) struct Interval {
    #[n(0)]
    starts_at: LogTime,
    #[n(1)]
    ends_at: LogTime,
}

/// A pair that is found by a digest.
#[derive(Encode, Decode)]
pub(crate) struct Digested<V> {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    digest: Digest16,
    #[n(1)]
    value: Kept<V>,
}

impl Account {
    /// The account as encoded pieces. `arrival` says how far it has been taken over, if it has not been
    /// taken over yet.
    pub(crate) fn pieces(
        self: Arc<Self>,
        arrival: Option<Arrival>,
    ) -> impl Iterator<Item = Vec<u8>> + Send {
        let header = Header {
            number: self.number,
            name: self.name.clone(),
            standing: self.standing.clone(),
            balance: self.balance.clone(),
            head: self.head,
            home_side: match &self.side {
                Side::Home(home) => home.as_deref().map(HomeSide::of),
                Side::Region(_) => None,
            },
            region_side: self.region_side().ok().cloned().map(Box::new),
        };
        let marks = cut(self.marks.clone()).map(Piece::Marks);
        let lots = cut(self.lots.clone()).map(Piece::Lots);
        let holds = cut(self.holds.clone())
            .map(|pairs| Piece::Holds(pairs.into_iter().map(|(_, hold)| hold).collect()));
        let debts = cut(self.debts.clone()).map(Piece::Debts);
        let owing = cut(self.owing.clone()).map(Piece::Owing);
        let ended = ring(&self.ended, Piece::Ended);
        let jobs = cut(self.jobs().live().clone())
            .map(|pairs| Piece::Jobs(pairs.into_iter().map(|(_, live)| live).collect()));
        let budgets: Vec<_> = self.budgets().pairs().collect();
        let budgets: Vec<_> = budgets.chunks(BUDGETS_IN_PIECE).map(<[_]>::to_vec).collect();
        let budgets = budgets.into_iter().map(Piece::Budgets);
        let ended_jobs =
            ring(&self.jobs().ended, |interval, pairs| Piece::EndedJobs(interval, digested(pairs)));
        let events =
            ring(&self.events().marks, |interval, pairs| Piece::Events(interval, digested(pairs)));
        let ahead = ring(&self.events().ahead, |interval, pairs| {
            Piece::EventsAhead(interval, digested(pairs))
        });
        let parked_events = cut(self.events().parked().clone())
            .map(|pairs| Piece::ParkedEvents(pairs.into_iter().map(|(_, it)| it).collect()));
        let home = self.home_side().unwrap_or(Home::NONE);
        let away = ring(&home.away, Piece::Away);
        let duplicates = ring(&home.duplicates, Piece::Duplicates);
        let requests =
            ring(&home.requests, |interval, pairs| Piece::Requests(interval, digested(pairs)));
        let decided =
            ring(&home.decided, |interval, pairs| Piece::Decided(interval, digested(pairs)));
        let keys = ring(&self.keys, |interval, pairs| Piece::Keys(interval, digested(pairs)));
        std::iter::once(Piece::Header(Box::new(header)))
            .chain(arrival.map(Piece::Arrival))
            .chain(marks)
            .chain(lots)
            .chain(holds)
            .chain(debts)
            .chain(owing)
            .chain(ended)
            .chain(away)
            .chain(duplicates)
            .chain(requests)
            .chain(decided)
            .chain(keys)
            .chain(jobs)
            .chain(ended_jobs)
            .chain(events)
            .chain(ahead)
            .chain(parked_events)
            .chain(budgets)
            .map(|piece| codec::encode(&piece))
    }

    /// An account from its header, ready for its other pieces.
    pub(crate) fn from_header(header: Header) -> Self {
        let mut account = Self::new(header.number, header.name, header.standing);
        account.balance = header.balance;
        account.head = header.head;
        if let Some(region) = header.region_side {
            account.side = Side::Region(region);
        } else if let Some(home) = header.home_side {
            account.side = Side::Home(Some(Box::new(home.into())));
        }
        account
    }

    /// Adds a piece other than the header.
    pub(crate) fn add_piece(&mut self, piece: Piece) -> Result<(), CorruptSnapshot> {
        match piece {
            Piece::Header(_)
            | Piece::PassedOn(_)
            | Piece::Arrival(_)
            | Piece::Gone(_)
            | Piece::Departed(..)
            | Piece::Sink(_) => {
                return Err(CorruptSnapshot("something else inside an account".into()));
            }
            Piece::Marks(pairs) => self.marks.extend(pairs),
            Piece::Lots(pairs) => {
                pairs.iter().for_each(|(number, lot)| self.derive_from_lot(*number, lot));
                self.lots.extend(pairs);
            }
            Piece::Holds(holds) => {
                self.agenda.extend(holds.iter().map(|hold| (end_of_hold(hold), ())));
                self.holds.extend(holds.into_iter().map(|hold| (hold.number, hold)));
            }
            Piece::Debts(pairs) => {
                self.debts_of
                    .extend(pairs.iter().map(|(origin, debt)| ((debt.debtor, *origin), ())));
                self.debts.extend(pairs);
            }
            Piece::Owing(pairs) => self.owing.extend(pairs),
            Piece::Away(interval, pairs) => {
                let away = &mut self.home_of_piece()?.away;
                away.restore(interval.starts_at, interval.ends_at, pairs);
            }
            Piece::Duplicates(interval, pairs) => {
                let duplicates = &mut self.home_of_piece()?.duplicates;
                duplicates.restore(interval.starts_at, interval.ends_at, pairs);
            }
            Piece::Requests(interval, found) => {
                let requests = &mut self.home_of_piece()?.requests;
                let pairs = found.into_iter().map(Digested::into_pair);
                requests.restore(interval.starts_at, interval.ends_at, pairs);
            }
            Piece::Decided(interval, found) => {
                let decided = &mut self.home_of_piece()?.decided;
                let pairs = found.into_iter().map(Digested::into_pair);
                decided.restore(interval.starts_at, interval.ends_at, pairs);
            }
            Piece::Ended(interval, pairs) => {
                self.ended.restore(interval.starts_at, interval.ends_at, pairs);
            }
            Piece::Keys(interval, keys) => KeysPart { interval, keys }.restore(&mut self.keys),
            Piece::Jobs(jobs) => {
                jobs.into_iter().for_each(|live| self.jobs_mut().insert(live));
            }
            Piece::Budgets(pairs) => {
                let budgets = self.budgets_mut();
                pairs.into_iter().for_each(|(budget, figures)| budgets.restore(budget, figures));
            }
            Piece::EndedJobs(interval, found) => {
                let pairs = found.into_iter().map(Digested::into_pair);
                self.jobs_mut().ended.restore(interval.starts_at, interval.ends_at, pairs);
            }
            Piece::Events(interval, found) => {
                let pairs = found.into_iter().map(Digested::into_pair);
                self.events_mut().marks.restore(interval.starts_at, interval.ends_at, pairs);
            }
            Piece::EventsAhead(interval, found) => {
                let pairs = found.into_iter().map(Digested::into_pair);
                self.events_mut().ahead.restore(interval.starts_at, interval.ends_at, pairs);
            }
            Piece::ParkedEvents(events) => {
                events.into_iter().for_each(|parked| self.events_mut().park(parked));
            }
        }
        Ok(())
    }

    fn home_of_piece(&mut self) -> Result<&mut Home, CorruptSnapshot> {
        let home = self.home_side_mut();
        home.ok_or_else(|| CorruptSnapshot("a region's book knows no other books".into()))
    }

    fn derive_from_lot(&mut self, number: LotNumber, lot: &Lot) {
        if lot.is_drawable() {
            self.draw_order.insert(lot.draw_key(number), ());
        }
        if lot.is_open_cover() {
            self.note_cover(number, true);
        }
        if let Some(source_ref) = &lot.terms.source_ref {
            self.source_refs.insert(source_digest(source_ref), number);
        }
        for due in dues_of_lot(number, lot) {
            self.agenda.insert(due, ());
        }
    }
}

impl HomeSide {
    fn of(home: &Home) -> Self {
        Self {
            epoch: home.epoch,
            allocations: home.allocations.values().cloned().collect(),
            generations: home.generations.clone(),
            realised: home.realised,
            closed: home.closed.clone(),
            reversals: home.reversals.iter().copied().collect(),
            spans: home.spans.clone(),
            tails: home.tails.values().cloned().collect(),
            stopped: home.stopped,
        }
    }
}

impl From<HomeSide> for Home {
    fn from(header: HomeSide) -> Self {
        let own = |allocation: Allocation| (allocation.owner, allocation);
        let tail = |tail: Tail| (tail.epoch, tail);
        Self {
            epoch: header.epoch,
            allocations: header.allocations.into_iter().map(own).collect(),
            generations: header.generations,
            realised: header.realised,
            closed: header.closed,
            reversals: header.reversals.into_iter().collect(),
            spans: header.spans,
            tails: header.tails.into_iter().map(tail).collect(),
            stopped: header.stopped,
            away: TimeRing::default(),
            requests: TimeRing::default(),
            decided: TimeRing::default(),
            duplicates: TimeRing::default(),
        }
    }
}

/// Makes a piece of some pairs of a ring's bucket.
type RingPiece<K, V> = fn(Interval, Vec<(K, Kept<V>)>) -> Piece;

/// The pairs of a ring, bucket by bucket.
fn ring<K, V>(
    ring: &TimeRing<K, V>,
    piece: RingPiece<K, V>,
) -> impl Iterator<Item = Piece> + Send + use<K, V>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    let buckets: Vec<_> = ring.buckets().cloned().collect();
    buckets.into_iter().flat_map(move |bucket| {
        let interval = Interval { starts_at: bucket.starts_at, ends_at: bucket.ends_at };
        cut(bucket.pairs).map(move |pairs| piece(interval, pairs))
    })
}

/// The accounts that have left a group, as encoded pieces.
pub(crate) fn pieces_of_gone(
    gone: CowMap<(AccountName, AccountNumber), Gone>,
) -> impl Iterator<Item = Vec<u8>> + Send {
    cut(gone).map(|pairs| {
        let flat = pairs.into_iter().map(|((name, number), gone)| (name, number, gone));
        codec::encode(&Piece::Gone(flat.collect()))
    })
}

/// What accounts remembered that have left a group, as encoded pieces.
pub(crate) fn pieces_of_departed(
    departed: CowMap<(AccountName, AccountNumber), TimeRing<Digest16, Remembered>>,
) -> impl Iterator<Item = Vec<u8>> + Send {
    cut(departed).flatten().flat_map(|((name, number), keys)| {
        let buckets: Vec<_> = keys.buckets().cloned().collect();
        buckets.into_iter().flat_map(move |bucket| {
            let interval = Interval { starts_at: bucket.starts_at, ends_at: bucket.ends_at };
            let name = name.clone();
            cut(bucket.pairs).map(move |pairs| {
                let part = KeysPart { interval, keys: digested(pairs) };
                codec::encode(&Piece::Departed(name.clone(), number, part))
            })
        })
    })
}

impl<V> Digested<V> {
    /// The digest and what it finds.
    pub(crate) fn into_pair(self) -> (Digest16, Kept<V>) {
        (self.digest, self.value)
    }
}

/// The calls that a region has passed on, as encoded pieces.
pub(crate) fn pieces_of_marks(
    marks: CowMap<Digest16, Kept<Mark>>,
) -> impl Iterator<Item = Vec<u8>> + Send {
    cut(marks).map(|pairs| codec::encode(&Piece::PassedOn(digested(pairs))))
}

fn digested<V>(pairs: Vec<(Digest16, Kept<V>)>) -> Vec<Digested<V>> {
    pairs.into_iter().map(|(digest, value)| Digested { digest, value }).collect()
}

/// The pairs of a map in lists of [`PAIRS_MAX`].
pub(crate) fn cut<K, V>(map: CowMap<K, V>) -> impl Iterator<Item = Vec<(K, V)>> + Send
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    let mut next_after: Option<K> = None;
    let mut done = map.is_empty();
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let from =
            next_after.as_ref().map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let pairs: Vec<(K, V)> = map
            .range_from(from)
            .take(PAIRS_MAX)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        done = pairs.len() < PAIRS_MAX;
        next_after = pairs.last().map(|(key, _)| key.clone());
        (!pairs.is_empty()).then_some(pairs)
    })
}
