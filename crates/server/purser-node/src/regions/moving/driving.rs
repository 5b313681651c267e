//! The steps of a move, taken by whoever tends a tenant.
//!
//! - INV-16: home never goes on under the epoch under which it has stopped. Either end of a move begins
//!   the next one, and both are compared-and-set, so there is one end.

use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use purser_ledger::{AccountName, Departure, Way};
use purser_placement::{Beginning, Operation, TenantPlacement};
use purser_types::{Epoch, Region, TenantId};

use super::copying::{Copying, HomeIn};
use super::messages::{MoveAnswer, MoveAsk, Presence, SourceAccount};
use super::{MoveError, PATIENCE};
use crate::regions::Regions;
use crate::regions::placement::DirectoryError;
use crate::shards::Shard;
use crate::tasks::chain;

/// How long bringing an account over may take while its home goes on. An account of ten million entries
/// takes some minutes over a wide-area link.
const CATCH_UP_MAX: Duration = Duration::from_secs(1_800);

/// How long an account may be stopped before the move is given up: callers wait meanwhile, and most of
/// them for ten seconds at most.
const STOPPED_MAX: Duration = Duration::from_secs(3);

impl Regions {
    /// Brings a move from here to its end, one or the other.
    pub(super) async fn drive(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
        to: Region,
    ) -> Result<(), MoveError> {
        let departure = Departure { epoch: placement.epoch, to };
        if let Err(error) = self.bring_over(tenant, departure).await {
            return self.give_up(tenant, departure, &error).await;
        }
        let finish = Operation::FinishMove { epoch: departure.epoch };
        let finished = self.directory.change(tenant, finish, Instant::now() + PATIENCE).await;
        match finished {
            Ok(placement) => {
                tracing::info!(tenant = tenant.as_str(), %to, "a home has moved");
                self.leave(tenant, &placement).await
            }
            // Somebody else has ended it, and what Placement says now is to be looked at.
            Err(DirectoryError::Refused(_)) => Err(MoveError::NotYet),
            Err(error) => self.give_up(tenant, departure, &error.into()).await,
        }
    }

    /// Brings all accounts of a tenant over, and stops them when little is left.
    async fn bring_over(&self, tenant: &TenantId, departure: Departure) -> Result<(), MoveError> {
        let accounts = self.accounts_here(tenant).await?;
        let mut copies: Vec<Copying> = accounts
            .iter()
            .map(|(shard, account)| Self::copy_to(departure.to, *shard, &account.account))
            .collect();
        try_join_all(copies.iter_mut().map(|copy| copy.look(self))).await?;
        // Whoever did this before may have come further, and then callers wait already.
        let have_stopped = accounts.iter().any(|(_, account)| account.stopped == Some(departure));
        let until = Instant::now() + if have_stopped { STOPPED_MAX } else { CATCH_UP_MAX };
        while copies.iter().any(|copy| !copy.is_near()) {
            if until <= Instant::now() {
                return Err(MoveError::TooLong);
            }
            let deadline = Instant::now() + PATIENCE;
            let behind = copies.iter_mut().filter(|copy| !copy.is_near());
            try_join_all(behind.map(|copy| self.step(copy, deadline))).await?;
        }
        // From here on callers wait.
        let until = Instant::now() + STOPPED_MAX;
        let stopped = self.stop_all(tenant, departure, until).await?;
        for (shard, account) in &stopped {
            if copies.iter().all(|copy| copy.account != account.account) {
                copies.push(Self::copy_to(departure.to, *shard, &account.account));
            }
        }
        self.bring_rest(copies, departure, until).await
    }

    fn copy_to(to: Region, shard: Shard, account: &AccountName) -> Copying {
        // Placement shows this region as home: what is there of the account is a copy of what is here.
        Copying::new(account.clone(), shard, to).that_may_begin_anew()
    }

    async fn step(&self, copy: &mut Copying, deadline: Instant) -> Result<(), MoveError> {
        let source = HomeIn { regions: self, region: self.links.own(), shard: copy.shard };
        copy.step(self, &source, deadline).await
    }

    /// Brings over what is left of accounts that have stopped.
    async fn bring_rest(
        &self,
        mut copies: Vec<Copying>,
        departure: Departure,
        until: Instant,
    ) -> Result<(), MoveError> {
        loop {
            let open = copies.iter_mut().filter(|copy| !copy.is_whole(departure));
            let steps: Vec<_> = open.map(|copy| self.step(copy, until)).collect();
            if steps.is_empty() {
                return Ok(());
            }
            if until <= Instant::now() {
                return Err(MoveError::TooLong);
            }
            try_join_all(steps).await?;
        }
    }

