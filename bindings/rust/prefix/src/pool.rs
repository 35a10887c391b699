//! Worker threads that engines share.

use prefix_sys as sys;

use crate::error::{call, Result};
use crate::options::raw_or_null;
use crate::raw::Handle;
use crate::{library, Options, OptionsBuilder};

/// Worker threads that engines share, so that a process with several engines has one set of them.
///
/// Their steps take turns. Options and engines that were given the pool keep its threads; the value itself may be
/// dropped before them.
///
/// ```no_run
/// # fn main() -> prefix::Result<()> {
/// let pool = prefix::Pool::new(Some(&prefix::Options::new()?.set("cpus", "0-7")?))?;
/// let options = prefix::Options::new()?.set_pool(Some(&pool))?;
/// let small = prefix::Engine::open_with("small.gguf", &options)?;
/// let large = prefix::Engine::open_with("large.gguf", &options)?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Pool {
    handle: Handle<sys::prefix_pool>,
}

// Safety: the header lets any thread call every function of a pool at any time.
unsafe impl Sync for Pool {}

impl Pool {
    /// By the options `threads` and `cpus`; without them a thread for each processor that the process may use.
    pub fn new(options: Option<&Options>) -> Result<Pool> {
        library::ready()?;
        let options = raw_or_null(options);
        // Safety: options that outlive the call or NULL.
        let handle =
            Handle::create(|out, err| unsafe { sys::prefix_pool_create(options, out, err) })?;
        Ok(Pool { handle })
    }

    pub(crate) fn raw(&self) -> *mut sys::prefix_pool {
        self.handle.get()
    }
}

impl Options {
    /// Engines that are opened with these options share the threads of the pool, and keep it; `None` takes it
    /// away. Not beside the options `threads` and `cpus`.
    pub fn set_pool(self, pool: Option<&Pool>) -> Result<Options> {
        let pool = pool.map_or(std::ptr::null_mut(), Pool::raw);
        // Safety: a pool that outlives the call or NULL; self is owned.
        call(|err| unsafe { sys::prefix_options_set_pool(self.raw(), pool, err) })?;
        Ok(self)
    }
}

impl OptionsBuilder {
    /// [`Options::set_pool`].
    pub fn pool(self, pool: &Pool) -> OptionsBuilder {
        self.and_then(|options| options.set_pool(Some(pool)))
    }
}
