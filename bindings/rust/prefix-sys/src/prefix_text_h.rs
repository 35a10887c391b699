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
pub const PREFIX_ENCODE_CONTINUES: i32 = 4;
pub const PREFIX_DECODE_SKIP_SPECIAL: i32 = 1;
#[repr(C)]
#[derive(Debug)]
pub struct prefix_detok {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct prefix_task {
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
    pub fn prefix_detok_retain(detok: *mut prefix_detok, err: *mut prefix_error) -> prefix_status;
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
    pub fn prefix_recipe_count() -> usize;
    pub fn prefix_recipe_name(index: usize) -> *const ::core::ffi::c_char;
    pub fn prefix_recipe_json(
        name: *const ::core::ffi::c_char,
        name_len: usize,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_create(
        engine: *mut prefix_engine,
        tokenizer: *const prefix_tokenizer,
        kind: *const ::core::ffi::c_char,
        kind_len: usize,
        options: *const prefix_options,
        out: *mut *mut prefix_task,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_retain(task: *mut prefix_task, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_task_release(task: *mut prefix_task);
    pub fn prefix_task_set_labels(
        task: *mut prefix_task,
        texts: *const *const ::core::ffi::c_char,
        lengths: *const usize,
        n_texts: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_add(
        task: *mut prefix_task,
        texts: *const *const ::core::ffi::c_char,
        lengths: *const usize,
        n_texts: usize,
        user_tag: i64,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_add_product(
        task: *mut prefix_task,
        firsts: *const *const ::core::ffi::c_char,
        first_lengths: *const usize,
        n_firsts: usize,
        seconds: *const *const ::core::ffi::c_char,
        second_lengths: *const usize,
        n_seconds: usize,
        user_tag: i64,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_submit(task: *mut prefix_task, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_task_wait(
        task: *mut prefix_task,
        timeout_ms: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_notify(
        task: *mut prefix_task,
        queue: *mut prefix_queue,
        tag: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_cancel(task: *mut prefix_task, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_task_info_json(
        task: *const prefix_task,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_count(
        task: *const prefix_task,
        count: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_finished_count(
        task: *const prefix_task,
        count: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_item_tokens(
        task: *const prefix_task,
        item: usize,
        out: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_next_event(
        task: *mut prefix_task,
        timeout_ms: i64,
        event: *mut prefix_event,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_notify_events(
        task: *mut prefix_task,
        queue: *mut prefix_queue,
        tag: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_width(
        task: *const prefix_task,
        width: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_item_info(
        task: *const prefix_task,
        item: usize,
        out: *mut prefix_result_info,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_item_message(
        task: *const prefix_task,
        item: usize,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_item_values(
        task: *const prefix_task,
        item: usize,
        out: *mut f32,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_item_text(
        task: *const prefix_task,
        item: usize,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_item_partial_text(
        task: *const prefix_task,
        item: usize,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_item_logprobs(
        task: *const prefix_task,
        item: usize,
        first: usize,
        tokens: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        logprobs: *mut f32,
        capacity_logprobs: usize,
        offsets: *mut i64,
        capacity_offsets: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_item_top(
        task: *const prefix_task,
        item: usize,
        place: usize,
        tokens: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        logprobs: *mut f32,
        capacity_logprobs: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_all_values(
        task: *const prefix_task,
        out: *mut f32,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_statuses(
        task: *const prefix_task,
        out: *mut i32,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_first_failure(
        task: *const prefix_task,
        item: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_ranking(
        task: *const prefix_task,
        first: usize,
        count: usize,
        order: *mut i64,
        capacity: usize,
        needed: *mut usize,
        scores: *mut f32,
        capacity_scores: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_task_get_totals(
        task: *const prefix_task,
        out: *mut prefix_job_totals,
        err: *mut prefix_error,
    ) -> prefix_status;
}
