//! Short names for what the tests talk about.

use std::num::NonZeroU16;

use purser_placement::{
    Answer, ChangeNumber, Command, Decided, Operation, Outcome, PeerAddress, Placement, Request,
    SetRegion,
};
use purser_types::{Region, TenantId};

pub(crate) fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

/// A region of 16 shards with one peer.
pub(crate) fn set_region(name: &str, seen: u64, peer: &str) -> SetRegion {
    SetRegion {
        region: region(name),
        seen: ChangeNumber(seen),
        shards: NonZeroU16::new(16).unwrap(),
        peers: vec![PeerAddress::parse(peer).unwrap()],
    }
}

/// A Placement that knows these regions.
pub(crate) fn placement(regions: &[&str]) -> Placement {
    let mut placement = Placement::default();
    for name in regions {
        let answer = placement.apply_command(&Command::SetRegion(set_region(name, 0, name)));
        assert!(matches!(answer, Answer::Region(outcome) if outcome.result.is_ok()));
    }
    placement
}

pub(crate) fn open(home: &str, standbys: &[&str]) -> Operation {
    let standbys = standbys.iter().map(|name| region(name)).collect();
    Operation::Open { home: region(home), standbys }
}

pub(crate) fn request(name: &str, operation: Operation) -> Request {
    Request { tenant: tenant(name), operation }
}

/// Asks for one thing.
pub(crate) fn ask(placement: &mut Placement, request: &Request) -> Outcome {
    let answer = placement.apply_command(&Command::Tenants(vec![request.clone()]));
    let Answer::Tenants(mut outcomes) = answer else { unreachable!("it was about a tenant") };
    outcomes.pop().unwrap()
}

/// Asks for one thing, which changes something.
#[track_caller]
pub(crate) fn change(placement: &mut Placement, name: &str, operation: Operation) {
    let request = request(name, operation);
    assert_eq!(ask(placement, &request).result, Ok(Decided::Changed), "{request:?}");
}
