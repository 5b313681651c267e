//! What callers see of a machine while it applies.

use bytes::Bytes;
use purser_types::{ApplyError, CorruptSnapshot, Machine, Stamped};
use tokio::sync::oneshot;

use crate::batch::BatchId;
use crate::disk::RealDisk;
use crate::history::HistoryPlace;
use crate::ids::{ClusterId, GroupId};

use super::*;

const NODE: NodeId = NodeId(1);

/// Answers a command with itself; the empty one is a broken invariant.
#[derive(Clone, Default)]
struct Echo {
    applied: usize,
}

impl Machine for Echo {
    type Answer = Vec<u8>;

    fn apply(
        &mut self,
        stamped: Stamped<'_>,
        _history: &mut dyn purser_types::History,
    ) -> Result<Vec<u8>, ApplyError> {
        self.applied += 1;
        assert!(!stamped.command.is_empty(), "on purpose");
        Ok(stamped.command.to_vec())
    }

    fn log_time(&self) -> LogTime {
        LogTime::ZERO
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        Box::new(std::iter::empty())
    }

    fn restore(_: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        Ok(Self::default())
    }
}

fn history(dir: &std::path::Path) -> HistoryWriter {
    let place = HistoryPlace {
        disk: Arc::new(RealDisk),
        dir: dir.to_path_buf(),
        cluster: ClusterId::from_bytes([1; 16]),
        group: GroupId(1),
    };
    HistoryWriter::open(place, 1 << 20, Default::default()).unwrap()
}

/// Where the log has what is applied.
const INDEX: u64 = 11;

fn apply(
    hosted: &HostedMachine<Echo>,
    incarnation: u64,
    commands: &[&'static str],
) -> Result<(), ApplyError> {
    let dir = tempfile::tempdir().unwrap();
    let commands: Vec<Bytes> = commands.iter().copied().map(Bytes::from).collect();
    let id = BatchId { node: NODE, incarnation, counter: 1 };
    let bytes = batch::encode(LogTime::ZERO, id, &commands);
    let batch = batch::decode(&bytes).unwrap();
    hosted.apply(INDEX, LogTime::ZERO, &batch, &mut history(dir.path()))
}

#[test]
fn every_caller_of_a_batch_gets_the_answer_to_its_own_command() {
    let hosted = HostedMachine::new(Echo::default(), NODE, 7);
    let commands = ["one", "two", "three"];
    let (waiters, answers): (Vec<_>, Vec<_>) =
        commands.map(|_| oneshot::channel()).into_iter().unzip();
    hosted.waiters.insert(1, waiters);
    apply(&hosted, 7, &commands).unwrap();
    for (mut answer, command) in answers.into_iter().zip(commands) {
        assert_eq!(answer.try_recv().unwrap().unwrap(), (command.as_bytes().to_vec(), INDEX));
    }
}

#[test]
fn a_batch_of_an_earlier_opening_answers_nobody() {
    let hosted = HostedMachine::new(Echo::default(), NODE, 8);
    let (waiter, mut answer) = oneshot::channel();
    hosted.waiters.insert(1, vec![waiter]);
    apply(&hosted, 7, &["earlier"]).unwrap();
    assert!(answer.try_recv().is_err(), "its caller waits for another command");
    apply(&hosted, 8, &["own"]).unwrap();
    assert_eq!(answer.try_recv().unwrap().unwrap(), (b"own".to_vec(), INDEX));
}

#[test]
fn a_machine_is_handed_out_as_it_is_between_two_entries() {
    let hosted = HostedMachine::new(Echo::default(), NODE, 7);
    let (mut before, mut behind) = (hosted.want(INDEX - 1), hosted.want(INDEX));
    assert!(before.try_recv().is_err(), "the next entry may still be the one before");
    apply(&hosted, 7, &["one"]).unwrap();
    let handed_out = before.try_recv().unwrap();
    assert_eq!(handed_out.applied, 0, "nothing of the entry is in it");
    assert!(behind.try_recv().is_err(), "nothing behind the entry was applied yet");
}

#[test]
fn a_half_applied_machine_is_not_shown() {
    let hosted = HostedMachine::new(Echo::default(), NODE, 7);
    fn shown(hosted: &HostedMachine<Echo>) {
        let _machine = hosted.machine();
    }
    let unwinding =
        |look: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).is_err();
    assert!(!unwinding(&|| shown(&hosted)));
    assert!(unwinding(&|| apply(&hosted, 7, &["good", ""]).unwrap()));
    assert!(unwinding(&|| shown(&hosted)));
    assert!(unwinding(&|| drop(hosted.freeze())));
}
