//! The C functions: pointers become slices, results are copied out, errors and panics become a
//! status. With `engine`, which calls libprefix, this is the only part with `unsafe`.

// The contract of each function stands in prefix_text.h, with C names for what it may be given.
#![allow(clippy::missing_safety_doc)]
// C signatures are as long as they are.
#![allow(clippy::too_many_arguments)]

mod chat;
mod detok;
mod floats;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod handles;
mod out;
mod recipe;
mod structs;
mod task;
mod task_results;
mod tokenizer;

use crate::error::{printable, Code, Error, Result};
use crate::panics::{panic_text, quiet};
use std::panic::{catch_unwind, AssertUnwindSafe};

pub use crate::prefix_h::{prefix_error as PrefixError, PREFIX_NUL, PREFIX_OK};
pub use chat::*;
pub use detok::*;
pub use handles::{PrefixDetok, PrefixTask, PrefixTokenizer};
pub use recipe::*;
pub use task::*;
pub use task_results::*;
pub use tokenizer::*;

/// # Safety
/// `err` is NULL or points to a prefix_error.
unsafe fn report(err: *mut PrefixError, function: &str, error: &Error) -> i32 {
    // A caller that forgot struct_size gets nothing written: what it has is unknown.
    if !err.is_null() && unsafe { (*err).struct_size } >= size_of::<PrefixError>() as i32 {
        let message = printable(&error.message);
        unsafe { &mut *err }.set(error.code as i32, function, &message);
    }
    error.code as i32
}

/// Runs the body of an entry point. Panics, which would be bugs here or in a crate below, become
/// PREFIX_ERR_INTERNAL: unwinding into C would end the host.
///
/// # Safety
/// `err` is NULL or points to a prefix_error.
unsafe fn entry(err: *mut PrefixError, function: &str, body: impl FnOnce() -> Result<()>) -> i32 {
    // The thread of all tasks is started in a body, and computes as it does.
    let _floats = floats::PlainFloats::new();
    // What a panic leaves half done is never seen again: tokenizers are immutable, and a
    // detokeniser whose lock is poisoned refuses further calls.
    let result = catch_unwind(AssertUnwindSafe(|| quiet(body))).unwrap_or_else(|cause| {
        let error = Error::new(
            Code::Internal,
            format!("a bug in the library: {}", panic_text(&*cause)),
        );
        // Dropping the payload may panic in theory.
        std::mem::forget(cause);
        Err(error)
    });
    match result {
        Ok(()) => PREFIX_OK,
        Err(error) => unsafe { report(err, function, &error) },
    }
}

/// # Safety
/// `data` points to `count` elements when count is not 0.
unsafe fn slice_in<'a, T>(data: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Error::argument(format!(
            "{name} is NULL, but its length is {count}"
        )));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Error::range(format!("{name} cannot have {count} elements")));
    }
    Ok(unsafe { std::slice::from_raw_parts(data, count) })
}

/// # Safety
/// `text` points to `length` bytes, or to a zero-terminated text when length is PREFIX_NUL.
unsafe fn bytes_in<'a>(text: *const u8, length: usize, name: &str) -> Result<&'a [u8]> {
    if length != PREFIX_NUL {
        return unsafe { slice_in(text, length, name) };
    }
    if text.is_null() {
        return Err(Error::argument(format!("{name} is NULL")));
    }
    Ok(unsafe { std::ffi::CStr::from_ptr(text.cast()) }.to_bytes())
}

/// # Safety
/// As bytes_in.
unsafe fn text_in<'a>(text: *const u8, length: usize, name: &str) -> Result<&'a str> {
    let bytes = unsafe { bytes_in(text, length, name) }?;
    std::str::from_utf8(bytes).map_err(|e| {
        Error::new(
            Code::InvalidUtf8,
            format!(
                "{name} is not UTF-8: byte {:#04x} at {}",
                bytes.get(e.valid_up_to()).copied().unwrap_or(0),
                e.valid_up_to()
            ),
        )
    })
}

/// The bits of `flags` that the library knows.
fn known_flags(flags: i32, known: i32) -> Result<()> {
    if flags & !known != 0 {
        return Err(Error::argument(format!(
            "flags {flags:#x} has bits outside {known:#x}"
        )));
    }
    Ok(())
}

/// # Safety
/// `out` is NULL or points to a T.
unsafe fn set<T>(out: *mut T, value: T, name: &str) -> Result<()> {
    if out.is_null() {
        return Err(Error::argument(format!("{name} is NULL")));
    }
    unsafe { out.write(value) };
    Ok(())
}
