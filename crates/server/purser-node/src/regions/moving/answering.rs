//! What the leader of a shard does about a step of a move.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use purser_ledger::{
    Account, AccountName, Answer, Booked, Command, Departure, Import, ImportPart, Ledger,
    MoveRefusal, MoveStep, Operation, Rejection, Stay, StepDown, Tail, TailPage, TakeHome, Way,
    codec,
};
use purser_placement::{Beginning, PlacementState, TenantPlacement};
use purser_raft::{Group, ProposeError, ReadError};
use purser_types::{Epoch, Region, TenantId};

use super::messages::{MoveAnswer, MoveAsk, Obstacle, OpenTail, Place, Presence, SourceAccount};
use crate::regions::messages::Answered;
use crate::regions::standby::ReplicaAsk;
use crate::regions::{PATIENCE, Regions};
use crate::shards::Shard;
use crate::tasks::chain;

/// How long a tail, or a part, may wait for standbys. Then it is asked for again.
const SECURE_PATIENCE: Duration = Duration::from_secs(2);

/// Why a step is not answered as asked.
enum NotAnswered {
    /// Another node leads, or none does.
    Elsewhere(Option<u64>),
    /// It may have happened; it can be asked for again.
    NotNow(String),
}

impl From<ProposeError> for NotAnswered {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NotLeader { leader } => Self::Elsewhere(leader.map(|node| node.0)),
            error => Self::NotNow(chain(&error)),
        }
    }
}

type Done<T> = Result<T, NotAnswered>;

impl Regions {
    /// Answers whoever tends a tenant.
    pub(in crate::regions) async fn answer_move(&self, shard: Shard, ask: MoveAsk) -> Answered {
        let Some(group) = self.groups.of_shard(shard) else {
            return Answered::NotNow { reason: "there is no such shard".to_owned() };
        };
        match self.do_step(group, ask).await {
            Ok(answer) => Answered::Move(answer),
            Err(NotAnswered::Elsewhere(leader)) => Answered::NotLeader { leader },
            Err(NotAnswered::NotNow(reason)) => Answered::NotNow { reason },
        }
    }

    async fn do_step(&self, group: &Group<Ledger>, ask: MoveAsk) -> Done<MoveAnswer> {
        match group.read_barrier(Instant::now() + PATIENCE).await {
            Ok(()) => (),
            Err(ReadError::NotLeader { leader }) => {
                return Err(NotAnswered::Elsewhere(leader.map(|node| node.0)));
            }
            Err(error) => return Err(NotAnswered::NotNow(chain(&error))),
        }
        Ok(match ask {
            MoveAsk::Accounts { tenant } => MoveAnswer::Accounts(accounts_of(group, &tenant)),
            MoveAsk::Stop { tenant, departure, revives } => {
                self.stop(group, &tenant, (departure, revives)).await?;
                MoveAnswer::Accounts(accounts_of(group, &tenant))
            }
            MoveAsk::Part { account, place } => self.next_part(group, account, place).await?,
            MoveAsk::Settle { tenant, placement } => {
                self.directory.learn(&tenant, &placement);
                MoveAnswer::Left(self.settle(group, &tenant, &placement).await?)
            }
            MoveAsk::StepDown { tenant, placement, accounts } => {
                self.directory.learn(&tenant, &placement);
                step_down(group, &placement, &accounts).await?;
                for account in &accounts {
                    self.moves.states.let_go(account, 0);
                    // Calls that wait for credits look for the home.
                    self.desk(account).tend_soon(account);
                }
                self.clear(group, &tenant, &placement).await?;
                MoveAnswer::Left(0)
            }
            MoveAsk::Presence { account } => MoveAnswer::Presence(presence_of(group, &account)),
            MoveAsk::Import { account, parts } => import(group, account, parts).await?,
            MoveAsk::TakeHome { account, placement, way, head } => {
                self.directory.learn(&account.tenant, &placement);
                if placement.home != self.links.own() {
                    return Err(NotAnswered::NotNow("the home is not to be here".to_owned()));
                }
                self.take_home(group, &account, (&placement, way, head)).await?;
                MoveAnswer::Presence(presence_of(group, &account))
            }
            MoveAsk::Look { tenant } => {
                // Order matters: whoever asks knows of news that this node may lack.
                let looking = self.directory.refresh(&tenant, Instant::now() + PATIENCE);
                looking.await.map_err(|error| NotAnswered::NotNow(chain(&error)))?;
                self.directory.look_again(&tenant);
                MoveAnswer::Left(0)
            }
            MoveAsk::Arriving { tenant } => {
                let arriving = arrivals_of(group, &tenant).len();
                MoveAnswer::Left(u64::try_from(arriving).unwrap_or(u64::MAX))
            }
            MoveAsk::Tails { tenant } => {
                self.secure_all(group, &tenant).await?;
                MoveAnswer::Tails(tails_of(group, &tenant)?)
            }
            MoveAsk::Tail { account, placement, epoch, after, earlier } => {
                let marks = std::iter::once(after).chain(earlier).collect();
                self.directory.learn(&account.tenant, &placement);
                step_down(group, &placement, std::slice::from_ref(&account)).await?;
                MoveAnswer::Tail(tail_page(group, &account, (epoch, marks)).await?)
            }
            MoveAsk::BookTail { account, page } => {
                // A part that is not taken leaves the tail where it was, which tells.
                self.ask_own(&account, Operation::BookTail(page)).await?;
                self.secure_all(group, &account.tenant).await?;
                let mut tails = tails_of(group, &account.tenant)?;
                tails.retain(|tail| tail.account == account);
                MoveAnswer::Tails(tails)
            }
        })
    }

