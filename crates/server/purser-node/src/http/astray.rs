//! Calls that come while their account's home moves: they wait for it, and follow it.
//!
//! ```text
//!  asked here ─▶ has stopped ─── wait ──▶ Placement: elsewhere ─▶ passed on
//!            ├─▶ has moved ────── know ─┘      └▶ still here ───▶ asked again, once it goes on
//!            └─▶ is arriving ──── wait for its last step ───────▶ asked again
//! ```
//!
//! Nobody is refused for a move, unless it takes longer than the call has time. What has happened so far
//! is nothing, in each case.

use std::time::{Duration, Instant};

use purser_ledger::{AccountName, Ledger, Rejection};
use purser_types::{Epoch, Generation, Region, TenantId};

use crate::http::call::Call;
use crate::http::problem::{NotDone, Refusal};
use crate::regions::Regions;

/// How long to wait before an account is asked again that is just about to go on.
const PAUSE: Duration = Duration::from_millis(5);

/// How long to wait before an account is looked for again that is taken over from a lost home.
const ARRIVAL_PAUSE: Duration = Duration::from_millis(50);

/// How long at most, before all shards are asked again whether it is still on its way.
const ARRIVAL_PAUSE_MAX: Duration = Duration::from_millis(800);

/// How long to wait for news of Placement before its leader is asked: every node follows it four times a
/// second.
const NEWS_PATIENCE: Duration = Duration::from_secs(1);

/// How long that question may take.
const REFRESH_PATIENCE: Duration = Duration::from_secs(2);

/// Why an account is not to be asked here, or not now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Astray {
    /// It has stopped under this epoch, which is its last one here unless the move is given up.
    Stopped(Epoch),
    /// It has left, and is elsewhere since this epoch.
    Left(Epoch),
    /// It is being taken over.
    Arriving,
}

/// Where an account is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Here.
    Here,
    /// In another region.
    There(Region),
}

impl Astray {
    /// What an account's ledger says of it; nothing if it may be asked, or is not known.
    pub(crate) fn of(ledger: &Ledger, account: &AccountName) -> Option<Self> {
        if let Some(home) = ledger.account(account) {
            return home.stopped().map(|departure| Self::Stopped(departure.epoch));
        }
        if ledger.arrival(account).is_some() {
            return Some(Self::Arriving);
        }
        ledger.away(account).map(|(_, epoch)| Self::Left(epoch))
    }

    /// What home's ledger has answered, if that is why it refused.
    pub(crate) const fn of_rejection(rejection: &Rejection) -> Option<Self> {
        match rejection {
            Rejection::HomeStopped { epoch, .. } => Some(Self::Stopped(*epoch)),
            Rejection::HomeMoved { epoch, .. } => Some(Self::Left(*epoch)),
            // Home decides whatever it is asked, but while it is being taken over.
            Rejection::DecidedElsewhere => Some(Self::Arriving),
            _ => None,
        }
    }

    /// The epoch from which on Placement says where to go.
    const fn ends_with(self) -> Epoch {
        match self {
            Self::Stopped(Epoch(epoch)) => Epoch(epoch.saturating_add(1)),
            Self::Left(epoch) => epoch,
            Self::Arriving => Epoch(0),
        }
    }
}

impl Call {
    /// Waits until it is known where an account is to be asked that was not to be asked here.
    pub(crate) async fn find_home(
        &self,
        regions: &Regions,
        account: &AccountName,
        astray: Astray,
    ) -> Result<Found, Refusal> {
        let (directory, tenant) = (regions.directory(), &account.tenant);
        let group = self.api.groups().of(account);
        loop {
            let deadline = self.meta.deadline.min(Instant::now() + NEWS_PATIENCE);
            let is_news = |epoch: Epoch| epoch >= astray.ends_with();
            let known =
                regions.await_placement(tenant, |known| is_news(known.epoch), deadline).await;
            match known {
                Some(known) if known.home != *self.api.region() => {
                    return Ok(Found::There(known.home));
                }
                Some(_) if Instant::now() + PAUSE < self.meta.deadline => {
                    tokio::time::sleep(PAUSE).await;
                    // Order matters: the log is not asked before it would answer otherwise.
                    if group.view(|ledger, _| Astray::of(ledger, account)) != Some(astray) {
                        return Ok(Found::Here);
                    }
                }
                None if Instant::now() < self.meta.deadline => {
                    let deadline = self.meta.deadline.min(Instant::now() + REFRESH_PATIENCE);
                    if let Err(error) = directory.refresh(tenant, deadline).await {
                        let error = crate::tasks::chain(&error);
                        tracing::debug!(error, "where a home has gone could not be asked");
                    }
                }
                Some(_) | None => return Err(Refusal::home_moves()),
            }
        }
    }

    /// Waits for an account that was failed over to this region to come here: nothing is known of it before
    /// the first part of it.
    pub(crate) async fn await_account(
        &self,
        regions: &Regions,
        account: &AccountName,
    ) -> Result<(), Refusal> {
        let group = self.api.groups().of(account);
        let is_here = || {
            group.view(|ledger, _| {
                ledger.account(account).is_some() || Astray::of(ledger, account).is_some()
            })
        };
        self.await_arrival(regions, &account.tenant, is_here).await
    }

    /// Waits for a tenant that was failed over to this region to come here, or for `is_enough`.
    pub(crate) async fn await_arrival(
        &self,
        regions: &Regions,
        tenant: &TenantId,
        is_enough: impl Fn() -> bool,
    ) -> Result<(), Refusal> {
        let mut pause = ARRIVAL_PAUSE;
        while !is_enough() && regions.is_on_its_way(tenant).await {
            let until = Instant::now() + pause;
            while !is_enough() && Instant::now() < until {
                if self.meta.deadline <= Instant::now() + ARRIVAL_PAUSE {
                    return Err(Refusal::home_moves());
                }
                tokio::time::sleep(ARRIVAL_PAUSE).await;
            }
            pause = ARRIVAL_PAUSE_MAX.min(pause * 2);
        }
        Ok(())
    }

    /// Makes sure that this node may answer a strict read of an account in the call's seat; else has the
    /// call, which changes nothing, answered by whoever may.
    pub(crate) async fn confirm_home(&self, account: &AccountName) -> Result<(), NotDone> {
        let group = self.api.groups().of(account);
        loop {
            self.confirm(group).await?;
            let Some(regions) = self.api.regions() else { return Ok(()) };
            if self.seat.generation() != Generation::HOME {
                return Ok(());
            }
            let tenant = &account.tenant;
            // One that has stopped may have a new home already, which knows more.
            let (is_here, astray) = group
                .view(|ledger, _| (ledger.account(account).is_some(), Astray::of(ledger, account)));
            let Some(astray) = astray else {
                // What a move had brought is thrown away if the home is lost in it, and brought anew.
                if is_here || !regions.is_on_its_way(tenant).await {
                    return Ok(());
                }
                self.await_account(regions, account).await?;
                continue;
            };
            match self.find_home(regions, account, astray).await? {
                Found::Here => (),
                Found::There(region) => {
                    return Err(self.to_region(regions, region, account).await);
                }
            }
        }
    }

    /// The latest epoch of a tenant that is known here.
    pub(crate) fn placed(&self, tenant: &TenantId) -> Option<Epoch> {
        let known = self.api.regions()?.directory().known_home(tenant)?;
        Some(known.epoch)
    }
}
