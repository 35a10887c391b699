//! What is no handle, is released, or belongs to another process.

use crate::calls::{calls_with, detok_calls_with, Calls};
use crate::library::again;
use crate::support::capi::*;
use crate::support::fixture;
use crate::tokenizer;
use prefix_text::ffi::*;
use std::ptr::null_mut;

fn all_fail(calls: Calls, code: i32) {
    for (name, outcome) in calls {
        let error = outcome.expect_err(name);
        assert_eq!(error.code, code, "{name}: {}", error.message);
        assert!(error.domain.contains(name), "{} in {name}", error.domain);
    }
}

pub fn handles() {
    let tokenizer = tokenizer("llama3");
    let detok = Detok::new(&tokenizer, 0);
    all_fail(calls_with(null_mut()), INVALID_ARGUMENT);
    all_fail(detok_calls_with(null_mut()), INVALID_ARGUMENT);
    // Numbers that were never handles, and a handle of the other kind.
    let far = tokenizer.0 as usize + (1 << 30);
    for garbage in [
        1,
        8,
        15,
        17,
        far,
        far + 1,
        usize::MAX,
        usize::MAX - 15,
        1 << 63,
        detok.0 as usize,
    ] {
        all_fail(calls_with(garbage as *mut PrefixTokenizer), MISUSE);
        unsafe { prefix_tokenizer_release(garbage as *mut PrefixTokenizer) };
    }
    for garbage in [1, 16 * 9999, far, usize::MAX, tokenizer.0 as usize] {
        all_fail(detok_calls_with(garbage as *mut PrefixDetok), MISUSE);
        unsafe { prefix_detok_release(garbage as *mut PrefixDetok) };
    }
    unsafe {
        prefix_tokenizer_release(null_mut());
        prefix_detok_release(null_mut());
    }
    // Nothing of that has released these two.
    assert_eq!(
        detok.push(&[5]).unwrap(),
        tokenizer.decode(&[5], 0).unwrap()
    );

    let released = Tokenizer::from_json(fixture("llama3").as_bytes(), b"").unwrap();
    let handle = released.0;
    drop(released);
    all_fail(calls_with(handle), MISUSE);
    unsafe { prefix_tokenizer_release(handle) };
    let released = Detok::new(&tokenizer, 0);
    let handle = released.0;
    drop(released);
    all_fail(detok_calls_with(handle), MISUSE);
    unsafe { prefix_detok_release(handle) };
}

pub fn references() {
    let first = tokenizer("llama3");
    let detok = Detok::new(&first, 0);
    call(|e| unsafe { prefix_tokenizer_retain(first.0, e) }).unwrap();
    unsafe { prefix_tokenizer_release(first.0) };
    assert!(first.vocab_size() > 900);
    drop(first);
    call(|e| unsafe { prefix_detok_retain(detok.0, e) }).unwrap();
    unsafe { prefix_detok_release(detok.0) };
    // A detokeniser keeps its tokenizer alive.
    assert_eq!(detok.push(&[0]).unwrap() + &detok.flush().unwrap(), "!");
}

pub fn forked() {
    let tokenizer = tokenizer("wordpiece");
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut size = 0;
            let status = prefix_tokenizer_vocab_size(tokenizer.0, &mut size, null_mut());
            libc::_exit(if status == 201 { 0 } else { 1 });
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0);
        assert_eq!(status, 0);
    }
}

/// A child of a fork may not use what its parent opened, and learns so without waiting for ever.
pub fn fork() {
    let done = again("fork");
    assert_eq!(done.status.code(), Some(0), "{done:?}");
}
