//! Runs the template engine on a stack of known size. It recurses over the parse tree and over
//! values, within our limits; but hosts call from threads with stacks as small as they like.

use crate::error::{Code, Error, Result};
use crate::panics::quiet;

/// Address space, of which only what is touched is ever backed by memory.
const STACK: usize = 256 << 20;

pub fn on_large_stack<T: Send>(body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let none = |e: std::io::Error| {
        let what = format!("no thread with {STACK} bytes of stack for a template: {e}");
        Error::new(Code::OutOfMemory, what)
    };
    let signals = BlockedSignals::new();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("prefix-template".to_string())
            .stack_size(STACK)
            .spawn_scoped(scope, || quiet(body))
            .map_err(none)?;
        drop(signals);
        thread
            .join()
            .unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    })
}

/// The new thread must not run the host's signal handlers: it inherits a mask that blocks all.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: both sets are locals that the calls initialise.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            BlockedSignals(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by pthread_sigmask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut());
        }
    }
}
