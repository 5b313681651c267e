//! Replicas of a group, compared at one index.
//!
//! ```text
//!  pick an index a little ahead ─▶ ask every member for its state there ─▶ equal digests?
//!                                            │ beyond it already
//!                                            └─▶ pick one further ahead
//! ```
//!
//! Replicas are at one index at different times, so each keeps its state as it comes by; whoever leads
//! proposes empty commands until the index is passed.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use minicbor::{Decode, Encode};
use purser_api::{GroupNumber, VerificationSubject};
use purser_ledger::{Command, Digest32, Ledger, codec};
use purser_raft::{CallHandler, Group, NodeId, PeerCalls};

use super::Check;
use crate::groups::Groups;
use crate::regions::{Answered, Ask, read_message, write_message};
use crate::tasks::chain;

/// How far ahead an index is picked at first, and then: far enough for a question to a distant member while
/// hundreds of entries a second are applied.
const AHEAD: [u64; 3] = [32, 256, 2_048];

/// How long a replica may take to come by an index.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the state's digest may take besides, and the way there and back.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// Asks for the digest of a replica's state.
#[derive(Debug, Clone, Copy, Encode, Decode)]
pub(crate) struct StateAsked {
    /// The group.
    #[n(0)]
    pub(crate) group: u32,
    /// With all entries up to this one, and none behind it.
    #[n(1)]
    pub(crate) index: u64,
}

/// What a member has said.
enum Said {
    Digest(Digest32),
    /// It is beyond the index, or did not come by it.
    Missed,
    /// It was not heard.
    Silent(String),
}

/// Compares the state of every member with this node's.
pub(super) async fn compare(group: &Group<Ledger>, calls: &PeerCalls, own: NodeId) -> Check {
    let mut check = Check::new(VerificationSubject::Replicas, Some(GroupNumber(group.id().0)));
    let status = group.status();
    let others: Vec<NodeId> =
        status.voters.union(&status.learners).filter(|node| **node != own).copied().collect();
    if others.is_empty() {
        return check;
    }
    let mut waiting = others;
    for ahead in AHEAD {
        let index = group.shown_index().unwrap_or(0).saturating_add(ahead);
        let asked = StateAsked { group: group.id().0, index };
        let asking = waiting.iter().map(|node| ask(calls, *node, asked));
        let (own, said) = tokio::join!(state_digest(group, index), join_all(asking));
        let Some(own) = own else { continue };
        let mut missed = Vec::new();
        for (node, said) in waiting.iter().copied().zip(said) {
            match said {
                Said::Digest(digest) => {
                    check.compared = check.compared.saturating_add(1);
                    if digest != own {
                        let text = format!("the state of node {node} at index {index} is another");
                        check.differs(text, 0);
                    }
                }
                Said::Missed => missed.push(node),
                Said::Silent(why) => check.not_compared(format!("node {node}: {why}")),
            }
        }
        waiting = missed;
        if waiting.is_empty() {
            return check;
        }
    }
    for node in waiting {
        check.not_compared(format!("node {node} was at no index together with this one"));
    }
    check
}

async fn ask(calls: &PeerCalls, node: NodeId, asked: StateAsked) -> Said {
    let body = write_message(&Ask::State(asked)).into();
    let answer = match calls.call(node, body, Instant::now() + ANSWER_PATIENCE).await {
        Ok(answer) => answer,
        Err(error) => return Said::Silent(chain(&error)),
    };
    match read_message(&answer) {
        Ok(Answered::State(Some(digest))) => match Digest32::try_from(&digest[..]) {
            Ok(digest) => Said::Digest(digest),
            Err(_) => Said::Silent("its answer is no digest".to_owned()),
        },
        Ok(Answered::State(None)) => Said::Missed,
        Ok(Answered::NotNow { reason }) => Said::Silent(reason),
        Ok(_) => Said::Silent("its answer is to another question".to_owned()),
        Err(error) => Said::Silent(chain(&error)),
    }
}

/// The digest of this node's state of a group, with all entries up to `index` and none behind it. Nothing if
/// this node is beyond it, or does not come by it in time.
async fn state_digest(group: &Group<Ledger>, index: u64) -> Option<Digest32> {
    let coming_by = async {
        let mut machine = std::pin::pin!(group.machine_at(index));
        loop {
            if !group.is_leading() {
                return machine.await;
            }
            let pushed = push(group);
            tokio::select! {
                biased;
                machine = &mut machine => return machine,
                is_pushed = pushed => if !is_pushed { return machine.await },
            }
        }
    };
    let machine = tokio::time::timeout(PATIENCE, coming_by).await.ok()??;
    tokio::task::spawn_blocking(move || machine.digest()).await.ok()
}

/// Has the group come one index further. Whether it did.
async fn push(group: &Group<Ledger>) -> bool {
    let nothing = Bytes::from(codec::encode(&Command::Sweep { accounts_max: 0 }));
    group.propose(nothing, Instant::now() + PATIENCE).await.is_ok()
}

/// Answers other nodes where the cluster stands in one region: they compare states, and ask nothing else.
pub(crate) struct AnsweringAlone(pub(crate) Groups);

impl CallHandler for AnsweringAlone {
    fn call(&self, from: NodeId, body: Bytes) -> BoxFuture<'static, Bytes> {
        let groups = self.0.clone();
        async move {
            let answered = match read_message(&body) {
                Ok(Ask::State(asked)) => answer_state(groups.all(), asked).await,
                Ok(_) => not_now("the cluster stands in one region"),
                Err(error) => {
                    let reason = chain(&error);
                    tracing::warn!(%from, reason, "a question cannot be read");
                    not_now(&reason)
                }
            };
            write_message(&answered).into()
        }
        .boxed()
    }
}

/// What one of `groups` says of its state.
pub(crate) async fn answer_state(groups: &[Group<Ledger>], asked: StateAsked) -> Answered {
    match groups.iter().find(|group| group.id().0 == asked.group) {
        Some(group) => {
            let digest = state_digest(group, asked.index).await;
            Answered::State(digest.map(|digest| digest.to_vec().into()))
        }
        None => not_now("there is no such group"),
    }
}

fn not_now(reason: &str) -> Answered {
    Answered::NotNow { reason: reason.to_owned() }
}
