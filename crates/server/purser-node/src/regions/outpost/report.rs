//! Reporting to one home: in its turn, or at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use purser_ledger::{
    Account, AccountName, BookPhase, Covered, DemandReport, IDLE_INTERVAL, LASTING, Mode,
    REPORT_INTERVAL, Report,
};
use purser_types::{Credits, Generation, HistoryError, Region, Sequence, Span};
use tokio_util::sync::CancellationToken;

use super::Outpost;
use super::notes::{AccountNotes, used};
use crate::regions::links::AskError;
use crate::regions::messages::{AccountReport, Answered, Ask, Reports};
use crate::shards::Shard;
use crate::tasks::chain;

/// What becomes urgent within this time leaves together.
const COLLECTED: Duration = Duration::from_millis(5);

/// The same while reports are under way: a message each few milliseconds would say little.
const COLLECTED_BEHIND: Duration = Duration::from_millis(50);

/// Reports under way to one home at a time. No account is in two of them.
const UNDER_WAY_MAX: usize = 8;

/// One part in so many that a refill takes less than the one before is believed at a time.
const REFILL_PARTS: u64 = 8;

/// How long home may take to answer a report.
const PATIENCE: Duration = Duration::from_secs(5);

/// From home's answer until its vouchers are durable here.
const TAKING_UP: Span = Span::from_micros(20_000);

/// The most bytes of entries in one ask: a message has a limit, and so has what home books at once.
const ASK_BYTES_MAX: usize = 512 << 10;

/// The most bytes that one call takes which home is asked to cover.
const COVER_BYTES_MAX: usize = 96;

/// The most accounts in one ask.
const ASK_ACCOUNTS_MAX: usize = 1_024;

/// One part in so many that an interval is shorter or longer, by chance.
const JITTER_PARTS: u64 = 10;

/// What is to be reported of one book.
struct Due {
    account: AccountName,
    generation: Generation,
    after: Option<Sequence>,
}

