//! The architecture as a test: which crate lies in which band and may depend on which.
//!
//! `docs/architecture.md` draws the same table for people. An edge that is not here is a design
//! change, and changing this file is how it is proposed. The bands are ordered, and so are the
//! tables below: nothing depends on a band to its right.

use serde_json::Value;

/// One of our crates.
struct Crate {
    name: &'static str,
    /// Its folder, from the top.
    folder: &'static str,
    /// Our own crates that it may use. Dev-dependencies are free: they are not architecture.
    may_use: &'static [&'static str],
}

/// Every crate of ours, in the order of the bands.
const CRATES: &[Crate] = &[
    Crate { name: "purser-types", folder: "crates/core/purser-types", may_use: &[] },
    Crate {
        name: "purser-ledger",
        folder: "crates/core/purser-ledger",
        may_use: &["purser-types"],
    },
    Crate {
        name: "purser-placement",
        folder: "crates/core/purser-placement",
        may_use: &["purser-types"],
    },
    Crate {
        name: "purser-raft",
        folder: "crates/replicated/purser-raft",
        may_use: &["purser-types"],
    },
    Crate { name: "purser-api", folder: "crates/server/purser-api", may_use: &["purser-types"] },
    Crate {
        name: "purser-client",
        folder: "crates/server/purser-client",
        may_use: &["purser-types", "purser-api"],
    },
    Crate {
        name: "purser-postgres",
        folder: "crates/server/purser-postgres",
        may_use: &["purser-types", "purser-ledger"],
    },
    Crate {
        name: "purser-node",
        folder: "crates/server/purser-node",
        may_use: &[
            "purser-types",
            "purser-ledger",
            "purser-placement",
            "purser-raft",
            "purser-api",
            "purser-client",
        ],
    },
    Crate {
        name: "purser",
        folder: "crates/server/purser",
        may_use: &[
            "purser-types",
            "purser-ledger",
            "purser-raft",
            "purser-api",
            "purser-client",
            "purser-node",
            "purser-postgres",
        ],
    },
    Crate {
        name: "purser-expect",
        folder: "crates/tools/purser-expect",
        may_use: &["purser-types"],
    },
    Crate {
        name: "purser-sim",
        folder: "crates/tools/purser-sim",
        may_use: &["purser-types", "purser-ledger", "purser-placement", "purser-raft"],
    },
    Crate { name: "xtask", folder: "crates/tools/xtask", may_use: &[] },
    Crate {
        name: "purser-tests",
        folder: "tests",
        may_use: &[
            "purser-types",
            "purser-ledger",
            "purser-raft",
            "purser-api",
            "purser-client",
            "purser-node",
        ],
    },
];

/// Crates of others that the core may use. Everything in them is pure computation.
const CORE_MAY_USE: &[&str] = &["minicbor", "sha2", "thiserror"];

/// Crates of others that only some of ours may use: consensus is one crate's secret, SQL another's, and
/// what describes the HTTP contract serves none of it.
const RESTRICTED: &[(&str, &[&str])] = &[
    ("openraft", &["purser-raft"]),
    ("axum", &["purser-node", "purser-tests"]),
    ("tokio-postgres", &["purser-postgres"]),
    ("deadpool-postgres", &["purser-postgres"]),
    ("refinery", &["purser-postgres"]),
];

/// Compares `cargo metadata` with the tables above; one line for each difference.
pub(crate) fn check(metadata: &Value) -> Vec<String> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let mut complaints = Vec::new();
    let mut seen = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        seen.push(name);
        let Some(ours) = CRATES.iter().find(|ours| ours.name == name) else {
            complaints.push(format!("{name}: not in the table of bands.rs"));
            continue;
        };
        let manifest = format!("{root}/{}/Cargo.toml", ours.folder);
        if package["manifest_path"].as_str() != Some(&manifest) {
            complaints.push(format!("{name}: belongs in {}", ours.folder));
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // A normal dependency has kind `null`; "dev" and "build" are not architecture.
            if dependency["kind"].is_null() {
                complaints.extend(complain(ours, dependency));
            }
        }
    }
    let gone = CRATES.iter().filter(|ours| !seen.contains(&ours.name));
    complaints.extend(gone.map(|ours| format!("{}: in the table, but no such crate", ours.name)));
    complaints
}

fn complain(ours: &Crate, dependency: &Value) -> Option<String> {
    let target = dependency["name"].as_str().unwrap_or_default();
    let name = ours.name;
    if dependency["path"].is_string() {
        let allowed = ours.may_use.contains(&target);
        return (!allowed).then(|| format!("{name}: may not depend on {target}"));
    }
    if ours.folder.starts_with("crates/core/") && !CORE_MAY_USE.contains(&target) {
        return Some(format!("{name}: only computes, so it may not use {target}"));
    }
    let (_, users) = RESTRICTED.iter().find(|(restricted, _)| *restricted == target)?;
    (!users.contains(&name)).then(|| format!("{name}: {target} is for {} only", users.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Metadata of all our crates, with one more dependency of one of them.
    fn metadata(user: &str, dependency: &Value) -> Value {
        let packages = CRATES.iter().map(|ours| {
            let dependencies = if ours.name == user { json!([dependency]) } else { json!([]) };
            json!({
                "name": ours.name,
                "manifest_path": format!("/p/{}/Cargo.toml", ours.folder),
                "dependencies": dependencies,
            })
        });
        json!({ "workspace_root": "/p", "packages": packages.collect::<Vec<_>>() })
    }

    fn own(name: &str) -> Value {
        json!({ "name": name, "kind": null, "path": "/p/somewhere" })
    }

    fn of_others(name: &str) -> Value {
        json!({ "name": name, "kind": null })
    }

    #[track_caller]
    fn check_edge(user: &str, dependency: &Value, expected: &[&str]) {
        assert_eq!(check(&metadata(user, dependency)), expected);
    }

    #[test]
    fn an_edge_outside_the_table_is_refused() {
        check_edge("purser-ledger", &own("purser-types"), &[]);
        let refused = ["purser-ledger: may not depend on purser-raft"];
        check_edge("purser-ledger", &own("purser-raft"), &refused);
        let dev = json!({ "name": "purser-raft", "kind": "dev", "path": "/p/somewhere" });
        check_edge("purser-ledger", &dev, &[]);
    }

    #[test]
    fn crates_of_others_have_their_places_too() {
        check_edge("purser-ledger", &of_others("sha2"), &[]);
        let impure = ["purser-ledger: only computes, so it may not use rand"];
        check_edge("purser-ledger", &of_others("rand"), &impure);
        let leaked = ["purser-node: openraft is for purser-raft only"];
        check_edge("purser-node", &of_others("openraft"), &leaked);
    }

    #[test]
    fn table_and_workspace_name_the_same_crates() {
        let mut metadata = metadata("", &Value::Null);
        metadata["packages"][0]["name"] = "purser-stray".into();
        let expected = [
            "purser-stray: not in the table of bands.rs",
            "purser-types: in the table, but no such crate",
        ];
        assert_eq!(check(&metadata), expected);
    }

    #[test]
    fn the_table_points_to_the_left() {
        for (at, ours) in CRATES.iter().enumerate() {
            for target in ours.may_use {
                let left = CRATES.iter().position(|other| other.name == *target);
                assert!(left.is_some_and(|left| left < at), "{} uses {target}", ours.name);
            }
        }
    }
}
