//! What a region cannot pay for by itself, and home is asked to cover.
//!
//! ```text
//!  asks ── in a report ──▶ reported ── answered ──▶ the book can pay, or home's no: the book is asked
//!   ▲                                         └──▶ neither ── a pause that grows ──┐
//!   └──────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Each call that waits has a place of its own. What home has set aside for a call that does not wait any
//! more goes back; also what a leader finds that did not ask for it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use purser_ledger::{
    Account, AccountName, BookPhase, Cover, Covered, Identity, Item, LotNumber, Rejection,
};
use purser_types::{Credits, Generation, Region};

use super::Outpost;

/// How long a call pauses that home has answered with neither a cover nor a no; twice as long each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause: other regions may have given back by then.
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// A call that needs more than a book may spend.
struct ShortCall {
    /// What home is asked; nothing if it cannot cover such a call.
    cover: Option<Cover>,
    /// What is missing.
    short_by: Credits,
    stage: Stage,
    /// Whether an ordinary grant is wanted besides, which has other regions give back.
    wants_grant: bool,
    /// Why home could not do it when it was last asked, though it may later.
    not_now: Option<Rejection>,
}

/// How far asking home has come.
enum Stage {
    /// The next report asks.
    Asks,
    /// A report that asks is under way.
    Reported,
    /// Home has answered, or will not.
    Answered,
    /// Home has said no, for good.
    Refused(Rejection),
}

/// What a call that waits sees.
enum Seen {
    /// The book may decide: it can pay, or is not what it was.
    Ready,
    /// Home has said no.
    Refused(Rejection),
    /// Home has not answered.
    Unanswered,
    /// Home has answered with neither a cover nor a no.
    Neither,
}

/// A call that waits for home, until it is dropped.
pub(crate) struct Covering {
    outpost: Arc<Outpost>,
    account: AccountName,
    generation: Generation,
    /// Names its place.
    ticket: u64,
    /// What it is known by; nothing if home cannot cover it.
    asked: Option<Identity>,
    pause: Duration,
}

impl ShortCall {
    fn new() -> Self {
        let (cover, not_now) = (None, None);
        let short_by = Credits::ZERO;
        Self { cover, short_by, stage: Stage::Asks, wants_grant: false, not_now }
    }
}

/// The calls about one book's holds and charges that need more than it may spend, in the order in which
/// they came.
#[derive(Default)]
pub(super) struct ShortCalls(BTreeMap<u64, ShortCall>);

impl ShortCalls {
    /// How many calls the next report has to ask for.
    pub(super) fn asks(&self) -> usize {
        self.0.values().filter(|call| matches!(call.stage, Stage::Asks)).count()
    }

    /// What a report asks home to cover, those first that have waited longest. What finds no room waits
    /// for the next.
    pub(super) fn take_asks(&mut self) -> Vec<Cover> {
        let mut covers: Vec<Cover> = Vec::new();
        for call in self.0.values_mut().filter(|call| matches!(call.stage, Stage::Asks)) {
            // Two calls under one key ask once.
            let is_new = |cover: &&Cover| covers.iter().all(|other| other.asked != cover.asked);
            if let Some(cover) = call.cover.as_ref().filter(is_new) {
                if covers.len() == Covered::COUNT_MAX {
                    continue;
                }
                covers.push(cover.clone());
            }
            call.stage = Stage::Reported;
        }
        covers
    }

    /// What calls lack for which an ordinary grant is wanted.
    pub(super) fn missing(&self) -> Credits {
        let wanting = self.0.values().filter(|call| call.wants_grant);
        wanting
            .fold(Credits::ZERO, |sum, call| sum.checked_add(call.short_by).unwrap_or(Credits::MAX))
    }

    /// Home does not cover an operation: for good if credits are missing, and else not now.
    pub(super) fn note_not_covered(&mut self, asked: Identity, refusal: &Rejection) {
        let is_final =
            matches!(refusal, Rejection::InsufficientCredits { .. } | Rejection::Stranded { .. });
        for call in self.0.values_mut() {
            if call.cover.as_ref().is_none_or(|cover| cover.asked != asked) {
                continue;
            }
            if is_final {
                call.stage = Stage::Refused(refusal.clone());
            } else {
                call.not_now = Some(refusal.clone());
            }
        }
    }

    /// The report that was under way is answered, or will not be.
    pub(super) fn note_answered(&mut self) {
        for call in self.0.values_mut().filter(|call| matches!(call.stage, Stage::Reported)) {
            call.stage = Stage::Answered;
        }
    }

    fn wants_cover(&self, asked: Identity) -> bool {
        let mut covers = self.0.values().filter_map(|call| call.cover.as_ref());
        covers.any(|cover| cover.asked == asked)
    }
}

