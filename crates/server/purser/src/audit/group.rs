//! The audit of one group over all nodes that have it.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::Path;

use purser_ledger::audit::Audit;
use purser_ledger::{Digest32, Ledger, Record, invariants};
use purser_raft::offline::{OfflineError, Rebuilt};
use purser_raft::{ClusterId, GroupId};
use purser_types::{HistoryError, HistoryReader, Position};

use super::OpenedNode;
use super::report::{Agreement, GroupReport, MemberReport};
use crate::output::Progress;

/// After how many records the progress moves.
const TELL_EVERY: u64 = 1_024;

/// One group to audit.
pub(crate) struct GroupAudit<'a> {
    /// Its cluster.
    pub(crate) cluster: ClusterId,
    /// Its id.
    pub(crate) group: GroupId,
    /// The nodes that have it.
    pub(crate) nodes: Vec<&'a OpenedNode>,
}

/// A node, and how far its folder reaches.
#[derive(Clone, Copy)]
struct Member<'a> {
    opened: &'a OpenedNode,
    /// Last entry that its snapshot covers: nothing before it can be rebuilt.
    from: Option<u64>,
    /// Last committed entry that it has.
    to: Option<u64>,
}

impl GroupAudit<'_> {
    /// Audits every node's history and state, and compares the states.
    pub(crate) fn carry_out(&self, progress: &Progress) -> GroupReport {
        let mut report = GroupReport::new(self.cluster, self.group);
        let mut members = Vec::new();
        let committed = self.committed(&mut report);
        for opened in &self.nodes {
            match member(opened, self.group, committed) {
                Ok(member) => members.push(member),
                Err(error) => report.add_finding(&opened.dir, &in_full(&error)),
            }
        }
        let common = members.iter().map(|member| member.to).min().flatten();
        let mut digests = Vec::new();
        for member in members {
            match self.audit_member(member, progress, &mut report) {
                Ok(ledger) => {
                    digests.extend(self.digest_at(common, member, &ledger, &mut report));
                }
                Err(error) => report.add_finding(&member.opened.dir, &in_full(&error)),
            }
        }
        report.agreement = agreement(common, &digests, &mut report);
        report
    }

    /// The last entry that any node knew to be committed: it is committed on all of them.
    fn committed(&self, report: &mut GroupReport) -> Option<u64> {
        let mut committed = None;
        for opened in &self.nodes {
            match opened.node.committed(self.group) {
                Ok(index) => committed = committed.max(index),
                Err(error) => report.add_finding(&opened.dir, &in_full(&error)),
            }
        }
        committed
    }

    /// Folds a node's history, rebuilds its live state and compares the two.
    fn audit_member(
        &self,
        member: Member<'_>,
        progress: &Progress,
        report: &mut GroupReport,
    ) -> Result<Ledger, OfflineError> {
        let opened = member.opened;
        let rebuilt = opened.node.rebuild(self.group, Ledger::default(), member.to)?;
        let audit = self.fold(opened, &rebuilt, progress, report)?;
        for finding in audit.compare(&rebuilt.machine) {
            report.add_finding(&opened.dir, &finding.to_string());
        }
        for account in rebuilt.machine.accounts_from(Bound::Unbounded) {
            if let Err(violation) = invariants::check(account) {
                let tenant = &account.name().tenant;
                report.add_finding(&opened.dir, &format!("tenant {tenant}: {violation}"));
            }
        }
        report.members.push(MemberReport {
            node: opened.node.node().0,
            entries: audit.entries(),
            accounts: u64::try_from(audit.accounts()).unwrap_or(u64::MAX),
            history_bytes: rebuilt.history_bytes,
            last_index: rebuilt.applied,
        });
        Ok(rebuilt.machine)
    }

    /// Folds the history up to where the rebuilt state stands. After a finding about an account its
    /// further entries are not folded: they would all be wrong.
    fn fold(
        &self,
        opened: &OpenedNode,
        rebuilt: &Rebuilt<Ledger>,
        progress: &Progress,
        report: &mut GroupReport,
    ) -> Result<Audit, OfflineError> {
        let mut audit = Audit::default();
        let mut broken = BTreeSet::new();
        let mut fold = |position: Position, record: &[u8]| {
            if let Err(finding) = audit.fold(position, record)
                && broken.insert(finding.account)
            {
                report.add_finding(&opened.dir, &finding.to_string());
            }
        };
        let mut last = None;
        for (place, item) in (1_u64..).zip(opened.node.history(self.group)?) {
            let (position, record) = item?;
            if position.0 >= rebuilt.history_bytes {
                break;
            }
            fold(position, &record);
            last = Some(position);
            if place.is_multiple_of(TELL_EVERY) {
                progress.advance(TELL_EVERY);
            }
        }
        for position in behind(&rebuilt.machine, &*rebuilt.history, last)? {
            let record = rebuilt.history.read(position)?;
            fold(position, &record);
        }
        Ok(audit)
    }

    /// The digest of a node's state at the index `common`, if it can be rebuilt there.
    fn digest_at(
        &self,
        common: Option<u64>,
        member: Member<'_>,
        at_end: &Ledger,
        report: &mut GroupReport,
    ) -> Option<(u64, Digest32)> {
        let opened = member.opened;
        let node = opened.node.node().0;
        if member.to == common {
            return Some((node, at_end.digest()));
        }
        if common.is_none() || member.from > common {
            report.notes.push(format!(
                "node {node} cannot be compared: its snapshot is newer than another node's log"
            ));
            return None;
        }
        match opened.node.rebuild(self.group, Ledger::default(), common) {
            Ok(rebuilt) => Some((node, rebuilt.machine.digest())),
            Err(error) => {
                report.add_finding(&opened.dir, &in_full(&error));
                None
            }
        }
    }
}

fn member(
    opened: &OpenedNode,
    group: GroupId,
    committed: Option<u64>,
) -> Result<Member<'_>, OfflineError> {
    let from = opened.node.snapshot(group)?.map(|snapshot| snapshot.index);
    let last = opened.node.log(group)?.last().map(|entry| entry.index);
    // A snapshot holds committed entries only, so it reaches that far whatever the log says.
    let to = last.min(committed).max(from);
    Ok(Member { opened, from, to })
}

/// The records that only the replay of the log has, because they had not reached the disk: found
/// from the ends of the accounts' chains backwards, in the order in which they were appended.
fn behind(
    ledger: &Ledger,
    history: &dyn HistoryReader,
    last_on_disk: Option<Position>,
) -> Result<BTreeSet<Position>, HistoryError> {
    let mut positions = BTreeSet::new();
    for account in ledger.accounts_from(Bound::Unbounded) {
        let mut next = account.head().position;
        while let Some(position) = next.filter(|position| Some(*position) > last_on_disk) {
            positions.insert(position);
            next = Record::read(history, position)?.previous;
        }
    }
    Ok(positions)
}

fn agreement(
    common: Option<u64>,
    digests: &[(u64, Digest32)],
    report: &mut GroupReport,
) -> Option<Agreement> {
    let (first_node, first) = digests.first()?;
    for (node, digest) in digests {
        if digest != first {
            let text = format!("its state at index {common:?} differs from node {first_node}'s");
            report.add_finding(Path::new(&format!("node {node}")), &text);
        }
    }
    let all_equal = digests.iter().all(|(_, digest)| digest == first);
    all_equal.then(|| Agreement { index: common, nodes: digests.len(), digest: hex(first) })
}

fn hex(digest: &Digest32) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error with everything behind it.
pub(super) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
