//! The API's description: what is committed is what is served, and it holds together.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::support::Cluster;

fn document() -> Value {
    serde_json::to_value(purser_node::openapi_document()).unwrap()
}

/// Method and path of every call.
fn calls(document: &Value) -> BTreeSet<(String, String)> {
    let mut calls = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            calls.insert((method.clone(), path.clone()));
        }
    }
    calls
}

#[test]
fn the_committed_description_is_the_one_that_is_served() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/api/openapi.json");
    let mut made = serde_json::to_string_pretty(&purser_node::openapi_document()).unwrap();
    made.push('\n');
    purser_expect::check(&path, &made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_described_call_is_served_and_the_other_way_round() {
    let (cluster, caller) = Cluster::with_credits(0).await;
    let served = caller.get("/openapi.json").await.expect(200);
    assert_eq!(served.body, document());
    let described = calls(&served.body);
    for path in described.iter().map(|(_, path)| path).collect::<BTreeSet<_>>() {
        let filled = path.replace("{tenant}", "acme").replace(['{', '}'], "");
        // The answer to a method that no path has names those that this path has.
        let answer = caller.raw("TRACE", &filled, &[], "".into()).await;
        let allowed: BTreeSet<String> =
            answer.expect(405).header("allow").split(',').map(str::to_lowercase).collect();
        let mut expected: BTreeSet<String> = described
            .iter()
            .filter(|(_, other)| other == path)
            .map(|(method, _)| method.clone())
            .collect();
        if expected.contains("get") {
            expected.insert("head".to_owned());
        }
        assert_eq!(allowed, expected, "{path}");
    }
    cluster.end().await;
}

#[test]
fn every_reference_leads_to_a_component_and_every_component_is_used() {
    let document = document();
    let mut references = BTreeSet::new();
    collect_references(&document, &mut references);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let components: BTreeSet<String> =
        schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
    assert_eq!(references, components);
}

#[test]
fn every_answer_is_described_and_every_call_has_a_name_of_its_own() {
    let document = document();
    let mut names = BTreeSet::new();
    for (method, path) in calls(&document) {
        let call = &document["paths"][&path][&method];
        assert!(names.insert(call["operationId"].as_str().unwrap()), "{method} {path}");
        let responses = &call["responses"];
        for (status, response) in responses.as_object().unwrap() {
            assert!(response["description"].is_string(), "{method} {path} {status}");
            if status.starts_with(['4', '5']) && path.contains("/v1/") {
                let problem = "application/problem+json";
                assert!(response["content"][problem].is_object(), "{method} {path} {status}");
            }
        }
    }
}

fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(target) if name == "$ref" => {
                        found.insert(target.clone());
                    }
                    other => collect_references(other, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}
