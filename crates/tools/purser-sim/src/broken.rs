//! Rules that are broken on purpose, to see that somebody misses them.
//!
//! The ledger's functions are the shipped ones: what breaks is the node around them, which lets a
//! message or an answer leave too early, or hands the ledger another message than it was sent.

use purser_ledger::{
    Account, Booked, Entry, Operation, Rejection, Report, Return, Voucher, VoucherLot, codec,
};
use purser_types::{Credits, LogTime, Owner, Sequence};

use crate::world::{Message, World};

/// A rule that a node can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// R1: no voucher leaves before every promotable standby has what it is made of.
    EntryBeforeVoucher,
    /// R2: no answer leaves before what it tells of is synced.
    SyncedBeforeAnswer,
    /// R3: home books a return once the region has given up what it returns, and not before.
    GivenUpBeforeCredit,
    /// R4: what a report says is booked once, however often it comes.
    ReportBookedOnce,
    /// R4: a voucher says what was given in all, and not what is given besides.
    VoucherSaysAll,
    /// R5: a report that comes after a take-back is booked.
    LateReportBooked,
    /// R6: no call is answered that would take what no standby has beyond X.
    AnswersWithinX,
    /// R10: what is asked about a hold of a closed allocation names the allocation.
    ClosedIsNamed,
    /// R9: a group that was restored begins another life before it serves anything.
    RestoredBeginsAnew,
}

impl World {
    pub(crate) fn breaks(&self, rule: Rule) -> bool {
        self.broken == Some(rule)
    }

    /// A region gives back. Without R3 home hears of it first, and the region has forgotten it before it
    /// was durable.
    pub(crate) fn give_back(&mut self, owner: Owner, give: Return, now: LogTime) {
        let before = self.regions.get(&owner.region).map(|region| region.site.clone());
        let given = self.in_region(owner, Operation::Return(give), None, now);
        if !self.breaks(Rule::GivenUpBeforeCredit) || given.is_none_or(|it| it.result.is_err()) {
            return;
        }
        if let Some(Message::Report(report)) = self.report(owner) {
            self.at_home(Operation::Settle(report), None, now);
        }
        if let (Some(region), Some(site)) = (self.regions.get_mut(&owner.region), before) {
            region.site = site;
        }
    }

    /// Without R4: a report that is booked already comes as if it told of the same things anew.
    pub(crate) fn as_if_new(&self, report: &Report, answer: &Rejection) -> Option<Report> {
        if !self.breaks(Rule::ReportBookedOnce) || *answer != Rejection::NothingNew {
            return None;
        }
        let mut allocations = self.home_account().allocations();
        let known = allocations.find(|known| known.owner == report.owner)?;
        let Booked { mut sequence, mut hash } = known.booked;
        let (mut spent, mut returned) = (known.spent, known.returned);
        let anew = report.entries.iter().map(|bytes| {
            let mut entry: Entry = codec::decode(bytes).ok()?;
            let moved = |to| entry.moves.iter().filter(move |step| step.to == to);
            let grown = |figure: Credits, to| {
                moved(to).try_fold(figure, |sum, step| sum.checked_add(step.amount))
            };
            spent = grown(spent, purser_ledger::Bucket::Used)?;
            returned = grown(returned, purser_ledger::Bucket::Returned)?;
            (entry.balance.used, entry.balance.returned) = (spent, returned);
            sequence = Sequence(sequence.0.checked_add(1)?);
            (entry.sequence, entry.prev_hash) = (sequence, hash?);
            hash = Some(entry.hash());
            Some(codec::encode(&entry).into())
        });
        let entries = anew.collect::<Option<Vec<_>>>()?;
        Some(Report { entries, ..report.clone() })
    }

    /// Without R4: a voucher that was taken up before comes as if it gave the same besides.
    pub(crate) fn as_if_besides(&self, voucher: &Voucher) -> Option<Voucher> {
        let book = self.book(voucher.owner).filter(|_| self.breaks(Rule::VoucherSaysAll))?;
        let (heard, ..) = book.voucher_heard()?;
        if voucher.number > heard {
            return None;
        }
        let besides = |lot: &VoucherLot| {
            let mut lots = book.lots_from(std::ops::Bound::Unbounded);
            let had = lots.find(|(number, _)| **number == lot.lot)?.1.terms.amount;
            Some(VoucherLot { given: had.checked_add(lot.given)?, ..lot.clone() })
        };
        Some(Voucher {
            number: heard.checked_add(1)?,
            granted: book.balance().granted.checked_add(voucher.granted)?,
            lots: voucher.lots.iter().map(besides).collect::<Option<_>>()?,
            ..voucher.clone()
        })
    }

    /// Without R5: what a region says of an allocation that was taken back is of no interest.
    pub(crate) fn ignores(&self, owner: Owner, home: &Account) -> bool {
        let mut allocations = home.allocations();
        let is_over = |status| status == purser_ledger::AllocationStatus::TakenBack;
        self.breaks(Rule::LateReportBooked)
            && allocations.any(|known| known.owner == owner && is_over(known.status))
    }
}
