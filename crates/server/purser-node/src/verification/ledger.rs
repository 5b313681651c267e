//! The entries of a shard, folded again and held against its live state.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use purser_api::{GroupNumber, VerificationSubject};
use purser_ledger::audit::{Audit, Finding};
use purser_ledger::{Ledger, invariants};
use purser_raft::{Group, GroupHistory};
use purser_types::{HistoryError, Position};
use tokio_util::sync::CancellationToken;

use super::{Check, Run};
use crate::tasks::chain;

/// How many bytes of a history are read at a time.
const PAGE_BYTES: u64 = 1 << 20;

/// Folds all entries of a group, as this node has them, and compares what they add up to.
pub(super) async fn prove(
    group: &Group<Ledger>,
    run: &Arc<Run>,
    stopping: CancellationToken,
) -> Check {
    let number = GroupNumber(group.id().0);
    // Taken together: the state is what exactly these records make.
    let (ledger, end) = group.view(|ledger, _| (ledger.clone(), group.history().end()));
    let proof = Proof { ledger, history: group.history(), end, run: Arc::clone(run), stopping };
    let check = Check::new(VerificationSubject::Ledger, Some(number));
    match tokio::task::spawn_blocking(move || proof.carry_out(check)).await {
        Ok(check) => check,
        Err(error) => {
            let mut check = Check::new(VerificationSubject::Ledger, Some(number));
            check.not_compared(format!("the fold ended by itself: {}", chain(&error)));
            check
        }
    }
}

struct Proof {
    ledger: Ledger,
    history: GroupHistory,
    end: Position,
    run: Arc<Run>,
    stopping: CancellationToken,
}

impl Proof {
    fn carry_out(self, mut check: Check) -> Check {
        let mut audit = Audit::default();
        match self.fold(&mut audit, &mut check) {
            Ok(true) => (),
            Ok(false) => {
                check.not_compared("the node stops".to_owned());
                return check;
            }
            Err(error @ HistoryError::Disk(_)) => {
                check.not_compared(format!("the history cannot be read: {}", chain(&error)));
                return check;
            }
            Err(error) => {
                check.differs(format!("the history is damaged: {}", chain(&error)), 0);
                return check;
            }
        }
        check.compared = audit.entries();
        for finding in audit.compare(&self.ledger) {
            check.differs(self.told(&finding), 0);
        }
        for account in self.ledger.accounts_from(Bound::Unbounded) {
            if let Err(violation) = invariants::check(account) {
                let name = account.name();
                check.differs(format!("{}/{}: {violation}", name.tenant, name.unit), 0);
            }
        }
        check.amounts_to(audit.drift(&self.ledger));
        check
    }

    /// Folds everything. After a finding about an account its further findings are not told: they would
    /// all follow from that one. Whether it came to the end.
    fn fold(&self, audit: &mut Audit, check: &mut Check) -> Result<bool, HistoryError> {
        let mut broken = BTreeSet::new();
        let mut next = Position::default();
        while next < self.end {
            if self.stopping.is_cancelled() {
                return Ok(false);
            }
            let (records, behind) = self.history.records(next, self.end, PAGE_BYTES)?;
            for (position, record) in &records {
                if let Err(finding) = audit.fold(*position, record)
                    && broken.insert(finding.account)
                {
                    check.differs(self.told(&finding), 0);
                }
            }
            self.run.folded(behind.0.saturating_sub(next.0));
            next = behind;
        }
        Ok(true)
    }

    /// A finding with the account's name.
    fn told(&self, finding: &Finding) -> String {
        let Some(account) = self.ledger.account_numbered(finding.account) else {
            return finding.to_string();
        };
        let name = account.name();
        let (tenant, unit, detail) = (&name.tenant, &name.unit, &finding.detail);
        match finding.sequence {
            0 => format!("{tenant}/{unit}: {detail}"),
            sequence => format!("{tenant}/{unit}, entry {sequence}: {detail}"),
        }
    }
}
