//! What ids name: numbers in the counting of whoever has given the name.

use purser_ledger::AccountName;
use purser_types::{Generation, Owner, Sequence};
use sha2::{Digest, Sha256};

use crate::http::call::Call;
use crate::http::convert::named_by;
use crate::http::problem::Refusal;

impl Call {
    /// The number of what an id names, in the account's own counting.
    pub(super) fn numbered(&self, sequence: Sequence, owner: &Owner) -> Result<Sequence, Refusal> {
        let account = self.account(self.unit()?)?;
        Ok(self.numbered_by((&account, &self.owner()), sequence, owner))
    }

    /// The number of what an id names, in the counting of the account's book that `seated` owns.
    pub(crate) fn numbered_by(
        &self,
        (account, seated): (&AccountName, &Owner),
        sequence: Sequence,
        owner: &Owner,
    ) -> Sequence {
        let is_home = |owner: &Owner| owner.generation == Generation::HOME;
        let is_own = if is_home(seated) && is_home(owner) {
            self.has_named(account, sequence, owner)
        } else {
            seated == owner
        };
        if is_own { sequence } else { foreign(sequence, owner) }
    }

    /// Whether a home has named what the entry with `sequence` made: what it has named keeps its name
    /// when the home moves. Of an account that is not here the log will tell.
    fn has_named(&self, account: &AccountName, sequence: Sequence, owner: &Owner) -> bool {
        let group = self.api.groups().of(account);
        let home = group.view(|ledger, _| {
            let account = ledger.account(account)?;
            Some(named_by(self.api.owner(), account.homes(), sequence))
        });
        match home {
            Some(home) => home == *owner,
            None => self.api.regions().is_some() || owner == self.api.owner(),
        }
    }
}

/// The number that stands for what another owner has named: one that no account ever gets to.
///
/// That there is no such thing is for the log to decide, as it decides every other 404: it is
/// remembered under the key, and refuses one item of a batch. Different ids have different numbers,
/// the same on every node, so that a key that is used again for another one is noticed.
fn foreign(sequence: Sequence, owner: &Owner) -> Sequence {
    /// At a million entries a second an account gets here in 290,000 years.
    const BEYOND_ALL: u64 = 1 << 63;
    let mut hasher = Sha256::new();
    hasher.update(sequence.0.to_be_bytes());
    hasher.update(owner.generation.0.to_be_bytes());
    hasher.update(owner.region.as_str());
    let digest: [u8; 32] = hasher.finalize().into();
    let first = digest.first_chunk().expect("a digest has 32 bytes");
    Sequence(BEYOND_ALL | u64::from_be_bytes(*first))
}
