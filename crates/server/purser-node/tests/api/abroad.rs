//! What tests of several regions have in common: places, opening, spending, waiting for what must come.

use serde_json::{Value, json};

use crate::support::{Answer, Caller, Cluster};
use crate::waiting::{read_until, until_status, wait_for};

/// Places of the nodes in [`crate::support::Cluster::of_regions`].
pub(crate) const US: usize = 0;
pub(crate) const EU: usize = 1;
pub(crate) const AP: usize = 2;

/// What acme has out.
pub(crate) const ALLOCATIONS: &str = "/admin/v1/tenants/acme/allocations";
/// The regions as a node sees them.
pub(crate) const REGIONS: &str = "/admin/v1/regions";
pub(crate) const OVERSPEND: &str = "/admin/v1/overspend";

/// Opens a tenant with this home and grants it credits.
pub(crate) async fn open_in(caller: &Caller, tenant: &str, home: &str, credits: u64) {
    let body = json!({ "tenant": tenant, "home": home });
    caller.post("/admin/v1/tenants", &format!("open-{tenant}"), &body).await.expect(201);
    let path = format!("/admin/v1/tenants/{tenant}/grants");
    let body = json!({ "amount": credits });
    caller.post(&path, &format!("grant-{tenant}"), &body).await.expect(201);
}

/// Charges a tenant, in the region that is asked if it can.
pub(crate) async fn charge(caller: &Caller, tenant: &str, key: &str, amount: u64) -> Answer {
    let path = format!("/v1/tenants/{tenant}/charges");
    caller.post(&path, key, &json!({ "amount": amount })).await
}

/// Charges acme at home.
pub(crate) async fn strictly(caller: &Caller, key: &str, amount: u64) -> Answer {
    let body = json!({ "amount": amount, "consistency": "strict" });
    caller.post("/v1/tenants/acme/charges", key, &body).await
}

pub(crate) fn decided_by(answer: &Answer) -> &str {
    answer.header("purser-decided-by")
}

/// Charges one credit after another until the region decides by itself; gives what was spent.
pub(crate) async fn make_local(caller: &Caller, tenant: &str, region: &str) -> u64 {
    let by = format!("region={region}, role=allocation");
    let mut spent = 0;
    wait_for(format!("{region} decides for {tenant}"), async || {
        let answer = charge(caller, tenant, &format!("{region}-{spent}"), 1).await.expect(201);
        spent += 1;
        if decided_by(&answer) == by { Ok(()) } else { Err(decided_by(&answer).to_owned()) }
    })
    .await;
    spent
}

/// acme's balance once home has booked `used` and holds `held`; its credits must add up to `granted`.
pub(crate) async fn add_up(caller: &Caller, (used, held): (u64, u64), granted: u64) -> Answer {
    let (used_text, held_text) = (used.to_string(), held.to_string());
    let is_it = |body: &Value| body["used"] == *used_text && body["held"] == *held_text;
    let balance = read_until(caller, "/v1/tenants/acme/balance", is_it).await;
    let regions = balance.body["allocated"].as_object().unwrap().values();
    let out: u64 = regions.map(|amount| amount.as_str().unwrap().parse::<u64>().unwrap()).sum();
    let available: u64 = balance.text("/available").parse().unwrap();
    assert_eq!(available + out + used + held, granted, "{:#}", balance.body);
    assert_eq!(balance.text("/debt"), "0");
    balance
}

/// Asks until a call that needs home is refused because home cannot be reached.
pub(crate) async fn until_cut_off(caller: &Caller) {
    let mut number = 0;
    let refused = until_status(503, "a strict call of a region that is cut off", async || {
        number += 1;
        strictly(caller, &format!("probe-{number}"), 1_000_000).await
    });
    refused.await.expect_problem(503, "home_unreachable");
}

/// Spends all that a region that is cut off has left; gives how much that was.
pub(crate) async fn spend_alone(caller: &Caller, tenant: &str) -> u64 {
    let mut spent = 0;
    for amount in [10, 1] {
        for number in 0.. {
            let key = format!("alone-{amount}-{number}");
            let answer = charge(caller, tenant, &key, amount).await;
            if answer.status != 201 {
                answer.expect_problem(503, "home_unreachable");
                break;
            }
            spent += amount;
        }
    }
    spent
}

/// The allocation of a region in a list.
pub(crate) fn of<'a>(list: &'a Value, region: &str) -> &'a Value {
    let items = list["items"].as_array().unwrap().iter();
    items.clone().find(|item| item["region"] == region).unwrap_or(&Value::Null)
}

pub(crate) fn amount(value: &Value) -> u64 {
    value.as_str().unwrap_or_else(|| panic!("{value} is no amount")).parse().unwrap()
}

/// Waits until all that a region has spent is booked at home, and it has taken up home's last word.
pub(crate) async fn settled(caller: &Caller, tenant: &str, region: &str, used: u64) -> Value {
    let used = used.to_string();
    let balance = format!("/v1/tenants/{tenant}/balance");
    read_until(caller, &balance, |body| body["used"] == used.as_str()).await;
    let path = format!("/admin/v1/tenants/{tenant}/allocations");
    let listed = read_until(caller, &path, |body| of(body, region)["is_current"] == true).await;
    of(&listed.body, region).clone()
}

/// Has a node lead everything in its region.
pub(crate) async fn have_lead(caller: &Caller, place: usize) {
    let shown = caller.get("/admin/v1/cluster").await.expect(200);
    let headers = [("content-type", "application/json")];
    for group in shown.body["groups"].as_array().unwrap() {
        let path = format!("/admin/v1/cluster/groups/{}/leader", group["group"]);
        let body = json!({ "node": place + 1 }).to_string();
        caller.raw("PUT", &path, &headers, body.into()).await.expect(200);
    }
}

/// The place of the node that leads Placement, as a node knows it.
pub(crate) async fn placement_leader(caller: &Caller) -> usize {
    let known = read_until(caller, REGIONS, |body| body["placement_leader"].is_u64()).await;
    usize::try_from(known.body["placement_leader"].as_u64().unwrap()).unwrap() - 1
}

/// Has the node at `place` lead Placement: whoever else leads it is cut off until he is replaced. Everybody
/// hears everybody afterwards.
pub(crate) async fn have_lead_placement(cluster: &Cluster, place: usize) {
    let caller = cluster.caller(place, "root");
    loop {
        let leader = placement_leader(&caller).await;
        if leader == place {
            break;
        }
        cluster.cut(leader);
        let is_another = |body: &Value| {
            body["placement_leader"].as_u64().is_some_and(|node| node != number_of(leader))
        };
        read_until(&caller, REGIONS, is_another).await;
        cluster.heal(leader);
    }
    for place in [US, EU, AP] {
        let hears_all = |body: &Value| {
            let mut regions = body["regions"].as_array().unwrap().iter();
            regions.all(|region| region["is_reachable"] == true)
        };
        read_until(&cluster.caller(place, "root"), REGIONS, hears_all).await;
    }
}

/// The number of the node at `place`.
pub(crate) fn number_of(place: usize) -> u64 {
    u64::try_from(place).unwrap() + 1
}
