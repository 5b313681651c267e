//! Answers in words about allocations: figures, messages, the bound.

use minicbor::bytes::ByteVec;
use purser_types::{Epoch, Owner};

use super::messages::Message;
use super::telling::{Teller, figures};
use crate::account::Account;
use crate::codec;
use crate::entry::Entry;
use crate::home::{Allocation, AllocationStatus, Bound, SameRequest, Settlement, Shipped};
use crate::moving::FIRST_EPOCH;
use crate::policy::OnExpiry;
use crate::protocol::{Mode, Report, Voucher, VoucherLot};
use crate::region::{BookPhase, RegionSide};

impl Teller<'_> {
    /// A message, as it was written.
    pub(super) fn message(&self, message: &Message) -> String {
        match message {
            Message::Voucher(voucher) => self.voucher(voucher),
            Message::Report(_, report) => report_text(report),
        }
    }

    /// What home lets a region do, lot by lot.
    pub(super) fn voucher(&self, voucher: &Voucher) -> String {
        let figures = figures(&[("granted", voucher.granted), ("overdraft", voucher.overdraft)]);
        let lot = |lot: &VoucherLot| {
            let name = self.lot_name(lot.lot);
            let cover = if lot.only_for.is_some() { "cover " } else { "" };
            format!(" {cover}{name}={}", lot.given)
        };
        let lots: String = voucher.lots.iter().map(lot).collect();
        let mut text = format!(
            "{} number={}{}{figures}{lots}",
            owner_text(voucher.owner),
            voucher.number,
            mode_text(voucher.mode)
        );
        if voucher.recall.number > 0 {
            let recall = voucher.recall;
            text.push_str(&format!(" recall={} keep={}", recall.number, recall.keep));
        }
        text.push_str(expiry_text(voucher.on_expiry));
        if !voucher.reversals.is_empty() {
            let holds = voucher.reversals.iter().map(|hold| format!("#{}", hold.0.0));
            text.push_str(&format!(" undo={}", holds.collect::<Vec<_>>().join(",")));
        }
        text + &counted("booked", voucher.booked.sequence.0) + &epoch_text(voucher.epoch)
    }

    /// An allocation as home knows it, with what is out of each lot.
    pub(super) fn allocation(&self, allocation: &Allocation) -> String {
        let out = allocation.lots.iter().filter(|lot| !lot.out.is_zero());
        let out = out.map(|lot| format!(" {}={}", self.lot_name(lot.lot), lot.out));
        let text = allocation_text(allocation);
        format!("{}{}", text.trim_start(), out.collect::<String>())
    }
}

/// ` eu/1 granted=40 spent=5`: what an allocation has come to.
pub(super) fn allocation_text(allocation: &Allocation) -> String {
    let figures = figures(&[
        ("granted", allocation.granted),
        ("spent", allocation.spent),
        ("returned", allocation.returned),
        ("refunded", allocation.refunded),
        ("taken_back", allocation.taken_back),
        ("proven", allocation.proven),
        ("held", allocation.held),
        ("overdraft", allocation.overdraft_worst),
        ("overdraft_used", allocation.overdraft_used()),
        ("out", allocation.outstanding()),
        ("covered", allocation.covered()),
    ]);
    let status = match allocation.status {
        AllocationStatus::Open => "",
        AllocationStatus::TakenBack => " taken_back",
        AllocationStatus::Sealed => " sealed",
        AllocationStatus::Closed => " closed",
    };
    let expiry = match (allocation.on_expiry, allocation.may_keep()) {
        (OnExpiry::TakeBack, true) => " on_expiry=take_back(may keep)",
        (on_expiry, _) => expiry_text(on_expiry),
    };
    let (owner, mode) = (owner_text(allocation.owner), mode_text(allocation.mode));
    let transfer = allocation.transfer.map(|it| format!(" transfer={}>{}", it.amount, it.to));
    let transfer = transfer.unwrap_or_default();
    format!(" {owner}{status}{mode}{expiry}{figures}{transfer}")
}

