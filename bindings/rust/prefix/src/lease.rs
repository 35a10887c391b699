//! Prefixes that stay.

use std::sync::Weak;

use prefix_sys as sys;

use crate::engine::Owned;
use crate::error::{call, Result};
use crate::Engine;

/// Keeps a prefix in the cache until it is dropped; see [`Cache::pin`](crate::Cache::pin).
///
/// It does not keep its engine: when that is gone, the lease has ended.
#[derive(Debug)]
#[must_use = "the prefix may be evicted as soon as its lease is dropped"]
pub struct Lease {
    engine: Weak<Owned>,
    number: i64,
    tokens: u64,
}

impl Lease {
    pub(crate) fn new(engine: &Engine, number: i64, tokens: u64) -> Lease {
        Lease {
            engine: std::sync::Arc::downgrade(&engine.0),
            number,
            tokens,
        }
    }

    /// How many tokens it keeps.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Gives the prefix back, as dropping does, and says whether that was in time.
    ///
    /// Fails with [`Status::NotFound`](crate::Status::NotFound) when its time had ended.
    pub fn release(mut self) -> Result<()> {
        self.unpin()
    }

    /// Leaves the prefix pinned until its time ends, or the engine does.
    pub fn keep(mut self) {
        self.engine = Weak::new();
    }

    fn unpin(&mut self) -> Result<()> {
        match std::mem::take(&mut self.engine).upgrade() {
            // Safety: a live handle.
            Some(owned) => call(|err| unsafe {
                sys::prefix_cache_unpin(Engine(owned).raw(), self.number, err)
            }),
            None => Ok(()),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.unpin(); // when its time has ended there is nothing to give back
    }
}
