//! Audits of real data folders, sound and damaged.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use purser_ledger::{
    AccountName, Answer, Authorize, Category, Command, Context, Grant, Item, Ledger, Open,
    Operation, Policy, codec,
};
use purser_raft::disk::RealDisk;
use purser_raft::{
    Group, GroupSettings, Host, HostSettings, NodeId, OpenError, PeerSwitch, RaftTimings,
    SystemClock, WalSettings,
};
use purser_types::{Credits, Region, Span, TenantId, Unit};
use tokio::net::TcpListener;

use super::*;
use crate::output::Format;

const PATIENCE: Duration = Duration::from_secs(60);
const NODE: NodeId = NodeId(1);

async fn start(dir: &Path) -> (Host, Group<Ledger>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let settings = HostSettings {
        dir: dir.to_owned(),
        node: NODE,
        cluster: Some(ClusterId::from_bytes([7; 16])),
        peers: BTreeMap::new(),
        timings: RaftTimings::LAN,
        wal: WalSettings::SMALL,
        disk: Arc::new(RealDisk),
        clock: Arc::new(SystemClock),
        switch: PeerSwitch::default(),
    };
    let host = Host::open(settings, listener).await.unwrap();
    let group = host.group(GroupId(0), Ledger::default(), GroupSettings::SMALL).await.unwrap();
    group.bootstrap(BTreeSet::from([NODE])).await.unwrap();
    let mut status = group.watch();
    let leads = |status: &purser_raft::GroupStatus| status.role == purser_raft::Role::Leader;
    status.wait_for(leads).await.unwrap();
    (host, group)
}

fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).unwrap()
}

async fn propose(group: &Group<Ledger>, tenant: &str, operation: Operation) {
    let tenant = TenantId::parse(tenant).unwrap();
    let account = AccountName { tenant, unit: Unit::credits() };
    let items = vec![Item::new(Context::default(), operation)];
    let command = Bytes::from(codec::encode(&Command::at_home(account, items)));
    let answer = group.propose(command, Instant::now() + PATIENCE).await.unwrap();
    let Answer::Account(outcomes) = answer else { panic!("an account's command: {answer:?}") };
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
}

async fn open_and_fund(group: &Group<Ledger>, tenant: &str) {
    let (home, policy) = (Region::parse("us").unwrap(), Policy::default());
    propose(group, tenant, Operation::Open(Open { home, policy, epoch: None })).await;
    let grant = Grant {
        amount: credits(1_000),
        category: Category::Paid,
        priority: Grant::PRIORITY_DEFAULT,
        effective_at: None,
        expires_at: None,
        source_ref: None,
    };
    propose(group, tenant, Operation::Grant(grant)).await;
}

async fn authorize(group: &Group<Ledger>, tenant: &str, times: u32) {
    for _ in 0..times {
        let ttl = Span::from_secs(600);
        let asked = Authorize { amount: credits(1), ttl, reference: None, budgets: Box::default() };
        propose(group, tenant, Operation::Authorize(asked)).await;
    }
}

/// Two tenants, 24 entries; those of the first tenant are covered by a snapshot.
async fn write_some(dir: &Path) {
    let (host, group) = start(dir).await;
    for tenant in ["acme", "globex"] {
        open_and_fund(&group, tenant).await;
        authorize(&group, tenant, 10).await;
        if tenant == "acme" {
            group.trigger_snapshot().await.unwrap();
            let mut status = group.watch();
            status.wait_for(|status| status.snapshot_index.is_some()).await.unwrap();
        }
    }
    drop(group);
    host.shutdown(Instant::now() + PATIENCE).await;
}

fn audited(dirs: &[PathBuf]) -> AuditReport {
    audit(dirs, &Output::new(Format::People)).unwrap()
}