impl Outpost {
    /// A place for a call about a hold or charge of this region that needs more than its book may spend.
    pub(crate) fn covering(
        self: &Arc<Self>,
        account: &AccountName,
        generation: Generation,
        item: &Item,
    ) -> Covering {
        let (outpost, account) = (Arc::clone(self), account.clone());
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let asked = item.identity();
        Covering { outpost, account, generation, ticket, asked, pause: PAUSE_MIN }
    }

    /// The covers in a book that no call waits for.
    pub(super) fn unwanted_covers(&self, book: &Account) -> Vec<LotNumber> {
        let mut open = book.open_covers().peekable();
        if open.peek().is_none() {
            return Vec::new();
        }
        let notes = self.notes();
        let known = notes.get(book.name()).and_then(|it| it.books.get(&book.owner().generation));
        let is_wanted = |asked: Identity| known.is_some_and(|known| known.short.wants_cover(asked));
        open.filter(|(_, asked, _)| !is_wanted(*asked)).map(|(number, ..)| number).collect()
    }
}

impl Covering {
    /// Has home cover what is missing of the `needed` that the call takes of the book, and waits until the
    /// book may decide: it can pay, or home has said no, which is given; at most until `patience`.
    ///
    /// Once home has answered with neither, it is asked again after a pause, and for an ordinary grant
    /// besides. The book is not asked meanwhile: it would write down each time what is known.
    pub(crate) async fn wait(
        &mut self,
        item: &Item,
        (needed, home): (Credits, Region),
        patience: Instant,
    ) -> Option<Rejection> {
        while self.ask(item, needed, home) {
            let is_answered = |seen: &Seen| !matches!(seen, Seen::Unanswered);
            let mut seen = self.until(patience, needed, is_answered).await;
            if matches!(seen, Seen::Neither) {
                self.want_grant();
                let pause = patience.min(Instant::now() + self.pause);
                self.pause = PAUSE_MAX.min(self.pause * 2);
                let is_news = |seen: &Seen| matches!(seen, Seen::Ready | Seen::Refused(_));
                seen = self.until(pause, needed, is_news).await;
            }
            match seen {
                Seen::Ready => return None,
                Seen::Refused(no) => return Some(no),
                Seen::Unanswered | Seen::Neither if patience <= Instant::now() => return None,
                Seen::Unanswered | Seen::Neither => (),
            }
        }
        None
    }

    /// Why home could not cover the call when it was last asked, if it has said so.
    pub(crate) fn not_now(&self) -> Option<Rejection> {
        let notes = self.outpost.notes();
        let known = notes.get(&self.account)?.books.get(&self.generation)?;
        known.short.0.get(&self.ticket)?.not_now.clone()
    }

    /// Has the next report ask, and that leave at once. Whether anything is missing.
    fn ask(&self, item: &Item, needed: Credits, home: Region) -> bool {
        let outpost = &self.outpost;
        let book =
            outpost.group.view(|ledger, _| ledger.book(&self.account, self.generation).cloned());
        let Some(book) = book.filter(|book| !self.can_decide(book, needed)) else { return false };
        let short_by = needed.saturating_sub(book.right());
        let cover = Cover::of(outpost.owner(self.generation), item, short_by);
        let now = outpost.now();
        let mut notes = outpost.notes();
        let known = notes.entry(self.account.clone()).or_default();
        known.ask(now);
        let short = &mut known.book(&book, now).short.0;
        let call = short.entry(self.ticket).or_insert_with(ShortCall::new);
        call.wants_grant |= cover.is_none();
        (call.cover, call.short_by, call.stage) = (cover, short_by, Stage::Asks);
        drop(notes);
        outpost.report_soon(home);
        true
    }

    fn want_grant(&self) {
        let mut notes = self.outpost.notes();
        let known = notes.get_mut(&self.account).and_then(|it| it.books.get_mut(&self.generation));
        if let Some(call) = known.and_then(|known| known.short.0.get_mut(&self.ticket)) {
            call.wants_grant = true;
        }
    }

    /// Waits until what the call sees is what it waits for, at most until `deadline`.
    async fn until(
        &self,
        deadline: Instant,
        needed: Credits,
        is_awaited: impl Fn(&Seen) -> bool,
    ) -> Seen {
        loop {
            let answered = {
                let mut notes = self.outpost.notes();
                Arc::clone(&notes.entry(self.account.clone()).or_default().answered)
            };
            // Order matters: who is told between a look and the wait must not miss it.
            let mut answered = pin!(answered.notified());
            answered.as_mut().enable();
            let seen = self.look(needed);
            if is_awaited(&seen) {
                return seen;
            }
            if tokio::time::timeout_at(deadline.into(), answered).await.is_err() {
                return self.look(needed);
            }
        }
    }