    /// Waits until the standbys have what is known of a tenant here: what nobody asks a lost home again
    /// for, the next home has to know as well (R1).
    async fn secure_all(&self, group: &Group<Ledger>, tenant: &TenantId) -> Done<()> {
        let Some(index) = group.shown_index() else { return Ok(()) };
        let deadline = Instant::now() + SECURE_PATIENCE;
        for SourceAccount { account, .. } in accounts_of(group, tenant) {
            self.secure(&account, index, deadline).await?;
        }
        Ok(())
    }

    async fn secure(&self, account: &AccountName, index: u64, deadline: Instant) -> Done<()> {
        let secured = self.watch(account).secure(account, index, deadline).await;
        secured.map_err(|error| NotAnswered::NotNow(chain(&error)))
    }

    /// Stops a tenant's accounts.
    async fn stop(
        &self,
        group: &Group<Ledger>,
        tenant: &TenantId,
        (departure, revives): (Departure, bool),
    ) -> Done<()> {
        for SourceAccount { account, epoch, stopped, .. } in accounts_of(group, tenant) {
            if stopped == Some(departure) || (stopped.is_some() && !revives) {
                continue;
            }
            if epoch < departure.epoch {
                let stay = Stay { epoch: departure.epoch };
                self.ask_own(&account, Operation::Stay(stay)).await?;
            }
            self.ask_own(&account, Operation::Stop(departure)).await?;
            // Calls that wait for credits wait for the new home instead.
            self.desk(&account).tend_soon(&account);
        }
        Ok(())
    }

    /// Asks an account for something of home's own; whether it was done, or needs not be done.
    async fn ask_own(&self, account: &AccountName, operation: Operation) -> Done<bool> {
        match self.desk(account).propose(account, operation).await? {
            Ok(_) | Err(Rejection::NothingNew) => Ok(true),
            Err(rejection) => {
                let tenant = account.tenant.as_str();
                tracing::debug!(tenant, %rejection, "an account did not take a step of a move");
                Ok(false)
            }
        }
    }

    /// Answers whoever takes over from a lost home, with what this node has of it.
    pub(in crate::regions) async fn answer_replica(
        &self,
        (home, shard): (Region, Shard),
        (tenant, placement): (&TenantId, &TenantPlacement),
        ask: ReplicaAsk,
    ) -> Answered {
        let Some(replicas) = &self.replicas else {
            return Answered::NotNow { reason: "nothing is followed here".to_owned() };
        };
        let whole = match replicas.freeze((home, shard), (tenant, placement)).await {
            Ok(whole) => whole,
            Err(reason) => return Answered::NotNow { reason },
        };
        let (account, place) = match ask {
            ReplicaAsk::Accounts if whole.machine.has_left_for(tenant, placement.epoch) => {
                let (name, epoch) = (tenant.as_str(), placement.epoch.0);
                tracing::error!(tenant = name, epoch, %home, "a replica has left with the lost home");
                return Answered::NotNow { reason: "the replica has left".to_owned() };
            }
            ReplicaAsk::Accounts if whole.last.is_none() => {
                tracing::error!(%home, shard = shard.0, "nothing of a lost home's shard is here");
                return Answered::NotNow { reason: "the replica is empty".to_owned() };
            }
            ReplicaAsk::Accounts => {
                return Answered::Move(MoveAnswer::Accounts(accounts_in(&whole.machine, tenant)));
            }
            ReplicaAsk::Part { account, place } => (account, place),
        };
        let states = Arc::clone(&self.moves.states);
        let reading = tokio::task::spawn_blocking(move || {
            let Some(account) = whole.machine.account(&account).cloned() else { return Ok(None) };
            states.next_part(&account, place, whole.history()).map(Some)
        });
        match reading.await {
            Ok(Ok(part)) => Answered::Move(MoveAnswer::Part(part)),
            Ok(Err(error)) => Answered::NotNow { reason: chain(&error) },
            Err(error) => Answered::NotNow { reason: chain(&error) },
        }
    }

