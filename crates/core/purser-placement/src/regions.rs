//! The regions that there are: how many shards each has, and where its nodes are reached.
//!
//! Placement carries this list because every node follows Placement already, and because a home
//! that no node can find is a mistake that is best refused.

use std::num::NonZeroU16;
use std::sync::Arc;

use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};
use purser_types::{CowMap, Region};

use crate::change::ChangeNumber;
use crate::command::SetRegion;
use crate::refusal::{Refusal, RegionRefusal};
use crate::shared::Shared;

/// Where a node listens for nodes of other regions: a host and a port, or a URL.
///
/// 1 to 255 visible ASCII characters, which is a host name of the longest with little to spare.
/// Placement does not look inside: whoever dials it does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddress(Arc<str>);

/// The text is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {} visible ASCII characters", PeerAddress::BYTES_MAX)]
pub struct PeerAddressError;

impl PeerAddress {
    const BYTES_MAX: usize = 255;

    /// Checks an address.
    pub fn parse(text: &str) -> Result<Self, PeerAddressError> {
        let fits = (1..=Self::BYTES_MAX).contains(&text.len());
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits && visible { Ok(Self(Arc::from(text))) } else { Err(PeerAddressError) }
    }

    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<C> Encode<C> for PeerAddress {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.str(self.as_str())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for PeerAddress {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Self::parse(decoder.str()?).map_err(minicbor::decode::Error::custom)
    }
}

/// A region, as Placement knows it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct KnownRegion {
    /// Its name.
    #[n(0)]
    pub region: Region,
    /// How many shards it has, for good.
    #[n(1)]
    pub shards: NonZeroU16,
    /// Where its nodes listen for those of other regions.
    #[n(2)]
    pub peers: Shared<PeerAddress>,
    /// When this last changed.
    #[n(3)]
    pub change: ChangeNumber,
}

impl KnownRegion {
    /// The most regions. A record of one takes up to 16 kB, so a page of changes with all of them
    /// stays within a megabyte.
    pub const COUNT_MAX: usize = 64;

    /// The most peers of one region. Any of them passes a request on to the one that must decide,
    /// so the list need not name every node.
    pub const PEERS_MAX: usize = 64;
}

/// All regions, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Regions(CowMap<Region, KnownRegion>);

impl Regions {
    pub(crate) fn get(&self, region: Region) -> Option<&KnownRegion> {
        self.0.get(&region)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KnownRegion> {
        self.0.iter().map(|(_, region)| region)
    }

    pub(crate) fn put(&mut self, region: KnownRegion) {
        self.0.insert(region.region, region);
    }

    /// Refuses a region that is not known.
    pub(crate) fn check_known(&self, region: Region) -> Result<(), Refusal> {
        self.get(region).map(|_| ()).ok_or(Refusal::RegionUnknown(region))
    }

    /// What the command makes of the region; nothing if it is so already.
    pub(crate) fn decide(&self, command: &SetRegion) -> Result<Option<KnownRegion>, RegionRefusal> {
        if !(1..=KnownRegion::PEERS_MAX).contains(&command.peers.len()) {
            return Err(RegionRefusal::PeersCount);
        }
        let known = self.get(command.region);
        if let Some(known) = known {
            if known.shards != command.shards {
                return Err(RegionRefusal::ShardsFixed);
            }
            if known.peers.as_slice() == command.peers {
                return Ok(None);
            }
        }
        if known.map_or(ChangeNumber::NONE, |known| known.change) != command.seen {
            return Err(RegionRefusal::Overtaken);
        }
        if known.is_none() && self.0.len() >= KnownRegion::COUNT_MAX {
            return Err(RegionRefusal::TooManyRegions);
        }
        Ok(Some(KnownRegion {
            region: command.region,
            shards: command.shards,
            peers: command.peers.iter().cloned().collect(),
            change: command.seen,
        }))
    }
}
