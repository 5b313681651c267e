//! Taking up what home says, and doing it.

use futures_util::future::join_all;
use purser_ledger::{
    AccountName, BookPhase, Booked, DemandReport, HoldNumber, Mode, Operation, Recall, Refund,
    Rejection, Release, Return, Target, Voucher,
};
use purser_types::{Credits, Generation, Region, Span};

use super::Outpost;
use crate::regions::messages::{AccountReport, Answered, NotCovered, Told, Vouchers};
use crate::tasks::chain;

impl Outpost {
    /// Takes up vouchers that home sends without having been asked, and answers with reports.
    pub(crate) async fn take_vouchers(&self, vouchers: Vouchers) -> Answered {
        if !self.leads() {
            let leader = self.group.leader().map(|node| node.0);
            return Answered::NotLeader { leader };
        }
        let Vouchers { home, told, .. } = vouchers;
        let accounts: Vec<(AccountName, Generation)> =
            told.iter().map(|told| (told.account.clone(), told.owner.generation)).collect();
        self.take_up(home, told, None).await;
        match self.reports_of(home, &accounts) {
            Ok(mut reports) => {
                reports.accounts.extend(self.take_lost(&accounts));
                Answered::Reports(reports)
            }
            Err(error) => Answered::NotNow { reason: chain(&error) },
        }
    }

    /// What home is to hear of allocations whose books are lost, of some accounts.
    fn take_lost(&self, accounts: &[(AccountName, Generation)]) -> Vec<AccountReport> {
        let mut notes = self.notes();
        let mut lost = Vec::new();
        for (account, _) in accounts {
            let reports = notes.get_mut(account).map(|known| std::mem::take(&mut known.lost));
            lost.extend(reports.into_iter().flatten().map(|report| AccountReport {
                account: account.clone(),
                report,
                voucher: 0,
                answered: 0,
                demand: DemandReport::default(),
                covers: Vec::new(),
            }));
        }
        lost
    }

    /// Takes up what home says. `sent` is when the report left that it answers.
    pub(super) async fn take_up(&self, home: Region, told: Vec<Told>, sent: Option<Span>) {
        let taking = told.into_iter().map(|told| self.take_up_one(home, told, sent));
        let is_urgent = join_all(taking).await.contains(&true);
        if is_urgent {
            self.report_soon(home);
        }
    }

    /// Takes up what home says of one allocation; whether home should hear of it at once.
    async fn take_up_one(&self, home: Region, told: Told, sent: Option<Span>) -> bool {
        let Told { account, owner, booked, voucher, bound, is_closed, not_covered } = told;
        if owner.region != self.links.own() {
            tracing::warn!(%home, "a voucher is for another region");
            return false;
        }
        let generation = owner.generation;
        let mut is_urgent = false;
        if let Some(signed) = voucher {
            match signed.open(&self.key) {
                Ok(voucher) => is_urgent = self.accept(&account, generation, voucher).await,
                Err(error) => {
                    tracing::error!(%home, error = %chain(&error), "a voucher is refused");
                    if sent.is_some() {
                        self.notes().entry(account).or_default().note_answered();
                    }
                    return false;
                }
            }
        } else if is_closed {
            self.end_unknown(&account, generation).await;
        }
        if let Some(booked) = booked
            && self.has_lost_its_past(&account, generation, booked)
        {
            let tenant = account.tenant.as_str();
            tracing::error!(tenant, generation = generation.0, "a book has lost its past");
            is_urgent |= self.try_own(&account, generation, Operation::Seal).await;
        }
        let now = self.now();
        let refill = self.refill(home);
        let book = self.group.view(|ledger, _| ledger.book(&account, generation).cloned());
        let mut notes = self.notes();
        let known = notes.entry(account).or_default();
        known.bound = Some(bound);
        let mut has_news = false;
        if let Some(book) = book {
            let noted = known.book(&book, now);
            noted.is_closed = is_closed;
            if let Some(booked) = booked {
                noted.booked = Some(booked.sequence);
            }
            noted.lease_from = noted.lease_from.max(sent);
            has_news = noted.note_grant(&book, refill) || is_closed;
            for NotCovered { asked, refusal } in &not_covered {
                noted.short.note_not_covered(*asked, refusal);
            }
        }
        if sent.is_some() {
            known.note_answered();
        } else if has_news {
            // What was asked for may still be on its way, and who waits looks whether this will do.
            known.answered.notify_waiters();
        }
        is_urgent
    }

    /// Whether home has booked entries that an open book here has not: it was rolled back (R9). Looked
    /// up in the history once, by a leader that does not know yet how far home is.
    fn has_lost_its_past(
        &self,
        account: &AccountName,
        generation: Generation,
        booked: Booked,
    ) -> bool {
        let is_known = {
            let notes = self.notes();
            let noted = notes.get(account).and_then(|known| known.books.get(&generation));
            noted.is_some_and(|noted| noted.booked.is_some())
        };
        self.group.view(|ledger, history| {
            let book = ledger.book(account, generation);
            let Some(book) = book.filter(|it| it.book_phase() == Some(BookPhase::Open)) else {
                return false;
            };
            let head = book.head();
            if booked.hash.is_none() || is_known && booked.sequence < head.sequence {
                return false;
            }
            if booked.sequence == head.sequence {
                return booked.hash != Some(head.hash);
            }
            match book.entry(booked.sequence, history) {
                Ok(found) => found.map(|found| found.hash) != booked.hash,
                Err(error) => {
                    tracing::error!(error = %chain(&error), "an entry cannot be read");
                    false
                }
            }
        })
    }

