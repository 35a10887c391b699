//! prefix_detok_*: streaming decoding.

use super::handles::{self, PrefixDetok, PrefixTokenizer};
use super::tokenizer::PREFIX_DECODE_SKIP_SPECIAL;
use super::{entry, known_flags, out, set, slice_in, PrefixError};
use crate::detok::Detok;
use crate::error::{Error, Result};

#[no_mangle]
pub unsafe extern "C" fn prefix_detok_create(
    tokenizer: *const PrefixTokenizer,
    flags: i32,
    out: *mut *mut PrefixDetok,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_detok_create", || {
            if out.is_null() {
                return Err(Error::argument("out is NULL"));
            }
            known_flags(flags, PREFIX_DECODE_SKIP_SPECIAL)?;
            let text = handles::text(tokenizer)?;
            let detok = Detok::new(text, flags & PREFIX_DECODE_SKIP_SPECIAL != 0);
            set(out, handles::add_detok(detok)?, "out")
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_detok_retain(
    detok: *mut PrefixDetok,
    err: *mut PrefixError,
) -> i32 {
    unsafe { entry(err, "prefix_detok_retain", || handles::retain_detok(detok)) }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_detok_release(detok: *mut PrefixDetok) {
    unsafe {
        entry(std::ptr::null_mut(), "prefix_detok_release", || {
            handles::release_detok(detok);
            Ok(())
        });
    }
}

/// One step of a stream: it is made once its text is written.
unsafe fn advance(
    detok: &mut Detok,
    step: impl FnOnce(&mut Detok) -> Result<String>,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
) -> Result<()> {
    detok.advance(step, |piece| unsafe {
        out::bytes(piece.as_bytes(), buf, cap, needed)
    })
}

#[no_mangle]
pub unsafe extern "C" fn prefix_detok_push(
    detok: *mut PrefixDetok,
    tokens: *const i32,
    n_tokens: usize,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_detok_push", || {
            let tokens = slice_in(tokens, n_tokens, "tokens")?;
            handles::with_detok(detok, |detok| {
                advance(detok, |next| next.push(tokens), buf, cap, needed)
            })
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_detok_flush(
    detok: *mut PrefixDetok,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_detok_flush", || {
            handles::with_detok(detok, |detok| {
                advance(detok, Detok::finish, buf, cap, needed)
            })
        })
    }
}
