//! What is bounded, and what a million tenants come to.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::num::NonZeroU16;

use purser_placement::{
    Answer, ChangeNumber, Command, Decided, KnownRegion, Operation, PAGE_MAX, PeerAddress,
    Placement, Refusal, RegionRefusal, Request, SetRegion, TenantPlacement,
};
use purser_types::{Epoch, Machine, TenantId};

use self::common::{change, open, placement, region, request, set_region, tenant};

/// Tenants with a standby each, opened in as few commands as it takes.
fn many(tenants: usize) -> Placement {
    let mut many = placement(&["eu", "us"]);
    let requests: Vec<Request> = (0..tenants)
        .map(|number| request(&format!("tenant-{number:07}"), open("eu", &["us"])))
        .collect();
    for requests in requests.chunks(Command::REQUESTS_MAX) {
        many.apply_command(&Command::Tenants(requests.to_vec()));
    }
    many
}

#[test]
fn a_command_of_too_many_requests_decides_none_and_says_so_of_each() {
    let mut placement = placement(&["eu"]);
    let mut requests = vec![request("acme", open("eu", &[])); Command::REQUESTS_MAX];
    let fits = placement.clone().apply_command(&Command::Tenants(requests.clone()));
    assert!(matches!(fits, Answer::Tenants(all) if all.iter().all(|one| one.result.is_ok())));

    requests.push(request("bolt", open("eu", &[])));
    let answer = placement.apply_command(&Command::Tenants(requests));
    let Answer::Tenants(outcomes) = answer else { unreachable!("it was about tenants") };
    assert_eq!(outcomes.len(), Command::REQUESTS_MAX + 1);
    assert!(outcomes.iter().all(|one| one.result == Err(Refusal::TooManyRequests)));
    assert_eq!(placement.tenant(&tenant("acme")), None);
}

/// A region is lost: its tenants come in batches, and one that was moved meanwhile holds up nobody.
#[test]
fn a_batch_is_answered_one_by_one() {
    let mut placement = placement(&["eu", "us"]);
    let epoch = Epoch(1);
    for name in ["acme", "bolt", "cone"] {
        change(&mut placement, name, open("eu", &["us"]));
        let seen = placement.tenant(&tenant(name)).unwrap().change;
        let back = Operation::SetStandby { epoch, seen, region: region("us"), promotable: true };
        change(&mut placement, name, back);
    }
    change(&mut placement, "bolt", Operation::BeginMove { epoch, to: region("us") });
    change(&mut placement, "bolt", Operation::AbortMove { epoch });

    let fail_over = |name| request(name, Operation::FailOver { epoch, to: region("us") });
    let lost = ["acme", "bolt", "acme", "cone", "none"].map(fail_over);
    let answer = placement.apply_command(&Command::Tenants(lost.to_vec()));
    let Answer::Tenants(outcomes) = answer else { unreachable!("it was about tenants") };
    let results: Vec<_> = outcomes.iter().map(|outcome| outcome.result).collect();
    let [changed, repeated] = [Ok(Decided::Changed), Ok(Decided::Repeated)];
    let refused = [Err(Refusal::Fenced), Err(Refusal::TenantUnknown)];
    assert_eq!(results, [changed, refused[0], repeated, changed, refused[1]]);
    // Whoever is refused is told what is so.
    assert_eq!(outcomes[1].placement.as_ref().unwrap().epoch, Epoch(2));
    assert_eq!(outcomes[4].placement, None);
}

#[track_caller]
fn check_region(
    placement: &mut Placement,
    command: SetRegion,
    expected: Result<Decided, RegionRefusal>,
) -> u64 {
    let before = placement.clone();
    let name = command.region;
    let answer = placement.apply_command(&Command::SetRegion(command));
    let Answer::Region(outcome) = answer else { unreachable!("it was about a region") };
    assert_eq!(outcome.result, expected);
    assert_eq!(outcome.region.as_ref(), placement.region(name));
    assert_eq!(*placement == before, expected != Ok(Decided::Changed));
    placement.latest_change().0
}