    /// Takes up a voucher and does what it asks; whether home should hear of it at once.
    async fn accept(
        &self,
        account: &AccountName,
        generation: Generation,
        voucher: Voucher,
    ) -> bool {
        let reversals = voucher.reversals.clone();
        let accepting = Operation::Accept(Box::new(voucher.clone()));
        match self.propose(account, generation, accepting).await {
            Ok(Ok(_) | Err(Rejection::NothingNew)) => (),
            Ok(Err(Rejection::AllocationEnded)) => {
                self.note_lost(account, &voucher);
                return false;
            }
            Ok(Err(rejection)) => {
                let tenant = account.tenant.as_str();
                tracing::warn!(tenant, %rejection, "a voucher was not taken up");
                return false;
            }
            Err(error) => {
                tracing::debug!(%error, "a voucher was not taken up");
                return false;
            }
        }
        let undoing = reversals.iter().map(|hold| self.undo(account, generation, *hold));
        let has_undone = join_all(undoing).await.contains(&true);
        self.obey(account, generation).await | has_undone
    }

    /// Notes what home is to hear of an allocation whose book is lost, if it is: it has the answer that is
    /// about to leave, or is told at its next word.
    fn note_lost(&self, account: &AccountName, voucher: &Voucher) {
        let lost = self.group.view(|ledger, _| ledger.lost_report(account, voucher));
        let Some(report) = lost else { return };
        let (tenant, generation) = (account.tenant.as_str(), voucher.owner.generation.0);
        tracing::error!(tenant, generation, "an allocation is sealed: its book is lost");
        let mut notes = self.notes();
        let known = notes.entry(account.clone()).or_default();
        known.lost.retain(|known| known.owner != report.owner);
        known.lost.push(report);
    }

    /// Does what the book's standing orders ask; whether anything was given back.
    pub(super) async fn obey(&self, account: &AccountName, generation: Generation) -> bool {
        let orders =
            self.group.view(|ledger, _| ledger.book(account, generation)?.standing_orders());
        let Some((mode, recall)) = orders else { return false };
        let mut has_given = false;
        if let Some(Recall { number, keep }) = recall {
            let give = Operation::Return(Return::free(keep, number));
            has_given |= self.try_own(account, generation, give).await;
        }
        if matches!(mode, Mode::Strict | Mode::Ending) {
            let give = Operation::Return(Return::free(Credits::ZERO, 0));
            has_given |= self.try_own(account, generation, give).await;
        }
        let covers = self.group.view(|ledger, _| {
            let book = ledger.book(account, generation);
            book.map(|book| self.unwanted_covers(book)).unwrap_or_default()
        });
        if !covers.is_empty() {
            let give = Return { covers, ..Return::free(Credits::MAX, 0) };
            has_given |= self.try_own(account, generation, Operation::Return(give)).await;
        }
        if mode == Mode::Ending {
            has_given |= self.try_own(account, generation, Operation::Finish).await;
        }
        has_given
    }

    /// Undoes a hold or charge that had been decided elsewhere before: releases what it holds, and
    /// refunds what it has spent.
    async fn undo(&self, account: &AccountName, generation: Generation, hold: HoldNumber) -> bool {
        let refund = |target| Operation::Refund(Refund { target, amount: None, away: None });
        let acts = [
            Operation::Release(Release { hold, away: None }),
            refund(Target::Hold(hold)),
            refund(Target::Charge(hold)),
        ];
        let mut has_undone = false;
        for act in acts {
            has_undone |= self.try_own(account, generation, act).await;
        }
        if has_undone {
            self.links.metrics().record_reversal();
        }
        has_undone
    }

    /// Home is done with an allocation whose book goes on here: it serves nothing any more.
    async fn end_unknown(&self, account: &AccountName, generation: Generation) {
        let phase = self.group.view(|ledger, _| ledger.book(account, generation)?.book_phase());
        if phase == Some(BookPhase::Open) {
            let tenant = account.tenant.as_str();
            tracing::warn!(
                tenant,
                generation = generation.0,
                "home has closed an allocation that is open"
            );
            self.try_own(account, generation, Operation::Seal).await;
        }
    }

    /// Asks a book for something of the region's own, which may turn out to be not needed.
    async fn try_own(
        &self,
        account: &AccountName,
        generation: Generation,
        operation: Operation,
    ) -> bool {
        match self.propose(account, generation, operation).await {
            Ok(Ok(_)) => true,
            Ok(Err(rejection)) => {
                tracing::trace!(%rejection, "not needed");
                false
            }
            Err(error) => {
                tracing::debug!(%error, "the region could not do as told");
                false
            }
        }
    }
}
