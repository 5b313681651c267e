//! What operators see of allocations and do about them, and how much may be overspent.

use serde_json::{Value, json};

use crate::abroad::{
    ALLOCATIONS, AP, EU, OVERSPEND, US, amount, charge, decided_by, make_local, of, open_in,
    settled, spend_alone, until_cut_off,
};
use crate::support::Cluster;
use crate::waiting::{read_until, wait_for};

const TRANSFER: &str = "/admin/v1/tenants/acme/transfer";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_region_was_given_is_listed_and_comes_back_when_it_is_asked_for() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    assert_eq!(us.get(ALLOCATIONS).await.expect(200).body["items"], json!([]));
    let spent = make_local(&eu, "acme", "eu").await;
    settled(&ap, "acme", "eu", spent).await;
    // Asked anywhere, answered at home.
    let listed = ap.get(ALLOCATIONS).await.expect(200);
    let found = of(&listed.body, "eu");
    assert_eq!((&found["status"], &found["mode"]), (&json!("open"), &json!("local")));
    assert_eq!(found["generation"], "1");
    assert!(found["allocation_id"].as_str().unwrap().ends_with("-1-eu"), "{found:#}");
    assert_ne!(found["granted"], "0");
    let known = amount(&found["granted"]) - amount(&found["spent"]) - amount(&found["returned"]);
    assert_eq!(amount(&found["outstanding"]), known);
    assert_eq!(found["right"], found["outstanding"]);
    assert_eq!(found["unsettled"], found["outstanding"]);
    assert!(found["report_age_ms"].as_u64().is_some_and(|age| age < 30_000), "{found:#}");
    assert!(found["lease_remaining_ms"].as_u64().is_some_and(|left| left > 200_000), "{found:#}");

    let body = json!({ "keep": 0, "reason": "audit" });
    let recall = format!("{ALLOCATIONS}/eu/recall");
    let asked = ap.post(&recall, "recall", &body).await.expect(200);
    assert_eq!(asked.header("purser-decided-by"), "region=us, role=home");
    assert_eq!(asked.body["allocation"]["recall"], json!({ "keep": "0", "is_answered": null }));
    assert_eq!(asked.body["allocation"]["report_age_ms"], Value::Null);
    let returned = |body: &Value| {
        let found = of(body, "eu");
        found["recall"]["is_answered"] == true && found["returned"] != "0"
    };
    read_until(&us, ALLOCATIONS, returned).await;
    let again = eu.post(&recall, "recall", &body).await.expect(200);
    assert_eq!(again.bytes, asked.bytes, "a repeat is answered from the ledger alone");
    assert_eq!(again.header("idempotent-replayed"), "true");

    let none = us.post(&format!("{ALLOCATIONS}/ap/recall"), "r2", &body).await;
    none.expect_problem(404, "allocation_not_found");
    let nothing = us.post(&format!("{ALLOCATIONS}/eu"), "s1", &json!({ "reason": "x" })).await;
    nothing.expect_problem(400, "invalid_request");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allocation_ends_when_it_is_told_to_and_another_one_is_opened_on_demand() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    let mut spent = make_local(&eu, "acme", "eu").await;
    settled(&us, "acme", "eu", spent).await;
    let body = json!({ "mode": "ending", "reason": "maintenance" });
    let path = format!("{ALLOCATIONS}/eu");
    us.post(&path, "end", &body).await.expect(200);
    read_until(&us, ALLOCATIONS, |body| of(body, "eu")["generation"] != "1").await;
    // Whoever asks for the same again is told what was done then.
    let again = us.post(&path, "end", &body).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.body["allocation"]["generation"], "1");
    // The region goes on, under an allocation that it had to be told of.
    let local = wait_for("eu decides again", async || {
        let answer = charge(&eu, "acme", &format!("again-{spent}"), 1).await.expect(201);
        spent += 1;
        let is_local = answer.header("purser-decided-by") == "region=eu, role=allocation";
        if is_local { Ok(answer) } else { Err(answer) }
    });
    let local = local.await;
    assert!(!local.text("/charge_id").ends_with("-1-eu"), "{}", local.body);
    settled(&us, "acme", "eu", spent).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overdraft_lets_a_region_go_beyond_what_it_was_given_and_the_bound_says_so() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "acme", "eu").await;
    let body = json!({ "overdraft": "50", "on_expiry": "keep", "reason": "launch day" });
    let set = us.post(&format!("{ALLOCATIONS}/eu"), "set", &body).await.expect(200);
    assert_eq!(set.text("/allocation/overdraft"), "50");
    let allowed = us.get(OVERSPEND).await.expect(200);
    assert_eq!((allowed.text("/bound"), allowed.text("/ceiling")), ("50", "50"));
    assert_eq!(allowed.text("/by_cause/overdraft"), "50");
    let given = settled(&us, "acme", "eu", spent).await;
    assert_eq!(amount(&given["right"]), amount(&given["outstanding"]) + 50);

    cluster.cut(EU);
    until_cut_off(&eu).await;
    // What no lot pays is named, and is no lot.
    let body = json!({ "amount": amount(&given["right"]) });
    let hold = eu.post("/v1/tenants/acme/holds", "all", &body).await.expect(201);
    let lots = hold.body["lots"].as_array().unwrap().iter();
    let pinned: u64 = lots.map(|share| amount(&share["amount"])).sum();
    assert_eq!((hold.text("/overdrawn"), pinned), ("50", amount(&given["outstanding"])));
    let release = format!("/v1/tenants/acme/holds/{}/release", hold.text("/hold_id"));
    eu.post(&release, "none", &json!({})).await.expect(200);
    let alone = spend_alone(&eu, "acme").await;
    assert_eq!(alone, amount(&given["right"]));
    let left = us.get("/v1/tenants/acme/balance").await.expect(200);
    let rest = charge(&us, "acme", "rest", amount(&left.body["available"])).await.expect(201);
    assert_eq!(rest.header("purser-bound"), "50");
    cluster.heal(EU);
    let owed = read_until(&eu, OVERSPEND, |body| body["realised"] == "50").await;
    assert_eq!((owed.text("/bound"), owed.text("/by_cause/overdraft")), ("50", "0"));
    assert_eq!(owed.text("/by_region/us/realised"), "50");
    assert_eq!(owed.text("/top_tenants/0/tenant"), "acme");
    assert_eq!(owed.text("/allowed_debt"), "0");
    let balance = us.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!((balance.text("/debt"), balance.text("/used")), ("50", "1050"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credits_go_from_one_region_to_another_by_home() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    let spent = make_local(&eu, "acme", "eu").await;
    settled(&us, "acme", "eu", spent).await;
    let transfer = |from: &str, to: &str, amount: u64| json!({ "from": from, "to": to, "amount": amount, "reason": "demand moves" });
    for (key, body, status, code) in [
        ("t1", transfer("eu", "eu", 1), 409, "transfer_to_itself"),
        ("t2", transfer("eu", "mars", 1), 409, "transfer_to_unknown"),
        ("t3", transfer("eu", "us", 1), 409, "transfer_to_unknown"),
        ("t4", transfer("eu", "ap", 1_000_000), 409, "transfer_beyond_right"),
        ("t5", transfer("ap", "eu", 1), 404, "allocation_not_found"),
        ("t6", transfer("eu", "ap", 0), 400, "invalid_request"),
    ] {
        us.post(TRANSFER, key, &body).await.expect_problem(status, code);
    }
    let asked = ap.post(TRANSFER, "t7", &transfer("eu", "ap", 2)).await.expect(200);
    assert_eq!(asked.body["allocation"]["transfer"], json!({ "to": "ap", "amount": "2" }));
    let arrived = read_until(&us, ALLOCATIONS, |body| of(body, "ap")["is_current"] == true).await;
    assert_eq!(of(&arrived.body, "ap")["granted"], "2");
    assert_eq!(of(&arrived.body, "eu")["transfer"], Value::Null);
    let local = charge(&ap, "acme", "ap", 1).await.expect(201);
    assert_eq!(local.header("purser-decided-by"), "region=ap, role=allocation");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_was_out_of_reach_is_told_of_its_first_allocation_when_it_is_back() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    let spent = make_local(&eu, "acme", "eu").await;
    settled(&us, "acme", "eu", spent).await;
    cluster.cut(AP);
    let body = json!({ "from": "eu", "to": "ap", "amount": 2, "reason": "demand moves" });
    us.post(TRANSFER, "t1", &body).await.expect(200);
    let arrived = read_until(&us, ALLOCATIONS, |body| of(body, "ap")["granted"] == "2").await;
    assert_eq!(of(&arrived.body, "ap")["is_current"], Value::Null, "unknown is never shown as no");
    assert_eq!(of(&arrived.body, "ap")["report_age_ms"], Value::Null);
    cluster.heal(AP);
    read_until(&us, ALLOCATIONS, |body| of(body, "ap")["is_current"] == true).await;
    let local = charge(&ap, "acme", "ap", 1).await.expect(201);
    assert_eq!(local.header("purser-decided-by"), "region=ap, role=allocation");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_back_is_shown_before_it_is_confirmed_and_a_late_report_resolves_it() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    let spent = make_local(&eu, "acme", "eu").await + 1;
    let kept = charge(&eu, "acme", "kept", 1).await.expect(201);
    let kept = format!("/v1/tenants/acme/charges/{}/refund", kept.text("/charge_id"));
    settled(&us, "acme", "eu", spent).await;
    let some = json!({ "amount": 1, "reason": "it failed" });
    let refunded = eu.post(&kept, "refund", &some).await.expect(200);
    assert_eq!(decided_by(&refunded), "region=eu, role=allocation");
    let spent = spent - 1;
    settled(&us, "acme", "eu", spent).await;
    cluster.cut(EU);
    until_cut_off(&eu).await;
    // Nothing is granted to a region that is out of reach, so this stays.
    let out = of(&us.get(ALLOCATIONS).await.expect(200).body, "eu")["outstanding"].clone();
    charge(&eu, "acme", "unseen", 1).await.expect(201);

    let path = format!("{ALLOCATIONS}/eu/take-back");
    let reason = "the region is lost";
    let unsure = us.post(&path, "b1", &json!({ "reason": reason })).await;
    unsure.expect_problem(400, "confirmation_required");
    let shown =
        us.post(&path, "b2", &json!({ "reason": reason, "dry_run": true })).await.expect(200);
    assert_eq!((&shown.body["dry_run"], &shown.body["brought_home"]), (&json!(true), &out));
    assert_eq!(shown.text("/allocation/status"), "taken_back");
    let still = us.get(ALLOCATIONS).await.expect(200);
    assert_eq!(of(&still.body, "eu")["outstanding"], out, "a dry run has no effect");

    let body = json!({ "reason": reason, "confirm": shown.text("/confirm") });
    let taken = us.post(&path, "b3", &body).await.expect(200);
    assert_eq!((&taken.body["brought_home"], taken.text("/balance/debt")), (&out, "0"));
    assert_eq!(taken.body["allocation"]["unresolved"], out);
    let bound = us.get("/admin/v1/overspend?region=us").await.expect(200);
    assert_eq!((&bound.body["by_cause"]["taken_back"], &bound.body["bound"]), (&out, &out));
    assert_eq!(bound.body["ceiling"], out);
    let twice = us.post(&path, "b4", &body).await;
    twice.expect_problem(409, "allocation_ended");

    cluster.heal(EU);
    read_until(&us, ALLOCATIONS, |body| of(body, "eu")["generation"] != "1").await;
    let resolved = us.get("/admin/v1/overspend?region=us").await.expect(200);
    assert_eq!(resolved.text("/bound"), "0");
    let balance = us.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/used"), (spent + 1).to_string());
    assert_eq!(balance.text("/debt"), "0");
    // Home answers for the allocation now: what its region had decided as decided there, the rest itself.
    let again = eu.post(&kept, "refund", &some).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(decided_by(&again), "region=eu, role=allocation");
    let reclaim = kept.replace("refund", "reclaim");
    let body = json!({ "reason": "it worked" });
    let reclaimed = eu.post(&reclaim, "reclaim", &body).await.expect(200);
    assert_eq!(decided_by(&reclaimed), "region=us, role=home");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_with_a_region_is_written_off_once_it_was_taken_back() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    let spent = make_local(&eu, "acme", "eu").await;
    settled(&us, "acme", "eu", spent).await;
    cluster.cut(EU);
    let end = async |act: &str, key: &str| {
        let path = format!("{ALLOCATIONS}/eu/{act}");
        let dry = json!({ "reason": "lost", "dry_run": true });
        let shown = us.post(&path, &format!("{key}-dry"), &dry).await;
        if shown.status != 200 {
            return shown;
        }
        let body = json!({ "reason": "lost", "confirm": shown.text("/confirm") });
        us.post(&path, key, &body).await
    };
    // Regions may still report while they can, which changes the account: then it is shown again.
    end("write-off", "w1").await.expect_problem(409, "allocation_open");
    until_cut_off(&eu).await;
    end("take-back", "b1").await.expect(200);
    let written_off = end("write-off", "w2").await.expect(200);
    assert_eq!(written_off.text("/allocation/status"), "closed");
    assert_eq!(us.get(ALLOCATIONS).await.expect(200).body["items"], json!([]));
    let bound = us.get("/admin/v1/overspend?region=us").await.expect(200);
    assert_eq!((bound.text("/bound"), bound.text("/outstanding")), ("0", "0"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overspend_is_summed_over_regions_and_one_that_is_out_of_reach_is_not_known() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    open_in(&us, "beta", "eu", 10_000).await;
    make_local(&eu, "acme", "eu").await;
    make_local(&us, "beta", "us").await;
    for (tenant, region, overdraft) in [("acme", "eu", 30), ("beta", "us", 12)] {
        let path = format!("/admin/v1/tenants/{tenant}/allocations/{region}");
        let body = json!({ "overdraft": overdraft, "reason": "launch day" });
        us.post(&path, &format!("set-{tenant}"), &body).await.expect(200);
    }
    let all = ap.get(OVERSPEND).await.expect(200);
    assert_eq!((all.text("/bound"), all.text("/ceiling")), ("42", "42"));
    let of_home = |region: &str| all.text(&format!("/by_region/{region}/bound")).to_owned();
    assert_eq!(["us", "eu", "ap"].map(of_home), ["30", "12", "0"]);
    assert_eq!(all.text("/by_cause/failover"), "0");
    assert_eq!(all.text("/stranded"), "0");
    let sum = amount(&all.body["allocated"]["eu"]) + amount(&all.body["allocated"]["us"]);
    assert_eq!(amount(&all.body["outstanding"]), sum);
    let tenants: Vec<&str> =
        (0..2).map(|at| all.text(&format!("/top_tenants/{at}/tenant"))).collect();
    assert_eq!(tenants, ["acme", "beta"]);
    let of_eu = us.get("/admin/v1/overspend?region=eu&limit=1").await.expect(200);
    assert_eq!((of_eu.text("/bound"), of_eu.text("/top_tenants/0/tenant")), ("12", "beta"));
    us.get("/admin/v1/overspend?region=mars").await.expect_problem(404, "region_not_found");
    let limited = cluster.caller(US, "acme-admin").get(OVERSPEND).await;
    limited.expect_problem(403, "forbidden");

    cluster.cut(EU);
    let partly = read_until(&us, OVERSPEND, |body| body["unknown_regions"] == json!(["eu"])).await;
    assert_eq!(partly.text("/bound"), "30");
    assert_eq!(partly.body["by_region"]["eu"], Value::Null, "unknown is never shown as zero");
    assert_ne!(partly.text("/stranded"), "0");
    assert_eq!(partly.text("/stranded"), partly.text("/by_region/us/allocated/eu"));
    us.get("/admin/v1/overspend?region=eu").await.expect_problem(503, "home_unreachable");

    let regions = us.get("/admin/v1/regions").await.expect(200);
    let reach = |region: &Value| (region["region"].clone(), region["is_reachable"].clone());
    let reach: Vec<_> = regions.body["regions"].as_array().unwrap().iter().map(reach).collect();
    let expected = [("ap", true), ("eu", false), ("us", true)];
    assert_eq!(reach, expected.map(|(region, reached)| (json!(region), json!(reached))));
    assert_eq!(regions.body["regions"][0]["leaders"], json!([3, 3]));
    assert!(regions.body["regions"][1]["heard_age_ms"].as_u64() > Some(3_000));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overspend_of_a_region_is_read_of_the_leaders_of_its_groups() {
    let cluster = Cluster::start(3).await;
    let caller = cluster.caller(0, "root");
    let body = json!({ "tenant": "acme", "policy": { "debt_limit": 40, "takeback_cap": "7" } });
    let opened = caller.post("/admin/v1/tenants", "open", &body).await.expect(201);
    assert_eq!(opened.text("/policy/takeback_cap"), "7");
    assert_eq!(opened.text("/policy/on_expiry"), "keep");
    let debt = json!({ "amount": 40, "allow_debt": true });
    caller.post("/v1/tenants/acme/charges", "debt", &debt).await.expect(201);
    for place in 0..3 {
        let all = cluster.caller(place, "root").get(OVERSPEND).await.expect(200);
        assert_eq!((all.text("/bound"), all.text("/allowed_debt")), ("0", "40"), "{:#}", all.body);
        assert_eq!(all.body["unknown_regions"], json!([]));
    }
    let of = async |group: u32| {
        let path = format!("{OVERSPEND}?group={group}");
        caller.get(&path).await.expect(200).text("/allowed_debt").parse::<u64>().unwrap()
    };
    assert_eq!(of(0).await + of(1).await, 40);
    caller.get("/admin/v1/overspend?group=2").await.expect_problem(404, "not_found");
    caller.get("/admin/v1/overspend?region=eu").await.expect_problem(404, "region_not_found");
    let regions = caller.get("/admin/v1/regions").await.expect(200);
    assert_eq!(regions.body["regions"][0]["nodes"], json!([1, 2, 3]));
    cluster.end().await;
}
