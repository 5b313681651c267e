//! Who decides about a call: its seat is found before the call is handled.
//!
//! ```text
//!  tenant ── Placement ──▶ home is here ─────────────────────────────────▶ Home
//!     │                    home is elsewhere ┬─ authorize, charge ───────▶ Spend: here if it can be
//!     │                                      └─ anything else ───────────▶ passed on to home
//!  hold or charge of a region ─▶ this region, its book goes on ──────────▶ Allocation
//!                                 another region ────────────────────────▶ passed on to it
//!                                 its allocation is closed ──────────────▶ home: Closed
//! ```
//!
//! The way of a call is never longer than a few steps: each passes it on with a count.

use purser_api::{ProblemCode, SubjectId};
use purser_ledger::{AccountName, BookPhase};
use purser_placement::TenantPlacement;
use purser_types::{Generation, Owner, Region, TenantId, Unit};

use crate::http::call::Call;
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::routing::tenant_not_found;
use crate::regions::{DirectoryError, Regions};

/// Whose book is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seat {
    /// Home's, which is here.
    Home,
    /// Home's, about a hold or charge of an allocation that is closed.
    Closed(Owner),
    /// The book of this region's allocation of that generation.
    Allocation(Generation),
    /// This region's newest book if it can decide; else the home that is named.
    Spend(Region),
}

impl Seat {
    /// The closed allocation that a call is about.
    pub(crate) const fn away(self) -> Option<Owner> {
        if let Self::Closed(owner) = self { Some(owner) } else { None }
    }

    /// Which of the books here is asked and shown.
    pub(crate) const fn generation(self) -> Generation {
        match self {
            Self::Allocation(generation) => generation,
            Self::Home | Self::Closed(_) | Self::Spend(_) => Generation::HOME,
        }
    }
}

/// What a call is for, as far as it matters for where it is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It makes a hold or a charge.
    Begin,
    /// It changes one.
    GoOn,
    /// Anything else.
    Other,
}

impl Purpose {
    pub(crate) const fn of(operation: Operation) -> Self {
        match operation {
            Operation::Authorize | Operation::Charge => Self::Begin,
            Operation::Capture
            | Operation::Release
            | Operation::Extend
            | Operation::RefundHold
            | Operation::RefundCharge
            | Operation::ReclaimHold
            | Operation::ReclaimCharge => Self::GoOn,
            _ => Self::Other,
        }
    }

    /// Home's seat for what an allocation made that is closed. Home decides what is asked of it and shows
    /// nothing of it: to a read its ids name nothing, least of all what home has numbered alike.
    const fn after_close(self, owner: Owner) -> Seat {
        match self {
            Self::GoOn => Seat::Closed(owner),
            Self::Begin | Self::Other => Seat::Home,
        }
    }
}

/// Where a call is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Here, in this seat.
    Here(Seat),
    /// In another region.
    There(Region),
}

impl Call {
    /// Finds the call's seat; if it is in another region, has the call answered there.
    pub(crate) async fn take_seat(&mut self, operation: Operation) -> Result<(), NotDone> {
        let Some(regions) = self.api.regions().cloned() else { return Ok(()) };
        let Ok(tenant) = self.tenant().cloned() else { return Ok(()) };
        // Placement knows that, and can be asked from anywhere.
        if operation == Operation::GetMove {
            return Ok(());
        }
        let subject = self.subject();
        let purpose = Purpose::of(operation);
        // An unreadable unit is for the handler to refuse.
        let unit = self.unit().unwrap_or_else(|_unreadable| Unit::credits());
        let account = AccountName { tenant, unit };
        match self.place_of(&regions, &account, subject, purpose).await? {
            Place::Here(seat) => {
                self.seat = seat;
                Ok(())
            }
            Place::There(region) => Err(self.to_region(&regions, region, &account).await),
        }
    }

    /// Who made the hold or charge that the path names, if it names one.
    pub(crate) fn subject(&self) -> Option<Owner> {
        let hold = self.param("hold").ok().and_then(|text| text.parse().ok());
        let charge = self.param("charge").ok().and_then(|text| text.parse().ok());
        let owner = |subject: SubjectId| match subject {
            SubjectId::Hold(id) => id.owner,
            SubjectId::Charge(id) => id.owner,
        };
        hold.map(SubjectId::Hold).or_else(|| charge.map(SubjectId::Charge)).map(owner)
    }

