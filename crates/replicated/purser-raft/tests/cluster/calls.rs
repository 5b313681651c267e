//! What the owners of nodes ask each other.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, join_all, select};
use purser_raft::{CallError, CallHandler, Cut, GroupSettings, NodeId};
use tokio::sync::watch;

use crate::soon;
use crate::support::{Cluster, PATIENCE, deadline};

const CALLER: NodeId = NodeId(1);
const ASKED: NodeId = NodeId(2);
const BODY_BYTES_MAX: usize = 4 << 20;
const AT_ONCE_MAX: usize = 512;

/// Answers by what it is asked.
#[derive(Clone, Default)]
struct Obedient {
    /// Calls that have arrived.
    arrived: watch::Sender<usize>,
    /// What waits is answered once this is set.
    open: watch::Sender<bool>,
}

impl Obedient {
    async fn wait_for_arrivals(&self, count: usize) {
        let mut arrived = self.arrived.subscribe();
        let waiting = arrived.wait_for(|arrived| *arrived >= count);
        drop(tokio::time::timeout(PATIENCE, waiting).await.expect("they arrive").unwrap());
    }
}

impl CallHandler for Obedient {
    fn call(&self, from: NodeId, body: Bytes) -> BoxFuture<'static, Bytes> {
        self.arrived.send_modify(|arrived| *arrived += 1);
        let open = self.open.clone();
        Box::pin(async move {
            match &body[..] {
                b"open" => {
                    open.send_replace(true);
                }
                b"wait" => drop(open.subscribe().wait_for(|open| *open).await),
                b"panic" => panic!("as it was told to"),
                b"much" => return Bytes::from(vec![0; BODY_BYTES_MAX + 1]),
                _ => return body,
            }
            Bytes::from(format!("{} for {from}", String::from_utf8_lossy(&body)))
        })
    }
}

/// Two nodes, the second of which answers.
async fn pair() -> (Cluster, Obedient) {
    let cluster = Cluster::start(2, GroupSettings::SMALL).await;
    let handler = Obedient::default();
    cluster.host(ASKED).serve_calls(Arc::new(handler.clone()));
    (cluster, handler)
}

async fn call(cluster: &Cluster, body: &'static str, until: Instant) -> Result<Bytes, CallError> {
    cluster.host(CALLER).calls().call(ASKED, Bytes::from_static(body.as_bytes()), until).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_overlap_and_are_answered_in_any_order() {
    let (cluster, _) = pair().await;
    // The first is answered only once the second was carried out.
    let waiting = call(&cluster, "wait", deadline());
    let (waited, opened) = tokio::join!(waiting, call(&cluster, "open", deadline()));
    assert_eq!(waited.unwrap(), "wait for 1");
    assert_eq!(opened.unwrap(), "open for 1");

    let largest = Bytes::from(vec![7; BODY_BYTES_MAX]);
    let answer = cluster.host(CALLER).calls().call(ASKED, largest.clone(), deadline()).await;
    assert!(answer.unwrap() == largest, "it came back changed");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_can_not_be_made_is_known_to_have_done_nothing() {
    let (mut cluster, handler) = pair().await;
    let caller = cluster.host(CALLER).calls();
    let refused = caller.call(CALLER, Bytes::new(), deadline()).await;
    assert!(matches!(refused, Err(CallError::Refused { .. })), "itself: {refused:?}");
    let large = Bytes::from(vec![0; BODY_BYTES_MAX + 1]);
    let refused = caller.call(ASKED, large, deadline()).await;
    assert!(matches!(refused, Err(CallError::Refused { .. })), "too large: {refused:?}");
    let refused = cluster.host(ASKED).calls().call(CALLER, Bytes::new(), deadline()).await;
    assert!(matches!(refused, Err(CallError::Refused { .. })), "no handler: {refused:?}");
    let not_sent = caller.call(NodeId(9), Bytes::new(), deadline()).await;
    assert!(matches!(not_sent, Err(CallError::NotSent { .. })), "unknown: {not_sent:?}");

    cluster.node(CALLER).switch.cut(ASKED, Cut::Both);
    let not_sent = call(&cluster, "wait", deadline()).await;
    assert!(matches!(not_sent, Err(CallError::NotSent { .. })), "cut here: {not_sent:?}");
    cluster.node(CALLER).switch.heal(ASKED);
    cluster.node(ASKED).switch.cut(CALLER, Cut::Both);
    let not_sent = call(&cluster, "wait", deadline()).await;
    assert!(matches!(not_sent, Err(CallError::NotSent { .. })), "cut there: {not_sent:?}");
    cluster.node(ASKED).switch.heal(CALLER);
    cluster.kill(ASKED).await;
    let not_sent = call(&cluster, "wait", deadline()).await;
    assert!(matches!(not_sent, Err(CallError::NotSent { .. })), "dead: {not_sent:?}");
    assert_eq!(*handler.arrived.borrow(), 0, "the handler was asked");

    cluster.restart(ASKED).await;
    cluster.host(ASKED).serve_calls(Arc::new(handler));
    assert_eq!(call(&cluster, "hello", deadline()).await.unwrap(), "hello");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_may_have_arrived_is_not_said_to_be_without_effect() {
    let (mut cluster, handler) = pair().await;
    for body in ["panic", "much"] {
        let lost = call(&cluster, body, deadline()).await;
        assert!(matches!(lost, Err(CallError::MaybeSent { .. })), "{body}: {lost:?}");
    }
    let calls = cluster.host(CALLER).calls();
    let in_flight = calls.call(ASKED, Bytes::from_static(b"wait"), deadline());
    let killing = async {
        handler.wait_for_arrivals(3).await;
        cluster.kill(ASKED).await;
    };
    let (lost, ()) = tokio::join!(in_flight, killing);
    assert!(matches!(lost, Err(CallError::MaybeSent { .. })), "{lost:?}");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_calls_at_once_and_no_more() {
    let (cluster, handler) = pair().await;
    let waiting = join_all((0..AT_ONCE_MAX).map(|_| call(&cluster, "wait", deadline())));
    let further = async {
        handler.wait_for_arrivals(AT_ONCE_MAX).await;
        call(&cluster, "hello", soon()).await
    };
    // Then all are given up here, but not there.
    let Either::Left((not_sent, waiting)) = select(Box::pin(further), waiting).await else {
        panic!("those that wait were answered");
    };
    drop(waiting);
    assert!(matches!(not_sent, Err(CallError::NotSent { .. })), "{not_sent:?}");
    let refused = call(&cluster, "hello", deadline()).await;
    assert!(matches!(refused, Err(CallError::Refused { .. })), "{refused:?}");
    handler.open.send_replace(true);
    let patience = deadline();
    while let Err(refused) = call(&cluster, "hello", deadline()).await {
        assert!(matches!(refused, CallError::Refused { .. }), "{refused:?}");
        assert!(Instant::now() < patience, "no place is ever free again");
        tokio::task::yield_now().await;
    }
    cluster.end().await;
}