#[test]
fn a_late_copy_does_not_set_a_regions_peers_back() {
    let mut placement = Placement::default();
    let first = set_region("eu", 0, "eu-1.example");
    let change = check_region(&mut placement, first.clone(), Ok(Decided::Changed));
    check_region(&mut placement, first.clone(), Ok(Decided::Repeated));
    let second = set_region("eu", change, "eu-2.example");
    check_region(&mut placement, second.clone(), Ok(Decided::Changed));
    check_region(&mut placement, first, Err(RegionRefusal::Overtaken));
    check_region(&mut placement, second, Ok(Decided::Repeated));
}

#[test]
fn a_region_keeps_its_number_of_shards_and_has_a_few_peers() {
    let mut placement = placement(&["eu"]);
    let seen = placement.latest_change().0;
    let resharded = SetRegion { shards: NonZeroU16::MIN, ..set_region("eu", seen, "eu") };
    check_region(&mut placement, resharded, Err(RegionRefusal::ShardsFixed));

    let with_peers = |count| SetRegion {
        peers: vec![PeerAddress::parse("eu").unwrap(); count],
        ..set_region("eu", seen, "eu")
    };
    check_region(&mut placement, with_peers(0), Err(RegionRefusal::PeersCount));
    let too_many = with_peers(KnownRegion::PEERS_MAX + 1);
    check_region(&mut placement, too_many, Err(RegionRefusal::PeersCount));
    check_region(&mut placement, with_peers(KnownRegion::PEERS_MAX), Ok(Decided::Changed));
    for odd in ["", "a b", "ä", "a\n", &"a".repeat(256)] {
        assert!(PeerAddress::parse(odd).is_err(), "{odd:?}");
    }
}

#[test]
fn there_are_at_most_64_regions() {
    let mut placement = Placement::default();
    for number in 0..KnownRegion::COUNT_MAX {
        let region = set_region(&format!("r{number}"), 0, "r");
        check_region(&mut placement, region, Ok(Decided::Changed));
    }
    let one_more = set_region("more", 0, "r");
    check_region(&mut placement, one_more, Err(RegionRefusal::TooManyRegions));
    let again = set_region("r0", 1, "elsewhere");
    check_region(&mut placement, again, Ok(Decided::Changed));
}

#[test]
fn a_page_is_bounded_whatever_is_asked_for() {
    let many = many(PAGE_MAX + 10);
    assert_eq!(many.tenants_of(region("eu"), None, usize::MAX).len(), PAGE_MAX);
    let page = many.changes_after(ChangeNumber::NONE, usize::MAX);
    assert_eq!(page.changes.len(), PAGE_MAX);
    assert_eq!(many.changes_after(ChangeNumber::NONE, 0).changes.len(), 1);
    // Two regions are among them.
    assert_eq!(many.changes_after(page.through, usize::MAX).changes.len(), 12);
}

/// What the documentation says of a million tenants rests on these figures.
#[test]
fn a_tenant_takes_104_bytes_of_the_map_by_name_and_under_50_of_a_snapshot() {
    assert_eq!(size_of::<(TenantId, TenantPlacement)>(), 104);
    assert_eq!(size_of::<(ChangeNumber, TenantId)>() + size_of::<(TenantId, ())>(), 40);

    let tenants = 50_000;
    let many = many(tenants);
    let chunks: Vec<Vec<u8>> = many.snapshot().collect();
    let bytes: usize = chunks.iter().map(Vec::len).sum();
    assert!(bytes / tenants < 50, "{} bytes a tenant", bytes / tenants);
    assert!(chunks.len() > 1, "a state is not one big buffer");
    assert!(chunks.iter().all(|chunk| chunk.len() < (1 << 20) + (1 << 16)));
    assert_eq!(Placement::restore(&mut chunks.into_iter()).unwrap(), many);
}

/// A snapshot is taken of a clone, while the group goes on.
#[test]
fn a_clone_stays_as_it_was() {
    let mut placement = many(300);
    let (clone, snapshot) = (placement.clone(), placement.snapshot());
    let before: Vec<Vec<u8>> = placement.snapshot().collect();
    let begin = Operation::BeginMove { epoch: Epoch(1), to: region("us") };
    change(&mut placement, "tenant-0000007", begin);
    assert_ne!(placement, clone);
    assert_eq!(snapshot.collect::<Vec<_>>(), before);
    assert_eq!(clone.snapshot().collect::<Vec<_>>(), before);
}
