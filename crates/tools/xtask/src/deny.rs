//! What may be depended on at all: licenses, single crates, sources.
//!
//! The policy is `.deny.toml`, in the form that cargo-deny reads, so that tool gives the same
//! answers. It is not called here because it takes as long to build as the whole project; the three
//! checks need no more than `cargo metadata`.

use std::collections::BTreeSet;

use serde_json::Value;
use toml::Table;

use crate::license;
use crate::steps::{self, Outcome, StepError};
use crate::workspace::Workspace;

const POLICY: &str = ".deny.toml";

/// The policy, as far as it is checked here.
#[derive(Debug)]
struct Policy {
    licenses: Vec<String>,
    banned: Vec<String>,
    /// Crates of which there may be one version only: two would not understand each other's types.
    single: Vec<String>,
    registries: Vec<String>,
}

/// Checks every crate that the lock file names, for whatever platform it is meant.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome, StepError> {
    let text = std::fs::read_to_string(workspace.root().join(POLICY))
        .map_err(|source| StepError::Unreadable { path: POLICY.to_owned(), source })?;
    let policy = Policy::parse(&text)
        .map_err(|detail| StepError::Malformed { path: POLICY.to_owned(), detail })?;
    // Locked: a lock file that does not fit the manifests is a finding too.
    steps::report(&check(&workspace.metadata(&["--locked"])?, &policy))
}

impl Policy {
    fn parse(text: &str) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let list = |section: &str, key: &str| {
            let list = table.get(section).and_then(|section| section.get(key)?.as_array());
            list.ok_or_else(|| format!("[{section}] needs a list `{key}`"))
        };
        let mut policy = Self {
            licenses: texts(list("licenses", "allow")?)?,
            banned: Vec::new(),
            single: Vec::new(),
            registries: texts(list("sources", "allow-registry")?)?,
        };
        for entry in list("bans", "deny")? {
            let name = entry.get("crate").and_then(toml::Value::as_str);
            let name = name.ok_or("every entry of `bans.deny` needs a `crate`")?.to_owned();
            let is_single = entry.get("deny-multiple-versions") == Some(&true.into());
            if is_single { policy.single.push(name) } else { policy.banned.push(name) }
        }
        Ok(policy)
    }
}

fn texts(list: &[toml::Value]) -> Result<Vec<String>, String> {
    let text = |value: &toml::Value| value.as_str().map(str::to_owned);
    list.iter().map(text).collect::<Option<_>>().ok_or_else(|| "expected texts".to_owned())
}

fn check(metadata: &Value, policy: &Policy) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let version = package["version"].as_str().unwrap_or_default();
        let mut find = |what: String| findings.push(format!("{name} {version}: {what}"));
        let license = package["license"].as_str().unwrap_or_default();
        match license::is_allowed(license, &policy.licenses) {
            Some(true) => (),
            Some(false) => find(format!("the license `{license}` is not allowed")),
            None => find(format!("the license `{license}` cannot be read")),
        }
        // No source means that the crate is in this workspace.
        if let Some(source) = package["source"].as_str() {
            let registry = source.strip_prefix("registry+").unwrap_or(source);
            if !policy.registries.iter().any(|allowed| allowed == registry) {
                find(format!("comes from {source}"));
            }
        }
        if policy.banned.iter().any(|banned| banned == name) {
            find(format!("is banned; {POLICY} says why"));
        }
        if !seen.insert(name) && policy.single.iter().any(|single| single == name) {
            find("is there in several versions".to_owned());
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"
        [licenses]
        allow = ["MIT"]
        [bans]
        deny = [{ crate = "openssl" }, { crate = "tokio", deny-multiple-versions = true }]
        [sources]
        allow-registry = ["https://registry"]
    "#;

    fn package(name: &str, version: &str, license: &str, source: Option<&str>) -> Value {
        json!({ "name": name, "version": version, "license": license, "source": source })
    }

    #[track_caller]
    fn check_packages(packages: &[Value], expected: &[&str]) {
        let metadata = json!({ "packages": packages });
        assert_eq!(check(&metadata, &Policy::parse(TEXT).unwrap()), expected);
    }

    #[test]
    fn what_the_policy_allows_passes() {
        let registry = Some("registry+https://registry");
        check_packages(
            &[
                package("purser", "0.1.0", "MIT", None),
                package("tokio", "1.2.0", "MIT", registry),
                package("rand", "0.8.0", "MIT", registry),
                package("rand", "0.9.0", "MIT", registry),
            ],
            &[],
        );
    }

    #[test]
    fn each_rule_can_be_broken() {
        let tokio = |version| package("tokio", version, "MIT", None);
        check_packages(
            &[
                package("copyleft", "1.0.0", "GPL-3.0", None),
                package("openssl", "1.0.0", "MIT", None),
                package("forked", "1.0.0", "MIT", Some("git+https://elsewhere")),
                tokio("1.0.0"),
                tokio("2.0.0"),
            ],
            &[
                "copyleft 1.0.0: the license `GPL-3.0` is not allowed",
                "openssl 1.0.0: is banned; .deny.toml says why",
                "forked 1.0.0: comes from git+https://elsewhere",
                "tokio 2.0.0: is there in several versions",
            ],
        );
    }

    #[test]
    fn a_policy_without_a_rule_is_refused() {
        let without = TEXT.replace("allow-registry", "allow-git");
        assert!(Policy::parse(&without).unwrap_err().contains("allow-registry"));
    }
}
