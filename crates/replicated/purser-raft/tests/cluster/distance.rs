//! A long line between nodes: what enters it comes out somewhat later, in order.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Carries every connection to `line` on to `address`, both ways `delay` later.
pub(crate) async fn lay(line: TcpListener, address: String, delay: Duration) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = line.accept().await {
        let address = address.clone();
        connections.spawn(async move {
            let Ok(far) = TcpStream::connect(address).await else {
                return;
            };
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            tokio::join!(carry(near_in, far_out, delay), carry(far_in, near_out, delay));
        });
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (enter, mut line) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let entering = async move {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            let due = Instant::now() + delay;
            if enter.send((due, bytes.iter().copied().take(count).collect())).is_err() {
                return;
            }
        }
    };
    let leaving = async move {
        while let Some((due, bytes)) = line.recv().await {
            sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(entering, leaving);
}