    /// Stops all accounts of a tenant here.
    async fn stop_all(
        &self,
        tenant: &TenantId,
        departure: Departure,
        until: Instant,
    ) -> Result<Vec<(Shard, SourceAccount)>, MoveError> {
        let stop = MoveAsk::Stop { tenant: tenant.clone(), departure, revives: true };
        let accounts = self.ask_all_here(&stop, until).await?;
        let have_stopped = accounts.iter().all(|(_, account)| account.stopped == Some(departure));
        if have_stopped { Ok(accounts) } else { Err(MoveError::NotStopped) }
    }

    /// Gives a move up, unless it has ended otherwise.
    async fn give_up(
        &self,
        tenant: &TenantId,
        departure: Departure,
        error: &MoveError,
    ) -> Result<(), MoveError> {
        let reason = chain(error);
        tracing::warn!(tenant = tenant.as_str(), to = %departure.to, reason, "a move is given up");
        let next = Epoch(departure.epoch.0.saturating_add(1));
        self.moves.note_given_up(tenant, next, reason);
        let abort = Operation::AbortMove { epoch: departure.epoch };
        let aborting = self.directory.change(tenant, abort, Instant::now() + PATIENCE);
        let placement = aborting.await?;
        self.settle_here(tenant, &placement).await
    }

    /// Has all accounts here go on, or begin, under the epoch of a placement whose home is here.
    pub(super) async fn settle_here(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
    ) -> Result<(), MoveError> {
        let ask = MoveAsk::Settle { tenant: tenant.clone(), placement: placement.clone() };
        self.have_done(&ask).await
    }

    /// Asks all shards here to do something with whatever accounts they have.
    async fn have_done(&self, ask: &MoveAsk) -> Result<(), MoveError> {
        let deadline = Instant::now() + PATIENCE;
        let own = self.links.own();
        let asking =
            self.all_shards().map(|shard| self.ask_move((own, shard), ask.clone(), deadline));
        for answer in try_join_all(asking).await? {
            match answer {
                MoveAnswer::Left(0) => (),
                MoveAnswer::Left(_) => return Err(MoveError::NotYet),
                _ => return Err(MoveError::Foreign),
            }
        }
        Ok(())
    }

