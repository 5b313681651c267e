//! Bytes under way in one direction.
//!
//! ```text
//!  reader ──▶ take in, note when ──▶ queue, bounded ──▶ wait until each is due ──▶ writer
//! ```
//!
//! Taking in goes on while earlier bytes are under way, so a long way costs time and no throughput:
//! the queue holds what a long fast wire would hold. When it is full, nothing more is taken in, and
//! the sender notices as it does with any receiver that is slow. The order is that of the bytes,
//! whatever the delay does meanwhile.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::weather::Way;

/// What may be under way in one direction of one connection: 90 ms at 90 MB/s.
const ROOM_BYTES: usize = 8 << 20;
/// How much is taken in at once.
const BITE_BYTES: usize = 64 << 10;
/// What the smallest bite takes of the room, so that the room bounds their number too.
const BITE_BYTES_MIN: usize = 512;

/// Bytes and when they left. Without bytes: the sender has nothing more to say.
struct Bite {
    left_at: Instant,
    bytes: Bytes,
}

/// What bytes take of the room.
fn cost(bytes: &Bytes) -> usize {
    bytes.len().max(BITE_BYTES_MIN)
}

/// Carries everything that `reader` says to `writer`, and that it has nothing more to say.
pub(super) async fn carry<R, W>(reader: &mut R, writer: &mut W, way: Way) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let room = Semaphore::new(ROOM_BYTES);
    let (under_way, arriving) = mpsc::unbounded_channel();
    tokio::try_join!(take_in(reader, &room, under_way), hand_out(writer, &room, arriving, way))?;
    Ok(())
}

async fn take_in<R: AsyncRead + Unpin>(
    reader: &mut R,
    room: &Semaphore,
    under_way: mpsc::UnboundedSender<Bite>,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        if buffer.capacity() < BITE_BYTES_MIN {
            buffer.reserve(BITE_BYTES);
        }
        reader.read_buf(&mut buffer).await?;
        // Bites share what was allocated, so small ones keep no more than they need.
        let bytes = buffer.split().freeze();
        let is_last = bytes.is_empty();
        let cost = u32::try_from(cost(&bytes)).expect("a bite has at most 64 KiB");
        room.acquire_many(cost).await.expect("the room is never closed").forget();
        // Bytes that found no room have waited at the sender, and leave only now.
        let bite = Bite { left_at: Instant::now(), bytes };
        if under_way.send(bite).is_err() || is_last {
            // Without a receiver there was an error there, which ends both.
            return Ok(());
        }
    }
}

async fn hand_out<W: AsyncWrite + Unpin>(
    writer: &mut W,
    room: &Semaphore,
    mut arriving: mpsc::UnboundedReceiver<Bite>,
    mut way: Way,
) -> io::Result<()> {
    while let Some(bite) = arriving.recv().await {
        way.until_arrival(bite.left_at, 1).await;
        if bite.bytes.is_empty() {
            return writer.shutdown().await;
        }
        writer.write_all(&bite.bytes).await?;
        room.add_permits(cost(&bite.bytes));
    }
    Ok(())
}
