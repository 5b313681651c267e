//! Cuts off a connection that does not move.
//!
//! A caller that asks for large answers and does not read them would keep them in memory for as
//! long as it likes; one that connects and says nothing would keep a place that others wait for.
//! Watched are the first bytes, before it is known which HTTP they are, and every write. The rest
//! of reading is limited elsewhere: by the time for headers, and by the request's deadline.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What the preface of HTTP/2 has. With as many bytes it is known which HTTP it is, and from then on
/// the time for headers is watched by whoever reads them.
const FIRST_BYTES: usize = 24;

/// A connection that fails when its first bytes do not come, or when it has taken no byte for some
/// time although there were some.
pub(crate) struct StallGuard<T> {
    io: T,
    patience: Duration,
    /// Runs until the first bytes have come.
    opening: Option<Opening>,
    /// Runs while the other side takes nothing. Made when it first happens, which on a good
    /// connection is never.
    stalled: Option<Pin<Box<Sleep>>>,
}

struct Opening {
    timer: Pin<Box<Sleep>>,
    missing: usize,
}

impl<T> StallGuard<T> {
    /// Watches `io`: the first bytes must come within `opening`, and a write must move within
    /// `patience`.
    pub(crate) fn new(io: T, opening: Duration, patience: Duration) -> Self {
        let timer = Box::pin(tokio::time::sleep(opening));
        let opening = Some(Opening { timer, missing: FIRST_BYTES });
        Self { io, patience, opening, stalled: None }
    }

    /// Notes how much more has come; an error if that took too long.
    fn watch_opening(&mut self, bytes: usize, context: &mut Context<'_>) -> io::Result<()> {
        let Some(opening) = &mut self.opening else { return Ok(()) };
        opening.missing = opening.missing.saturating_sub(bytes);
        if opening.missing == 0 {
            self.opening = None;
        } else if opening.timer.as_mut().poll(context).is_ready() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Turns "not yet" into an error once it has been said for too long.
    fn watch<R>(
        &mut self,
        progress: Poll<io::Result<R>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if progress.is_ready() {
            self.stalled = None;
            return progress;
        }
        let patience = self.patience;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for StallGuard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let progress = Pin::new(&mut self.io).poll_read(context, buffer);
        let bytes = buffer.filled().len().saturating_sub(before);
        self.watch_opening(bytes, context)?;
        progress
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for StallGuard<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.io).poll_write(context, bytes);
        self.watch(progress, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.watch(progress, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.io).poll_flush(context);
        self.watch(progress, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.io).poll_shutdown(context);
        self.watch(progress, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_takes_nothing_is_cut_off() {
        let (mut caller, io) = tokio::io::duplex(8);
        let mut guarded = StallGuard::new(io, PATIENCE, PATIENCE);
        guarded.write_all(b"8 bytes.").await.unwrap();
        let error = guarded.write_all(b"more").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        caller.read_exact(&mut [0; 8]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_connection_that_takes_something_now_and_then_is_not() {
        let (mut caller, io) = tokio::io::duplex(8);
        let mut guarded = StallGuard::new(io, PATIENCE, PATIENCE);
        let reading = async {
            for _ in 0..8 {
                tokio::time::sleep(PATIENCE / 2).await;
                caller.read_exact(&mut [0; 8]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(guarded.write_all(&[7; 64]), reading);
        written.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_bytes_must_come_in_time() {
        let (mut caller, io) = tokio::io::duplex(64);
        let mut guarded = StallGuard::new(io, PATIENCE, PATIENCE);
        caller.write_all(b"PRI * HTTP/2.0").await.unwrap();
        let error = guarded.read_exact(&mut [0; 24]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn later_bytes_may_take_their_time() {
        let (mut caller, io) = tokio::io::duplex(64);
        let mut guarded = StallGuard::new(io, PATIENCE, PATIENCE);
        caller.write_all(&[7; 24]).await.unwrap();
        guarded.read_exact(&mut [0; 24]).await.unwrap();
        let sending = async {
            tokio::time::sleep(PATIENCE * 3).await;
            caller.write_all(&[7]).await.unwrap();
        };
        let (read, ()) = tokio::join!(guarded.read_u8(), sending);
        assert_eq!(read.unwrap(), 7);
    }
}
