//! Sends a snapshot, and the history that the other node lacks, over a connection of its own.
//!
//! ```text
//!  sender                         receiver
//!    offer: group, vote ─────────▶
//!                ◀───────────────── where its history ends, and from where to send
//!    file parts, history parts ──▶ written to disk as they arrive
//!    end ────────────────────────▶ checks, installs
//!                ◀───────────────── its vote
//! ```
//!
//! Nothing is ever in memory as a whole. What the receiver says about its history must be a prefix
//! of the sender's, by the chained checksum: otherwise two replicas differ, and nothing is sent.
//! What the receiver got is checked in the same way before it is installed: otherwise it is thrown
//! away, and the sender told, who begins again.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::Snapshot;
use purser_types::HistoryError;
use tokio::net::TcpStream;

use crate::codec::{Decoder, Encoder};
use crate::history::GroupHistory;
use crate::history::format::HistoryMark;
use crate::ids::{GroupId, NodeId};
use crate::raft::types::{LogId, StoredMembership, Vote};
use crate::snapshot::SnapshotFile;
use crate::snapshot::incoming::{IncomingFile, SnapshotData, Spool};

use super::frame;
use super::messages::{Meta, answer, decode_answer, decode_vote, encode_vote};
use super::server::{GroupPort, NOT_HEARD, Ports};
use super::switch::PeerSwitch;

/// Bytes of a part.
const PART_BYTES: usize = 1 << 20;

const FILE_PART: u8 = 1;
const HISTORY_PART: u8 = 2;
const END: u8 = 3;

