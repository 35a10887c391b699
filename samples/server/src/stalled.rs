//! A connection that gives up when its client does not read, or reads drop by drop: what waits to be written would hold
//! memory and a place as long as the client likes.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, Instant, Sleep};

use crate::app::Shared;
use crate::places::Seat;

/// Bytes a second: who reads fewer uses up the time that writes may wait.
const ENOUGH: f64 = 1024.0;

/// How long writes may still wait.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    left: Duration,
}

impl Patience {
    fn new(limit: Duration) -> Patience {
        Patience { limit, left: limit }
    }

    /// A write of so many bytes had to wait for so long.
    fn wrote(&mut self, waited: Duration, bytes: usize) {
        let earned = Duration::from_secs_f64(bytes as f64 / ENOUGH);
        self.left = (self.left.saturating_sub(waited) + earned).min(self.limit);
    }
}

#[derive(Debug)]
pub struct Stalled<S> {
    stream: S,
    patience: Patience,
    /// Since when a write waits, and until when.
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
    app: Shared,
    seat: Arc<Seat>,
}

impl<S> Stalled<S> {
    pub fn new(stream: S, limit: Duration, app: Shared, seat: Arc<Seat>) -> Stalled<S> {
        Stalled {
            stream,
            patience: Patience::new(limit),
            timer: None,
            app,
            seat,
        }
    }

    /// The result of a write, or an error when writes have waited for too long.
    fn watch(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = &wrote {
            let waited = self.timer.take().map(|(since, _)| since.elapsed());
            if waited.is_some() {
                self.seat.goes_on();
            }
            let bytes = *result.as_ref().unwrap_or(&0);
            self.patience.wrote(waited.unwrap_or_default(), bytes);
            return wrote;
        }
        let (_, timer) = self.timer.get_or_insert_with(|| {
            self.seat.stops();
            (Instant::now(), Box::pin(sleep(self.patience.left)))
        });
        ready!(timer.as_mut().poll(context));
        self.app.metrics.stalled.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Err(io::Error::new(
            ErrorKind::TimedOut,
            "the client does not read",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalled<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.seat.sent();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_drop_by_drop_is_not_waited_for_without_end() {
        let second = Duration::from_secs(1);
        let mut patience = Patience::new(30 * second);
        patience.wrote(29 * second, 1024);
        assert_eq!(patience.left, 2 * second);
        patience.wrote(5 * second, 0);
        assert_eq!(patience.left, Duration::ZERO);
        // As fast as it must be: for ever.
        for _ in 0..100 {
            patience.wrote(second, 1024);
            assert_eq!(patience.left, second);
        }
        patience.wrote(Duration::ZERO, 1 << 20);
        assert_eq!(patience.left, 30 * second, "no more than at the beginning");
    }
}