    /// The next part of an account, once the standbys have it. The destination tells what it is brought
    /// in its own feed at once: were the source failed over to a standby that lacks it, the same names
    /// would be told with other entries.
    async fn next_part(
        &self,
        group: &Group<Ledger>,
        account: AccountName,
        place: Place,
    ) -> Done<MoveAnswer> {
        let account = group.view(|ledger, _| ledger.account(&account).cloned());
        let Some(account) = account else { return Ok(MoveAnswer::Part(None)) };
        // Order matters: the index is read after the account, so it is not too low.
        if let Some(index) = group.shown_index() {
            self.secure(account.name(), index, Instant::now() + SECURE_PATIENCE).await?;
        }
        let history = group.history();
        let states = Arc::clone(&self.moves.states);
        let reading =
            tokio::task::spawn_blocking(move || states.next_part(&account, place, &history));
        match reading.await {
            Ok(Ok(part)) => Ok(MoveAnswer::Part(Some(part))),
            Ok(Err(error)) => Err(NotAnswered::NotNow(chain(&error))),
            Err(error) => Err(NotAnswered::NotNow(chain(&error))),
        }
    }

    /// Has accounts go on under the epoch of a placement whose home is here, and those become home that
    /// are here as a whole. How many could not.
    async fn settle(
        &self,
        group: &Group<Ledger>,
        tenant: &TenantId,
        placement: &TenantPlacement,
    ) -> Done<u64> {
        let mut left = 0;
        for SourceAccount { account, epoch, .. } in accounts_of(group, tenant) {
            if epoch >= placement.epoch {
                continue;
            }
            // Only a move that was given up leaves the home where it was. After any other beginning this is
            // what an earlier home has left behind, which does not go on.
            let may_stay = placement.beginning == Beginning::Aborted;
            let stay = Operation::Stay(Stay { epoch: placement.epoch });
            let has_followed = may_stay && self.ask_own(&account, stay).await?;
            self.moves.states.let_go(&account, 0);
            left += u64::from(!has_followed);
        }
        let ended = Epoch(placement.epoch.0.saturating_sub(1));
        let departure = Departure { epoch: ended, to: placement.home };
        for (account, arriving) in arrivals_of(group, tenant) {
            let is_whole = arriving.is_whole(departure);
            if placement.beginning == Beginning::Moved && is_whole {
                self.take_home(group, &account, (placement, Way::Moved, arriving.head)).await?;
            }
            let is_home = matches!(presence_of(group, &account), Presence::AtHome { .. });
            left += u64::from(!is_home);
        }
        Ok(left)
    }

    async fn take_home(
        &self,
        group: &Group<Ledger>,
        account: &AccountName,
        (placement, way, head): (&TenantPlacement, Way, Booked),
    ) -> Done<()> {
        let (home, epoch) = (placement.home, placement.epoch);
        let take = TakeHome { account: account.clone(), home, epoch, way, head };
        match propose(group, &Command::TakeHome(take)).await? {
            Ok(_) => {
                // Regions report to here from now on, this one's own book among them.
                self.desk(account).take_on(account);
                self.outpost(account).report_anew(account, home);
            }
            Err(refusal) => {
                let tenant = account.tenant.as_str();
                tracing::debug!(tenant, %refusal, "an account cannot be at home here yet");
            }
        }
        Ok(())
    }

    /// Throws away what was brought here by moves that were given up.
    async fn clear(
        &self,
        group: &Group<Ledger>,
        tenant: &TenantId,
        placement: &TenantPlacement,
    ) -> Done<()> {
        let own = self.links.own();
        let may_come = placement.home == own
            || matches!(placement.state, PlacementState::Moving { to } if to == own);
        let left: Vec<AccountName> = group.view(|ledger, _| {
            let old = ledger.arrivals_of(tenant).filter(|(_, _, epoch)| *epoch < placement.epoch);
            old.map(|(account, ..)| account.clone()).collect()
        });
        for account in left.into_iter().filter(|_| !may_come) {
            let abandon = Import { account, part: ImportPart::Abandon };
            // Whatever there is to refuse, it is not there any more.
            drop(propose(group, &Command::Import(abandon)).await?);
        }
        Ok(())
    }
}

fn accounts_of(group: &Group<Ledger>, tenant: &TenantId) -> Vec<SourceAccount> {
    group.view(|ledger, _| accounts_in(ledger, tenant))
}

fn accounts_in(ledger: &Ledger, tenant: &TenantId) -> Vec<SourceAccount> {
    let shown = |account: &Arc<Account>| {
        let head = account.head();
        SourceAccount {
            account: account.name().clone(),
            epoch: account.epoch(),
            head: Booked { sequence: head.sequence, hash: Some(head.hash) },
            stopped: account.stopped(),
        }
    };
    ledger.accounts_of(tenant).map(shown).collect()
}

