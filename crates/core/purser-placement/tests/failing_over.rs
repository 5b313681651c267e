//! A tenant that loses one home after the other.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use purser_placement::{Decided, Operation, Placement, Refusal, Standby};
use purser_types::{Epoch, Region};

use self::common::{ask, change, open, placement, region, request, tenant};

/// The home says that a standby has caught up, and is lost.
fn lose_home(placement: &mut Placement, to: &str) {
    let (epoch, to) = (epoch(placement), region(to));
    let seen = placement.tenant(&tenant("acme")).unwrap().change;
    let caught_up = Operation::SetStandby { epoch, seen, region: to, promotable: true };
    change(placement, "acme", caught_up);
    change(placement, "acme", Operation::FailOver { epoch, to });
}

fn epoch(placement: &Placement) -> Epoch {
    placement.tenant(&tenant("acme")).unwrap().epoch
}

fn tails(placement: &Placement) -> Vec<(Region, u64)> {
    let tails = placement.tenant(&tenant("acme")).unwrap().tails();
    tails.iter().map(|tail| (tail.from, tail.epoch.0)).collect()
}

#[test]
fn every_lost_home_has_a_tail_and_nothing_moves_until_all_are_resolved() {
    let mut placement = placement(&["ap", "eu", "us"]);
    change(&mut placement, "acme", open("eu", &["us"]));
    for (to, expected) in [
        ("us", vec![("eu", 1)]),
        ("eu", vec![("eu", 1), ("us", 2)]),
        // Lost twice: one tail that reaches over both.
        ("us", vec![("eu", 3), ("us", 2)]),
    ] {
        lose_home(&mut placement, to);
        let expected: Vec<_> =
            expected.iter().map(|(from, epoch)| (region(from), *epoch)).collect();
        assert_eq!(tails(&placement), expected);
    }

    let epoch = epoch(&placement);
    let begin = request("acme", Operation::BeginMove { epoch, to: region("ap") });
    for from in ["eu", "us"] {
        let refused = Err(Refusal::TailUnresolved { from: region(from) });
        assert_eq!(ask(&mut placement, &begin).result, refused);
        change(&mut placement, "acme", Operation::ResolveTail { epoch, from: region(from) });
    }
    assert_eq!(ask(&mut placement, &begin).result, Ok(Decided::Changed));
}

#[test]
fn a_promoted_standby_leaves_its_place_to_the_home_before_it() {
    let mut placement = placement(&["ap", "eu", "us"]);
    change(&mut placement, "acme", open("eu", &["ap", "us"]));
    lose_home(&mut placement, "us");
    let now = placement.tenant(&tenant("acme")).unwrap();
    assert_eq!((now.home, now.epoch), (region("us"), Epoch(2)));
    let expected = ["ap", "eu"].map(|name| Standby { region: region(name), promotable: false });
    assert_eq!(now.standbys.as_slice(), expected);

    // Neither has followed the new home, so there is nobody to promote.
    let again = request("acme", Operation::FailOver { epoch: Epoch(2), to: region("ap") });
    let refused = Err(Refusal::NotPromotable(region("ap")));
    assert_eq!(ask(&mut placement, &again).result, refused);
}
