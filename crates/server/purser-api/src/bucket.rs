//! Where credits are, by name.

use std::fmt;

use utoipa::openapi::schema::Schema;

use crate::spelled::{Spelled, spelled, text_schema};
use crate::text::RegionName;

/// A place where credits are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// The source: what was granted.
    Granted,
    /// What can be authorized or charged.
    Available,
    /// Set aside in holds.
    Held,
    /// Captured.
    Used,
    /// Lost by expiry.
    Expired,
    /// Taken back by an operator.
    Voided,
    /// What the tenant owes.
    Debt,
    /// In a region's book: given back to home.
    Returned,
    /// Set aside for a region to spend: `allocated:` and the region.
    Allocated(RegionName),
}

impl Bucket {
    /// Those that have one name.
    const NAMED: [(&'static str, Self); 8] = [
        ("granted", Self::Granted),
        ("available", Self::Available),
        ("held", Self::Held),
        ("used", Self::Used),
        ("expired", Self::Expired),
        ("voided", Self::Voided),
        ("debt", Self::Debt),
        ("returned", Self::Returned),
    ];
}

impl Spelled for Bucket {
    const EXPECTED: &'static str = "a bucket, one of: granted available held used expired voided \
                                    debt returned allocated:<region>";

    fn read(text: &str) -> Result<Self, String> {
        if let Some(region) = text.strip_prefix("allocated:") {
            return RegionName::read(region).map(Self::Allocated);
        }
        let named = Self::NAMED.into_iter().find(|(name, _)| *name == text);
        named.map(|(_, bucket)| bucket).ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Allocated(region) = self {
            return write!(formatter, "allocated:{region}");
        }
        let named = Self::NAMED.iter().find(|(_, bucket)| bucket == self);
        formatter.write_str(named.map_or("", |(name, _)| name))
    }

    fn describe() -> Schema {
        text_schema(
            "Names a bucket; `allocated:` is followed by a region.",
            "^(granted|available|held|used|expired|voided|debt|returned|allocated:[a-z0-9-]{1,16})$",
        )
    }
}

spelled!(Bucket);

#[cfg(test)]
mod tests {
    use purser_types::Region;

    use super::*;

    #[test]
    fn every_bucket_is_read_as_it_is_written() {
        let eu = RegionName(Region::parse("eu").unwrap());
        let named = Bucket::NAMED.into_iter().map(|(_, bucket)| bucket);
        for bucket in named.chain([Bucket::Allocated(eu)]) {
            assert_eq!(bucket.to_string().parse(), Ok(bucket));
        }
        assert!("allocated:".parse::<Bucket>().is_err());
        assert!("spent".parse::<Bucket>().is_err());
    }
}
