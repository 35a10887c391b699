//! Something that happened in a job or a task.

use std::time::Duration;

use prefix_sys as sys;

use crate::error::Status;
use crate::raw::count;
use crate::Token;

/// Something that happened to a request of a job, or to an item of a task.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The number of the request in its batch, or of the item in its task; [`Event::NO_REQUEST`] for
    /// [`EventKind::Lost`], which is of the whole job.
    pub request: usize,
    /// The number that was given with it.
    pub tag: i64,
    /// What happened.
    pub kind: EventKind,
    /// When, on the monotonic clock of the system.
    pub time: Duration,
}

impl Event {
    /// In place of a number of a request.
    pub const NO_REQUEST: usize = usize::MAX;

    /// The piece of [`EventKind::Text`]; "" for events of other kinds.
    pub fn text(&self) -> &str {
        match &self.kind {
            EventKind::Text(piece) => piece,
            _ => "",
        }
    }
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
    /// Tasks with the option `stream`: more of the text of an item. All pieces of an item are its text.
    Text(String),
    /// The request or the item is done, and its results can be read.
    Finished {
        /// Tokens of its prompt that were found computed.
        cached: u64,
        /// Tokens of its prompt that were computed for it.
        computed: u64,
    },
    /// The request or the item failed.
    Failed {
        /// Why; `message` of the job or the task has the sentence.
        status: Status,
        /// Tokens of its prompt that were found computed.
        cached: u64,
        /// Tokens of its prompt that were computed for it.
        computed: u64,
    },
    /// An event that is newer than this crate.
    Other(i32),
}

impl Event {
    /// `text`: of an event of kind TEXT.
    pub(crate) fn new(c: sys::prefix_event, text: String) -> Event {
        let (cached, computed) = (count(c.cached), count(c.computed));
        Event {
            request: usize::try_from(c.request).unwrap_or(Event::NO_REQUEST),
            tag: c.user_tag,
            kind: match c.kind {
                sys::PREFIX_EVENT_STARTED => EventKind::Started,
                sys::PREFIX_EVENT_TOKEN => EventKind::Token {
                    token: c.token,
                    logprob: c.logprob,
                },
                sys::PREFIX_EVENT_LOST => EventKind::Lost(count(c.count)),
                sys::PREFIX_EVENT_TEXT => EventKind::Text(text),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_were_lost_are_of_no_request() {
        // SAFETY: numbers alone, for all of which 0 is valid.
        let mut raw: sys::prefix_event = unsafe { std::mem::zeroed() };
        (raw.kind, raw.request, raw.count) = (sys::PREFIX_EVENT_LOST, -1, 5);
        let event = Event::new(raw, String::new());
        assert_eq!(event.request, Event::NO_REQUEST);
        assert_eq!(event.kind, EventKind::Lost(5));
        (raw.kind, raw.request) = (sys::PREFIX_EVENT_STARTED, 3);
        assert_eq!(Event::new(raw, String::new()).request, 3);
    }
}
