//! A node's whole storage against a disk that fails at every write point.
//!
//! Log, history, snapshots and the state machine's adapter are driven through openraft's traits, in
//! openraft's order. Not here: elections and replication, which decide what is promised; they are
//! in the tests of whole clusters.

mod journal;
mod node;
mod run;

use std::sync::mpsc;

use crate::disk::{DiskFault, SimulatedDisk};
use crate::error::OpenError;
use crate::offline::{Severity, check_on};

use node::{DIR, Node, snapshot_files};
use run::{Promise, Run, check_going_on, check_promise};

#[tokio::test]
async fn nothing_promised_is_lost_wherever_power_or_process_ends() {
    let disk = SimulatedDisk::from_seed(1);
    let mut run = Run::open(&disk, false).await.unwrap();
    run.observe(&disk);
    run.play(24).await.unwrap();
    assert!(run.crashes_seen > 1_000, "{} write points", run.crashes_seen);
    assert!(run.promise.log.len() > 200, "{} entries", run.promise.log.len());
}

/// Spare segments are made by a thread of their own, so the order of the write points differs from
/// run to run. Every order must be safe.
#[tokio::test]
async fn nothing_promised_is_lost_while_old_segments_are_used_again() {
    let disk = SimulatedDisk::from_seed(2);
    let mut run = Run::open(&disk, true).await.unwrap();
    run.observe(&disk);
    run.play(7).await.unwrap();
    assert!(run.crashes_seen > 300, "{} write points", run.crashes_seen);
}

#[tokio::test]
async fn nothing_promised_is_lost_when_power_fails_before_the_first_step() {
    let disk = SimulatedDisk::from_seed(3);
    Run::open(&disk, false).await.unwrap();
    for at in 0..disk.write_points() {
        let disk = SimulatedDisk::from_seed(at);
        disk.fail_at(at, DiskFault::PowerLoss);
        assert!(Node::open(&disk, false).await.is_err(), "at {at}");
        disk.restart();
        check_going_on(disk, &[&Promise::default()], &format!("power failed at {at}")).await;
    }
}

/// After a failed sync the kernel may go on showing what it could not write. A node that is started
/// again on the same machine must not take that for durable.
#[tokio::test]
async fn a_disk_that_refuses_ends_the_node_and_loses_nothing_promised() {
    for fault in [DiskFault::InputOutput, DiskFault::NoSpace] {
        for at in 0.. {
            let disk = SimulatedDisk::from_seed(at);
            disk.fail_at(at, fault);
            let mut promises = [Promise::default(), Promise::default()];
            let mut noticed = true;
            if let Ok(mut run) = Run::open(&disk, false).await {
                let failed = run.node.wal.failed();
                let played = run.play(6).await;
                promises = [run.promise.clone(), run.next.clone()];
                drop(run);
                noticed = played.is_err() || failed.borrow().is_some();
            }
            if !disk.has_failed() {
                assert!(at > 250, "{at} write points are too few to say anything");
                break;
            }
            assert!(noticed, "{fault:?} at {at} was not noticed");
            disk.kill();
            let [before, after] = &promises;
            check_going_on(disk, &[before, after], &format!("{fault:?} at {at}")).await;
        }
    }
}

#[tokio::test]
async fn a_segment_is_kept_while_the_truncation_of_its_entries_is_on_its_way() {
    let disk = SimulatedDisk::from_seed(5);
    let mut run = Run::open(&disk, false).await.unwrap();
    run.append(5).await.unwrap();
    run.commit(0).await.unwrap();
    run.take_snapshot().await.unwrap();
    run.append(40).await.unwrap();
    run.append(1).await.unwrap();

    // The purge is durable, and the thread of the log stands still before it says so.
    let (release, holding) = run.vote_and_hold();
    holding.await.unwrap().unwrap();
    let (release_again, holding_again) = run.vote_and_hold();
    run.node.purge(run.promise.log[4].id).await.unwrap();
    drop(release);
    holding_again.await.unwrap().unwrap();
    run.done().await;
    run.observe(&disk);
    let truncating = run.truncate();
    let releasing = async { drop(release_again) };
    let (truncated, ()) = futures_util::future::join(truncating, releasing).await;
    truncated.unwrap();
    assert!(run.crashes_seen > 0);
}

#[tokio::test]
async fn a_damaged_snapshot_is_refused_by_name_and_an_older_one_is_kept() {
    let disk = SimulatedDisk::from_seed(6);
    let mut run = Run::open(&disk, false).await.unwrap();
    run.append(5).await.unwrap();
    run.commit(0).await.unwrap();
    run.take_snapshot().await.unwrap();
    run.append(30).await.unwrap();
    run.commit(0).await.unwrap();
    // The process ends between the naming of the newer and the removal of the older one.
    let (sender, crashes) = mpsc::channel();
    disk.observe(move |crashed| drop(sender.send(crashed)));
    run.node.take_snapshot().await.unwrap();
    let crashed = crashes.try_iter().find(|crashed| snapshot_files(crashed).len() == 2).unwrap();
    crashed.kill();
    let [older, newer] = snapshot_files(&crashed).try_into().unwrap();

    let whole = crashed.contents(&newer).unwrap();
    for place in [0, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        crashed.tamper(&newer, damaged);
        match Node::open(&crashed, false).await {
            Err(OpenError::Damaged { file, .. }) => assert_eq!(file, newer),
            Err(error) => panic!("{place}: {error}"),
            Ok(_) => panic!("{place}: the damage was not noticed"),
        }
        assert_eq!(snapshot_files(&crashed), [older.clone(), newer.clone()]);
    }
    crashed.tamper(&newer, whole);
    drop(check_promise(&crashed, &[&run.promise], "repaired").await);
    assert_eq!(snapshot_files(&crashed), [newer]);
}

#[tokio::test]
async fn a_crash_is_no_damage_to_the_offline_reader() {
    let disk = SimulatedDisk::from_seed(7);
    let mut run = Run::open(&disk, false).await.unwrap();
    let (sender, crashes) = mpsc::channel();
    disk.observe(move |crashed| drop(sender.send(crashed)));
    run.play(7).await.unwrap();
    for crashed in crashes.try_iter().step_by(3) {
        let at = crashed.write_points();
        crashed.restart();
        let report = check_on(std::sync::Arc::new(crashed), DIR.as_ref()).unwrap();
        let worst = report.findings.iter().max_by_key(|finding| finding.severity);
        let harmless = worst.is_none_or(|worst| worst.severity <= Severity::Repaired);
        assert!(harmless, "power failed at write point {at}: {worst:?}");
    }
}
