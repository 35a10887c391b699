//! Waiting for a job or a task, and for its events, without blocking.

use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::awaited::Awaited;
use crate::error::{Result, Status};
use crate::readers::Readers;
use crate::waiter::Place;
use crate::Event;

/// Ready when all is done; made by [`Job::finished`](crate::Job::finished) and `Task::finished`. It keeps what it
/// waits for, as a clone does; dropping it cancels nothing that is still held elsewhere.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Finished {
    source: Arc<dyn Awaited>,
    place: Option<Place>,
}

impl Finished {
    pub(crate) fn new(source: Arc<dyn Awaited>) -> Finished {
        let place = None;
        Finished { source, place }
    }
}

impl Future for Finished {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The waker is there before the look: what ends after the look finds it.
        if let Some(place) = &self.place {
            place.set(context.waker());
        }
        match self.source.wait_for(Duration::ZERO) {
            Ok(false) => {}
            Ok(true) => return Poll::Ready(Ok(())),
            Err(error) => return Poll::Ready(Err(error)),
        }
        if self.place.is_none() {
            match Place::of_end(&*self.source, context.waker()) {
                Ok(place) => self.place = Some(place),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}

/// Awaiting a [`Job`](crate::Job) or a `Task`: ready with it when all is done. Dropping this future before cancels what no
/// clone holds, as a `timeout` or `select!` of an executor does.
///
/// ```no_run
/// # async fn run(engine: prefix::Engine, batch: prefix::Batch) -> prefix::Result<()> {
/// let job = engine.submit(&batch)?.await?;
/// println!("{:?}", job.values(0)?);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Done<T> {
    finished: Finished,
    owner: Option<T>,
}

impl<T> Done<T> {
    pub(crate) fn new(finished: Finished, owner: T) -> Done<T> {
        let owner = Some(owner);
        Done { finished, owner }
    }
}

impl<T: Unpin> Future for Done<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.finished).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                let owner = self.owner.take();
                Poll::Ready(Ok(
                    owner.expect("a future that was ready is not polled again")
                ))
            }
        }
    }
}

/// Events without blocking; made by [`Job::event_stream`](crate::Job::event_stream) and `Task::event_stream`. A
/// `Stream` in all but the trait, which is not in the standard library, and this crate depends on nothing else. The crate
/// `futures` makes it one: `futures::stream::poll_fn(move |context| events.poll_event(context))`.
#[derive(Debug)]
pub struct EventStream {
    source: Arc<dyn Awaited>,
    readers: Arc<Readers>, // of the source
    number: u64,           // among them
    over: bool,
}

impl EventStream {
    pub(crate) fn new(source: Arc<dyn Awaited>, readers: Arc<Readers>) -> EventStream {
        EventStream {
            number: readers.enter(),
            source,
            readers,
            over: false,
        }
    }

    /// The next event, when there is one; `None` when there will be no more, and after an error.
    pub async fn next_event(&mut self) -> Option<Result<Event>> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// What [`EventStream::next_event`] awaits.
    pub fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        if self.over {
            return Poll::Ready(None);
        }
        // As above: an event that comes after the look finds the waker.
        self.readers.set(self.number, context.waker());
        let next = match self.source.take(0) {
            Some(Err(error)) if error.status() == Status::Timeout => {
                match self.readers.ask(&*self.source) {
                    Ok(()) => return Poll::Pending,
                    Err(error) => Some(Err(error)),
                }
            }
            next => next,
        };
        self.over = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.readers.leave(self.number);
    }
}
