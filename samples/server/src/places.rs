//! Places for connections. When all are taken, the one whose client has had nothing under way for the longest time makes
//! room for the next, or else the one whose client has read nothing of its answer for the longest time, or else the one
//! whose body comes slowest (`uploads.rs`): whoever connects, says little and reads little keeps nobody out.
//!
//! ```text
//!   accepted ──> waits ── a request ──> busy ── its answer is out ──> waits ──> ...
//!                  │                     └── a write waits ──> unread ── the client reads ──> busy
//!                  └── for PATIENCE, and another needs the place ──> closed <──┘
//! ```

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{timeout, Instant};

use crate::body::Limits;
use crate::uploads::{Uploads, PATIENCE};

#[derive(Debug)]
pub struct Places {
    free: Arc<Semaphore>,
    /// Those whose clients have nothing under way.
    waiting: Line,
    /// Those whose clients do not read.
    unread: Line,
    pub uploads: Arc<Uploads>,
    next: AtomicU64,
    /// How many were closed for others.
    pub closed: AtomicU64,
}

/// Connections that wait for their clients, by the order in which they began to.
#[derive(Debug, Default)]
struct Line(Mutex<BTreeMap<u64, (Instant, Arc<Notify>)>>);

impl Line {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, (Instant, Arc<Notify>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn oldest(&self) -> Option<Instant> {
        self.all().first_key_value().map(|(_, one)| one.0)
    }

    /// Ends the one that has waited longest; false when none has waited for so long.
    fn close_longest(&self) -> bool {
        let mut all = self.all();
        let longest = all.first_entry();
        let Some(longest) = longest.filter(|entry| entry.get().0.elapsed() >= PATIENCE) else {
            return false;
        };
        longest.remove().1.notify_one();
        true
    }
}

impl Places {
    /// `body`: limits of one.
    pub fn new(count: usize, body: Limits) -> Arc<Places> {
        Arc::new(Places {
            free: Arc::new(Semaphore::new(count)),
            waiting: Line::default(),
            unread: Line::default(),
            uploads: Arc::new(Uploads::new(body)),
            next: AtomicU64::new(1),
            closed: AtomicU64::new(0),
        })
    }

    /// Ready when there is a place for one more.
    pub async fn take(&self) -> Option<OwnedSemaphorePermit> {
        // One that was told to go needs a moment for it.
        let mut patience = self.patience();
        loop {
            if let Ok(place) = timeout(patience, self.free.clone().acquire_owned()).await {
                return place.ok();
            }
            patience = match self.make_room() {
                true => PATIENCE,
                false => self.patience().max(PATIENCE / 10), // bodies that come fast enough stay
            };
        }
    }

    /// How long it is until one may have to make room.
    fn patience(&self) -> Duration {
        let lines = [&self.waiting, &self.unread].map(Line::oldest);
        let since = [lines[0], lines[1], self.uploads.oldest()];
        let oldest = since.into_iter().flatten().min();
        oldest.map_or(PATIENCE, |since| PATIENCE.saturating_sub(since.elapsed()))
    }

    /// Ends a connection; false when none has waited for so long.
    pub fn make_room(&self) -> bool {
        let made = self.waiting.close_longest()
            || self.unread.close_longest()
            || self.uploads.end_slowest();
        self.closed.fetch_add(u64::from(made), Ordering::Relaxed);
        made
    }

    /// The next one: the order in which connections began to wait.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a connection tells of itself.
#[derive(Debug)]
pub struct Seat {
    places: Arc<Places>,
    /// Its number among those that wait, or 0.
    number: AtomicU64,
    /// And among those whose answers are not read.
    unread: AtomicU64,
    is_answered: AtomicBool,
    close: Arc<Notify>,
}

impl Seat {
    pub fn new(places: &Arc<Places>) -> Arc<Seat> {
        let seat = Seat {
            places: places.clone(),
            number: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            is_answered: AtomicBool::new(true),
            close: Arc::default(),
        };
        seat.sent();
        Arc::new(seat)
    }

