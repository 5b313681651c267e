//! What an audit says at its end.

use std::fmt::Write;
use std::path::Path;

use purser_raft::offline::{Finding, OfflineNode, Report, Severity};
use purser_raft::{ClusterId, GroupId};
use serde::Serialize;

/// How many findings of one kind are kept: a fault usually makes many alike, and a report is read by
/// people. Their number is kept in any case.
const FINDINGS_KEPT: usize = 20;

/// The report of an audit.
#[derive(Debug, Default, Serialize)]
pub(crate) struct AuditReport {
    /// The folders.
    pub(crate) nodes: Vec<NodeReport>,
    /// The groups in them.
    pub(crate) groups: Vec<GroupReport>,
}

/// One folder's files.
#[derive(Debug, Serialize)]
pub(crate) struct NodeReport {
    dir: String,
    node: Option<u64>,
    cluster: Option<String>,
    files: u64,
    bytes: u64,
    /// What is harmless.
    notes: Vec<String>,
    findings: Findings,
}

/// One group on all nodes.
#[derive(Debug, Serialize)]
pub(crate) struct GroupReport {
    cluster: String,
    group: u32,
    /// The nodes that have it.
    pub(crate) members: Vec<MemberReport>,
    /// The state that all nodes share, if they do.
    pub(crate) agreement: Option<Agreement>,
    /// What is harmless.
    pub(crate) notes: Vec<String>,
    findings: Findings,
}

/// One group on one node.
#[derive(Debug, Serialize)]
pub(crate) struct MemberReport {
    /// The node.
    pub(crate) node: u64,
    /// Entries folded.
    pub(crate) entries: u64,
    /// Accounts they belong to.
    pub(crate) accounts: u64,
    /// Bytes of history.
    pub(crate) history_bytes: u64,
    /// Last entry of the log that the state counts.
    pub(crate) last_index: Option<u64>,
}

/// Equal states.
#[derive(Debug, Serialize)]
pub(crate) struct Agreement {
    /// Last entry of the log that the states count.
    pub(crate) index: Option<u64>,
    /// How many nodes were compared.
    pub(crate) nodes: usize,
    /// The state's digest, in hexadecimal.
    pub(crate) digest: String,
}

/// Findings, of which the first are kept.
#[derive(Debug, Default, Serialize)]
struct Findings {
    count: u64,
    first: Vec<String>,
}

impl Findings {
    fn add(&mut self, text: String) {
        self.count = self.count.saturating_add(1);
        if self.first.len() < FINDINGS_KEPT {
            self.first.push(text);
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        for finding in &self.first {
            writeln!(text, "  FOUND {finding}")?;
        }
        let kept = u64::try_from(self.first.len()).unwrap_or(u64::MAX);
        let more = self.count.saturating_sub(kept);
        if more > 0 { writeln!(text, "  FOUND {more} more") } else { Ok(()) }
    }
}

impl NodeReport {
    /// What the check of a folder's files found.
    pub(crate) fn new(dir: &Path, checked: &Report) -> Self {
        let mut report = Self {
            dir: dir.display().to_string(),
            node: None,
            cluster: None,
            files: checked.files,
            bytes: checked.bytes,
            notes: Vec::new(),
            findings: Findings::default(),
        };
        for finding in &checked.findings {
            let Finding { file, offset, severity, detail } = finding;
            let place = format!("{}, offset {offset}: {detail}", file.display());
            match severity {
                Severity::Unused => report.notes.push(format!("unused, nothing affected: {place}")),
                Severity::Repaired => report.notes.push(format!("repaired at the start: {place}")),
                Severity::Unknown => report.notes.push(format!("no file of a node: {place}")),
                Severity::Damaged => report.findings.add(place),
            }
        }
        report
    }

    /// Notes whose folder it is.
    pub(crate) fn identify(&mut self, node: &OfflineNode) {
        self.node = Some(node.node().0);
        self.cluster = Some(node.cluster().to_string());
    }

    /// Adds something harmless.
    pub(crate) fn add_note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Adds a finding.
    pub(crate) fn add_finding(&mut self, text: String) {
        self.findings.add(text);
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self { dir, files, bytes, .. } = self;
        let node = self.node.map_or_else(|| "?".to_owned(), |node| node.to_string());
        writeln!(text, "node {node} ({dir}): {files} files, {bytes} bytes")?;
        for note in &self.notes {
            writeln!(text, "  note: {note}")?;
        }
        self.findings.write(text)
    }
}

impl GroupReport {
    /// A report with nothing in it.
    pub(crate) fn new(cluster: ClusterId, group: GroupId) -> Self {
        Self {
            cluster: cluster.to_string(),
            group: group.0,
            members: Vec::new(),
            agreement: None,
            notes: Vec::new(),
            findings: Findings::default(),
        }
    }

    /// Adds a finding about one node.
    pub(crate) fn add_finding(&mut self, dir: &Path, text: &str) {
        self.findings.add(format!("{}: {text}", dir.display()));
    }

    /// The outcome in a few words.
    pub(crate) fn verdict(&self) -> String {
        match self.findings.count {
            0 => "OK".to_owned(),
            count => format!("{count} found"),
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "group {}: {}", self.group, self.verdict())?;
        for member in &self.members {
            let MemberReport { node, entries, accounts, history_bytes, last_index } = member;
            let index = index_text(*last_index);
            writeln!(
                text,
                "  node {node}: {entries} entries, {accounts} accounts, {history_bytes} bytes of \
                 history, last index {index}"
            )?;
        }
        if let Some(Agreement { index, nodes, digest }) = &self.agreement {
            let index = index_text(*index);
            writeln!(text, "  state of {nodes} nodes at index {index}: {digest}")?;
        }
        for note in &self.notes {
            writeln!(text, "  note: {note}")?;
        }
        self.findings.write(text)
    }
}

fn index_text(index: Option<u64>) -> String {
    index.map_or_else(|| "none".to_owned(), |index| index.to_string())
}

impl AuditReport {
    /// How much was found.
    pub(crate) fn findings_count(&self) -> u64 {
        let nodes = self.nodes.iter().map(|node| node.findings.count);
        nodes.chain(self.groups.iter().map(|group| group.findings.count)).sum()
    }

    /// The report for people.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        for node in &self.nodes {
            node.write(text)?;
        }
        for group in &self.groups {
            group.write(text)?;
        }
        match self.findings_count() {
            0 => write!(text, "OK"),
            count => write!(text, "{count} found"),
        }
    }
}
