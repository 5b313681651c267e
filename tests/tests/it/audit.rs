//! `purser audit` on the folders of stopped nodes, sound and with a byte flipped, and what a node
//! does that is started on such a folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use purser_tests::{Account, Cluster, Ended, Load, Running, Shape, run, wait_for};
use serde_json::Value;

const TENANTS: [&str; 4] = ["north", "east", "south", "west"];

/// Three stopped nodes with some history and a snapshot in every group.
pub(crate) async fn stopped_cluster() -> Cluster {
    let shape = Shape { shards: 2, snapshot_log_bytes: Some(8_192), ..Shape::default() };
    let mut cluster = Cluster::start_shaped(shape).await;
    let mut accounts = Vec::new();
    for tenant in TENANTS {
        accounts.push(Account::open(&cluster.api(1), tenant, 1_000_000).await);
    }
    let load = Load::start(8, &cluster.apis(), &accounts);
    load.wait_for_calls(200).await;
    load.finish().await.check_against(&accounts).await;
    cluster.stop_all().await;
    cluster
}

async fn audit(folders: &[PathBuf], options: &[&str]) -> Ended {
    let mut arguments = vec!["audit".to_owned()];
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    arguments.extend(folders.iter().map(|folder| folder.display().to_string()));
    run(arguments, &[]).await
}

#[tokio::test]
async fn an_audit_proves_stopped_nodes_equal() {
    let cluster = stopped_cluster().await;
    let folders = Cluster::IDS.map(|id| cluster.data_dir(id));
    let before = folders.iter().map(|folder| contents(folder)).collect::<Vec<_>>();
    let people = audit(&folders, &[]).await;
    println!("{}", people.stdout);
    assert_eq!(people.check_code(0).stdout.lines().last(), Some("OK"), "{people:#?}");

    let programs = audit(&folders, &["--json"]).await;
    let report: Value = serde_json::from_str(&programs.check_code(0).stdout).expect("JSON");
    let groups = report["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 2, "{report:#}");
    for group in groups {
        assert_eq!(group["agreement"]["nodes"], 3, "{group:#}");
        assert!(group["agreement"]["digest"].is_string(), "{group:#}");
        let entries: Vec<&Value> =
            group["members"].as_array().expect("members").iter().map(|it| &it["entries"]).collect();
        assert!(entries.iter().all(|count| **count != 0), "every group has some: {group:#}");
    }
    let after = folders.iter().map(|folder| contents(folder)).collect::<Vec<_>>();
    assert!(before == after, "an audit changes nothing");
}

/// Of three nodes one still runs: nothing is read, nothing is changed, and it says which.
#[tokio::test]
async fn an_audit_keeps_off_a_node_that_runs() {
    let mut cluster = stopped_cluster().await;
    cluster.start_node(2);
    let running = cluster.data_dir(2);
    // Alone it finds no majority. It has its folder all the same.
    wait_for("node 2 serves again", Duration::from_secs(30), async || {
        (cluster.printed(2).matches("API    http://").count() == 2).then_some(())
    })
    .await;
    let ended = audit(&Cluster::IDS.map(|id| cluster.data_dir(id)), &[]).await;
    ended.check_code(1);
    assert!(ended.stdout.is_empty(), "{ended:#?}");
    let said = format!("{} is in use", running.canonicalize().expect("it is there").display());
    assert!(ended.stderr.contains(&said), "{ended:#?}");
}

/// Every file, at several places each: found and named, or said to mean nothing. Never passed over.
#[tokio::test]
async fn an_audit_notices_every_flipped_byte() {
    let cluster = stopped_cluster().await;
    let folder = cluster.folder().join("copy");
    copy_folder(&cluster.data_dir(1), &folder).expect("the folder can be copied");
    // By how the audit spoke of it.
    let mut told: BTreeMap<&str, u32> = BTreeMap::new();
    for file in files(&folder) {
        let name = file.strip_prefix(&folder).expect("it is in there").display().to_string();
        for place in places(&file) {
            flip(&file, place);
            let ended = audit(std::slice::from_ref(&folder), &[]).await;
            flip(&file, place);
            let printed = ended.printed();
            assert!(printed.contains(&name), "{name}, byte {place}: {ended:#?}");
            let words = ["FOUND", "unused, nothing affected", "repaired at the start"];
            let words = words.into_iter().find(|words| printed.contains(words));
            let expected = if words == Some("FOUND") { Some(1) } else { Some(0) };
            assert_eq!(ended.code, expected, "{name}, byte {place}: {ended:#?}");
            let words = words.expect("it says what that means");
            println!("{name}, byte {place}: {words}");
            *told.entry(words).or_default() += 1;
        }
    }
    println!("flipped bytes: {told:?}");
    assert!(told.contains_key("FOUND"));
    audit(&[folder], &[]).await.check_code(0);
}

/// The bytes that a node decides by are checked before it serves.
#[tokio::test]
async fn a_node_does_not_start_on_a_flipped_byte() {
    let mut cluster = stopped_cluster().await;
    let folder = cluster.data_dir(1);
    let mut refused = Vec::new();
    for file in files(&folder) {
        let name = file.file_name().expect("a file has a name").to_string_lossy().into_owned();
        // The middle of what is used, where no crash could have left anything half-written.
        let Some(place) = used_bytes(&file).checked_div(3).filter(|place| *place > 0) else {
            continue;
        };
        flip(&file, place);
        match start_on(&cluster, &folder).await {
            Start::Refused(told) => {
                assert!(told.contains(&name), "the refusal names {name}: {told}");
                refused.push(name);
            }
            // It did not need those bytes yet; the audit finds them.
            Start::Serves => println!("a node serves with a flipped byte in {name}"),
        }
        flip(&file, place);
    }
    println!("a node refuses to start with a flipped byte in {refused:?}");
    assert!(refused.iter().any(|name| name == "node"), "its identity");
    assert!(refused.len() > 1, "and its log");

    for id in Cluster::IDS {
        cluster.start_node(id);
    }
    cluster.wait_for_all().await;
}

/// What a node shows of its history is what was written, or nothing.
#[tokio::test]
async fn a_flipped_byte_in_the_history_is_never_shown() {
    let mut cluster = stopped_cluster().await;
    let histories: Vec<PathBuf> = files(&cluster.data_dir(1))
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "history"))
        .collect();
    for history in &histories {
        flip(history, used_bytes(history) / 3);
    }
    for id in Cluster::IDS {
        cluster.start_node(id);
    }
    cluster.wait_for_all().await;
    let mut refused = 0;
    for tenant in TENANTS {
        let account = Account { api: cluster.api(2), tenant: tenant.to_owned() };
        cluster.hand_leadership(tenant, 2).await;
        let (entries, balance) = (account.entries().await, account.figures().await);
        cluster.hand_leadership(tenant, 1).await;
        let seen = account.through(&cluster.api(1));
        let page = seen.get("entries?limit=1000").await;
        if page.status == 200 {
            let mut items = page.body["items"].as_array().expect("items").clone();
            items.reverse();
            assert!(items == entries, "node 1 shows other entries of {tenant} than node 2");
        } else {
            page.check_problem(500, "internal_error");
            refused += 1;
        }
        assert_eq!(seen.figures().await, balance, "the balance of {tenant}");
    }
    println!("{refused} of {} accounts have flipped entries on node 1", TENANTS.len());
    assert!(refused > 0, "{} histories were altered", histories.len());
}

