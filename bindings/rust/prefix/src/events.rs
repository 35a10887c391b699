//! What happens in a job or a task, one event after another, for a thread that waits.

use std::time::Duration;

use crate::awaited::Awaited;
use crate::error::{Error, Result};
use crate::raw::milliseconds;
use crate::Event;

/// The events of a job or a task; see [`Job::events`](crate::Job::events) and `Task::events`.
#[derive(Debug)]
pub struct Events<'s> {
    source: &'s dyn Awaited,
    failed: bool,
}

impl<'s> Events<'s> {
    pub(crate) fn new(source: &'s dyn Awaited) -> Self {
        let failed = false;
        Events { source, failed }
    }

    /// The next event if it comes within this time. `Err` with [`Status::Timeout`](crate::Status::Timeout) when none came, `None` when
    /// there will be no more.
    pub fn next_within(&mut self, time: Duration) -> Option<Result<Event>> {
        self.source.take(milliseconds(time))
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None; // an error does not go away by asking again
        }
        let next = self.source.take(-1);
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

impl std::iter::FusedIterator for Events<'_> {}
