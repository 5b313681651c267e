//! A little life for a development cluster: a few operations a second in each region, over the API
//! like any other.
//!
//! Work of every kind comes by in turn: it succeeds and costs less than was set aside, fails and is
//! released, is charged at once, is charged and refunded, is forgotten, and now and then a tenant
//! cannot pay. The order is fixed, so what a person sees on a dashboard has a reason that can be
//! read here. Each region's work is asked for at that region's nodes, as a gateway there would; every
//! tenant works in every region.

use std::time::Duration;

use purser_api::{
    AuthorizeRequest, CaptureAmount, CaptureRequest, ChargeRequest, Hold, ProblemCode, Reason,
    RefundRequest, ReleaseRequest, SubjectId, TtlSeconds,
};
use purser_client::{Account, Call, Client, ClientError};
use purser_types::Credits;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::dev::seed::{self, FIRST_TENANT, OTHER_SHARD_TENANT, POOR_TENANT};

/// Pause between two pieces of work; each makes one or two calls.
const PAUSE: Duration = Duration::from_millis(400);
/// How long a forgotten hold lives: long enough to be seen.
const FORGOTTEN_TTL_SECONDS: u32 = 20;
/// Who works, in turn. The poor tenant is one of them and runs dry.
const TENANTS: &[&str] = &[FIRST_TENANT, OTHER_SHARD_TENANT, "globex", POOR_TENANT];

/// What becomes of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// Set aside, done, and cheaper than feared.
    Captured,
    /// Set aside, failed, given back.
    Released,
    /// Charged at once.
    Charged,
    /// Charged at once, failed, refunded.
    Refunded,
    /// Set aside and forgotten, until the hold expires.
    Forgotten,
}

/// The turn of work; most of it succeeds.
const WORK: &[Work] = &[
    Work::Captured,
    Work::Captured,
    Work::Charged,
    Work::Captured,
    Work::Released,
    Work::Captured,
    Work::Captured,
    Work::Refunded,
    Work::Captured,
    Work::Charged,
    Work::Captured,
    Work::Forgotten,
    Work::Captured,
];

/// What a piece of work may cost, in turn: between 20 and 100 credits.
const COSTS: &[u64] = &[20, 57, 94, 50, 87, 43, 80, 36, 73, 29, 66, 22, 59, 96, 52, 89, 45];

/// The `turn`-th piece of work: whose it is, what becomes of it, and what it may cost.
fn turn_of(turn: usize) -> (&'static str, Work, u64) {
    let (tenant, work) = (TENANTS[turn % TENANTS.len()], WORK[turn % WORK.len()]);
    (tenant, work, COSTS[turn % COSTS.len()])
}

/// Works until `stop`, from the `first`-th piece of work on.
pub(super) async fn flow(client: Client, first: usize, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for turn in (first..usize::MAX).cycle() {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let (tenant, work, cost) = turn_of(turn);
        tokio::select! {
            biased;
            // What is on its way may be left there: that is what keys and deadlines are for.
            () = stop.cancelled() => return,
            () = take_turn(&client, tenant, work, cost) => {}
        }
    }
}

async fn take_turn(client: &Client, tenant: &'static str, work: Work, cost: u64) {
    let account = client.account(seed::tenant(tenant));
    match do_work(&account, work, cost).await {
        Ok(()) => {}
        Err(ClientError::Refused(problem)) => {
            tracing::debug!(tenant, code = %problem.code, "demo work was refused");
            let is_dry = problem.known_code() == Some(ProblemCode::InsufficientCredits);
            if is_dry && tenant != POOR_TENANT {
                top_up(client, tenant).await;
            }
        }
        // A node may just have been killed on purpose; the next piece of work tries again.
        Err(error) => tracing::debug!(tenant, %error, "demo work got no answer"),
    }
}

async fn top_up(client: &Client, tenant: &'static str) {
    if let Err(error) = seed::top_up(client, tenant).await {
        tracing::debug!(tenant, %error, "a demo tenant could not be topped up");
    }
}

async fn do_work(account: &Account, work: Work, cost: u64) -> Result<(), ClientError> {
    match work {
        Work::Captured => {
            let hold = authorize(account, cost, None).await?;
            let request = CaptureRequest { amount: Some(actual(cost)), ..Default::default() };
            account.capture(&hold.hold_id, &request, &Call::new()).await?;
        }
        Work::Released => {
            let hold = authorize(account, cost, None).await?;
            let reason = Some(reason("the work failed"));
            let request = ReleaseRequest { reason, ..Default::default() };
            account.release(&hold.hold_id, &request, &Call::new()).await?;
        }
        Work::Charged => {
            let request = ChargeRequest::new(seed::amount(cost));
            account.charge(&request, &Call::new()).await?;
        }
        Work::Refunded => {
            let request = ChargeRequest::new(seed::amount(cost));
            let charged = account.charge(&request, &Call::new()).await?;
            let subject = SubjectId::Charge(charged.body.charge.charge_id);
            let request = RefundRequest { amount: None, reason: reason("the work failed") };
            account.refund(&subject, &request, &Call::new()).await?;
        }
        Work::Forgotten => {
            let ttl = TtlSeconds::try_from(FORGOTTEN_TTL_SECONDS).expect("20 seconds are a ttl");
            authorize(account, cost, Some(ttl)).await?;
        }
    }
    Ok(())
}

async fn authorize(
    account: &Account,
    cost: u64,
    ttl: Option<TtlSeconds>,
) -> Result<Hold, ClientError> {
    let mut request = AuthorizeRequest::new(seed::amount(cost));
    request.ttl_seconds = ttl;
    Ok(account.authorize(&request, &Call::new()).await?.body.hold)
}

/// What the work cost in the end: four fifths of what was feared.
fn actual(cost: u64) -> CaptureAmount {
    let credits = Credits::from_u64(cost / 5 * 4).ok();
    let amount = credits.and_then(|credits| CaptureAmount::from_credits(credits).ok());
    amount.expect("demo amounts are small")
}

fn reason(text: &str) -> Reason {
    Reason::parse(text).expect("demo reasons are short and plain")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dev::DEV_TOKEN;

    /// A cluster that answers nothing must not hold up its own end.
    #[tokio::test]
    async fn a_stop_does_not_wait_for_an_answer() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let (client, stop) = (Client::new([url], DEV_TOKEN).unwrap(), CancellationToken::new());
        let stop_once_asked = async {
            let asked = silent.accept().await.unwrap();
            stop.cancel();
            asked
        };
        let ending = async { tokio::join!(flow(client, 0, stop.clone()), stop_once_asked) };
        let ended = tokio::time::timeout(crate::dev::GRACE, ending).await;
        assert!(ended.is_ok(), "traffic ends within its grace period");
    }

    #[test]
    fn every_tenant_comes_to_do_every_kind_of_work() {
        let turns = (0..TENANTS.len() * WORK.len()).map(turn_of);
        let seen: BTreeSet<_> = turns.map(|(tenant, work, _)| (tenant, work)).collect();
        let tenants: BTreeSet<_> = TENANTS.iter().collect();
        let kinds: BTreeSet<_> = WORK.iter().collect();
        assert_eq!(seen.len(), tenants.len() * kinds.len());
    }
}
