//! Where the library comes from.
//!
//! Without the feature `dynamic` it is linked, and only its version is looked at. With it, `load` opens the
//! library by path; a program that does not call it gets the one that the system finds as
//! `libprefix.so.1`, when it first needs it, and an error with
//! [`Status::NotFound`](crate::Status::NotFound) when there is none.

#[cfg(not(feature = "dynamic"))]
use std::sync::OnceLock;

#[cfg(feature = "dynamic")]
pub use prefix_sys::dynamic::LoadError;

/// Opens libprefix at this path. Once it has succeeded, further calls do nothing.
#[cfg(feature = "dynamic")]
pub fn load(path: impl AsRef<std::ffi::OsStr>) -> std::result::Result<(), LoadError> {
    prefix_sys::dynamic::load(Some(path.as_ref()))
}

/// Opens libprefix_text at this path.
#[cfg(all(feature = "dynamic", feature = "text"))]
pub fn load_text(path: impl AsRef<std::ffi::OsStr>) -> std::result::Result<(), LoadError> {
    prefix_sys::dynamic::load_text(Some(path.as_ref()))
}

/// Every way into the library that needs no handle comes through here first.
#[cfg(feature = "dynamic")]
pub(crate) fn ready() -> crate::Result<()> {
    if prefix_sys::dynamic::is_loaded() {
        return Ok(());
    }
    prefix_sys::dynamic::load(None).map_err(not_found)
}

#[cfg(all(feature = "dynamic", feature = "text"))]
pub(crate) fn text_ready() -> crate::Result<()> {
    if prefix_sys::dynamic::is_text_loaded() {
        return Ok(());
    }
    prefix_sys::dynamic::load_text(None).map_err(not_found)
}

#[cfg(feature = "dynamic")]
fn not_found(why: LoadError) -> crate::Error {
    crate::Error::new(crate::Status::NotFound, "dlopen", why.to_string())
}

/// A library that was linked may be older where the program runs than where it was built. Asked once.
#[cfg(not(feature = "dynamic"))]
#[inline]
pub(crate) fn ready() -> crate::Result<()> {
    static FOUND: OnceLock<i32> = OnceLock::new();
    // Safety: it has no precondition.
    let found = *FOUND.get_or_init(|| unsafe { prefix_sys::prefix_abi_version() });
    new_enough("libprefix", found, prefix_sys::PREFIX_ABI_VERSION)
}

#[cfg(all(not(feature = "dynamic"), feature = "text"))]
#[inline]
pub(crate) fn text_ready() -> crate::Result<()> {
    static FOUND: OnceLock<i32> = OnceLock::new();
    // Safety: it has no precondition.
    let found = *FOUND.get_or_init(|| unsafe { prefix_sys::prefix_text_abi_version() });
    new_enough("libprefix_text", found, prefix_sys::PREFIX_TEXT_ABI_VERSION)
}

#[cfg(not(feature = "dynamic"))]
fn new_enough(library: &str, found: i32, needed: i32) -> crate::Result<()> {
    if found >= needed {
        return Ok(());
    }
    Err(crate::Error::new(
        crate::Status::NotFound,
        "ld.so",
        format!("{library} has ABI {found}, at least {needed} is needed"),
    ))
}
