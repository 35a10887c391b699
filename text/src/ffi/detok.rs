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
pub unsafe extern "C" fn prefix_detok_release(detok: *mut PrefixDetok) {
    unsafe {
        entry(std::ptr::null_mut(), "prefix_detok_release", || {
            handles::release_detok(detok);
            Ok(())
        });
    }
}

/// Hands out the text that is ready, all of it or, when it does not fit, nothing.
unsafe fn take(detok: &mut Detok, buf: *mut u8, cap: usize, needed: *mut usize) -> Result<()> {
    let fits = detok.ready().len() <= cap;
    let room = if fits { cap } else { 0 };
    unsafe { out::bytes(detok.ready().as_bytes(), buf, room, needed)? };
    if fits {
        detok.taken();
    }
    Ok(())
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
                detok.push(tokens)?;
                take(detok, buf, cap, needed)
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
                detok.finish()?;
                take(detok, buf, cap, needed)
            })
        })
    }
}
