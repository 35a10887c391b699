//! What comes into the cache and leaves it, for those who route requests.

use std::time::Duration;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::{Error, Result, Status};
use crate::raw::{bytes, count, read_array_into, read_text};
use crate::{Engine, Token};

/// Something that happened to a block: the option `cache_event_tokens` of tokens of a path.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEvent {
    /// Counts up without gaps.
    pub sequence: u64,
    /// How many events before this one were lost, since nobody read them in time. With any,
    /// [`dump`](Engine::cache_dump) and go on from there.
    pub lost: u64,
    /// The name of the block: the same in every process with this model and namespace.
    pub block: u64,
    /// The number of its namespace.
    pub namespace: i32,
    /// The position of its first token.
    pub position: usize,
    /// When, on the monotonic clock of the system.
    pub time: Duration,
    /// What happened.
    pub kind: CacheEventKind,
}

/// What happened to a block.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheEventKind {
    /// It is there; its parent was before.
    Stored {
        /// The block before it on its path; `None`: it is the first one.
        parent: Option<u64>,
        /// Its tokens.
        tokens: Vec<Token>,
    },
    /// It is gone; its parent goes later.
    Removed,
    /// Nothing is left in any namespace.
    Cleared,
    /// An event that is newer than this crate.
    Other(i32),
}

/// Reads the events of a cache, from [`Engine::cache_events`].
///
/// The iterator ends when there is no event yet. It goes on when there is one: iterate `by_ref()`, again and again.
/// Any number of readers have their own place.
#[derive(Debug, Clone)]
pub struct CacheEvents {
    engine: Engine,
    next: i64,
    tokens: Vec<Token>,
}

impl CacheEvents {
    /// The sequence number from which it goes on.
    pub fn next_sequence(&self) -> u64 {
        count(self.next)
    }

    fn read(&mut self) -> Result<CacheEvent> {
        let mut event = sys::prefix_cache_event::init();
        let (engine, next) = (self.engine.raw(), self.next);
        // Safety: a live handle, a struct with its size, an array with its capacity.
        read_array_into(&mut self.tokens, |out, capacity, needed, err| unsafe {
            sys::prefix_cache_next_event(engine, next, &mut event, out, capacity, needed, err)
        })?;
        let lost = event.sequence - self.next;
        self.next = event.sequence + 1;
        Ok(CacheEvent {
            sequence: count(event.sequence),
            lost: count(lost),
            block: count(event.block),
            namespace: event.ns,
            position: usize::try_from(event.position).unwrap_or(0),
            time: Duration::from_micros(count(event.time_us)),
            kind: match event.kind {
                sys::PREFIX_CACHE_STORED => CacheEventKind::Stored {
                    parent: (event.parent != 0).then_some(count(event.parent)),
                    tokens: self.tokens.clone(),
                },
                sys::PREFIX_CACHE_REMOVED => CacheEventKind::Removed,
                sys::PREFIX_CACHE_CLEARED => CacheEventKind::Cleared,
                other => CacheEventKind::Other(other),
            },
        })
    }
}

impl Iterator for CacheEvents {
    type Item = Result<CacheEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read() {
            Err(error) if error.status() == Status::NoEvent => None,
            other => Some(other),
        }
    }
}

/// All blocks that are in memory; see [`Engine::cache_dump`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDump {
    /// A line of JSON for each block, parents first, and a last line with the sequence number;
    /// `prefix_cache_dump_events` in `prefix.h` describes the fields.
    pub json_lines: String,
    /// The sequence number from which events go on, for [`Engine::cache_events`].
    pub next: u64,
}

impl Engine {
    /// Reads the events of the cache from this sequence number on, 0 for the oldest that is kept. Needs the
    /// option `cache_events` of the engine: without it, reading fails with [`Status::Misuse`].
    pub fn cache_events(&self, from: u64) -> CacheEvents {
        CacheEvents {
            engine: self.clone(),
            next: bytes(from),
            tokens: Vec::new(),
        }
    }

    /// All blocks that are in memory: where a reader of events begins, or begins again when it has lost some.
    ///
    /// Fails with [`Status::Misuse`] without the option `cache_events` of the engine.
    pub fn cache_dump(&self) -> Result<CacheDump> {
        // Safety: a live handle and a buffer with its capacity.
        let json_lines = read_text(16384, |buf, cap, needed, err| unsafe {
            sys::prefix_cache_dump_events(self.raw(), buf, cap, needed, err)
        })?;
        let next = json_lines
            .rsplit_once("{\"next\":")
            .and_then(|(_, end)| end.trim_end().strip_suffix('}')?.trim().parse().ok())
            .ok_or_else(|| Error::new(Status::Internal, "", "the dump has no last line"))?;
        Ok(CacheDump { json_lines, next })
    }
}
