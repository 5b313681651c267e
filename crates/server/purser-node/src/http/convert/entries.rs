//! Ledger entries as bodies.

use purser_api as api;
use purser_api::Moment;
use purser_ledger::{Bucket, Entry, Fact, Hashed, HoldKind, LotNumber, Posting};
use purser_types::Sequence;

use super::shown::{Shown, kept};
use crate::http::problem::Refusal;

impl Shown<'_> {
    /// An entry.
    pub(crate) fn entry(&self, hashed: &Hashed) -> Result<api::Entry, Refusal> {
        let Hashed { entry, hash } = hashed;
        let about = About::of(entry);
        let (hold_id, charge_id) = match about.hold {
            Some((HoldKind::Hold, number)) => (Some(number), None),
            Some((HoldKind::Charge, number)) => (None, Some(number)),
            None => (None, None),
        };
        let owner = |number: Sequence| self.named_by(number);
        Ok(api::Entry {
            sequence: entry.sequence.into(),
            log_time: Moment(entry.log_time),
            kind: kept(Some(entry.fact.kind()), "kind")?
                .ok_or_else(|| Refusal::internal("an entry without a kind"))?,
            postings: postings(&entry.postings())?,
            operation_id: entry.operation.into(),
            idempotency_key: entry.key.clone().map(api::KeyText),
            hold_id: hold_id.map(|number| api::HoldId::new(number, owner(number))),
            charge_id: charge_id.map(|number| api::ChargeId::new(number, owner(number))),
            job_id: entry.fact.job().map(|job| job.id.clone().into()),
            lot_id: about.lot.map(|lot| self.lot_id(lot)),
            original_sequence: about.original.map(api::SequenceNumber),
            reason: kept(entry.reason.as_deref(), "reason")?,
            actor: entry.actor.as_deref().unwrap_or("log").to_owned(),
            metadata: metadata(entry)?,
            prev_hash: hexadecimal(&entry.prev_hash),
            hash: hexadecimal(hash),
        })
    }
}

/// What an entry is about.
struct About {
    hold: Option<(HoldKind, Sequence)>,
    lot: Option<LotNumber>,
    original: Option<Sequence>,
}

impl About {
    fn of(entry: &Entry) -> Self {
        // A hold of a region is not named by this account's numbers.
        let hold = entry.fact.hold().filter(|hold| hold.allocation == Sequence::ZERO);
        let made = entry.fact.new_lot().map(|_| LotNumber(entry.sequence));
        let named = match entry.fact {
            Fact::LotEffective(number) | Fact::LotExpired(number) | Fact::Voided { number, .. } => {
                Some(number)
            }
            _ => None,
        };
        let job = entry.fact.job().map(|job| job.number.0);
        let origin = hold.map(|hold| hold.number.0).or_else(|| named.map(|lot| lot.0)).or(job);
        Self {
            hold: hold.map(|hold| (hold.kind, hold.number.0)),
            lot: named.or(made),
            original: origin.filter(|origin| *origin != entry.sequence),
        }
    }
}

fn postings(postings: &[Posting]) -> Result<Vec<api::Posting>, Refusal> {
    let shown = |posting: &Posting| {
        let amount = api::SignedAmount::from_number(posting.amount);
        let amount = amount.ok_or_else(|| Refusal::internal("a posting out of range"))?;
        Ok(api::Posting { bucket: bucket(posting.bucket), amount })
    };
    postings.iter().map(shown).collect()
}

fn bucket(bucket: Bucket) -> api::Bucket {
    match bucket {
        Bucket::Granted => api::Bucket::Granted,
        Bucket::Available => api::Bucket::Available,
        Bucket::Held => api::Bucket::Held,
        Bucket::Used => api::Bucket::Used,
        Bucket::Expired => api::Bucket::Expired,
        Bucket::Voided => api::Bucket::Voided,
        Bucket::Debt => api::Bucket::Debt,
        Bucket::Returned => api::Bucket::Returned,
        Bucket::Allocated(region) => api::Bucket::Allocated(api::RegionName(region)),
    }
}

fn metadata(entry: &Entry) -> Result<api::Metadata, Refusal> {
    let pairs = entry.metadata.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    api::Metadata::from_pairs(pairs)
        .map_err(|error| Refusal::internal(format!("kept metadata cannot be shown: {error}")))
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied();
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]).filter_map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_written_in_hexadecimal() {
        assert_eq!(hexadecimal(&[0x00, 0x1f, 0xa0, 0xff]), "001fa0ff");
    }
}