/// Limits how long one step of a transfer may take.
async fn step<T>(limit: Duration, doing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(limit, doing).await {
        Ok(result) => result,
        Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Reads from a disk, away from the threads that must not wait.
async fn blocking<T: Send + 'static>(
    reading: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(reading).await.map_err(io::Error::other)?
}

/// What is sent where.
pub(crate) struct Outgoing {
    pub(crate) group: GroupId,
    pub(crate) vote: Vote,
    pub(crate) file: SnapshotFile,
    pub(crate) history: GroupHistory,
    pub(crate) limit: Duration,
}

impl Outgoing {
    /// Sends everything over a new connection. Gives the receiver's vote.
    pub(crate) async fn send(self, mut stream: TcpStream) -> io::Result<Vote> {
        let limit = self.limit;
        let mut offer = Encoder::new();
        offer.u32(self.group.0);
        encode_vote(&mut offer, self.vote);
        let offer = offer.finish();
        step(limit, frame::write(&mut stream, &offer)).await?;
        let reply = step(limit, frame::expect(&mut stream)).await?;
        let reply = decode_answer(&reply)?.outcome.map_err(io::Error::other)?;
        let mut decoder = Decoder::new(&reply);
        let mark = HistoryMark::decode(&mut decoder)?;
        let from = decoder.u64()?;
        self.check_prefix(mark)?;
        self.send_file(&mut stream).await?;
        self.send_history(&mut stream, from).await?;
        step(limit, frame::write(&mut stream, &[END])).await?;
        let done = step(limit, frame::expect(&mut stream)).await?;
        let done = decode_answer(&done)?.outcome.map_err(io::Error::other)?;
        Ok(decode_vote(&mut Decoder::new(&done))?)
    }

    fn check_prefix(&self, mark: HistoryMark) -> io::Result<()> {
        // A receiver that is ahead of the snapshot needs none of the history.
        if mark.length == 0 || mark.length > self.history.length() {
            return Ok(());
        }
        let own =
            self.history.checksum_at(mark.last, mark.length).map_err(|error| match error {
                HistoryError::Disk(error) => error,
                other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
            })?;
        if own == mark.crc {
            return Ok(());
        }
        let text =
            format!("the receiver's history differs from this node's before {}", mark.length);
        tracing::error!(group = %self.group, position = mark.last, "two replicas' histories differ");
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }

    async fn send_file(&self, stream: &mut TcpStream) -> io::Result<()> {
        let length = self.file.length()?;
        let mut offset = 0;
        while offset < length {
            let part = usize::try_from(length - offset).unwrap_or(PART_BYTES).min(PART_BYTES);
            let file = self.file.clone();
            let bytes = blocking(move || file.raw(offset, part)).await?;
            offset += self.send_part(stream, FILE_PART, &bytes).await?;
        }
        Ok(())
    }

    async fn send_history(&self, stream: &mut TcpStream, from: u64) -> io::Result<()> {
        let end = self.file.covered().history.length;
        let mut position = from;
        while position < end {
            let history = self.history.clone();
            let part = u64::try_from(PART_BYTES).map_err(io::Error::other)?;
            let bytes = blocking(move || history.raw(position, end, part)).await?;
            position += self.send_part(stream, HISTORY_PART, &bytes).await?;
        }
        Ok(())
    }

    async fn send_part(&self, stream: &mut TcpStream, kind: u8, bytes: &[u8]) -> io::Result<u64> {
        let mut part = Vec::with_capacity(bytes.len() + 1);
        part.push(kind);
        part.extend_from_slice(bytes);
        step(self.limit, frame::write(stream, &part)).await?;
        u64::try_from(bytes.len()).map_err(io::Error::other)
    }
}

/// Takes one snapshot and installs it.
pub(super) async fn receive(
    ports: &Ports,
    switch: &PeerSwitch,
    peer: NodeId,
    mut stream: TcpStream,
) -> io::Result<()> {
    let offer = step(super::server::HELLO_TIMEOUT, frame::expect(&mut stream)).await?;
    let mut decoder = Decoder::new(&offer);
    let group = GroupId(decoder.u32()?);
    let vote = decode_vote(&mut decoder)?;
    let Some(port) = ports.get(group) else {
        let refusal = Err(format!("group {group} is not open here"));
        return frame::write(&mut stream, &answer(0, refusal)).await;
    };
    if !port.hears(&vote) {
        return frame::write(&mut stream, &answer(0, Err(NOT_HEARD.to_owned()))).await;
    }
    let taking = async {
        match take(&port, switch, peer, &mut stream).await {
            Ok(data) => install(&port, vote, data).await,
            Err(error) => Err(error.to_string()),
        }
    };
    let outcome = tokio::select! {
        outcome = taking => outcome,
        // Whatever has arrived is dropped, and with it removed.
        reason = port.stop.stopped() => Err(reason.to_string()),
    };
    step(port.step_timeout, frame::write(&mut stream, &answer(0, outcome))).await
}

async fn take(
    port: &GroupPort,
    switch: &PeerSwitch,
    peer: NodeId,
    stream: &mut TcpStream,
) -> io::Result<SnapshotData> {
    let mark = port.history.mark();
    let spool = port.incoming.take_spool(mark.length)?;
    let mut reply = Encoder::new();
    mark.encode(&mut reply);
    reply.u64(spool.end());
    let reply = answer(0, Ok(reply.finish()));
    let mut arrival = Some(Arrival { file: port.incoming.new_file()?, spool });
    let parts = async {
        step(port.step_timeout, frame::write(stream, &reply)).await?;
        loop {
            let part = step(port.step_timeout, frame::expect(stream)).await?;
            if !switch.lets_in(peer) {
                return Err(io::Error::other("cut off"));
            }
            if part.first() == Some(&END) {
                return Ok(());
            }
            let before = arrival.take().ok_or_else(|| io::Error::other("a part was lost"))?;
            arrival = Some(before.write(part).await?);
        }
    };
    let result = parts.await;
    let arrival = arrival.ok_or_else(|| io::Error::other("a part could not be written"));
    if let Err(error) = result {
        // What arrived of the history is good for the next attempt.
        if let Ok(arrival) = arrival {
            port.incoming.keep(arrival.spool);
        }
        return Err(error);
    }
    let Arrival { file, spool } = arrival?;
    let (incoming, history) = (Arc::clone(&port.incoming), port.history.clone());
    let checked = blocking(move || {
        let file = incoming.finish(file)?;
        check_history(&history, mark, &spool, file.snapshot().covered().history)?;
        Ok(SnapshotData { file, history: Some(spool) })
    });
    checked.await.inspect_err(|error| {
        tracing::warn!(%peer, error = %error, "a received snapshot is thrown away");
    })
}

/// Checks that a snapshot that relies on the history `upto` fits this node's, which ended at `own`
/// when the transfer began, and what has arrived since.
fn check_history(
    history: &GroupHistory,
    own: HistoryMark,
    spool: &Spool,
    upto: HistoryMark,
) -> io::Result<()> {
    if own.length <= upto.length {
        return spool.check(own, upto);
    }
    // It is older than what this node has, so consensus will not install it. It must still be of
    // the same history.
    let is_same = upto.length == 0
        || history.checksum_at(upto.last, upto.length).map_err(io::Error::other)? == upto.crc;
    if is_same {
        return Ok(());
    }
    let text = format!("the snapshot relies on another history before {}", upto.length);
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// What has arrived so far.
struct Arrival {
    file: IncomingFile,
    spool: Spool,
}

impl Arrival {
    /// Adds a part. Both files are gone if that fails.
    async fn write(mut self, part: Bytes) -> io::Result<Self> {
        blocking(move || {
            match part.split_first() {
                Some((&FILE_PART, bytes)) => self.file.append(bytes)?,
                Some((&HISTORY_PART, bytes)) => self.spool.append(bytes)?,
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "unknown part")),
            }
            Ok(self)
        })
        .await
    }
}

async fn install(port: &GroupPort, vote: Vote, data: SnapshotData) -> Result<Vec<u8>, String> {
    let covered = data.file.snapshot().covered();
    let membership = (&covered.members).try_into().map_err(|error| format!("{error}"))?;
    let meta: Meta = Meta {
        last_log_id: covered.last.map(LogId::from),
        last_membership: StoredMembership::new(covered.members_at.map(LogId::from), membership),
    };
    let snapshot = Snapshot { meta, snapshot: data };
    let response = port.raft.install_full_snapshot(vote, snapshot).await;
    let response = response.map_err(|error| error.to_string())?;
    let mut done = Encoder::new();
    encode_vote(&mut done, response.vote);
    Ok(done.finish())
}

#[cfg(test)]
mod tests;
