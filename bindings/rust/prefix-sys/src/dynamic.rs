//! The libraries at run time: `dlopen`, the ABI number, then every function of the header.
//!
//! Until [`load`] has succeeded, calling any other function of this crate panics. What goes wrong is
//! described from here alone; a library that could not be loaded is never called.

use std::error::Error;
use std::ffi::{c_char, c_int, c_void, CStr, CString, OsStr};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, OnceLock};

/// What [`load`] opens when no path is given: the name that the system's loader looks for.
pub const LIBRARY: &str = "libprefix.so.1";
/// The same for [`load_text`].
pub const TEXT_LIBRARY: &str = "libprefix_text.so.1";

/// Why a library cannot be used.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// There is no such library, or the system refuses it; in the system's own words.
    Open { path: String, reason: String },
    /// The library is older than these bindings.
    TooOld {
        path: String,
        found: i32,
        needed: i32,
    },
    /// The library lacks a function of the header: it is another one, or damaged.
    Missing { path: String, symbol: &'static str },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Open { path, reason } => write!(f, "cannot load {path}: {reason}"),
            LoadError::TooOld {
                path,
                found,
                needed,
            } => {
                write!(f, "{path} has ABI {found}, at least {needed} is needed")
            }
            LoadError::Missing { path, symbol } => write!(f, "{path} has no function {symbol}"),
        }
    }
}

impl Error for LoadError {}

/// Opens libprefix; `None` leaves the search to the system. Once it has succeeded, further calls do
/// nothing. The library stays open until the process ends.
pub fn load(path: Option<&OsStr>) -> Result<(), LoadError> {
    let path = path.unwrap_or(OsStr::new(LIBRARY));
    open(
        path,
        "prefix_abi_version",
        crate::PREFIX_ABI_VERSION,
        &crate::prefix_h::TABLE,
    )
}

/// Whether [`load`] has succeeded.
pub fn is_loaded() -> bool {
    crate::prefix_h::TABLE.get().is_some()
}

/// Opens libprefix_text as [`load`] opens libprefix.
#[cfg(feature = "text")]
pub fn load_text(path: Option<&OsStr>) -> Result<(), LoadError> {
    let path = path.unwrap_or(OsStr::new(TEXT_LIBRARY));
    open(
        path,
        "prefix_text_abi_version",
        crate::PREFIX_TEXT_ABI_VERSION,
        &crate::prefix_text_h::TABLE,
    )
}

/// Whether [`load_text`] has succeeded.
#[cfg(feature = "text")]
pub fn is_text_loaded() -> bool {
    crate::prefix_text_h::TABLE.get().is_some()
}

#[cold]
pub(crate) fn not_loaded(function: &str) -> ! {
    panic!("{function} was called before prefix_sys::dynamic::load (or load_text) had succeeded")
}

/// A table of functions that `functions!` made.
pub(crate) trait Resolve: Sized {
    fn resolve(
        symbol: impl FnMut(&'static str) -> Result<*mut c_void, LoadError>,
    ) -> Result<Self, LoadError>;
}

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
    fn dlerror() -> *const c_char;
}
const RTLD_NOW: c_int = 2;
const RTLD_LOCAL: c_int = 0;

fn open<T: Resolve>(
    path: &OsStr,
    version: &'static str,
    needed: i32,
    table: &OnceLock<T>,
) -> Result<(), LoadError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if table.get().is_some() {
        return Ok(());
    }
    let name = path.to_string_lossy().into_owned();
    let refused = |reason: String| LoadError::Open {
        path: name.clone(),
        reason,
    };
    let file =
        CString::new(path.as_bytes()).map_err(|_| refused("the path holds a zero byte".into()))?;
    // Safety: a path that ends in zero. What the library does when it is opened is its own matter.
    let library = unsafe { dlopen(file.as_ptr(), RTLD_NOW | RTLD_LOCAL) };
    if library.is_null() {
        // Safety: dlerror gives a text of this thread, or NULL.
        let reason = unsafe { dlerror() };
        let reason = if reason.is_null() {
            "the system gives no reason".into()
        } else {
            // Safety: not NULL, ends in zero.
            unsafe { CStr::from_ptr(reason) }
                .to_string_lossy()
                .into_owned()
        };
        return Err(refused(reason));
    }
    let symbol = |symbol: &'static str| {
        let text = CString::new(symbol).expect("names of functions hold no zero byte");
        // Safety: an open library and a name that ends in zero.
        let address = unsafe { dlsym(library, text.as_ptr()) };
        if address.is_null() {
            Err(LoadError::Missing {
                path: name.clone(),
                symbol,
            })
        } else {
            Ok(address)
        }
    };
    let resolved = symbol(version).and_then(|address| {
        // Safety: the header declares this function so in every version.
        let abi_version =
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> i32>(address) };
        // Safety: it has no precondition. It comes first: an older library may lack other functions.
        let found = unsafe { abi_version() };
        if found < needed {
            return Err(LoadError::TooOld {
                path: name.clone(),
                found,
                needed,
            });
        }
        T::resolve(symbol)
    });
    match resolved {
        Ok(functions) => {
            let _ = table.set(functions);
            Ok(())
        }
        Err(why) => {
            // Safety: opened above, and nothing of it is kept.
            unsafe { dlclose(library) };
            Err(why)
        }
    }
}
