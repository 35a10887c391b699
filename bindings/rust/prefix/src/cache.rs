//! What is computed already.

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::{call, Result};
use crate::raw::{count, mirror, read_text};
use crate::{Engine, Token};

/// The cache of one engine, seen from one namespace.
#[derive(Debug, Clone, Copy)]
pub struct Cache<'e> {
    engine: &'e Engine,
    namespace: i32,
}

mirror! {
    /// How much of a prompt need not be computed again.
    CacheInfo = prefix_cache_info {
        /// The longest prefix that is computed.
        cached_tokens,
        /// Further tokens that are being computed now.
        pending_tokens,
    }
}

impl<'e> Cache<'e> {
    pub(crate) fn new(engine: &'e Engine, namespace: i32) -> Self {
        Cache { engine, namespace }
    }

    /// Looks without touching: the order of eviction stays as it is.
    pub fn lookup(&self, tokens: &[Token]) -> Result<CacheInfo> {
        let mut out = sys::prefix_cache_info::init();
        // Safety: a live handle, an array with its length, a struct with its size.
        call(|err| unsafe {
            sys::prefix_cache_lookup(
                self.engine.raw(),
                self.namespace,
                tokens.as_ptr(),
                tokens.len(),
                &mut out,
                err,
            )
        })?;
        Ok(out.into())
    }

    /// Drops the least recently used prefixes, of all namespaces, until at most `target_bytes` are held or
    /// all that is left is in use. Returns how many tokens that freed.
    pub fn trim(&self, target_bytes: u64) -> Result<u64> {
        let target = i64::try_from(target_bytes).unwrap_or(i64::MAX);
        let mut freed = 0;
        // Safety: a live handle.
        call(|err| unsafe { sys::prefix_cache_trim(self.engine.raw(), target, &mut freed, err) })?;
        Ok(count(freed))
    }

    /// The tree of all namespaces as JSON, for debugging.
    pub fn tree_json(&self) -> Result<String> {
        // Safety: a live handle and a buffer with its capacity.
        read_text(4096, |buf, cap, needed, err| unsafe {
            sys::prefix_cache_tree_json(self.engine.raw(), buf, cap, needed, err)
        })
    }
}

/// A tenant, an adapter, a salt: nothing is shared across namespaces, ever.
#[derive(Debug, Clone, Copy)]
pub struct Namespace<'e> {
    engine: &'e Engine,
    id: i32,
}

impl<'e> Namespace<'e> {
    pub(crate) fn open(engine: &'e Engine, name: &str) -> Result<Self> {
        let mut id = 0;
        // Safety: a live handle and a text with its length; also below.
        call(|err| unsafe {
            sys::prefix_namespace_open(engine.raw(), name.as_ptr().cast(), name.len(), &mut id, err)
        })?;
        Ok(Namespace { engine, id })
    }

    pub(crate) fn find(engine: &'e Engine, name: &str) -> Result<Self> {
        let mut id = 0;
        call(|err| unsafe {
            sys::prefix_namespace_find(engine.raw(), name.as_ptr().cast(), name.len(), &mut id, err)
        })?;
        Ok(Namespace { engine, id })
    }

    /// Its number.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// What is computed in it.
    pub fn cache(&self) -> Cache<'e> {
        Cache::new(self.engine, self.id)
    }

    /// Evicts everything in it that no running request uses. Returns how many tokens that freed.
    pub fn evict(&self) -> Result<u64> {
        let mut freed = 0;
        // Safety: a live handle.
        call(|err| unsafe {
            sys::prefix_namespace_drop(self.engine.raw(), self.id, &mut freed, err)
        })?;
        Ok(count(freed))
    }
}
