//! Waiting for a job without blocking.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::Result;
use crate::waiter::Place;
use crate::Job;

/// Ready when all requests of a job are done; made by [`Job::finished`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Finished {
    job: Job,
    place: Option<Place>,
}

impl Finished {
    pub(crate) fn new(job: Job) -> Finished {
        Finished { job, place: None }
    }
}

impl Future for Finished {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The waker is there before the look: a job that ends after the look finds it.
        if let Some(place) = &self.place {
            place.change(context.waker());
        }
        match self.job.wait_for(Duration::ZERO) {
            Ok(false) => {}
            Ok(true) => return Poll::Ready(Ok(())),
            Err(error) => return Poll::Ready(Err(error)),
        }
        if self.place.is_none() {
            match Place::new(&self.job, context.waker()) {
                Ok(place) => self.place = Some(place),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}
