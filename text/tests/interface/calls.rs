//! One call of each function, for handles that must be refused.

use crate::support::capi::*;
use prefix_text::ffi::*;
use std::ptr::{null, null_mut};

/// One call of every function with a tokenizer and of every one with a detokeniser.
pub type Calls = Vec<(&'static str, Outcome<()>)>;

pub fn calls_with(handle: *mut PrefixTokenizer) -> Calls {
    let (mut n, mut token, mut size) = (0, 0, 0);
    let mut detok = null_mut();
    let ids = [1i32];
    let cuts = [0i64, 1];
    let messages = br#"[{"role":"user","content":"a"}]"#;
    vec![
        (
            "retain",
            call(|e| unsafe { prefix_tokenizer_retain(handle, e) }),
        ),
        (
            "info",
            call(|e| unsafe { prefix_tokenizer_info_json(handle, null_mut(), 0, &mut n, e) }),
        ),
        (
            "vocab_size",
            call(|e| unsafe { prefix_tokenizer_vocab_size(handle, &mut size, e) }),
        ),
        (
            "special_token",
            call(|e| unsafe {
                prefix_tokenizer_special_token(handle, b"bos".as_ptr(), 3, &mut token, e)
            }),
        ),
        (
            "end_tokens",
            call(|e| unsafe { prefix_tokenizer_end_tokens(handle, null_mut(), 0, &mut n, e) }),
        ),
        (
            "token_bytes",
            call(|e| unsafe { prefix_tokenizer_token_bytes(handle, 1, null_mut(), 0, &mut n, e) }),
        ),
        (
            "token_id",
            call(|e| unsafe { prefix_tokenizer_token_id(handle, b"a".as_ptr(), 1, &mut token, e) }),
        ),
        (
            "encode",
            call(|e| unsafe {
                prefix_tokenizer_encode(handle, b"a".as_ptr(), 1, 0, null_mut(), 0, &mut n, e)
            }),
        ),
        (
            "encode_offsets",
            call(|e| unsafe {
                prefix_tokenizer_encode_offsets(
                    handle,
                    b"a".as_ptr(),
                    1,
                    0,
                    null_mut(),
                    0,
                    &mut n,
                    null_mut(),
                    0,
                    e,
                )
            }),
        ),
        (
            "encode_batch",
            call(|e| unsafe {
                let (text, cuts) = (b"a".as_ptr(), cuts.as_ptr());
                prefix_tokenizer_encode_batch(
                    handle,
                    text,
                    1,
                    cuts,
                    2,
                    0,
                    null_mut(),
                    0,
                    &mut n,
                    null_mut(),
                    0,
                    e,
                )
            }),
        ),
        (
            "decode",
            call(|e| unsafe {
                prefix_tokenizer_decode(handle, ids.as_ptr(), 1, 0, null_mut(), 0, &mut n, e)
            }),
        ),
        (
            "detok_create",
            call(|e| unsafe { prefix_detok_create(handle, 0, &mut detok, e) }),
        ),
        (
            "chat_text",
            call(|e| unsafe {
                prefix_tokenizer_chat_text(
                    handle,
                    messages.as_ptr(),
                    messages.len(),
                    null(),
                    0,
                    null_mut(),
                    0,
                    &mut n,
                    e,
                )
            }),
        ),
        (
            "chat_tokens",
            call(|e| unsafe {
                let (at, len) = (messages.as_ptr(), messages.len());
                prefix_tokenizer_chat_tokens(
                    handle,
                    at,
                    len,
                    null(),
                    0,
                    null_mut(),
                    0,
                    &mut n,
                    null_mut(),
                    0,
                    e,
                )
            }),
        ),
    ]
}

pub fn detok_calls_with(handle: *mut PrefixDetok) -> Calls {
    let mut n = 0;
    vec![
        (
            "push",
            call(|e| unsafe { prefix_detok_push(handle, null(), 0, null_mut(), 0, &mut n, e) }),
        ),
        (
            "flush",
            call(|e| unsafe { prefix_detok_flush(handle, null_mut(), 0, &mut n, e) }),
        ),
    ]
}