enum Start {
    Refused(String),
    Serves,
}

/// Starts node 1 alone, just long enough to see what it does.
async fn start_on(cluster: &Cluster, folder: &Path) -> Start {
    let output = folder.with_extension("start.log");
    let config = cluster.config_file(1);
    let arguments = ["serve".as_ref(), "--config".as_ref(), config.as_os_str()];
    let mut running = Running::start(arguments, &output);
    let start = wait_for("the node serves or refuses", Duration::from_secs(30), async || {
        if let Some(status) = running.ended() {
            assert_eq!(status.code(), Some(1), "{}", running.printed());
            return Some(Start::Refused(running.printed()));
        }
        running.printed().contains("API    http://").then_some(Start::Serves)
    })
    .await;
    running.kill();
    fs::remove_file(output).expect("the output was written");
    start
}

/// The first, the middle and the last byte; eight places of the part that is used, its last byte
/// among them; the first unused byte.
fn places(file: &Path) -> Vec<u64> {
    let length = fs::metadata(file).expect("the file is there").len();
    let used = used_bytes(file);
    let mut places = vec![0, length / 2, length.saturating_sub(1), used];
    places.extend((1..=8).map(|eighth| (used * eighth / 8).saturating_sub(1)));
    places.retain(|place| *place < length);
    places.sort_unstable();
    places.dedup();
    places
}

/// How far a file is from its start to its last byte that is not zero.
pub(crate) fn used_bytes(file: &Path) -> u64 {
    let bytes = fs::read(file).expect("the file can be read");
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    u64::try_from(used).expect("a file is smaller than that")
}

/// Turns one byte into another. Twice restores it.
pub(crate) fn flip(file: &Path, place: u64) {
    let file = File::options().read(true).write(true).open(file).expect("the file opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, place).expect("the place is in the file");
    file.write_all_at(&[byte[0] ^ 0x10], place).expect("the byte is written");
}

/// All files below a folder, in order.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for name in fs::read_dir(folder).expect("the folder can be read") {
        let path = name.expect("a name can be read").path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |file: PathBuf| {
        let bytes = fs::read(&file).expect("the file can be read");
        (file, bytes)
    };
    files(folder).into_iter().map(read).collect()
}

/// Copies a folder with all that is below it, empty folders too.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for name in fs::read_dir(from)? {
        let name = name?;
        let target = to.join(name.file_name());
        if name.file_type()?.is_dir() {
            copy_folder(&name.path(), &target)?;
        } else {
            fs::copy(name.path(), target)?;
        }
    }
    Ok(())
}