    /// Opens the accounts that are here at their home, which is elsewhere, and has them step down.
    pub(super) async fn leave(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
    ) -> Result<(), MoveError> {
        let accounts = self.accounts_here(tenant).await?;
        let old: Vec<_> =
            accounts.into_iter().filter(|(_, account)| account.epoch < placement.epoch).collect();
        // Order matters: a standby that still follows would step down with this home, and could not take
        // over any more.
        if placement.beginning == Beginning::FailedOver
            && !old.is_empty()
            && !self.is_home_as_placed(tenant, placement).await?
        {
            return Err(MoveError::NotYet);
        }
        let old = old.into_iter();
        let seeing_off =
            old.map(|(shard, account)| self.see_off(tenant, placement, (shard, account)));
        let seen_off = join_all(seeing_off).await;
        let arrived: Vec<AccountName> =
            seen_off.iter().filter_map(|seen_off| seen_off.as_ref().ok().cloned()).collect();
        let step_down = MoveAsk::StepDown {
            tenant: tenant.clone(),
            placement: placement.clone(),
            accounts: arrived,
        };
        self.have_done(&step_down).await?;
        seen_off.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    /// Has accounts here step down that are to be brought home again.
    pub(super) async fn step_down_here(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
        old: Vec<(Shard, SourceAccount)>,
    ) -> Result<(), MoveError> {
        if old.is_empty() {
            return Ok(());
        }
        let accounts = old.into_iter().map(|(_, account)| account.account).collect();
        let (tenant, placement) = (tenant.clone(), placement.clone());
        self.have_done(&MoveAsk::StepDown { tenant, placement, accounts }).await
    }

    /// Makes sure that an account is at home elsewhere. Gives its name then.
    async fn see_off(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
        (shard, here): (Shard, SourceAccount),
    ) -> Result<AccountName, MoveError> {
        let account = here.account.clone();
        // What a lost home has decided besides is its tail: it decides no more. What the new home does not
        // know was never answered.
        if placement.beginning == Beginning::FailedOver {
            return Ok(account);
        }
        let ended = Epoch(placement.epoch.0.saturating_sub(1));
        let departure = Departure { epoch: ended, to: placement.home };
        let has_moved = placement.beginning == Beginning::Moved;
        let mut presence = match here.stopped {
            Some(stopped) if has_moved && stopped == departure => {
                self.open_there(placement, shard, &here).await?
            }
            _ => self.presence_there(placement.home, shard, &account).await?,
        };
        if has_moved && is_late(&here, departure, presence) {
            presence = self.bring_late(tenant, placement, (shard, departure, &account)).await?;
        }
        match presence {
            Presence::AtHome { epoch } if epoch > here.epoch => Ok(account),
            _ => Err(MoveError::NotYet),
        }
    }

    async fn open_there(
        &self,
        placement: &TenantPlacement,
        shard: Shard,
        here: &SourceAccount,
    ) -> Result<Presence, MoveError> {
        let (account, head) = (here.account.clone(), here.head);
        let placement = placement.clone();
        let home = placement.home;
        let ask = MoveAsk::TakeHome { account, placement, way: Way::Moved, head };
        self.ask_presence((home, shard), ask).await
    }

    async fn presence_there(
        &self,
        home: Region,
        shard: Shard,
        account: &AccountName,
    ) -> Result<Presence, MoveError> {
        self.ask_presence((home, shard), MoveAsk::Presence { account: account.clone() }).await
    }

    async fn ask_presence(
        &self,
        whom: (Region, Shard),
        ask: MoveAsk,
    ) -> Result<Presence, MoveError> {
        match self.ask_move(whom, ask, Instant::now() + PATIENCE).await? {
            MoveAnswer::Presence(presence) => Ok(presence),
            _ => Err(MoveError::Foreign),
        }
    }

    /// Brings an account over that was opened here when the others had left already.
    async fn bring_late(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
        (shard, departure, account): (Shard, Departure, &AccountName),
    ) -> Result<Presence, MoveError> {
        let until = Instant::now() + PATIENCE;
        let stop = MoveAsk::Stop { tenant: tenant.clone(), departure, revives: false };
        self.ask_all_here(&stop, until).await?;
        let mut copy = Copying::new(account.clone(), shard, placement.home);
        copy.look(self).await?;
        self.bring_rest(vec![copy], departure, until).await?;
        let accounts = self.accounts_here(tenant).await?;
        let here = accounts.into_iter().find(|(_, here)| here.account == *account);
        let (_, here) = here.ok_or(MoveError::Gone)?;
        self.open_there(placement, shard, &here).await
    }

    /// The accounts of a tenant that are at home in this region.
    pub(super) async fn accounts_here(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<(Shard, SourceAccount)>, MoveError> {
        let ask = MoveAsk::Accounts { tenant: tenant.clone() };
        self.ask_all_here(&ask, Instant::now() + PATIENCE).await
    }

    async fn ask_all_here(
        &self,
        ask: &MoveAsk,
        deadline: Instant,
    ) -> Result<Vec<(Shard, SourceAccount)>, MoveError> {
        self.ask_all_in(self.links.own(), ask, deadline).await
    }

    /// Asks all shards of a region which accounts they have.
    pub(super) async fn ask_all_in(
        &self,
        region: Region,
        ask: &MoveAsk,
        deadline: Instant,
    ) -> Result<Vec<(Shard, SourceAccount)>, MoveError> {
        let asking = self.all_shards().map(|shard| async move {
            match self.ask_move((region, shard), ask.clone(), deadline).await? {
                MoveAnswer::Accounts(accounts) => Ok((shard, accounts)),
                _ => Err(MoveError::Foreign),
            }
        });
        let answers = try_join_all(asking).await?;
        let with_shard = |(shard, accounts): (Shard, Vec<SourceAccount>)| {
            accounts.into_iter().map(move |account| (shard, account))
        };
        Ok(answers.into_iter().flat_map(with_shard).collect())
    }
}

/// Whether an account was not brought over with the others: it was opened when these had left. One that
/// was never stopped is nowhere else, unless a home was lost.
fn is_late(here: &SourceAccount, departure: Departure, presence: Presence) -> bool {
    match presence {
        Presence::AtHome { .. } => false,
        Presence::Absent => here.stopped.is_none_or(|stopped| stopped == departure),
        Presence::Arriving(_) => here.stopped == Some(departure),
    }
}
