//! prefix_tokenizer_chat_*: messages to the text or the tokens of a prompt.

use super::handles::{self, PrefixTokenizer};
use super::out::Buffer;
use super::{entry, out, text_in, PrefixError, PREFIX_NUL};
use crate::chat::Request;
use crate::error::Result;
use crate::text::EncodeOptions;

/// From bytes of the prompt to tokens: a token belongs to a turn when it ends inside it.
fn segment_ends(offsets: &[(usize, usize)], turns: &[usize]) -> Vec<i64> {
    let mut ends: Vec<i64> = turns
        .iter()
        .map(|bytes| offsets.partition_point(|(_, end)| end <= bytes) as i64)
        .collect();
    ends.push(offsets.len() as i64);
    ends
}

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
            let rendered = tokenizer.templates.render(request, false)?;
            out::text(&rendered.text, buf, cap, needed)
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
            let with_turns = !segments.is_null();
            let rendered = tokenizer.templates.render(request, with_turns)?;
            let options = EncodeOptions::default();
            if !with_turns && capacity_segments == 0 {
                let tokens = tokenizer.encode(&rendered.text, options)?;
                return out::array(&tokens, out, capacity, needed);
            }
            let encoded = tokenizer.encode_offsets(&rendered.text, options)?;
            let ends = segment_ends(&encoded.offsets, &rendered.turns);
            let buffer = Buffer {
                name: "out",
                at: out,
                capacity,
            };
            let turns = Buffer {
                name: "segments",
                at: segments,
                capacity: capacity_segments,
            };
            out::arrays(needed, &[&buffer.of(&encoded.tokens), &turns.of(&ends)])
        })
    }
}
