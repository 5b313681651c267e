//! What whole nodes show of the failure table of regions: leaders that die, Placement without a quorum,
//! storage that is lost. The rest of the table is in `regions`, `allocations` and `failovers`.

use serde_json::{Value, json};

use crate::abroad::{
    ALLOCATIONS, AP, EU, OVERSPEND, REGIONS, US, add_up, charge, decided_by, have_lead,
    have_lead_placement, make_local, of, open_in, strictly,
};
use crate::support::{Answer, Caller, Cluster};
use crate::waiting::{read_until, until_answered, until_status, wait_for};

/// What acme is granted.
const CREDITS: u64 = 10_000;

/// Places of nodes in [`Cluster::of_large_regions`].
const FIRST_IN_US: usize = 0;
const SECOND_IN_US: usize = 1;
const FIRST_IN_EU: usize = 3;
const SECOND_IN_EU: usize = 4;

/// A region as a node sees it.
fn of_region<'a>(known: &'a Value, name: &str) -> &'a Value {
    let mut regions = known["regions"].as_array().unwrap().iter();
    regions.find(|region| region["region"] == name).unwrap()
}

/// Charges under one key until it is known what became of it.
async fn until_charged(caller: &Caller, key: &str) -> Answer {
    let charged = until_answered("a charge", async || charge(caller, "acme", key, 1).await);
    charged.await.expect(201)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_whose_leader_dies_goes_on_with_its_right_after_an_election() {
    let cluster = Cluster::of_large_regions().await;
    let us = cluster.caller(FIRST_IN_US, "root");
    let eu = cluster.caller(SECOND_IN_EU, "root");
    open_in(&us, "acme", "us", CREDITS).await;
    have_lead(&cluster.caller(FIRST_IN_EU, "root"), FIRST_IN_EU).await;
    let mut used = make_local(&eu, "acme", "eu").await;
    cluster.lose(FIRST_IN_EU).await;
    let mut number = 0;
    wait_for("eu decides by itself", async || {
        let answer = until_charged(&eu, &format!("after-{number}")).await;
        number += 1;
        let is_local = decided_by(&answer) == "region=eu, role=allocation";
        if is_local { Ok(()) } else { Err(answer) }
    })
    .await;
    used += number;
    // Its successor knows what it has decided.
    let again = charge(&eu, "acme", "after-0", 1).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    add_up(&us, (used, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_whose_leader_dies_is_missed_by_nobody_who_spends_in_a_region() {
    let cluster = Cluster::of_large_regions().await;
    let us = cluster.caller(SECOND_IN_US, "root");
    let eu = cluster.caller(FIRST_IN_EU, "root");
    open_in(&us, "acme", "us", CREDITS).await;
    have_lead(&cluster.caller(FIRST_IN_US, "root"), FIRST_IN_US).await;
    let mut used = make_local(&eu, "acme", "eu").await;
    cluster.lose(FIRST_IN_US).await;
    let answer = charge(&eu, "acme", "meanwhile", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=allocation");
    let answer = until_charged(&us, "after").await;
    assert_eq!(decided_by(&answer), "region=us, role=home");
    used += 2;
    add_up(&us, (used, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_of_placement_homes_and_regions_go_on() {
    let mut cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", CREDITS).await;
    let mut used = make_local(&eu, "acme", "eu").await;
    cluster.lose(AP).await;
    cluster.cut(US);
    let answer = charge(&eu, "acme", "abroad", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=allocation");
    let answer = strictly(&us, "home", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=us, role=home");
    used += 2;
    let open = json!({ "tenant": "other", "home": "us" });
    let refused = us.post("/admin/v1/tenants", "open", &open).await;
    assert!(matches!(refused.status, 503 | 504), "{:#}", refused.body);

    cluster.heal(US);
    cluster.bring_back(AP).await;
    let opening = async || us.post("/admin/v1/tenants", "open", &open).await;
    until_answered("a tenant is opened", opening).await.expect(201);
    add_up(&us, (used, 0), CREDITS).await;
    cluster.end().await;
}

/// Opens a tenant whose home may take its time.
async fn until_opened(caller: &Caller, tenant: &str, home: &str) {
    let open = json!({ "tenant": tenant, "home": home });
    let key = format!("open-{tenant}");
    let opening = async || caller.post("/admin/v1/tenants", &key, &open).await;
    until_answered(format!("{tenant} is opened"), opening).await.expect(201);
}

/// Waits until a node has followed Placement as far as another has now.
async fn until_followed(caller: &Caller, other: &Caller) {
    let change = |body: &Value| body["placement_change"].as_u64();
    let latest = change(&other.get(REGIONS).await.expect(200).body);
    assert!(latest > Some(0));
    read_until(caller, REGIONS, |known| change(known) >= latest).await;
}

/// Breaks the link between `us` and whoever leads Placement, and has `us` go on with it.
async fn goes_on_without_its_link_to_the_leader_of_placement(
    break_link: impl FnOnce(&Cluster, usize, usize),
) {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    have_lead_placement(&cluster, EU).await;
    until_opened(&us, "abel", "ap").await;
    break_link(&cluster, US, EU);
    // A call that is lost before the silence is noticed ends without an answer; from then on another voter is
    // asked.
    until_opened(&us, "acme", "us").await;
    let is_silent = |body: &Value| of_region(body, "eu")["is_reachable"] == false;
    read_until(&us, REGIONS, is_silent).await;
    until_opened(&us, "bell", "us").await;
    until_opened(&eu, "other", "ap").await;
    let grant = json!({ "amount": 10 });
    let granting = async || ap.post("/admin/v1/tenants/other/grants", "grant", &grant).await;
    until_answered("a grant to other", granting).await.expect(201);
    let charging = async || charge(&us, "other", "one", 1).await;
    let answer = until_answered("a charge of other", charging).await.expect(201);
    assert_eq!(decided_by(&answer), "region=ap, role=home");
    // What others change meanwhile is learned without being asked for.
    let moved = "/admin/v1/tenants/abel/move";
    let json_body = [("content-type", "application/json")];
    let to_eu = async || ap.raw("POST", moved, &json_body, r#"{"to":"eu"}"#.into()).await;
    until_status(200, "a move to eu", to_eu).await;
    let is_there = |placed: &Value| placed["home"] == "eu" && placed["state"] == "settled";
    read_until(&ap, moved, is_there).await;
    until_followed(&us, &ap).await;
    read_until(&us, moved, is_there).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_not_hear_the_leader_of_placement_asks_and_learns_through_another_voter() {
    goes_on_without_its_link_to_the_leader_of_placement(Cluster::part).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_of_placement_is_asked_through_another_voter_also_where_packets_are_lost() {
    goes_on_without_its_link_to_the_leader_of_placement(Cluster::lose_packets).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_has_lost_its_storage_spends_nothing_of_what_it_had() {
    let mut cluster = Cluster::of_regions().await;
    let us = cluster.caller(US, "root");
    let eu = cluster.caller(EU, "root");
    open_in(&us, "acme", "us", CREDITS).await;
    let mut used = make_local(&eu, "acme", "eu").await;
    add_up(&us, (used, 0), CREDITS).await;
    let allocations = "/admin/v1/tenants/acme/allocations";
    let first = |body: &Value| {
        let items = body["items"].as_array().unwrap();
        let of_eu = |item: &&Value| item["region"] == "eu" && item["generation"] == "1";
        items.iter().find(of_eu).map(|item| item["outstanding"].clone())
    };
    cluster.lose_storage(EU).await;
    cluster.nodes[EU].connected().await;
    // What the old book had stays out, and nobody spends it.
    let out = first(&us.get(allocations).await.expect(200).body);
    assert!(out.is_some());
    let eu = cluster.caller(EU, "root");
    for number in 0..10 {
        let answer = until_charged(&eu, &format!("after-{number}")).await;
        assert!(!answer.text("/charge_id").ends_with("-1-eu"), "{:#}", answer.body);
        used += 1;
    }
    add_up(&us, (used, 0), CREDITS).await;
    assert_eq!(first(&us.get(allocations).await.expect(200).body), out);
    let overspend = us.get("/admin/v1/overspend?region=us").await.expect(200);
    assert_eq!(overspend.text("/bound"), "0");
    cluster.end().await;
}

/// Gives up on acme's first allocation in `eu`, as an operator would: a dry run first.
async fn write_off_first(caller: &Caller) -> Answer {
    let path = format!("{ALLOCATIONS}/eu/write-off");
    let reason = "its region was set back";
    // Regions report meanwhile, which changes the account: then it is shown again.
    until_status(200, "a write-off", async || {
        let dry = json!({ "generation": "1", "reason": reason, "dry_run": true });
        let shown = caller.post(&path, "dry", &dry).await.expect(200);
        let confirm = shown.text("/confirm");
        let body = json!({ "generation": "1", "reason": reason, "confirm": confirm });
        caller.post(&path, &format!("confirm-{confirm}"), &body).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_is_set_back_spends_nothing_of_what_it_had_and_an_operator_resolves_it() {
    let mut cluster = Cluster::of_regions().await;
    let us = cluster.caller(US, "root");
    let eu = cluster.caller(EU, "root");
    open_in(&us, "acme", "us", CREDITS).await;
    let mut used = make_local(&eu, "acme", "eu").await;
    let backup = cluster.back_up(EU).await;
    cluster.nodes[EU].connected().await;
    let eu = cluster.caller(EU, "root");
    // What it spends after the backup, home has booked.
    for number in 0..3 {
        let answer = until_charged(&eu, &format!("after-backup-{number}")).await;
        assert!(answer.text("/charge_id").ends_with("-1-eu"), "{answer}");
        used += 1;
    }
    add_up(&us, (used, 0), CREDITS).await;

    cluster.set_back(EU, &backup).await;
    cluster.nodes[EU].connected().await;
    let is_sealed = |body: &Value| of(body, "eu")["status"] == "sealed";
    let listed = read_until(&us, ALLOCATIONS, is_sealed).await;
    let sealed = of(&listed.body, "eu");
    assert_eq!(sealed["generation"], "1");
    let out = sealed["outstanding"].clone();
    assert_ne!(out, "0");
    let eu = cluster.caller(EU, "root");
    let mut number = 0;
    wait_for("another generation decides in eu", async || {
        let answer = until_charged(&eu, &format!("set-back-{number}")).await;
        number += 1;
        assert!(!answer.text("/charge_id").ends_with("-1-eu"), "{answer}");
        let is_local = decided_by(&answer) == "region=eu, role=allocation";
        if is_local { Ok(()) } else { Err(answer) }
    })
    .await;
    used += number;
    // What was forgotten with the storage is not decided again, though nobody can tell what it was.
    strictly(&eu, "after-backup-0", 1).await.expect_problem(503, "not_ready");
    add_up(&us, (used, 0), CREDITS).await;
    let listed = us.get(ALLOCATIONS).await.expect(200);
    assert_eq!(of(&listed.body, "eu")["outstanding"], out);

    let ended = write_off_first(&us).await;
    assert_eq!((ended.text("/allocation/status"), &ended.body["brought_home"]), ("closed", &out));
    add_up(&us, (used, 0), CREDITS).await;
    let overspend = us.get(&format!("{OVERSPEND}?region=us")).await.expect(200);
    assert_eq!((overspend.text("/bound"), overspend.text("/realised")), ("0", "0"));
    cluster.end().await;
}
