//! The tenants that a development cluster starts with. Their homes are the regions by turns.
//!
//! Bringing them in again changes nothing: a tenant that exists is left as it is, and every grant
//! names a `source_ref`, which an account grants once. So a restart keeps what was spent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::try_join_all;
use purser_api::{
    CallAmount, GrantRequest, LotCategory, Moment, OpenTenantRequest, PolicyRequest, ProblemCode,
    RegionName, TenantName, UnitName,
};
use purser_client::{Call, Client, ClientError};
use purser_types::{Credits, LogTime, Region, Span, TenantId};

use crate::failure::CommandError;

/// A tenant that always has credits; the one of the banner's call.
pub(super) const FIRST_TENANT: &str = "acme";
/// A tenant that runs dry within minutes, to show what a refusal looks like.
pub(super) const POOR_TENANT: &str = "initech";

/// A tenant of the shard that the others do not lie in: there are two, and each is to have work.
pub(super) const OTHER_SHARD_TENANT: &str = "hooli";

/// How much of a demo tenant home answers before its standby has it, so that its calls do not wait
/// for the distance between regions. Traffic has at most one piece of work in each region under way,
/// of at most 100 credits that are authorized and captured: three times two times 100.
const UNACKNOWLEDGED_MAX: u64 = 1_000;

/// How long the demo data may take to come in: leaders have been elected by then.
const PATIENCE: Duration = Duration::from_secs(30);

struct DemoLot {
    tenant: &'static str,
    source_ref: &'static str,
    amount: u64,
    category: LotCategory,
    /// How many days it lives; for ever without.
    days: Option<u64>,
}

/// Paid credits for ever, promotional ones for a month: the burn-down order shows at once.
const LOTS: &[DemoLot] = &[
    DemoLot {
        tenant: FIRST_TENANT,
        source_ref: "demo-welcome",
        amount: 50_000,
        category: LotCategory::Promotional,
        days: Some(30),
    },
    DemoLot {
        tenant: FIRST_TENANT,
        source_ref: "demo-order-1",
        amount: 1_000_000,
        category: LotCategory::Paid,
        days: None,
    },
    DemoLot {
        tenant: "globex",
        source_ref: "demo-order-1",
        amount: 400_000,
        category: LotCategory::Paid,
        days: None,
    },
    DemoLot {
        tenant: OTHER_SHARD_TENANT,
        source_ref: "demo-order-1",
        amount: 400_000,
        category: LotCategory::Paid,
        days: None,
    },
    DemoLot {
        tenant: POOR_TENANT,
        source_ref: "demo-trial",
        amount: 2_000,
        category: LotCategory::Promotional,
        days: Some(14),
    },
];

/// Opens the demo tenants and gives them their credits, unless that was done before. Each is asked
/// for in its home region, of which `regions` has the clients; all at once, because each call waits
/// for a round trip to the standby.
pub(super) async fn bring_in(regions: &[(Region, Client)]) -> Result<(), CommandError> {
    let tenants = LOTS.chunk_by(|lot, next| lot.tenant == next.tenant);
    let homes = regions.iter().cycle();
    let coming = tenants.zip(homes).map(|(lots, (home, client))| bring_one_in(client, *home, lots));
    try_join_all(coming).await.map(drop)
}

async fn bring_one_in(
    client: &Client,
    home: Region,
    lots: &'static [DemoLot],
) -> Result<(), CommandError> {
    let Some(DemoLot { tenant: name, .. }) = lots.first() else { return Ok(()) };
    open(client, name, home).await.map_err(failed)?;
    let account = client.admin().account(tenant(name));
    for lot in lots {
        let request = lot.request().ok_or_else(|| {
            CommandError::Failed("this machine's clock is not between 1970 and 9999".to_owned())
        })?;
        account.grant(&request, &Call::new().within(PATIENCE)).await.map_err(failed)?;
    }
    Ok(())
}

async fn open(client: &Client, name: &'static str, home: Region) -> Result<(), ClientError> {
    let request = OpenTenantRequest {
        tenant: TenantName(tenant(name)),
        unit: UnitName::default(),
        home: Some(RegionName(home)),
        standbys: None,
        policy: PolicyRequest {
            unacknowledged_max: Some(credits(UNACKNOWLEDGED_MAX).into()),
            ..PolicyRequest::default()
        },
    };
    match client.admin().open_tenant(&request, &Call::new().within(PATIENCE)).await {
        Err(ClientError::Refused(problem))
            if problem.known_code() == Some(ProblemCode::TenantExists) =>
        {
            Ok(())
        }
        opened => opened.map(|_opened| ()),
    }
}

fn failed(error: ClientError) -> CommandError {
    CommandError::broken("the demo data could not be brought in", error)
}

impl DemoLot {
    /// The grant. `None` if this machine's clock is beyond what the log can say.
    fn request(&self) -> Option<GrantRequest> {
        let mut request = GrantRequest::new(amount(self.amount));
        request.category = self.category;
        let source_ref = self.source_ref.parse();
        request.source_ref = Some(source_ref.expect("the names above are short and plain"));
        if let Some(days) = self.days {
            let expires_at = now()?.saturating_add(Span::from_days(days));
            request.expires_at = Some(Moment(expires_at));
        }
        Some(request)
    }
}

/// Gives a tenant that is to go on spending another lot, as one that buys more would be given.
pub(super) async fn top_up(client: &Client, name: &'static str) -> Result<(), ClientError> {
    let request = GrantRequest::new(amount(100_000));
    let account = client.admin().account(tenant(name));
    account.grant(&request, &Call::new()).await.map(|_granted| ())
}

/// A demo tenant's name.
pub(super) fn tenant(name: &'static str) -> TenantId {
    TenantId::parse(name).expect("demo tenants have plain names")
}

/// An amount of the demo.
pub(super) fn amount(credits: u64) -> CallAmount {
    CallAmount::from_credits(self::credits(credits)).expect("demo amounts are not zero")
}

fn credits(credits: u64) -> Credits {
    Credits::from_u64(credits).expect("demo amounts are small")
}

fn now() -> Option<LogTime> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    LogTime::from_unix_micros(u64::try_from(since.as_micros()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use purser_ledger::AccountName;
    use purser_node::ShardCount;
    use purser_types::Unit;

    use super::*;
    use crate::dev::settings::SHARDS;

    #[test]
    fn every_shard_has_a_demo_tenant() {
        let shards = ShardCount::from_u32(SHARDS).unwrap();
        let accounts = LOTS
            .iter()
            .map(|lot| AccountName { tenant: tenant(lot.tenant), unit: Unit::credits() });
        let used: BTreeSet<_> = accounts.map(|account| shards.shard_of(&account)).collect();
        assert_eq!(used, shards.shards().collect());
    }
}