    /// Where a call about an account is decided; `subject` has made the hold or charge that it is
    /// about, if it is about one.
    pub(crate) async fn place_of(
        &self,
        regions: &Regions,
        account: &AccountName,
        subject: Option<Owner>,
        purpose: Purpose,
    ) -> Result<Place, Refusal> {
        let home = self.home_of(regions, &account.tenant).await?;
        let own = *self.api.region();
        Ok(match subject.filter(|owner| owner.generation != Generation::HOME) {
            Some(owner) if owner.region == own => {
                let group = self.api.groups().of(account);
                let phase =
                    group.view(|ledger, _| ledger.book(account, owner.generation)?.book_phase());
                // A node that lags may not know the book yet; whoever leads does.
                let is_over = phase == Some(BookPhase::Finished);
                if is_over && home != own {
                    Place::There(home)
                } else if is_over && self.is_closed(account, owner) {
                    Place::Here(purpose.after_close(owner))
                } else {
                    Place::Here(Seat::Allocation(owner.generation))
                }
            }
            Some(owner) if home == own => {
                if self.is_closed(account, owner) {
                    Place::Here(purpose.after_close(owner))
                } else {
                    Place::There(owner.region)
                }
            }
            Some(owner) => Place::There(owner.region),
            None if home == own => {
                self.await_account(regions, account).await?;
                Place::Here(Seat::Home)
            }
            None if purpose == Purpose::Begin => Place::Here(Seat::Spend(home)),
            None => Place::There(home),
        })
    }

    /// Whether home, which is here, is done with an allocation, as far as this node knows.
    fn is_closed(&self, account: &AccountName, owner: Owner) -> bool {
        let group = self.api.groups().of(account);
        group.view(|ledger, _| ledger.account(account).is_some_and(|it| it.has_closed(owner)))
    }

    /// Where a tenant's home is. A call that comes from a node that knows more is not passed back to where
    /// it may have come from.
    pub(crate) async fn home_of(
        &self,
        regions: &Regions,
        tenant: &TenantId,
    ) -> Result<Region, Refusal> {
        let known = self.placement_of(regions, tenant).await?;
        Ok(known.ok_or_else(tenant_not_found)?.home)
    }

    /// The same, with all that Placement says of the tenant; nothing if there is no such tenant.
    pub(crate) async fn placement_of(
        &self,
        regions: &Regions,
        tenant: &TenantId,
    ) -> Result<Option<TenantPlacement>, Refusal> {
        let (directory, deadline) = (regions.directory(), self.meta.deadline);
        let known = directory.home_of(tenant, deadline).await;
        let Some(known) = known.map_err(|error| Refusal::of_directory(&error))? else {
            return Ok(None);
        };
        let is_old = self.meta.placed.is_some_and(|placed| known.epoch < placed);
        if !is_old {
            return Ok(Some(known));
        }
        match directory.refresh(tenant, deadline).await {
            Ok(Some(placement)) => Ok(Some(placement)),
            // What is known may be right, and whoever is asked knows.
            Ok(None) | Err(_) => Ok(Some(known)),
        }
    }
}

impl Refusal {
    /// What Placement did not do.
    pub(crate) fn of_directory(error: &DirectoryError) -> Self {
        match error {
            DirectoryError::Refused(purser_placement::Refusal::TenantExists) => {
                Self::new(ProblemCode::TenantExists, "the tenant exists with another home")
            }
            DirectoryError::Refused(refusal) => {
                Self::new(ProblemCode::PlacementRefused, refusal.to_string())
            }
            DirectoryError::Unknown => Self::outcome_unknown(),
            DirectoryError::Unreachable(cause) => {
                let detail = "who is home of the tenant is not known here, and Placement cannot be \
                              reached; nothing happened";
                Self::new(ProblemCode::NotReady, detail).caused_by(cause.as_str())
            }
        }
    }
}
