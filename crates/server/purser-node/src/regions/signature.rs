//! Signed vouchers: a region spends by nobody's word but home's.

use hmac::{Hmac, KeyInit, Mac};
use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};
use purser_ledger::{Voucher, codec};
use sha2::Sha256;

use crate::settings::VoucherKey;

/// A voucher's bytes and who vouches for them.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct SignedVoucher {
    #[n(0)]
    voucher: ByteVec,
    /// HMAC-SHA-256 of the bytes, under the cluster's voucher key.
    #[n(1)]
    mac: ByteArray<32>,
}

/// Why a voucher is not taken up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadVoucher {
    /// Whoever wrote it does not know the cluster's voucher key.
    #[error("its signature is wrong")]
    Signature,
    /// It is signed, and is none.
    #[error("it is malformed")]
    Malformed(#[from] minicbor::decode::Error),
}

impl SignedVoucher {
    /// Signs a voucher.
    pub(crate) fn sign(voucher: &Voucher, key: &VoucherKey) -> Self {
        let voucher = codec::encode(voucher);
        let mac: [u8; 32] = mac(&voucher, key).finalize().into_bytes().into();
        Self { voucher: voucher.into(), mac: mac.into() }
    }

    /// How many bytes it takes, but for a few.
    pub(crate) fn bytes(&self) -> usize {
        self.voucher.len() + self.mac.len()
    }

    /// The voucher, if it is signed with `key`. Compares in constant time.
    pub(crate) fn open(&self, key: &VoucherKey) -> Result<Voucher, BadVoucher> {
        let mac = mac(&self.voucher, key);
        mac.verify_slice(&self.mac[..]).map_err(|_wrong| BadVoucher::Signature)?;
        Ok(codec::decode(&self.voucher)?)
    }
}

fn mac(bytes: &[u8], key: &VoucherKey) -> Hmac<Sha256> {
    let mut mac = Hmac::new_from_slice(key.bytes()).expect("a key may have any length");
    mac.update(bytes);
    mac
}

#[cfg(test)]
mod tests {
    use purser_ledger::AccountName;
    use purser_types::{Credits, Epoch, Generation, Owner, Region, Span, TenantId, Unit};

    use super::*;

    fn voucher(granted: u64) -> Voucher {
        let tenant = TenantId::parse("acme").unwrap();
        let region = Region::parse("eu").unwrap();
        Voucher {
            owner: Owner { region, generation: Generation(1) },
            epoch: Epoch(1),
            number: 1,
            granted: Credits::from_u64(granted).unwrap(),
            lots: Vec::new(),
            overdraft: Credits::ZERO,
            on_expiry: purser_ledger::OnExpiry::Keep,
            life: None,
            mode: purser_ledger::Mode::Local,
            recall: purser_ledger::Recall::default(),
            booked: purser_ledger::Booked::default(),
            key_retention: Span::from_days(1),
            record_retention: Span::from_days(400),
            account: AccountName { tenant, unit: Unit::credits() },
            reversals: Vec::new(),
        }
    }

    #[test]
    fn nobody_can_make_or_change_a_voucher_without_the_key() {
        let (key, other) = (VoucherKey::of(b"one secret"), VoucherKey::of(b"another"));
        let signed = SignedVoucher::sign(&voucher(100), &key);
        assert_eq!(signed.open(&key).unwrap(), voucher(100));
        assert!(matches!(signed.open(&other), Err(BadVoucher::Signature)));
        let more = SignedVoucher { voucher: codec::encode(&voucher(900)).into(), ..signed };
        assert!(matches!(more.open(&key), Err(BadVoucher::Signature)));
    }
}