    fn look(&self, needed: Credits) -> Seen {
        let is_ready = self.outpost.group.view(|ledger, _| {
            let book = ledger.book(&self.account, self.generation);
            book.is_none_or(|book| self.can_decide(book, needed))
        });
        if is_ready {
            return Seen::Ready;
        }
        let notes = self.outpost.notes();
        let known = notes.get(&self.account).and_then(|it| it.books.get(&self.generation));
        match known.and_then(|known| known.short.0.get(&self.ticket)).map(|call| &call.stage) {
            Some(Stage::Asks | Stage::Reported) => Seen::Unanswered,
            Some(Stage::Answered) => Seen::Neither,
            Some(Stage::Refused(no)) => Seen::Refused(no.clone()),
            // This node has lost the lead since.
            None => Seen::Ready,
        }
    }

    /// Whether a book would not say again that it is short: it can pay, or has ended.
    fn can_decide(&self, book: &Account, needed: Credits) -> bool {
        let mut covers = book.open_covers().filter(|(_, asked, _)| Some(*asked) == self.asked);
        let covered = covers.next().map(|(_, _, free)| free).unwrap_or_default();
        let has = book.right().checked_add(covered).unwrap_or(Credits::MAX);
        book.book_phase() != Some(BookPhase::Open) || needed <= has
    }
}

impl Drop for Covering {
    fn drop(&mut self) {
        let mut notes = self.outpost.notes();
        let known = notes.get_mut(&self.account).and_then(|it| it.books.get_mut(&self.generation));
        if let Some(known) = known {
            known.short.0.remove(&self.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use purser_ledger::{HoldNumber, OnCredit};
    use purser_types::{Owner, Sequence};

    use super::*;

    fn credits(amount: u64) -> Credits {
        Credits::from_u64(amount).unwrap()
    }

    fn identity(key: u8) -> Identity {
        Identity { key: [key; 16], fingerprint: [0; 16] }
    }

    /// Calls that are short by 10 each, under these keys.
    fn calls(keys: impl IntoIterator<Item = u8>) -> ShortCalls {
        let owner = Owner { region: Region::parse("eu").unwrap(), generation: Generation(1) };
        let call = |key| {
            let (hold, on_credit) = (HoldNumber(Sequence(2)), OnCredit::Never);
            let (asked, amount) = (identity(key), credits(10));
            let cover = Some(Cover { owner, asked, hold, amount, on_credit });
            ShortCall { cover, short_by: amount, ..ShortCall::new() }
        };
        ShortCalls((0..).zip(keys.into_iter().map(call)).collect())
    }

    fn keys(covers: &[Cover]) -> Vec<u8> {
        covers.iter().map(|cover| cover.asked.key[0]).collect()
    }

    #[test]
    fn a_report_asks_for_the_oldest_calls_and_the_next_for_the_rest() {
        let mut calls = calls((0..40).rev().chain([39]));
        assert_eq!(calls.asks(), 41);
        assert_eq!(keys(&calls.take_asks()), (8..40).rev().collect::<Vec<_>>());
        // The last call asks under the first one's key, so it went with it.
        assert_eq!(calls.asks(), 8);
        calls.note_answered();
        assert_eq!(keys(&calls.take_asks()), (0..8).rev().collect::<Vec<_>>());
        assert_eq!(calls.asks(), 0);
    }

    #[test]
    fn what_calls_lack_counts_once_for_each_however_often_home_is_asked() {
        let mut calls = calls(0..3);
        assert_eq!(calls.missing(), Credits::ZERO, "a cover may do");
        for _ in 0..2 {
            calls.take_asks();
            calls.note_answered();
            for call in calls.0.values_mut() {
                (call.wants_grant, call.stage) = (true, Stage::Asks);
            }
            assert_eq!(calls.missing(), credits(30));
        }
    }

    #[test]
    fn a_call_ends_with_homes_no_for_want_of_credits_and_with_no_other() {
        let mut calls = calls([1, 2, 2]);
        calls.take_asks();
        let (available, short_by) = (credits(0), credits(10));
        let no = Rejection::InsufficientCredits {
            available,
            short_by,
            debt: credits(0),
            debt_limit: None,
        };
        calls.note_not_covered(identity(2), &no);
        calls.note_not_covered(identity(1), &Rejection::NoRoomForCover);
        calls.note_answered();
        let refused: Vec<bool> =
            calls.0.values().map(|call| matches!(call.stage, Stage::Refused(_))).collect();
        assert_eq!(refused, [false, true, true]);
        let not_now = calls.0.values().map(|call| call.not_now.clone());
        assert_eq!(not_now.collect::<Vec<_>>(), [Some(Rejection::NoRoomForCover), None, None]);
    }
}
