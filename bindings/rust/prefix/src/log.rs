//! What the library has to say. It never prints.

use std::ffi::{c_char, c_void, CStr};
use std::sync::{Arc, RwLock};

use prefix_sys as sys;

use crate::error::{Result, Status};
use crate::raw::{caught, read_text};
use crate::{library, Error};

/// How important a message is.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For developers of the library.
    Debug,
    /// What happens.
    Info,
    /// What should be looked at; the default level.
    Warning,
    /// What went wrong.
    Error,
    /// As a level to set: nothing.
    Off,
}

impl Level {
    fn from_code(code: i32) -> Level {
        match code {
            i32::MIN..=sys::PREFIX_LOG_DEBUG => Level::Debug,
            sys::PREFIX_LOG_INFO => Level::Info,
            sys::PREFIX_LOG_WARNING => Level::Warning,
            _ => Level::Error,
        }
    }

    fn code(self) -> i32 {
        match self {
            Level::Debug => sys::PREFIX_LOG_DEBUG,
            Level::Info => sys::PREFIX_LOG_INFO,
            Level::Warning => sys::PREFIX_LOG_WARNING,
            Level::Error => sys::PREFIX_LOG_ERROR,
            Level::Off => sys::PREFIX_LOG_OFF,
        }
    }
}

type Sink = dyn Fn(Level, &str) + Send + Sync;
static SINK: RwLock<Option<Arc<Sink>>> = RwLock::new(None);

/// Messages below this level are dropped.
pub fn set_level(level: Level) -> Result<()> {
    library::ready()?;
    // Safety: no precondition.
    unsafe { sys::prefix_set_log_level(level.code()) };
    Ok(())
}

/// Calls `sink` with every message, from any thread of the library, in place of the last one set. A panic
/// of it is swallowed.
pub fn set_sink(sink: impl Fn(Level, &str) + Send + Sync + 'static) -> Result<()> {
    library::ready()?;
    replace(Some(Arc::new(sink)));
    // Safety: the function lives as long as the program and takes no user pointer.
    unsafe { sys::prefix_set_log_callback(Some(forward), std::ptr::null_mut()) };
    Ok(())
}

/// Stops calling the sink.
pub fn clear_sink() -> Result<()> {
    library::ready()?;
    // Safety: NULL stops it.
    unsafe { sys::prefix_set_log_callback(None, std::ptr::null_mut()) };
    replace(None);
    Ok(())
}

/// The oldest of the last 1,024 messages, which is removed; `None` when there is none.
pub fn next() -> Result<Option<(Level, String)>> {
    library::ready()?;
    let mut level = 0;
    // Safety: a buffer with its capacity. A message that does not fit stays for the second call.
    let text = read_text(512, |buf, cap, needed, _| unsafe {
        sys::prefix_log_next(&mut level, buf, cap, needed)
    });
    match text {
        Ok(text) => Ok(Some((Level::from_code(level), text))),
        Err(error) if error.status() == Status::NoEvent => Ok(None),
        Err(error) => Err(Error::new(
            error.status(),
            "prefix_log_next",
            error.message(),
        )),
    }
}

fn replace(sink: Option<Arc<Sink>>) {
    let old = {
        let mut current = SINK
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::replace(&mut *current, sink)
    };
    drop(old); // outside the lock: it may log
}

unsafe extern "C" fn forward(level: i32, text: *const c_char, _user: *mut c_void) {
    let sink = SINK
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .clone();
    if let (Some(sink), false) = (sink, text.is_null()) {
        // Safety: valid during the call and ends in zero.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        caught(move || sink(Level::from_code(level), &text)); // which drops the sink, perhaps the last of it
    }
}
