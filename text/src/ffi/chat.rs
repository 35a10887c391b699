//! prefix_tokenizer_chat_*: messages to the text or the tokens of a prompt.

use super::handles::{self, PrefixTokenizer};
use super::tokenizer::as_tokens;
use super::{entry, out, text_in, PrefixError, PREFIX_NUL};
use crate::chat::Request;
use crate::error::Result;
use crate::text::EncodeOptions;

/// # Safety
/// Pointers and lengths as in the header.
unsafe fn request(
    messages: *const u8,
    messages_len: usize,
    options: *const u8,
    options_len: usize,
) -> Result<Request> {
    let messages = unsafe { text_in(messages, messages_len, "messages") }?;
    let options = if options.is_null() && options_len == PREFIX_NUL {
        ""
    } else {
        unsafe { text_in(options, options_len, "options") }?
    };
    Request::parse(messages, options)
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_chat_text(
    tokenizer: *const PrefixTokenizer,
    messages: *const u8,
    messages_len: usize,
    options: *const u8,
    options_len: usize,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_chat_text", || {
            let tokenizer = handles::text(tokenizer)?;
            let request = request(messages, messages_len, options, options_len)?;
            let text = tokenizer.templates.render(&request)?;
            out::bytes(text.as_bytes(), buf, cap, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_chat_tokens(
    tokenizer: *const PrefixTokenizer,
    messages: *const u8,
    messages_len: usize,
    options: *const u8,
    options_len: usize,
    out: *mut i32,
    capacity: usize,
    needed: *mut usize,
    segments: *mut i64,
    capacity_segments: usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_chat_tokens", || {
            let tokenizer = handles::text(tokenizer)?;
            let request = request(messages, messages_len, options, options_len)?;
            let text = tokenizer.templates.render(&request)?;
            let encoding = tokenizer.encode(&text, EncodeOptions::default())?;
            let _ = (segments, capacity_segments);
            out::array(&as_tokens(encoding.get_ids()), out, capacity, needed)
        })
    }
}
