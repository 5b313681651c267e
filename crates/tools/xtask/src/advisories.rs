//! Known holes in the crates we use, from a copy of the RustSec advisory database.
//!
//! The copy is found through `PURSER_ADVISORY_DB`, a checkout of the database's repository. It is
//! no part of the project and never fetched from here; without it the step says that it did not
//! run. Holes and unsound code fail the step. Crates that are merely unmaintained are told.

use std::fs;
use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};
use serde_json::Value;
use toml::Table;

use crate::steps::{self, Outcome, StepError};
use crate::workspace::Workspace;

/// Names the folder with the copy.
const DATABASE: &str = "PURSER_ADVISORY_DB";

/// What one advisory says.
#[derive(Debug)]
struct Advisory {
    id: String,
    /// Set for what is no hole: `unmaintained`, `notice`, and also `unsound`.
    informational: Option<String>,
    is_withdrawn: bool,
    /// Ranges that have the hole mended, or never had it.
    safe: Vec<VersionReq>,
}

/// Looks for advisories about every crate that the lock file names.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome, StepError> {
    let Some(database) = std::env::var_os(DATABASE).map(PathBuf::from) else {
        let reason = format!("{DATABASE} does not name a copy of the advisory database");
        return Ok(Outcome::NotRun { reason });
    };
    let crates = database.join("crates");
    if !crates.is_dir() {
        let detail = format!("{DATABASE} names no copy of the advisory database");
        return Err(StepError::Malformed { path: database.display().to_string(), detail });
    }
    let metadata = workspace.metadata(&["--locked"])?;
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        // Crates of this workspace have no source, and no advisories.
        if package["source"].is_string() {
            for advisory in read_folder(&crates.join(package["name"].as_str().unwrap_or_default()))?
            {
                findings.extend(judge(package, &advisory));
            }
        }
    }
    let (told, failed): (Vec<_>, Vec<_>) = findings.into_iter().partition(Finding::is_only_told);
    told.iter().for_each(|finding| println!("not a hole, but known: {finding}"));
    steps::report(&failed)
}

/// An advisory that applies to a crate we use.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    text: String,
    informational: Option<String>,
}

impl Finding {
    fn is_only_told(&self) -> bool {
        self.informational.as_deref().is_some_and(|kind| kind != "unsound")
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Whether an advisory applies to a package.
fn judge(package: &Value, advisory: &Advisory) -> Option<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let version = package["version"].as_str().unwrap_or_default();
    // A version that cannot be read is in no safe range, so it is found.
    let is_safe = Version::parse(version)
        .is_ok_and(|version| advisory.safe.iter().any(|range| range.matches(&version)));
    if advisory.is_withdrawn || is_safe {
        return None;
    }
    let kind = advisory.informational.as_deref().unwrap_or("vulnerable");
    let text = format!("{name} {version}: {} ({kind})", advisory.id);
    Some(Finding { text, informational: advisory.informational.clone() })
}

/// The advisories about one crate, ordered by number; most crates have no folder.
fn read_folder(folder: &Path) -> Result<Vec<Advisory>, StepError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let unreadable = |source| StepError::Unreadable { path: folder.display().to_string(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort_unstable();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).map_err(unreadable)?;
        Advisory::parse(&text)
            .map_err(|detail| StepError::Malformed { path: path.display().to_string(), detail })
    };
    paths.into_iter().map(read).collect()
}

impl Advisory {
    /// Reads an advisory: Markdown that begins with a block of TOML.
    fn parse(markdown: &str) -> Result<Self, String> {
        let block = markdown.split("```toml").nth(1).and_then(|rest| rest.split("\n```").next());
        let block = block.ok_or("does not begin with a block of TOML")?;
        let table: Table = block.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let advisory = table.get("advisory").ok_or("has no [advisory]")?;
        let text = |key| advisory.get(key).and_then(toml::Value::as_str).map(str::to_owned);

        let mut safe = Vec::new();
        for key in ["patched", "unaffected"] {
            let ranges = table.get("versions").and_then(|versions| versions.get(key)?.as_array());
            for range in ranges.into_iter().flatten().filter_map(toml::Value::as_str) {
                safe.push(VersionReq::parse(range).map_err(|error| format!("{range}: {error}"))?);
            }
        }
        Ok(Self {
            id: text("id").ok_or("has no id")?,
            informational: text("informational"),
            is_withdrawn: advisory.get("withdrawn").is_some(),
            safe,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn advisory(more: &str) -> Advisory {
        let text = format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-1\"\n{more}\n[versions]\n\
             patched = [\">= 1.4.2, < 1.5.0\", \">= 1.6.0\"]\nunaffected = [\"< 1.0.0\"]\n```\n\n# A hole\n"
        );
        Advisory::parse(&text).unwrap()
    }

    #[track_caller]
    fn check_version(version: &str, is_found: bool) {
        let package = json!({ "name": "sink", "version": version });
        assert_eq!(judge(&package, &advisory("")).is_some(), is_found, "{version}");
    }

    #[test]
    fn only_versions_with_the_hole_are_found() {
        for safe in ["0.9.0", "1.4.2", "1.4.9", "1.6.0", "2.0.0"] {
            check_version(safe, false);
        }
        for found in ["1.0.0", "1.4.1", "1.5.0", "1.6.0-rc.1", "unreadable"] {
            check_version(found, true);
        }
    }

    #[test]
    fn unsound_code_fails_and_lack_of_care_is_told() {
        let package = json!({ "name": "sink", "version": "1.0.0" });
        let is_only_told = |more: &str| judge(&package, &advisory(more)).map(|f| f.is_only_told());
        assert_eq!(is_only_told(""), Some(false));
        assert_eq!(is_only_told("informational = \"unsound\""), Some(false));
        assert_eq!(is_only_told("informational = \"unmaintained\""), Some(true));
        assert_eq!(is_only_told("withdrawn = \"2026-01-01\""), None);
    }
}
