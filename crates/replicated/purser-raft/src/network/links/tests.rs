//! The calling side against a peer that is made up.

use bytes::Bytes;
use tokio::net::TcpListener;

use super::super::messages::{answer, decode_request};
use super::super::waiting::SILENCE_MAX;
use super::*;

/// Node 1, and where its node 2 listens.
async fn links_to_listener() -> (Links, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peers = [(NodeId(2), listener.local_addr().unwrap().to_string())].into();
    let (cluster, tasks) = (ClusterId::from_bytes([1; 16]), Tasks::new());
    let node = (cluster, NodeId(1));
    let links = Links::new(node, peers, PeerSwitch::default(), tasks, Arc::default());
    (links, listener)
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_nothing_behind() {
    let (links, listener) = links_to_listener().await;
    let target = (NodeId(2), Lane::Control);
    let sending = links.send(target, RequestKind::Clock, GroupId(0), |_body| ());
    let pending = sending.await.unwrap();

    let (mut stream, _) = listener.accept().await.unwrap();
    frame::expect(&mut stream).await.unwrap();
    frame::write(&mut stream, &answer(0, Ok(Vec::new()))).await.unwrap();
    let request = decode_request(&frame::expect(&mut stream).await.unwrap()).unwrap();
    let waiting = links.link(NodeId(2), Lane::Control).waiting;
    let numbers = || waiting.numbers();
    assert_eq!(numbers(), [request.number]);
    drop(pending);
    assert_eq!(numbers(), []);
    links.end().await;
}

/// The peer shows that it is there for longer than it may be silent, and then answers.
#[tokio::test]
async fn a_call_may_take_longer_than_a_peer_may_be_silent() {
    let (links, listener) = links_to_listener().await;
    let patience = Instant::now() + Duration::from_secs(60);
    let calling = links.call(NodeId(2), Bytes::from_static(b"slow"), patience);
    let answering = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        frame::expect(&mut stream).await.unwrap();
        frame::write(&mut stream, &answer(0, Ok(Vec::new()))).await.unwrap();
        let mut asked = None;
        let connected = Instant::now();
        while connected.elapsed() <= SILENCE_MAX + LOOK_PERIOD * 2 {
            let request = decode_request(&frame::expect(&mut stream).await.unwrap()).unwrap();
            match request.kind {
                RequestKind::Call => asked = Some(request.number),
                _ => frame::write(&mut stream, &answer(request.number, Ok(vec![0; 8])))
                    .await
                    .unwrap(),
            }
        }
        let answer = answer(asked.unwrap(), Ok(b"\0done".to_vec()));
        frame::write(&mut stream, &answer).await.unwrap();
        stream
    };
    let (answered, _stream) = tokio::join!(calling, answering);
    assert_eq!(answered, Ok(Bytes::from_static(b"done")));
    links.end().await;
}