/// An allocation, and the kinds of its region's entries that were booked.
pub(super) fn settlement_text(settlement: &Settlement) -> String {
    let told = |shipped: &Shipped| {
        let same = match shipped.same {
            SameRequest::First => "",
            SameRequest::Duplicate => "(duplicate)",
            SameRequest::OtherUnderKey => "(key used for another)",
        };
        format!("{}{same}", shipped.entry.fact.kind())
    };
    let kinds = settlement.shipped.iter().map(told).collect::<Vec<_>>().join(" ");
    format!("{} [{kinds}]", allocation_text(&settlement.allocation))
}

/// A region's own view: what it may spend, and what it has heard of home.
pub(super) fn region_text(account: &Account, region: &RegionSide) -> String {
    let phase = match region.phase {
        BookPhase::Open => "",
        BookPhase::Sealed => " sealed",
        BookPhase::Finished => " finished",
    };
    let figures = figures(&[("right", account.right()), ("overdraft", region.overdraft)]);
    let counts = [("recall", region.recall.number), ("answered", region.answered)];
    let counts: String = counts.iter().map(|(name, count)| counted(name, *count)).collect();
    let (owner, mode) = (owner_text(region.owner), mode_text(region.mode));
    let expiry = expiry_text(region.on_expiry);
    let epoch = epoch_text(region.epoch);
    format!("{owner}{phase}{mode}{expiry}{figures} voucher={}{counts}{epoch}", region.voucher)
}

/// What may have been overspent, by cause, and the most that it may come to.
pub(super) fn bound_text(account: &Account) -> String {
    let bound = account.bound();
    let Bound { realised, taken_back, overdraft, failover } = bound;
    let stranded =
        account.allocations().map(|allocation| u128::from(allocation.outstanding().get()));
    let stranded = stranded.fold(0_u128, u128::saturating_add);
    let causes = figures(&[
        ("realised", realised),
        ("taken_back", taken_back),
        ("overdraft", overdraft),
        ("failover", failover),
    ]);
    format!("bound={}{causes} ceiling={} stranded={stranded}", bound.total(), account.ceiling())
}

/// `eu/1 [3 authorize, 4 capture]`: the entries that a report carries.
fn report_text(report: &Report) -> String {
    let entry = |bytes: &ByteVec| {
        let entry: Option<Entry> = codec::decode(bytes).ok();
        let text = |entry: Entry| format!("{} {}", entry.sequence.0, entry.fact.kind());
        entry.map_or_else(|| "unreadable".to_owned(), text)
    };
    let entries = report.entries.iter().map(entry).collect::<Vec<_>>().join(", ");
    let sealed = if report.is_sealed { " sealed" } else { "" };
    format!("{}{sealed} [{entries}]{}", owner_text(report.owner), epoch_text(report.epoch))
}

/// What becomes of an allocation whose lease has run out; nothing if it is kept.
pub(super) fn expiry_text(on_expiry: OnExpiry) -> &'static str {
    match on_expiry {
        OnExpiry::Keep => "",
        OnExpiry::TakeBack => " on_expiry=take_back",
    }
}

fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Local => "",
        Mode::Strict => " strict",
        Mode::Frozen => " frozen",
        Mode::Ending => " ending",
    }
}

/// `eu/1`: a region and the generation of its allocation.
pub(super) fn owner_text(owner: Owner) -> String {
    format!("{}/{}", owner.region, owner.generation.0)
}

/// ` epoch=2`; nothing for the first, under which most accounts stay.
fn epoch_text(epoch: Epoch) -> String {
    if epoch <= FIRST_EPOCH { String::new() } else { format!(" epoch={}", epoch.0) }
}

/// ` name=count`, or nothing if there is nothing to count.
pub(super) fn counted(name: &str, count: u64) -> String {
    if count == 0 { String::new() } else { format!(" {name}={count}") }
}
