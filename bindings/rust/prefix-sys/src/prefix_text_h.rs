// Generated from include/prefix_text.h by bindings/rust/generate with bindgen 0.73.2. Do not edit.

use super::prefix_h::*;
pub const PREFIX_TEXT_ABI_VERSION: i32 = 1;
#[repr(C)]
#[derive(Debug)]
pub struct prefix_tokenizer {
    _unused: [u8; 0],
}
pub const PREFIX_ENCODE_SPECIAL: i32 = 1;
pub const PREFIX_ENCODE_LITERAL: i32 = 2;
pub const PREFIX_DECODE_SKIP_SPECIAL: i32 = 1;
#[repr(C)]
#[derive(Debug)]
pub struct prefix_detok {
    _unused: [u8; 0],
}
functions! {
    pub fn prefix_text_abi_version() -> i32;
    pub fn prefix_text_version_string() -> *const ::core::ffi::c_char;
    pub fn prefix_tokenizer_open(
        path: *const ::core::ffi::c_char,
        path_len: usize,
        out: *mut *mut prefix_tokenizer,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_from_json(
        tokenizer_json: *const ::core::ffi::c_char,
        tokenizer_json_len: usize,
        config_json: *const ::core::ffi::c_char,
        config_json_len: usize,
        out: *mut *mut prefix_tokenizer,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_retain(
        tokenizer: *mut prefix_tokenizer,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_release(tokenizer: *mut prefix_tokenizer);
    pub fn prefix_tokenizer_info_json(
        tokenizer: *const prefix_tokenizer,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_vocab_size(
        tokenizer: *const prefix_tokenizer,
        size: *mut i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_special_token(
        tokenizer: *const prefix_tokenizer,
        role: *const ::core::ffi::c_char,
        role_len: usize,
        token: *mut prefix_token,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_end_tokens(
        tokenizer: *const prefix_tokenizer,
        out: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_token_bytes(
        tokenizer: *const prefix_tokenizer,
        token: prefix_token,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_token_id(
        tokenizer: *const prefix_tokenizer,
        text: *const ::core::ffi::c_char,
        text_len: usize,
        token: *mut prefix_token,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_encode(
        tokenizer: *const prefix_tokenizer,
        text: *const ::core::ffi::c_char,
        text_len: usize,
        flags: i32,
        out: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_encode_offsets(
        tokenizer: *const prefix_tokenizer,
        text: *const ::core::ffi::c_char,
        text_len: usize,
        flags: i32,
        out: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        offsets: *mut i64,
        capacity_offsets: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_encode_batch(
        tokenizer: *const prefix_tokenizer,
        text: *const ::core::ffi::c_char,
        text_len: usize,
        offsets: *const i64,
        n_offsets: usize,
        flags: i32,
        out: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        token_offsets: *mut i64,
        capacity_offsets: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_decode(
        tokenizer: *const prefix_tokenizer,
        tokens: *const prefix_token,
        n_tokens: usize,
        flags: i32,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_detok_create(
        tokenizer: *const prefix_tokenizer,
        flags: i32,
        out: *mut *mut prefix_detok,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_detok_release(detok: *mut prefix_detok);
    pub fn prefix_detok_push(
        detok: *mut prefix_detok,
        tokens: *const prefix_token,
        n_tokens: usize,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_detok_flush(
        detok: *mut prefix_detok,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_chat_text(
        tokenizer: *const prefix_tokenizer,
        messages: *const ::core::ffi::c_char,
        messages_len: usize,
        options: *const ::core::ffi::c_char,
        options_len: usize,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_tokenizer_chat_tokens(
        tokenizer: *const prefix_tokenizer,
        messages: *const ::core::ffi::c_char,
        messages_len: usize,
        options: *const ::core::ffi::c_char,
        options_len: usize,
        out: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        segments: *mut i64,
        capacity_segments: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
}