fn tails_of(group: &Group<Ledger>, tenant: &TenantId) -> Done<Vec<OpenTail>> {
    let (ledger, history) = (group.machine(), group.history());
    let mut open = Vec::new();
    for account in ledger.accounts_of(tenant) {
        for tail in account.tails() {
            let marks = account.tail_marks(tail, &history);
            let marks = marks.map_err(|error| NotAnswered::NotNow(chain(&error)))?;
            let (account, earlier) = (account.name().clone(), marks.into_iter().skip(1).collect());
            let Tail { from, epoch, booked, .. } = *tail;
            open.push(OpenTail { account, from, epoch, booked, earlier });
        }
    }
    Ok(open)
}

/// What a home that was lost had decided after the first of some entries that it had. Reads its history.
async fn tail_page(
    group: &Group<Ledger>,
    account: &AccountName,
    (epoch, marks): (Epoch, Vec<Booked>),
) -> Done<Option<TailPage>> {
    let (ledger, history, account) = (group.machine(), group.history(), account.clone());
    let reading =
        tokio::task::spawn_blocking(move || ledger.tail_after(&account, epoch, &marks, &history));
    match reading.await {
        Ok(Ok(page)) => Ok(page),
        Ok(Err(error)) => Err(NotAnswered::NotNow(chain(&error))),
        Err(error) => Err(NotAnswered::NotNow(chain(&error))),
    }
}

fn arrivals_of(
    group: &Group<Ledger>,
    tenant: &TenantId,
) -> Vec<(AccountName, super::messages::Arriving)> {
    group.view(|ledger, _| {
        let arrivals = ledger.arrivals_of(tenant);
        arrivals.map(|(account, progress, _)| (account.clone(), progress.into())).collect()
    })
}

fn presence_of(group: &Group<Ledger>, account: &AccountName) -> Presence {
    group.view(|ledger, _| match (ledger.account(account), ledger.arrival(account)) {
        (Some(home), _) => Presence::AtHome { epoch: home.epoch() },
        (None, Some(progress)) => Presence::Arriving(progress.into()),
        (None, None) => Presence::Absent,
    })
}

/// Takes over parts of an account, in their order, until one is refused.
async fn import(
    group: &Group<Ledger>,
    account: AccountName,
    parts: Vec<ImportPart>,
) -> Done<MoveAnswer> {
    let mut refused = None;
    for part in parts {
        let import = Import { account: account.clone(), part };
        if let Err(refusal) = propose(group, &Command::Import(import)).await? {
            refused = obstacle(&refusal);
            if refused == Some(Obstacle::Unsound) {
                let tenant = account.tenant.as_str();
                tracing::error!(tenant, %refusal, "a part of an account is refused");
            }
            break;
        }
    }
    Ok(MoveAnswer::Imported { presence: presence_of(group, &account), refused })
}

/// What a refusal means for whoever brings the parts; nothing if it is at home already.
const fn obstacle(refusal: &MoveRefusal) -> Option<Obstacle> {
    match refusal {
        MoveRefusal::AtHome { .. } => None,
        MoveRefusal::NotHere | MoveRefusal::Gap { .. } => Some(Obstacle::Gap),
        MoveRefusal::Forked { .. } => Some(Obstacle::Forked),
        MoveRefusal::Unsound { .. }
        | MoveRefusal::NotTheEnd { .. }
        | MoveRefusal::NotStopped
        | MoveRefusal::MemoryMissing
        | MoveRefusal::Fenced { .. } => Some(Obstacle::Unsound),
    }
}

async fn step_down(
    group: &Group<Ledger>,
    placement: &TenantPlacement,
    accounts: &[AccountName],
) -> Done<()> {
    let (home, epoch) = (placement.home, placement.epoch);
    for account in accounts {
        let is_here = group.view(|ledger, _| ledger.account(account).is_some());
        if !is_here {
            continue;
        }
        let step_down = StepDown { account: account.clone(), home, epoch };
        if let Err(refusal) = propose(group, &Command::StepDown(step_down)).await? {
            let tenant = account.tenant.as_str();
            tracing::warn!(tenant, %refusal, "an account does not step down");
        }
    }
    Ok(())
}

async fn propose(group: &Group<Ledger>, command: &Command) -> Done<Result<MoveStep, MoveRefusal>> {
    let command = Bytes::from(codec::encode(command));
    match group.propose(command, Instant::now() + PATIENCE).await? {
        Answer::Move(step) => Ok(step),
        Answer::Account(_)
        | Answer::Swept { .. }
        | Answer::PassedOn(_)
        | Answer::Life(_)
        | Answer::Leased(_)
        | Answer::Sink(_) => {
            Err(NotAnswered::NotNow("a step of a move was answered like something else".to_owned()))
        }
    }
}