/// The files below a folder whose names end like this.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_folder_is_proved_and_not_changed() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("us-1");
    write_some(&dir).await;
    let bytes = || -> Vec<Vec<u8>> {
        let mut paths = files(&dir, "");
        paths.sort();
        paths.iter().map(|path| fs::read(path).unwrap()).collect()
    };
    let before = bytes();
    let report = audited(&[root.path().to_owned()]);
    assert_eq!(report.findings_count(), 0, "{}", report.render());
    let members = &report.groups[0].members;
    assert_eq!((members[0].entries, members[0].accounts), (24, 2));
    assert!(report.groups[0].agreement.is_some());
    assert!(report.render().ends_with("OK"));
    assert!(before == bytes(), "an audit changes nothing");
}

/// What is read while a node writes would be found damaged, or worse, sound.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_a_node_is_using_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (host, group) = start(dir.path()).await;
    let folders = [dir.path().to_owned()];
    let refused = audit(&folders, &Output::new(Format::People)).unwrap_err();
    let AuditError::Check { source: OfflineError::Open(OpenError::InUse(_)), .. } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(CommandError::broken("", refused).exit_code(), 1);
    drop(group);
    host.shutdown(Instant::now() + PATIENCE).await;
    assert_eq!(audited(&folders).findings_count(), 0);
}

/// A copy may lack the file that would keep a node from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_kept_from_nodes_is_told() {
    let dir = tempfile::tempdir().unwrap();
    write_some(dir.path()).await;
    let audited = || audited(&[dir.path().to_owned()]);
    let unlocked = "note: it has no lock file";
    assert!(!audited().render().contains(unlocked));
    fs::remove_file(dir.path().join("lock")).unwrap();
    let report = audited();
    assert!(report.render().contains(unlocked), "{}", report.render());
    assert_eq!(report.findings_count(), 0);
}

/// What was not compared is said: it may be as it should be, or somebody removed it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_group_is_told() {
    let root = tempfile::tempdir().unwrap();
    let (whole, emptied) = (root.path().join("whole"), root.path().join("emptied"));
    write_some(&whole).await;
    copy_folder(&whole, &emptied);
    for folder in ["groups", "wal"] {
        fs::remove_dir_all(emptied.join(folder)).unwrap();
        fs::create_dir(emptied.join(folder)).unwrap();
    }
    let text = audited(&[whole, emptied]).render();
    assert!(text.contains("note: it has no groups"), "{text}");
    assert!(text.contains("note: node 1 does not have the group"), "{text}");
}

/// Flips a bit of the history and returns its file's name and what the audit says.
async fn audit_of_altered(place: impl FnOnce(usize) -> usize) -> (String, AuditReport) {
    let root = tempfile::tempdir().unwrap();
    write_some(root.path()).await;
    let history = files(root.path(), ".history").pop().unwrap();
    let mut bytes = fs::read(&history).unwrap();
    let place = place(bytes.len());
    bytes[place] ^= 1;
    fs::write(&history, bytes).unwrap();
    let name = history.file_name().unwrap().to_string_lossy().into_owned();
    (name, audited(&[root.path().to_owned()]))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_byte_of_history_is_found_with_its_file() {
    let (file, report) = audit_of_altered(|_| 200).await;
    let text = report.render();
    assert!(report.findings_count() > 0, "{text}");
    assert!(text.contains("FOUND") && text.contains(&file) && text.contains("offset"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_byte_that_the_log_makes_good_is_told_and_harmless() {
    let (file, report) = audit_of_altered(|length| length - 10).await;
    let text = report.render();
    assert_eq!(report.findings_count(), 0, "{text}");
    assert!(text.contains("note: repaired at the start") && text.contains(&file), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_folders_are_compared_where_both_have_been() {
    let root = tempfile::tempdir().unwrap();
    let (newer, older) = (root.path().join("newer"), root.path().join("older"));
    write_some(&newer).await;
    copy_folder(&newer, &older);
    let (host, group) = start(&newer).await;
    authorize(&group, "acme", 5).await;
    drop(group);
    host.shutdown(Instant::now() + PATIENCE).await;

    let report = audited(&[newer, older]);
    assert_eq!(report.findings_count(), 0, "{}", report.render());
    let group = &report.groups[0];
    assert_eq!(group.agreement.as_ref().unwrap().nodes, 2, "{}", report.render());
    let entries: Vec<u64> = group.members.iter().map(|member| member.entries).collect();
    assert_eq!(entries, [29, 24]);
}
