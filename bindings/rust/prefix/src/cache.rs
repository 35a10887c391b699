//! What is computed already.

use std::time::Duration;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::batch::Lists;
use crate::error::{call, Result};
use crate::raw::{bytes, count, milliseconds, mirror, read_array, read_text, Texts};
use crate::{Engine, Lease, Token};

/// The cache of one engine, seen from one namespace.
#[derive(Debug, Clone, Copy)]
pub struct Cache<'e> {
    engine: &'e Engine,
    namespace: i32,
}

mirror! {
    /// How much of a prompt need not be computed again.
    CacheInfo = prefix_cache_info {
        /// The longest prefix that is computed; of a model with recurrent layers, that ends at a state.
        cached_tokens,
        /// Further tokens that are being computed now.
        pending_tokens,
    }
}

mirror! {
    /// What a namespace holds, and its limits.
    CacheUsage = prefix_cache_usage {
        /// Tokens in the cache.
        tokens,
        /// Bytes of their keys and values.
        bytes,
        /// Others do not evict the namespace below this.
        floor_bytes,
        /// The most it may hold; 0: no quota.
        quota_bytes,
    }
}

impl Engine {
    /// The cache of the namespace "", which requests use when they name none.
    pub fn cache(&self) -> Cache<'_> {
        Cache::new(self, 0)
    }

    /// A namespace, made when it is new. Requests take part in it with the option `namespace`.
    pub fn namespace(&self, name: &str) -> Result<Namespace<'_>> {
        Namespace::open(self, name)
    }

    /// A namespace of several parts, made when it is new: a tenant's salt, an adapter, the epoch of its weights.
    /// They are compared one by one; one part is the namespace of that name, no part the one called "".
    /// Requests take part in it with the option `namespace_id`. The option `require_salt` of an engine
    /// refuses requests in namespaces whose first part is empty.
    pub fn namespace_of<T: AsRef<str>>(&self, parts: &[T]) -> Result<Namespace<'_>> {
        Namespace::open_tuple(self, parts)
    }

    /// A namespace that was opened before, or that a request has named.
    pub fn find_namespace(&self, name: &str) -> Result<Namespace<'_>> {
        Namespace::find(self, name)
    }

    /// How many namespaces there are, with the one called "".
    pub fn namespace_count(&self) -> Result<usize> {
        let mut count = 0;
        // Safety: a live handle.
        call(|err| unsafe { sys::prefix_namespace_count(self.raw(), &mut count, err) })?;
        Ok(usize::try_from(count).unwrap_or(0))
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

    /// `cached_tokens` of many prompts in one call of the library.
    pub fn lookup_many<T: AsRef<[Token]>>(&self, prompts: &[T]) -> Result<Vec<u64>> {
        let lists = Lists::join(prompts);
        // Safety: a live handle, arrays with their lengths; also below.
        let found = read_array(prompts.len(), |out, capacity, needed, err| unsafe {
            sys::prefix_cache_lookup_many(
                self.engine.raw(),
                self.namespace,
                lists.tokens.as_ptr(),
                lists.tokens.len(),
                lists.offsets.as_ptr(),
                lists.offsets.len(),
                out,
                capacity,
                needed,
                err,
            )
        })?;
        Ok(found.into_iter().map(count).collect())
    }

    /// What the namespace holds, and its limits.
    pub fn usage(&self) -> Result<CacheUsage> {
        let mut out = sys::prefix_cache_usage::init();
        call(|err| unsafe {
            sys::prefix_cache_get_usage(self.engine.raw(), self.namespace, &mut out, err)
        })?;
        Ok(out.into())
    }

    /// Others do not evict the namespace below `floor_bytes`, and it never holds more than `quota_bytes` (0: no
    /// quota): a request that does not fit fails with [`Status::CacheFull`](crate::Status::CacheFull).
    ///
    /// Fails with [`Status::OutOfRange`](crate::Status::OutOfRange) for a quota smaller than one token or a
    /// floor above the quota.
    pub fn set_limits(&self, floor_bytes: u64, quota_bytes: u64) -> Result<()> {
        let (floor, quota) = (bytes(floor_bytes), bytes(quota_bytes));
        call(|err| unsafe {
            sys::prefix_cache_set_limits(self.engine.raw(), self.namespace, floor, quota, err)
        })
    }

    /// Keeps the longest computed prefix of these tokens in the cache until the lease is dropped, or for at
    /// most `ttl`. Pins add up: a prefix goes when the last lease on it has ended. What is pinned counts
    /// against `cache_bytes`.
    ///
    /// Fails with [`Status::NotFound`](crate::Status::NotFound) when nothing of it is computed.
    pub fn pin(&self, tokens: &[Token], ttl: Option<Duration>) -> Result<Lease> {
        // 0 stands for no end.
        let ttl_ms = ttl.map_or(0, |ttl| milliseconds(ttl).max(1));
        let (mut lease, mut pinned) = (0, 0);
        call(|err| unsafe {
            sys::prefix_cache_pin(
                self.engine.raw(),
                self.namespace,
                tokens.as_ptr(),
                tokens.len(),
                ttl_ms,
                &mut lease,
                &mut pinned,
                err,
            )
        })?;
        Ok(Lease::new(self.engine, lease, count(pinned)))
    }

    /// Evicts what continues these tokens (none: the whole namespace), as far as no request uses and no lease
    /// keeps it; the tokens themselves stay. Returns how many tokens that freed.
    pub fn evict(&self, tokens: &[Token]) -> Result<u64> {
        let mut freed = 0;
        call(|err| unsafe {
            sys::prefix_cache_evict(
                self.engine.raw(),
                self.namespace,
                tokens.as_ptr(),
                tokens.len(),
                &mut freed,
                err,
            )
        })?;
        Ok(count(freed))
    }

    /// Evicts prefixes of all namespaces, in the order of the option `cache_policy`, until at most
    /// `target_bytes` are held or all that is left is in use or pinned. Returns how many tokens that freed.
    pub fn trim(&self, target_bytes: u64) -> Result<u64> {
        let mut freed = 0;
        call(|err| unsafe {
            sys::prefix_cache_trim(self.engine.raw(), bytes(target_bytes), &mut freed, err)
        })?;
        Ok(count(freed))
    }

    /// The tree of all namespaces as JSON, for debugging; `prefix tree --from` paints it.
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

    pub(crate) fn open_tuple(engine: &'e Engine, parts: &[impl AsRef<str>]) -> Result<Self> {
        let texts = Texts::join(parts);
        let mut id = 0;
        call(|err| unsafe {
            sys::prefix_namespace_open_tuple(
                engine.raw(),
                texts.start(),
                texts.bytes.len(),
                texts.offsets.as_ptr(),
                texts.offsets.len(),
                &mut id,
                err,
            )
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

    /// The namespace in which requests of this one with an adapter run, made when it is new.
    pub fn with_adapter(&self, adapter: &str) -> Result<Self> {
        let mut id = 0;
        // Safety: a live handle, a text with its length.
        call(|err| unsafe {
            let name = adapter.as_ptr().cast();
            sys::prefix_adapter_namespace(
                self.engine.raw(),
                self.id,
                name,
                adapter.len(),
                &mut id,
                err,
            )
        })?;
        Ok(Namespace {
            engine: self.engine,
            id,
        })
    }

    /// Its number, for the option `namespace_id`.
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

    /// Ends the namespace: what it holds is evicted, its leases end, its name is free, and its number is never
    /// given again. Requests that were submitted before run to their end, and what they still use goes with the
    /// last of them. Returns how many tokens this call freed.
    ///
    /// Fails with [`Status::InvalidArgument`](crate::Status::InvalidArgument) for the empty one.
    pub fn close(self) -> Result<u64> {
        let mut freed = 0;
        // Safety: a live handle.
        call(|err| unsafe {
            sys::prefix_namespace_close(self.engine.raw(), self.id, &mut freed, err)
        })?;
        Ok(count(freed))
    }
}
