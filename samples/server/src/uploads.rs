//! Bodies of requests that are on their way. While another connection waits for a place, the slowest of them gives its own
//! up: to keep a place a body would have to come as fast as those that are sent in earnest.
//!
//! ```text
//!   head ──> nothing there yet ── for PATIENCE, and another needs the place ──> an error in place of the rest: 408
//!                  └── all of it is there, or nobody reads it any more ──> the request is in work
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{ready, Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::BoxError;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::body::{Limits, TooSlow};

/// How long a client may take at least, whoever waits: as many as there are places may well come at once.
pub const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Uploads {
    /// Those that wait for more bytes, by the order in which their heads came.
    waiting: Mutex<BTreeMap<u64, Waiting>>,
    next: AtomicU64,
    /// Bytes a second by which the longest body comes in its time: such a body stays, be it the only one.
    enough: f64,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    received: Arc<AtomicU64>,
    /// Dropped when the place is for another.
    _stays: oneshot::Sender<()>,
}

impl Waiting {
    /// Bytes a second.
    fn rate(&self) -> f64 {
        self.received.load(Ordering::Relaxed) as f64 / self.since.elapsed().as_secs_f64()
    }
}

impl Uploads {
    pub fn new(body: Limits) -> Uploads {
        Uploads {
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            enough: body.bytes as f64 / body.time.as_secs_f64(),
        }
    }

    /// Since when the oldest waits.
    pub fn oldest(&self) -> Option<Instant> {
        let waiting = self.waiting();
        waiting.first_key_value().map(|(_, upload)| upload.since)
    }

    /// Ends the slowest; false when none has had its time. Those that have had half of it count, too: the oldest is not
    /// the slowest because it is the first whose time is over.
    pub fn end_slowest(&self) -> bool {
        let mut waiting = self.waiting();
        let oldest = waiting.first_key_value();
        if oldest.is_none_or(|(_, upload)| upload.since.elapsed() < PATIENCE) {
            return false;
        }
        let slowest = waiting
            .iter()
            .filter(|(_, upload)| upload.since.elapsed() >= PATIENCE / 2)
            .filter(|(_, upload)| upload.rate() < self.enough)
            .min_by(|(_, a), (_, b)| a.rate().total_cmp(&b.rate()));
        let Some(number) = slowest.map(|(number, _)| *number) else {
            return false;
        };
        waiting.remove(&number).is_some()
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body in place of which an error may come.
#[derive(Debug)]
pub struct Upload<B> {
    body: B,
    all: Arc<Uploads>,
    number: u64,
    since: Instant,
    received: Arc<AtomicU64>,
    /// Once it has waited for bytes.
    stays: Option<oneshot::Receiver<()>>,
}

impl<B> Upload<B> {
    pub fn new(body: B, all: &Arc<Uploads>) -> Upload<B> {
        Upload {
            body,
            all: all.clone(),
            number: all.next.fetch_add(1, Ordering::Relaxed),
            since: Instant::now(),
            received: Arc::default(),
            stays: None,
        }
    }

    /// Ready when another is to have the place.
    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let stays = self.stays.get_or_insert_with(|| {
            let (sender, stays) = oneshot::channel();
            let waiting = Waiting {
                since: self.since,
                received: self.received.clone(),
                _stays: sender,
            };
            self.all.waiting().insert(self.number, waiting);
            stays
        });
        Pin::new(stays).poll(context).map(drop)
    }
}

impl<B> Drop for Upload<B> {
    fn drop(&mut self) {
        self.all.waiting().remove(&self.number);
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for Upload<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            if let Some(Ok(data)) = frame
                .as_ref()
                .map(|frame| frame.as_ref().map(Frame::data_ref))
            {
                let bytes = data.map_or(0, |data| data.len() as u64);
                self.received.fetch_add(bytes, Ordering::Relaxed);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.poll_ended(context));
        let bytes = self.received.load(Ordering::Relaxed);
        let time = self.since.elapsed();
        Poll::Ready(Some(Err(TooSlow { bytes, time }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use axum::body::BodyDataStream;
    use futures_util::{stream, FutureExt, StreamExt};
    use tokio::sync::mpsc;

    use super::*;
    use crate::places::Places;

    type Client = mpsc::UnboundedSender<Result<Bytes, BoxError>>;

    /// A body of which so many bytes came.
    async fn begin(places: &Arc<Places>, bytes: usize) -> (Client, BodyDataStream) {
        let (client, sent) = mpsc::unbounded_channel::<Result<Bytes, BoxError>>();
        let parts = stream::unfold(sent, |mut sent| async { Some((sent.recv().await?, sent)) });
        let upload = Upload::new(axum::body::Body::from_stream(parts), &places.uploads);
        let mut body = axum::body::Body::new(upload).into_data_stream();
        client.send(Ok(vec![b' '; bytes].into())).unwrap();
        assert!(body.next().await.unwrap().is_ok());
        assert!(!is_ended(&mut body));
        (client, body)
    }

    fn is_ended(body: &mut BodyDataStream) -> bool {
        let Some(next) = body.next().now_or_never() else {
            return false;
        };
        let why = next.unwrap().unwrap_err();
        let why = why.source().unwrap().downcast_ref::<TooSlow>().unwrap();
        assert!(why
            .to_string()
            .ends_with("another connection waits for the place"));
        true
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_ends_when_the_oldest_has_had_its_time() {
        let body = Limits {
            bytes: 1000,
            time: PATIENCE,
        };
        let places = Places::new(5, body);
        let (_enough, mut enough) = begin(&places, 5000).await;
        let (_fast, mut fast) = begin(&places, 500).await;
        let (client, mut slow) = begin(&places, 4).await;
        tokio::time::sleep(PATIENCE / 2).await;
        let (_slower, mut slower) = begin(&places, 1).await;
        tokio::time::sleep(PATIENCE / 4).await;
        let (_new, mut new) = begin(&places, 0).await;
        assert!(!places.make_room(), "too early");
        tokio::time::sleep(PATIENCE / 4).await;
        assert!(places.make_room());
        let ended = [&mut fast, &mut slow, &mut slower, &mut new].map(is_ended);
        assert_eq!(ended, [false, false, true, false]);
        // One that was read as a whole, or is not read any more, has nothing to give.
        drop(client);
        assert!(slow.next().await.is_none());
        drop((fast, slow, new));
        tokio::time::sleep(PATIENCE / 2).await;
        assert!(!places.make_room(), "it comes fast enough");
        assert!(!is_ended(&mut enough));
        assert_eq!(places.closed.load(Ordering::Relaxed), 1);
    }
}