impl Outpost {
    /// Reports to one home until `stopping`.
    pub(crate) async fn report_to(&self, home: Region, stopping: CancellationToken) {
        let Some(urgent) = self.urgent.get(&home) else { return };
        let mut under_way = FuturesUnordered::new();
        let mut next = Instant::now() + jittered(REPORT_INTERVAL);
        // Nothing while nothing is urgent.
        let mut soon = None;
        loop {
            let may_report = under_way.len() < UNDER_WAY_MAX;
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                Some(has_more) = under_way.next() => {
                    if has_more {
                        soon = Some(Instant::now());
                    }
                    continue;
                }
                () = urgent.notified(), if soon.is_none() => {
                    let is_first = under_way.is_empty();
                    let collected = if is_first { COLLECTED } else { COLLECTED_BEHIND };
                    soon = Some(Instant::now() + collected);
                    continue;
                }
                () = tokio::time::sleep_until(soon.unwrap_or(next).into()), if may_report => (),
            }
            soon = None;
            next = Instant::now() + jittered(REPORT_INTERVAL);
            if !self.leads() {
                // Whoever waits for an answer to this node asks whoever leads now.
                for (_, mut notes) in std::mem::take(&mut *self.notes()) {
                    notes.note_answered();
                }
                continue;
            }
            // A report into a cut is not answered, and holds up the first one that could be.
            if self.links.is_reachable(home) {
                under_way.push(self.report_once(home));
            }
        }
    }

    /// Reports what is new. Whether there is more that found no room.
    async fn report_once(&self, home: Region) -> bool {
        self.do_as_told(home).await;
        let due = self.due(home);
        if due.is_empty() {
            return false;
        }
        let sent = self.now();
        let (reports, has_more) = match self.write(home, &due, false) {
            Ok(written) => written,
            Err(error) => {
                tracing::error!(error = %chain(&error), "entries cannot be read to be reported");
                return false;
            }
        };
        let accounts: Vec<AccountName> =
            reports.accounts.iter().map(|report| report.account.clone()).collect();
        for account in &accounts {
            self.notes().entry(account.clone()).or_default().reporting_to = Some(home);
        }
        let answer = self.ask_home(home, reports).await;
        let is_heard = self.note_answer(home, answer, (&accounts, sent)).await;
        let now = self.now();
        let mut notes = self.notes();
        let known = accounts.iter().filter_map(|account| {
            let known = notes.get_mut(account)?;
            Some(known.end_reporting(home, now))
        });
        if known.fold(false, |any, asks_again| any | asks_again) {
            self.report_soon(home);
        }
        has_more && is_heard
    }

    /// Takes up what home has answered to a report about `accounts`. Whether it has spoken of all of them.
    async fn note_answer(
        &self,
        home: Region,
        answer: Result<Answered, AskError>,
        (accounts, sent): (&[AccountName], Span),
    ) -> bool {
        match answer {
            Ok(Answered::Told(told)) => {
                self.note_refill(home, sent);
                let spoken: BTreeSet<AccountName> =
                    told.iter().map(|told| told.account.clone()).collect();
                let unheard: Vec<&AccountName> =
                    accounts.iter().filter(|account| !spoken.contains(account)).collect();
                self.take_up(home, told, Some(sent)).await;
                let mut notes = self.notes();
                for account in &unheard {
                    notes.entry((*account).clone()).or_default().note_answered();
                }
                // Of what home does not speak it does not know yet: asking on and on is of no use.
                unheard.is_empty()
            }
            other => {
                match other {
                    Ok(_) => tracing::warn!(%home, "reports were answered with something else"),
                    Err(error) => tracing::debug!(%home, %error, "reports were not taken"),
                }
                let mut notes = self.notes();
                for account in accounts {
                    notes.entry(account.clone()).or_default().note_answered();
                }
                false
            }
        }
    }

    /// Has reports booked, in another region or in this one.
    async fn ask_home(&self, home: Region, reports: Reports) -> Result<Answered, AskError> {
        if home == self.links.own() {
            // The same node leads both: they are one shard.
            return Ok(self.desk.book(reports, false).await);
        }
        let deadline = Instant::now() + PATIENCE;
        self.links.ask((home, Some(self.shard)), &Ask::Reports(reports), deadline).await
    }

    /// The books of a home that have news for it, are due for a sign of life, or want credits.
    fn due(&self, home: Region) -> Vec<Due> {
        let now = self.now();
        let ledger = self.group.machine();
        let mut notes = self.notes();
        let mut due = Vec::new();
        for book in ledger.allocations() {
            let known = notes.entry(book.name().clone()).or_default();
            if self.home_of(known, book.name()) != Some(home) || has_ended(book, known) {
                continue;
            }
            if known.reporting_to == Some(home) {
                continue;
            }
            let is_asking = known.asked_at.is_some();
            let noted = known.book(book, now);
            // What a call asks may have come after the report that home has just answered.
            let is_asking = is_asking || noted.short.asks() > 0;
            let idle = Span::from_micros(IDLE_INTERVAL.as_micros() * 9 / 10);
            let has_news = noted.booked.is_none_or(|booked| booked < book.head().sequence);
            let silent = noted.reported_at.is_none_or(|at| self.links.clock().since(at) >= idle);
            if has_news || silent || is_asking {
                let generation = book.owner().generation;
                due.push(Due { account: book.name().clone(), generation, after: noted.booked });
            }
        }
        due
    }

    /// Where an account's home is; from memory if it was looked up before.
    fn home_of(&self, known: &mut AccountNotes, account: &AccountName) -> Option<Region> {
        let placement = self.directory.known_home(&account.tenant);
        known.home = placement.map(|placement| placement.home).or(known.home);
        known.home
    }

    /// The reports that are due, as far as there is room in one ask; and whether there is more. `is_answer`
    /// says that they answer vouchers.
    fn write(
        &self,
        home: Region,
        due: &[Due],
        is_answer: bool,
    ) -> Result<(Reports, bool), HistoryError> {
        let (ledger, history) = (self.group.machine(), self.group.history());
        let mut written = Vec::new();
        let mut bytes = 0_usize;
        let mut is_cut = false;
        // The history is on disk: calls that are decided meanwhile do not wait for it.
        for one in due {
            if bytes > ASK_BYTES_MAX || written.len() == ASK_ACCOUNTS_MAX {
                break;
            }
            let Some(book) = ledger.book(&one.account, one.generation) else { continue };
            // Without knowing how far home has booked, nothing is sent that it may have.
            let after = one.after.unwrap_or_else(|| book.head().sequence);
            let Some(report) = book.report(after, &history)? else { continue };
            bytes += report.entries.iter().map(|entry| entry.len()).sum::<usize>();
            bytes += self.asks_of(book).min(Covered::COUNT_MAX) * COVER_BYTES_MAX;
            let last =
                after.0.saturating_add(u64::try_from(report.entries.len()).unwrap_or(u64::MAX));
            is_cut |= one.after.is_none() || last < book.head().sequence.0;
            written.push((book, report));
        }
        let mut has_more = is_cut || written.len() < due.len();
        let refill = self.refill(home);
        let accounts = written.into_iter().map(|(book, report)| {
            let (said, asks_more) = self.with_demand(book, report, (refill, is_answer));
            has_more |= asks_more;
            said
        });
        let accounts = accounts.collect();
        let Shard(shard) = self.shard;
        Ok((Reports { region: self.links.own(), shard, refill, accounts }, has_more))
    }

    /// Adds to a report what else home is told of the book; and whether calls have more to ask than found
    /// room. What answers vouchers asks for no covers: what home thinks of them would not come back.
    fn with_demand(
        &self,
        book: &Arc<Account>,
        report: Report,
        (refill, is_answer): (Span, bool),
    ) -> (AccountReport, bool) {
        let now = self.now();
        let mut notes = self.notes();
        let (voucher, answered, ..) = book.voucher_heard().unwrap_or_default();
        let noted = notes.entry(book.name().clone()).or_default().book(book, now);
        let missing = noted.short.missing();
        if !missing.is_zero() {
            // What is wanted counts from nothing, as a call's cost does.
            let wanted = book.right().checked_add(missing).unwrap_or(Credits::MAX);
            noted.demand.wanted(wanted, now);
        }
        let ending = book.ending_by(self.group.now().saturating_add(LASTING));
        noted.told = DemandReport { ending, ..noted.demand.report(used(book), now) };
        noted.low_water = noted.told.low_water(refill, noted.filled);
        noted.reported_at = Some(now);
        let covers = if is_answer { Vec::new() } else { noted.short.take_asks() };
        let asks_more = !is_answer && noted.short.asks() > 0;
        let (account, demand) = (book.name().clone(), noted.told);
        (AccountReport { account, report, voucher, answered, demand, covers }, asks_more)
    }

    /// How many calls wait for a book to ask home.
    fn asks_of(&self, book: &Account) -> usize {
        let notes = self.notes();
        let known = notes.get(book.name()).and_then(|it| it.books.get(&book.owner().generation));
        known.map_or(0, |known| known.short.asks())
    }

    /// The reports of some accounts, as they would be sent now: the answer to vouchers.
    pub(super) fn reports_of(
        &self,
        home: Region,
        accounts: &[(AccountName, Generation)],
    ) -> Result<Reports, HistoryError> {
        let booked = |account: &AccountName, generation: &Generation| {
            let notes = self.notes();
            notes.get(account)?.books.get(generation)?.booked
        };
        let due: Vec<Due> = accounts
            .iter()
            .map(|(account, generation)| Due {
                account: account.clone(),
                generation: *generation,
                after: booked(account, generation),
            })
            .collect();
        Ok(self.write(home, &due, true)?.0)
    }

    /// From a report until the vouchers that answer it are here: as lately, or a round trip before the
    /// first.
    pub(super) fn refill(&self, home: Region) -> Span {
        let lately = self.refills().get(&home).copied();
        let taken = lately.unwrap_or_else(|| self.links.round_trip(home));
        Span::from_micros(taken.as_micros().saturating_add(TAKING_UP.as_micros()))
    }

    /// Notes that a report of `sent` is answered. What takes longer is believed at once, and what takes
    /// less by and by.
    fn note_refill(&self, home: Region, sent: Span) {
        let took = self.now().as_micros().saturating_sub(sent.as_micros());
        let mut refills = self.refills();
        let lately = refills.get(&home).map_or(0, |lately| lately.as_micros());
        let faded = lately - lately.saturating_sub(took) / REFILL_PARTS;
        refills.insert(home, Span::from_micros(faded.max(took)));
    }

    fn refills(&self) -> MutexGuard<'_, BTreeMap<Region, Span>> {
        self.refills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What standing orders ask of books: to give back what has become free, and to end.
    async fn do_as_told(&self, home: Region) {
        let ledger = self.group.machine();
        let mut obeying = Vec::new();
        for book in ledger.allocations() {
            let Some((mode, recall)) = book.standing_orders() else { continue };
            let gives = matches!(mode, Mode::Strict | Mode::Ending);
            let is_idle = !gives || (book.free().is_zero() && mode == Mode::Strict);
            let is_idle = is_idle && self.unwanted_covers(book).is_empty();
            if book.book_phase() != Some(BookPhase::Open) || (recall.is_none() && is_idle) {
                continue;
            }
            let is_of_home = {
                let mut notes = self.notes();
                let known = notes.entry(book.name().clone()).or_default();
                self.home_of(known, book.name()) == Some(home)
            };
            if is_of_home {
                obeying.push((book.name().clone(), book.owner().generation));
            }
        }
        let obeying = obeying.iter().map(|(account, generation)| self.obey(account, *generation));
        join_all(obeying).await;
    }
}

/// Whether nobody wants to hear of a book any more.
fn has_ended(book: &Account, known: &AccountNotes) -> bool {
    known.books.get(&book.owner().generation).is_some_and(|noted| noted.is_closed)
}

/// An interval, a little shorter or longer by chance, so that regions do not report in step.
fn jittered(interval: Span) -> Duration {
    let micros = interval.as_micros();
    let spread = micros / JITTER_PARTS;
    // Without randomness reports come in step, and nothing else is worse.
    let chance = getrandom::u64().unwrap_or_default() % (2 * spread + 1);
    Duration::from_micros(micros - spread + chance)
}