    /// The head of a request is there.
    pub fn begin(&self) {
        self.is_answered.store(false, Ordering::Relaxed);
        let number = self.number.swap(0, Ordering::Relaxed);
        self.places.waiting.all().remove(&number);
    }

    /// Nothing is left to be sent; an answer may go on.
    pub fn sent(&self) {
        if self.is_answered.swap(false, Ordering::Relaxed) {
            let number = self.places.number();
            self.number.store(number, Ordering::Relaxed);
            self.places.waiting.all().insert(number, self.entry());
        }
    }

    /// A write waits until the client reads.
    pub fn stops(&self) {
        let number = self.places.number();
        self.unread.store(number, Ordering::Relaxed);
        self.places.unread.all().insert(number, self.entry());
    }

    /// The client has read.
    pub fn goes_on(&self) {
        let number = self.unread.swap(0, Ordering::Relaxed);
        self.places.unread.all().remove(&number);
    }

    fn entry(&self) -> (Instant, Arc<Notify>) {
        (Instant::now(), self.close.clone())
    }

    /// Ready when another is to have the place.
    pub async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.begin();
        self.goes_on();
    }
}

/// The body of an answer, which is dropped when all of it was taken to be sent.
#[derive(Debug)]
pub struct Answer {
    body: Body,
    seat: Arc<Seat>,
}

impl Answer {
    pub fn new(body: Body, seat: Arc<Seat>) -> Answer {
        Answer { body, seat }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.seat.is_answered.store(true, Ordering::Relaxed);
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
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
    use futures_util::FutureExt;

    use super::*;

    const LIMITS: Limits = Limits {
        bytes: 1 << 20,
        time: PATIENCE,
    };

    fn is_closed(seat: &Seat) -> bool {
        seat.closed().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_waits_longest_makes_room() {
        let places = Places::new(3, LIMITS);
        let seats = [(); 3].map(|()| Seat::new(&places));
        let mut taken = Vec::new();
        for _ in &seats {
            taken.push(places.take().await.unwrap());
        }
        // The first one is answered, and so is the newest; the second has a request under way.
        for seat in [&seats[0], &seats[1]] {
            seat.begin();
            seat.sent();
        }
        drop(Answer::new(Body::empty(), seats[0].clone()));
        seats[0].sent();
        let begin = Instant::now();
        let mut next = std::pin::pin!(places.take());
        assert!((&mut next).now_or_never().is_none());
        assert!(!seats.iter().any(|seat| is_closed(seat)), "too early");
        tokio::time::sleep(PATIENCE).await;
        assert!((&mut next).now_or_never().is_none());
        let closed = seats.each_ref().map(|seat| is_closed(seat));
        assert_eq!(closed, [false, false, true]);
        drop(taken.pop());
        assert!(next.await.is_some());
        assert_eq!(begin.elapsed(), PATIENCE);
        // One that is busy, or was closed by itself, is not there to be closed.
        seats[0].begin();
        assert!(!places.make_room());
        assert_eq!(places.closed.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_makes_room_behind_who_says_nothing() {
        let places = Places::new(3, LIMITS);
        let seats = [(); 3].map(|()| Seat::new(&places));
        for seat in &seats[..2] {
            seat.begin();
            seat.stops();
        }
        tokio::time::sleep(PATIENCE / 2).await;
        seats[0].goes_on();
        assert!(!places.make_room(), "too early");
        tokio::time::sleep(PATIENCE / 2).await;
        let mut closed = Vec::new();
        while places.make_room() {
            closed.push(seats.each_ref().map(|seat| is_closed(seat)));
        }
        assert_eq!(closed, [[false, false, true], [false, true, false]]);
        // One that has gone is not there to be closed.
        seats[0].stops();
        drop(seats);
        tokio::time::sleep(PATIENCE).await;
        assert!(!places.make_room());
    }
}
