//! Placement, what is on its way to it, and what it has changed.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU16;

use purser_placement::{
    Answer, ChangeNumber, Command, Decided, Operation, PeerAddress, Placement, Refusal, Request,
    SetRegion, TenantPlacement,
};
use purser_types::{Epoch, Region, TenantId};

use super::Start;

/// The region of the two nodes.
pub(super) const HOME: &str = "home";

/// The region that follows it.
pub(super) const STANDBY: &str = "spare";

/// Another region.
pub(super) const THIRD: &str = "third";

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placed {
    placement: Placement,
    /// Requests on their way, with the keeper that waits for an answer.
    pub(super) wire: Vec<(Request, Option<usize>)>,
    /// Whether an epoch ever had two homes.
    pub(super) is_torn: bool,
    /// Whether the standby was ever dropped, after it could have been promoted.
    pub(super) was_dropped: bool,
}

impl Eq for Placed {}

impl Hash for Placed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now(), self.is_torn, self.was_dropped).hash(state);
        for (request, by) in &self.wire {
            (purser_types::codec::encode(request), by).hash(state);
        }
    }
}

pub(super) fn region(name: &str) -> Region {
    Region::parse(name).expect("the name of a region")
}

pub(super) fn tenant() -> TenantId {
    TenantId::parse("acme").expect("the name of a tenant")
}

impl Placed {
    pub(super) fn new(start: Start) -> Self {
        let mut placement = Placement::default();
        for name in [HOME, STANDBY, THIRD] {
            let peers = vec![PeerAddress::parse(name).expect("a name is an address")];
            let (region, seen, shards) = (region(name), ChangeNumber::NONE, NonZeroU16::MIN);
            placement.apply_command(&Command::SetRegion(SetRegion { region, seen, shards, peers }));
        }
        let mut placed = Self { placement, wire: Vec::new(), is_torn: false, was_dropped: false };
        let (home, standby) = match start {
            Start::Followed => (HOME, STANDBY),
            Start::Elsewhere => (HOME, THIRD),
            Start::Arriving => (THIRD, STANDBY),
        };
        let open =
            Operation::Open { home: region(home), standbys: BTreeSet::from([region(standby)]) };
        let (epoch, to) = (Epoch(1), region(HOME));
        let mut steps = vec![open];
        if start == Start::Arriving {
            steps.extend([Operation::BeginMove { epoch, to }, Operation::FinishMove { epoch }]);
        }
        for step in steps {
            placed.change(step).expect("a tenant can be opened and moved");
        }
        placed
    }

    /// The tenant as it is.
    pub(super) fn now(&self) -> TenantPlacement {
        self.placement.tenant(&tenant()).expect("the tenant was opened").clone()
    }

    /// The latest change.
    pub(super) fn latest(&self) -> ChangeNumber {
        self.placement.latest_change()
    }

    /// Asks for something, and tells if it was refused. What changes nothing is no news.
    pub(super) fn change(&mut self, operation: Operation) -> Result<(), Option<Refusal>> {
        let before = self.placement.tenant(&tenant()).map(|known| (known.epoch, known.home));
        let drops = matches!(operation, Operation::SetStandby { promotable: false, .. });
        let requests = vec![Request { tenant: tenant(), operation }];
        let Answer::Tenants(outcomes) = self.placement.apply_command(&Command::Tenants(requests))
        else {
            unreachable!("it was about a tenant")
        };
        let now = self.now();
        self.is_torn |= before.is_some_and(|(epoch, home)| epoch == now.epoch && home != now.home);
        let outcome = outcomes.into_iter().next().ok_or(None)?;
        match outcome.result {
            Ok(Decided::Changed) => {
                self.was_dropped |= drops;
                Ok(())
            }
            Ok(Decided::Repeated) => Err(None),
            Err(refusal) => Err(Some(refusal)),
        }
    }
}
