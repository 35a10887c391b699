//! What can be waited for and tells of events: a job or a task.
//!
//! ```text
//!   Job  ──┐              ┌── Events       blocks
//!          ├── Awaited ───┼── EventStream  is awaited ──┐
//!   Task ──┘              └── Finished     is awaited ──┴── waiter.rs, and readers.rs for several streams
//! ```

use std::fmt::Debug;
use std::time::Duration;

use prefix_sys as sys;

use crate::error::{Result, Status};
use crate::raw::{milliseconds, Handle};
use crate::Event;

pub(crate) trait Awaited: Debug + Send + Sync {
    /// TIMEOUT while something is unfinished; negative for no limit.
    fn wait_ms(&self, timeout_ms: i64) -> Result<()>;

    /// The next event; TIMEOUT when none came in that time, NO_EVENT when there will be no more.
    fn next_event(&self, timeout_ms: i64) -> Result<Event>;

    /// The tag comes when all is done.
    fn notify(&self, queue: &Queue, tag: i64) -> Result<()>;

    /// The tag comes when there is an event to read.
    fn notify_events(&self, queue: &Queue, tag: i64) -> Result<()>;
}

pub(crate) type Queue = Handle<sys::prefix_queue>;

/// The waits of both, in the words of this crate.
impl dyn Awaited + '_ {
    pub fn wait(&self) -> Result<()> {
        self.wait_ms(-1)
    }

    /// Whether all is done.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        match self.wait_ms(milliseconds(time)) {
            Ok(()) => Ok(true),
            Err(error) if error.status() == Status::Timeout => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// `Err` with [`Status::Timeout`] when no event came in that time, `None` when there will be no more.
    pub fn take(&self, timeout_ms: i64) -> Option<Result<Event>> {
        match self.next_event(timeout_ms) {
            Err(error) if error.status() == Status::NoEvent => None,
            next => Some(next),
        }
    }
}
