//! What happens in a job, one event after another.

use std::time::Duration;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::{call, Error, Result, Status};
use crate::raw::{count, milliseconds};
use crate::{Job, Token};

/// Something that happened to a request.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The number of the request in its batch.
    pub request: usize,
    /// The number that was given with it.
    pub tag: i64,
    /// What happened.
    pub kind: EventKind,
    /// When, on the monotonic clock of the system.
    pub time: Duration,
}

/// What happened.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// The first step has begun.
    Started,
    /// A new token, with its log-probability when the option `logprobs` is on (else 0).
    Token {
        /// The token.
        token: Token,
        /// Its log-probability.
        logprob: f32,
    },
    /// So many tokens of the job were not read in time; results have them all. The request is 0 then.
    Lost(u64),
    /// The request is done.
    Finished {
        /// Tokens of its prompt that were found computed.
        cached: u64,
        /// Tokens of its prompt that were computed for it.
        computed: u64,
    },
    /// The request failed.
    Failed {
        /// Why; [`Job::message`] has the sentence.
        status: Status,
        /// Tokens of its prompt that were found computed.
        cached: u64,
        /// Tokens of its prompt that were computed for it.
        computed: u64,
    },
    /// An event that is newer than this crate.
    Other(i32),
}

impl From<sys::prefix_event> for Event {
    fn from(c: sys::prefix_event) -> Self {
        let (cached, computed) = (count(c.cached), count(c.computed));
        Event {
            request: usize::try_from(c.request).unwrap_or(0),
            tag: c.user_tag,
            kind: match c.kind {
                sys::PREFIX_EVENT_STARTED => EventKind::Started,
                sys::PREFIX_EVENT_TOKEN => EventKind::Token {
                    token: c.token,
                    logprob: c.logprob,
                },
                sys::PREFIX_EVENT_LOST => EventKind::Lost(count(c.count)),
                sys::PREFIX_EVENT_FINISHED => EventKind::Finished { cached, computed },
                sys::PREFIX_EVENT_ERROR => EventKind::Failed {
                    status: Status::from_code(c.status),
                    cached,
                    computed,
                },
                other => EventKind::Other(other),
            },
            time: Duration::from_micros(count(c.time_us)),
        }
    }
}

/// `Err` with [`Status::Timeout`] when none came in that time, `None` when there will be no more.
pub(crate) fn take(job: &Job, timeout_ms: i64) -> Option<Result<Event>> {
    let mut event = sys::prefix_event::init();
    // Safety: a live handle and a struct with its size.
    let result =
        call(|err| unsafe { sys::prefix_job_next_event(job.raw(), timeout_ms, &mut event, err) });
    match result {
        Ok(()) => Some(Ok(event.into())),
        Err(error) if error.status() == Status::NoEvent => None,
        Err(error) => Some(Err(error)),
    }
}

/// The events of a job; see [`Job::events`].
#[derive(Debug)]
pub struct Events<'j> {
    job: &'j Job,
    failed: bool,
}

impl<'j> Events<'j> {
    pub(crate) fn new(job: &'j Job) -> Self {
        Events { job, failed: false }
    }

    /// The next event if it comes within this time. `Err` with [`Status::Timeout`] when none came, `None` when
    /// there will be no more.
    pub fn next_within(&mut self, time: Duration) -> Option<Result<Event>> {
        take(self.job, milliseconds(time))
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None; // an error does not go away by asking again
        }
        let next = take(self.job, -1);
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

impl std::iter::FusedIterator for Events<'_> {}
