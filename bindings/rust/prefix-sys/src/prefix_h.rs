// Generated from include/prefix.h by bindings/rust/generate with bindgen 0.73.2. Do not edit.

pub const PREFIX_ABI_VERSION: i32 = 1;
pub type prefix_status = i32;
pub type prefix_token = i32;
pub const PREFIX_OK: i32 = 0;
pub const PREFIX_ERR_INVALID_ARGUMENT: i32 = 100;
pub const PREFIX_ERR_INVALID_UTF8: i32 = 101;
pub const PREFIX_ERR_UNKNOWN_OPTION: i32 = 102;
pub const PREFIX_ERR_OUT_OF_RANGE: i32 = 103;
pub const PREFIX_ERR_STRUCT_TOO_OLD: i32 = 104;
pub const PREFIX_ERR_BUFFER_TOO_SMALL: i32 = 105;
pub const PREFIX_ERR_MISUSE: i32 = 200;
pub const PREFIX_ERR_FORKED: i32 = 201;
pub const PREFIX_ERR_NOT_FOUND: i32 = 300;
pub const PREFIX_ERR_IO: i32 = 301;
pub const PREFIX_ERR_FORMAT: i32 = 400;
pub const PREFIX_ERR_UNSUPPORTED_MODEL: i32 = 401;
pub const PREFIX_ERR_UNSUPPORTED_DEVICE: i32 = 402;
pub const PREFIX_ERR_INCOMPATIBLE_SNAPSHOT: i32 = 403;
pub const PREFIX_ERR_PROMPT_TOO_LONG: i32 = 500;
pub const PREFIX_ERR_NOT_FINITE: i32 = 501;
pub const PREFIX_ERR_OUT_OF_MEMORY: i32 = 600;
pub const PREFIX_ERR_OUT_OF_DEVICE_MEMORY: i32 = 601;
pub const PREFIX_ERR_CACHE_FULL: i32 = 602;
pub const PREFIX_ERR_QUEUE_FULL: i32 = 700;
pub const PREFIX_ERR_TIMEOUT: i32 = 701;
pub const PREFIX_ERR_CANCELLED: i32 = 702;
pub const PREFIX_ERR_DEADLINE: i32 = 703;
pub const PREFIX_ERR_DEVICE_LOST: i32 = 800;
pub const PREFIX_ERR_ENGINE_FAILED: i32 = 801;
pub const PREFIX_ERR_NO_EVENT: i32 = 900;
pub const PREFIX_ERR_INTERNAL: i32 = 1000;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_error {
    pub struct_size: i32,
    pub code: i32,
    pub domain: [::core::ffi::c_char; 48usize],
    pub message: [::core::ffi::c_char; 456usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_error"][::core::mem::size_of::<prefix_error>() - 512usize];
    ["Alignment of prefix_error"][::core::mem::align_of::<prefix_error>() - 4usize];
    ["Offset of field: prefix_error::struct_size"]
        [::core::mem::offset_of!(prefix_error, struct_size) - 0usize];
    ["Offset of field: prefix_error::code"][::core::mem::offset_of!(prefix_error, code) - 4usize];
    ["Offset of field: prefix_error::domain"]
        [::core::mem::offset_of!(prefix_error, domain) - 8usize];
    ["Offset of field: prefix_error::message"]
        [::core::mem::offset_of!(prefix_error, message) - 56usize];
};
#[repr(C)]
#[derive(Debug)]
pub struct prefix_options {
    _unused: [u8; 0],
}
pub const PREFIX_OPTION_INT: i32 = 0;
pub const PREFIX_OPTION_FLOAT: i32 = 1;
pub const PREFIX_OPTION_BOOL: i32 = 2;
pub const PREFIX_OPTION_STRING: i32 = 3;
pub const PREFIX_OPTION_INT_LIST: i32 = 4;
pub const PREFIX_OPTION_STRING_LIST: i32 = 5;
pub const PREFIX_SCOPE_ENGINE: i32 = 0;
pub const PREFIX_SCOPE_REQUEST: i32 = 1;
pub const PREFIX_SCOPE_GENERATE: i32 = 2;
pub const PREFIX_SCOPE_EMBEDDING: i32 = 3;
pub const PREFIX_SCOPE_TASK: i32 = 4;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_option_details {
    pub struct_size: i32,
    pub type_: i32,
    pub scope: i32,
    pub reserved: i32,
    pub minimum: f64,
    pub maximum: f64,
    pub key: *const ::core::ffi::c_char,
    pub default_value: *const ::core::ffi::c_char,
    pub values: *const ::core::ffi::c_char,
    pub doc: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_option_details"][::core::mem::size_of::<prefix_option_details>() - 64usize];
    ["Alignment of prefix_option_details"]
        [::core::mem::align_of::<prefix_option_details>() - 8usize];
    ["Offset of field: prefix_option_details::struct_size"]
        [::core::mem::offset_of!(prefix_option_details, struct_size) - 0usize];
    ["Offset of field: prefix_option_details::type_"]
        [::core::mem::offset_of!(prefix_option_details, type_) - 4usize];
    ["Offset of field: prefix_option_details::scope"]
        [::core::mem::offset_of!(prefix_option_details, scope) - 8usize];
    ["Offset of field: prefix_option_details::reserved"]
        [::core::mem::offset_of!(prefix_option_details, reserved) - 12usize];
    ["Offset of field: prefix_option_details::minimum"]
        [::core::mem::offset_of!(prefix_option_details, minimum) - 16usize];
    ["Offset of field: prefix_option_details::maximum"]
        [::core::mem::offset_of!(prefix_option_details, maximum) - 24usize];
    ["Offset of field: prefix_option_details::key"]
        [::core::mem::offset_of!(prefix_option_details, key) - 32usize];
    ["Offset of field: prefix_option_details::default_value"]
        [::core::mem::offset_of!(prefix_option_details, default_value) - 40usize];
    ["Offset of field: prefix_option_details::values"]
        [::core::mem::offset_of!(prefix_option_details, values) - 48usize];
    ["Offset of field: prefix_option_details::doc"]
        [::core::mem::offset_of!(prefix_option_details, doc) - 56usize];
};
#[repr(C)]
#[derive(Debug)]
pub struct prefix_pool {
    _unused: [u8; 0],
}
pub const PREFIX_LOG_DEBUG: i32 = 0;
pub const PREFIX_LOG_INFO: i32 = 1;
pub const PREFIX_LOG_WARNING: i32 = 2;
pub const PREFIX_LOG_ERROR: i32 = 3;
pub const PREFIX_LOG_OFF: i32 = 4;
pub type prefix_log_callback = ::core::option::Option<
    unsafe extern "C" fn(
        level: i32,
        text: *const ::core::ffi::c_char,
        user: *mut ::core::ffi::c_void,
    ),
>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_device_details {
    pub struct_size: i32,
    pub available: i32,
    pub chosen: i32,
    pub threads: i32,
    pub total_bytes: i64,
    pub free_bytes: i64,
    pub kind: *const ::core::ffi::c_char,
    pub level: *const ::core::ffi::c_char,
    pub reason: *const ::core::ffi::c_char,
    pub name: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_device_details"][::core::mem::size_of::<prefix_device_details>() - 64usize];
    ["Alignment of prefix_device_details"]
        [::core::mem::align_of::<prefix_device_details>() - 8usize];
    ["Offset of field: prefix_device_details::struct_size"]
        [::core::mem::offset_of!(prefix_device_details, struct_size) - 0usize];
    ["Offset of field: prefix_device_details::available"]
        [::core::mem::offset_of!(prefix_device_details, available) - 4usize];
    ["Offset of field: prefix_device_details::chosen"]
        [::core::mem::offset_of!(prefix_device_details, chosen) - 8usize];
    ["Offset of field: prefix_device_details::threads"]
        [::core::mem::offset_of!(prefix_device_details, threads) - 12usize];
    ["Offset of field: prefix_device_details::total_bytes"]
        [::core::mem::offset_of!(prefix_device_details, total_bytes) - 16usize];
    ["Offset of field: prefix_device_details::free_bytes"]
        [::core::mem::offset_of!(prefix_device_details, free_bytes) - 24usize];
    ["Offset of field: prefix_device_details::kind"]
        [::core::mem::offset_of!(prefix_device_details, kind) - 32usize];
    ["Offset of field: prefix_device_details::level"]
        [::core::mem::offset_of!(prefix_device_details, level) - 40usize];
    ["Offset of field: prefix_device_details::reason"]
        [::core::mem::offset_of!(prefix_device_details, reason) - 48usize];
    ["Offset of field: prefix_device_details::name"]
        [::core::mem::offset_of!(prefix_device_details, name) - 56usize];
};
#[repr(C)]
#[derive(Debug)]
pub struct prefix_queue {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct prefix_source {
    _unused: [u8; 0],
}
pub type prefix_read_at = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        offset: i64,
        to: *mut ::core::ffi::c_void,
        bytes: usize,
    ) -> i32,
>;
#[repr(C)]
#[derive(Debug)]
pub struct prefix_engine {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_memory {
    pub struct_size: i32,
    pub reserved: i32,
    pub weight_bytes: i64,
    pub kv_bytes_per_token: i64,
    pub kv_budget_bytes: i64,
    pub activation_bytes: i64,
    pub total_bytes: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_memory"][::core::mem::size_of::<prefix_memory>() - 48usize];
    ["Alignment of prefix_memory"][::core::mem::align_of::<prefix_memory>() - 8usize];
    ["Offset of field: prefix_memory::struct_size"]
        [::core::mem::offset_of!(prefix_memory, struct_size) - 0usize];
    ["Offset of field: prefix_memory::reserved"]
        [::core::mem::offset_of!(prefix_memory, reserved) - 4usize];
    ["Offset of field: prefix_memory::weight_bytes"]
        [::core::mem::offset_of!(prefix_memory, weight_bytes) - 8usize];
    ["Offset of field: prefix_memory::kv_bytes_per_token"]
        [::core::mem::offset_of!(prefix_memory, kv_bytes_per_token) - 16usize];
    ["Offset of field: prefix_memory::kv_budget_bytes"]
        [::core::mem::offset_of!(prefix_memory, kv_budget_bytes) - 24usize];
    ["Offset of field: prefix_memory::activation_bytes"]
        [::core::mem::offset_of!(prefix_memory, activation_bytes) - 32usize];
    ["Offset of field: prefix_memory::total_bytes"]
        [::core::mem::offset_of!(prefix_memory, total_bytes) - 40usize];
};
pub const PREFIX_ENGINE_LOADING: i32 = 0;
pub const PREFIX_ENGINE_READY: i32 = 1;
pub const PREFIX_ENGINE_DRAINING: i32 = 2;
pub const PREFIX_ENGINE_CLOSED: i32 = 3;
pub const PREFIX_ENGINE_FAILED: i32 = 4;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_engine_stats {
    pub struct_size: i32,
    pub reserved: i32,
    pub requests_waiting: i64,
    pub requests_running: i64,
    pub requests_finished: i64,
    pub requests_failed: i64,
    pub tokens_given: i64,
    pub tokens_cached: i64,
    pub tokens_shared: i64,
    pub tokens_computed: i64,
    pub tokens_generated: i64,
    pub steps: i64,
    pub rows: i64,
    pub pages_total: i64,
    pub pages_used: i64,
    pub page_tokens: i64,
    pub kv_bytes: i64,
    pub kv_bytes_peak: i64,
    pub kv_budget_bytes: i64,
    pub weight_bytes: i64,
    pub activation_bytes_peak: i64,
    pub tree_nodes: i64,
    pub tree_tokens: i64,
    pub evictions: i64,
    pub evicted_tokens: i64,
    pub gemm_us: i64,
    pub attention_us: i64,
    pub other_us: i64,
    pub plan_us: i64,
    pub run_us: i64,
    pub load_us: i64,
    pub metadata_bytes: i64,
    pub fetched_tokens: i64,
    pub fetch_skipped_tokens: i64,
    pub fetch_timeouts: i64,
    pub miss_first_seen: i64,
    pub miss_namespace: i64,
    pub miss_budget: i64,
    pub miss_evicted: i64,
    pub miss_granularity: i64,
    pub miss_state: i64,
    pub states: i64,
    pub state_bytes: i64,
    pub state_evictions: i64,
    pub live_state_bytes_peak: i64,
    pub gemm_flops: i64,
    pub draft_tokens: i64,
    pub draft_tokens_accepted: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_engine_stats"][::core::mem::size_of::<prefix_engine_stats>() - 376usize];
    ["Alignment of prefix_engine_stats"][::core::mem::align_of::<prefix_engine_stats>() - 8usize];
    ["Offset of field: prefix_engine_stats::struct_size"]
        [::core::mem::offset_of!(prefix_engine_stats, struct_size) - 0usize];
    ["Offset of field: prefix_engine_stats::reserved"]
        [::core::mem::offset_of!(prefix_engine_stats, reserved) - 4usize];
    ["Offset of field: prefix_engine_stats::requests_waiting"]
        [::core::mem::offset_of!(prefix_engine_stats, requests_waiting) - 8usize];
    ["Offset of field: prefix_engine_stats::requests_running"]
        [::core::mem::offset_of!(prefix_engine_stats, requests_running) - 16usize];
    ["Offset of field: prefix_engine_stats::requests_finished"]
        [::core::mem::offset_of!(prefix_engine_stats, requests_finished) - 24usize];
    ["Offset of field: prefix_engine_stats::requests_failed"]
        [::core::mem::offset_of!(prefix_engine_stats, requests_failed) - 32usize];
    ["Offset of field: prefix_engine_stats::tokens_given"]
        [::core::mem::offset_of!(prefix_engine_stats, tokens_given) - 40usize];
    ["Offset of field: prefix_engine_stats::tokens_cached"]
        [::core::mem::offset_of!(prefix_engine_stats, tokens_cached) - 48usize];
    ["Offset of field: prefix_engine_stats::tokens_shared"]
        [::core::mem::offset_of!(prefix_engine_stats, tokens_shared) - 56usize];
    ["Offset of field: prefix_engine_stats::tokens_computed"]
        [::core::mem::offset_of!(prefix_engine_stats, tokens_computed) - 64usize];
    ["Offset of field: prefix_engine_stats::tokens_generated"]
        [::core::mem::offset_of!(prefix_engine_stats, tokens_generated) - 72usize];
    ["Offset of field: prefix_engine_stats::steps"]
        [::core::mem::offset_of!(prefix_engine_stats, steps) - 80usize];
    ["Offset of field: prefix_engine_stats::rows"]
        [::core::mem::offset_of!(prefix_engine_stats, rows) - 88usize];
    ["Offset of field: prefix_engine_stats::pages_total"]
        [::core::mem::offset_of!(prefix_engine_stats, pages_total) - 96usize];
    ["Offset of field: prefix_engine_stats::pages_used"]
        [::core::mem::offset_of!(prefix_engine_stats, pages_used) - 104usize];
    ["Offset of field: prefix_engine_stats::page_tokens"]
        [::core::mem::offset_of!(prefix_engine_stats, page_tokens) - 112usize];
    ["Offset of field: prefix_engine_stats::kv_bytes"]
        [::core::mem::offset_of!(prefix_engine_stats, kv_bytes) - 120usize];
    ["Offset of field: prefix_engine_stats::kv_bytes_peak"]
        [::core::mem::offset_of!(prefix_engine_stats, kv_bytes_peak) - 128usize];
    ["Offset of field: prefix_engine_stats::kv_budget_bytes"]
        [::core::mem::offset_of!(prefix_engine_stats, kv_budget_bytes) - 136usize];
    ["Offset of field: prefix_engine_stats::weight_bytes"]
        [::core::mem::offset_of!(prefix_engine_stats, weight_bytes) - 144usize];
    ["Offset of field: prefix_engine_stats::activation_bytes_peak"]
        [::core::mem::offset_of!(prefix_engine_stats, activation_bytes_peak) - 152usize];
    ["Offset of field: prefix_engine_stats::tree_nodes"]
        [::core::mem::offset_of!(prefix_engine_stats, tree_nodes) - 160usize];
    ["Offset of field: prefix_engine_stats::tree_tokens"]
        [::core::mem::offset_of!(prefix_engine_stats, tree_tokens) - 168usize];
    ["Offset of field: prefix_engine_stats::evictions"]
        [::core::mem::offset_of!(prefix_engine_stats, evictions) - 176usize];
    ["Offset of field: prefix_engine_stats::evicted_tokens"]
        [::core::mem::offset_of!(prefix_engine_stats, evicted_tokens) - 184usize];
    ["Offset of field: prefix_engine_stats::gemm_us"]
        [::core::mem::offset_of!(prefix_engine_stats, gemm_us) - 192usize];
    ["Offset of field: prefix_engine_stats::attention_us"]
        [::core::mem::offset_of!(prefix_engine_stats, attention_us) - 200usize];
    ["Offset of field: prefix_engine_stats::other_us"]
        [::core::mem::offset_of!(prefix_engine_stats, other_us) - 208usize];
    ["Offset of field: prefix_engine_stats::plan_us"]
        [::core::mem::offset_of!(prefix_engine_stats, plan_us) - 216usize];
    ["Offset of field: prefix_engine_stats::run_us"]
        [::core::mem::offset_of!(prefix_engine_stats, run_us) - 224usize];
    ["Offset of field: prefix_engine_stats::load_us"]
        [::core::mem::offset_of!(prefix_engine_stats, load_us) - 232usize];
    ["Offset of field: prefix_engine_stats::metadata_bytes"]
        [::core::mem::offset_of!(prefix_engine_stats, metadata_bytes) - 240usize];
    ["Offset of field: prefix_engine_stats::fetched_tokens"]
        [::core::mem::offset_of!(prefix_engine_stats, fetched_tokens) - 248usize];
    ["Offset of field: prefix_engine_stats::fetch_skipped_tokens"]
        [::core::mem::offset_of!(prefix_engine_stats, fetch_skipped_tokens) - 256usize];
    ["Offset of field: prefix_engine_stats::fetch_timeouts"]
        [::core::mem::offset_of!(prefix_engine_stats, fetch_timeouts) - 264usize];
    ["Offset of field: prefix_engine_stats::miss_first_seen"]
        [::core::mem::offset_of!(prefix_engine_stats, miss_first_seen) - 272usize];
    ["Offset of field: prefix_engine_stats::miss_namespace"]
        [::core::mem::offset_of!(prefix_engine_stats, miss_namespace) - 280usize];
    ["Offset of field: prefix_engine_stats::miss_budget"]
        [::core::mem::offset_of!(prefix_engine_stats, miss_budget) - 288usize];
    ["Offset of field: prefix_engine_stats::miss_evicted"]
        [::core::mem::offset_of!(prefix_engine_stats, miss_evicted) - 296usize];
    ["Offset of field: prefix_engine_stats::miss_granularity"]
        [::core::mem::offset_of!(prefix_engine_stats, miss_granularity) - 304usize];
    ["Offset of field: prefix_engine_stats::miss_state"]
        [::core::mem::offset_of!(prefix_engine_stats, miss_state) - 312usize];
    ["Offset of field: prefix_engine_stats::states"]
        [::core::mem::offset_of!(prefix_engine_stats, states) - 320usize];
    ["Offset of field: prefix_engine_stats::state_bytes"]
        [::core::mem::offset_of!(prefix_engine_stats, state_bytes) - 328usize];
    ["Offset of field: prefix_engine_stats::state_evictions"]
        [::core::mem::offset_of!(prefix_engine_stats, state_evictions) - 336usize];
    ["Offset of field: prefix_engine_stats::live_state_bytes_peak"]
        [::core::mem::offset_of!(prefix_engine_stats, live_state_bytes_peak) - 344usize];
    ["Offset of field: prefix_engine_stats::gemm_flops"]
        [::core::mem::offset_of!(prefix_engine_stats, gemm_flops) - 352usize];
    ["Offset of field: prefix_engine_stats::draft_tokens"]
        [::core::mem::offset_of!(prefix_engine_stats, draft_tokens) - 360usize];
    ["Offset of field: prefix_engine_stats::draft_tokens_accepted"]
        [::core::mem::offset_of!(prefix_engine_stats, draft_tokens_accepted) - 368usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_engine_info {
    pub struct_size: i32,
    pub layers: i32,
    pub hidden: i32,
    pub heads: i32,
    pub kv_heads: i32,
    pub head_dim: i32,
    pub vocabulary: i32,
    pub max_positions: i32,
    pub threads: i32,
    pub page_tokens: i32,
    pub weight_bytes: i64,
    pub kv_bytes_per_token: i64,
    pub recurrent_layers: i64,
    pub state_bytes: i64,
    pub labels: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_engine_info"][::core::mem::size_of::<prefix_engine_info>() - 80usize];
    ["Alignment of prefix_engine_info"][::core::mem::align_of::<prefix_engine_info>() - 8usize];
    ["Offset of field: prefix_engine_info::struct_size"]
        [::core::mem::offset_of!(prefix_engine_info, struct_size) - 0usize];
    ["Offset of field: prefix_engine_info::layers"]
        [::core::mem::offset_of!(prefix_engine_info, layers) - 4usize];
    ["Offset of field: prefix_engine_info::hidden"]
        [::core::mem::offset_of!(prefix_engine_info, hidden) - 8usize];
    ["Offset of field: prefix_engine_info::heads"]
        [::core::mem::offset_of!(prefix_engine_info, heads) - 12usize];
    ["Offset of field: prefix_engine_info::kv_heads"]
        [::core::mem::offset_of!(prefix_engine_info, kv_heads) - 16usize];
    ["Offset of field: prefix_engine_info::head_dim"]
        [::core::mem::offset_of!(prefix_engine_info, head_dim) - 20usize];
    ["Offset of field: prefix_engine_info::vocabulary"]
        [::core::mem::offset_of!(prefix_engine_info, vocabulary) - 24usize];
    ["Offset of field: prefix_engine_info::max_positions"]
        [::core::mem::offset_of!(prefix_engine_info, max_positions) - 28usize];
    ["Offset of field: prefix_engine_info::threads"]
        [::core::mem::offset_of!(prefix_engine_info, threads) - 32usize];
    ["Offset of field: prefix_engine_info::page_tokens"]
        [::core::mem::offset_of!(prefix_engine_info, page_tokens) - 36usize];
    ["Offset of field: prefix_engine_info::weight_bytes"]
        [::core::mem::offset_of!(prefix_engine_info, weight_bytes) - 40usize];
    ["Offset of field: prefix_engine_info::kv_bytes_per_token"]
        [::core::mem::offset_of!(prefix_engine_info, kv_bytes_per_token) - 48usize];
    ["Offset of field: prefix_engine_info::recurrent_layers"]
        [::core::mem::offset_of!(prefix_engine_info, recurrent_layers) - 56usize];
    ["Offset of field: prefix_engine_info::state_bytes"]
        [::core::mem::offset_of!(prefix_engine_info, state_bytes) - 64usize];
    ["Offset of field: prefix_engine_info::labels"]
        [::core::mem::offset_of!(prefix_engine_info, labels) - 72usize];
};
#[repr(C)]
#[derive(Debug)]
pub struct prefix_constraint {
    _unused: [u8; 0],
}
pub type prefix_constraint_begin = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        state: *mut *mut ::core::ffi::c_void,
    ) -> i32,
>;
pub type prefix_constraint_allow = ::core::option::Option<
    unsafe extern "C" fn(state: *mut ::core::ffi::c_void, mask: *mut u32, words: usize) -> i32,
>;
pub type prefix_constraint_accept = ::core::option::Option<
    unsafe extern "C" fn(state: *mut ::core::ffi::c_void, token: prefix_token) -> i32,
>;
pub type prefix_constraint_end =
    ::core::option::Option<unsafe extern "C" fn(state: *mut ::core::ffi::c_void)>;
pub type prefix_constraint_free =
    ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void)>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_constraint_calls {
    pub struct_size: i32,
    pub reserved: i32,
    pub begin: prefix_constraint_begin,
    pub allow: prefix_constraint_allow,
    pub accept: prefix_constraint_accept,
    pub end: prefix_constraint_end,
    pub release: prefix_constraint_free,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_constraint_calls"]
        [::core::mem::size_of::<prefix_constraint_calls>() - 48usize];
    ["Alignment of prefix_constraint_calls"]
        [::core::mem::align_of::<prefix_constraint_calls>() - 8usize];
    ["Offset of field: prefix_constraint_calls::struct_size"]
        [::core::mem::offset_of!(prefix_constraint_calls, struct_size) - 0usize];
    ["Offset of field: prefix_constraint_calls::reserved"]
        [::core::mem::offset_of!(prefix_constraint_calls, reserved) - 4usize];
    ["Offset of field: prefix_constraint_calls::begin"]
        [::core::mem::offset_of!(prefix_constraint_calls, begin) - 8usize];
    ["Offset of field: prefix_constraint_calls::allow"]
        [::core::mem::offset_of!(prefix_constraint_calls, allow) - 16usize];
    ["Offset of field: prefix_constraint_calls::accept"]
        [::core::mem::offset_of!(prefix_constraint_calls, accept) - 24usize];
    ["Offset of field: prefix_constraint_calls::end"]
        [::core::mem::offset_of!(prefix_constraint_calls, end) - 32usize];
    ["Offset of field: prefix_constraint_calls::release"]
        [::core::mem::offset_of!(prefix_constraint_calls, release) - 40usize];
};
#[repr(C)]
#[derive(Debug)]
pub struct prefix_batch {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct prefix_job {
    _unused: [u8; 0],
}
pub const PREFIX_EVENT_STARTED: i32 = 0;
pub const PREFIX_EVENT_TOKEN: i32 = 1;
pub const PREFIX_EVENT_LOST: i32 = 2;
pub const PREFIX_EVENT_FINISHED: i32 = 3;
pub const PREFIX_EVENT_ERROR: i32 = 4;
pub const PREFIX_EVENT_TEXT: i32 = 5;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_event {
    pub struct_size: i32,
    pub kind: i32,
    pub request: i64,
    pub user_tag: i64,
    pub token: prefix_token,
    pub logprob: f32,
    pub status: i32,
    pub reserved: i32,
    pub cached: i64,
    pub computed: i64,
    pub count: i64,
    pub time_us: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_event"][::core::mem::size_of::<prefix_event>() - 72usize];
    ["Alignment of prefix_event"][::core::mem::align_of::<prefix_event>() - 8usize];
    ["Offset of field: prefix_event::struct_size"]
        [::core::mem::offset_of!(prefix_event, struct_size) - 0usize];
    ["Offset of field: prefix_event::kind"][::core::mem::offset_of!(prefix_event, kind) - 4usize];
    ["Offset of field: prefix_event::request"]
        [::core::mem::offset_of!(prefix_event, request) - 8usize];
    ["Offset of field: prefix_event::user_tag"]
        [::core::mem::offset_of!(prefix_event, user_tag) - 16usize];
    ["Offset of field: prefix_event::token"]
        [::core::mem::offset_of!(prefix_event, token) - 24usize];
    ["Offset of field: prefix_event::logprob"]
        [::core::mem::offset_of!(prefix_event, logprob) - 28usize];
    ["Offset of field: prefix_event::status"]
        [::core::mem::offset_of!(prefix_event, status) - 32usize];
    ["Offset of field: prefix_event::reserved"]
        [::core::mem::offset_of!(prefix_event, reserved) - 36usize];
    ["Offset of field: prefix_event::cached"]
        [::core::mem::offset_of!(prefix_event, cached) - 40usize];
    ["Offset of field: prefix_event::computed"]
        [::core::mem::offset_of!(prefix_event, computed) - 48usize];
    ["Offset of field: prefix_event::count"]
        [::core::mem::offset_of!(prefix_event, count) - 56usize];
    ["Offset of field: prefix_event::time_us"]
        [::core::mem::offset_of!(prefix_event, time_us) - 64usize];
};
pub const PREFIX_FINISH_NONE: i32 = 0;
pub const PREFIX_FINISH_STOP: i32 = 1;
pub const PREFIX_FINISH_LENGTH: i32 = 2;
pub const PREFIX_FINISH_CANCELLED: i32 = 3;
pub const PREFIX_FINISH_ERROR: i32 = 4;
pub const PREFIX_RESULT_CUT: i32 = 1;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_result_info {
    pub struct_size: i32,
    pub status: i32,
    pub finish: i32,
    pub flags: i32,
    pub user_tag: i64,
    pub prompt_tokens: i64,
    pub cached_tokens: i64,
    pub shared_tokens: i64,
    pub computed_tokens: i64,
    pub generated_tokens: i64,
    pub queue_us: i64,
    pub first_us: i64,
    pub total_us: i64,
    pub seed: i64,
    pub miss_first_seen: i64,
    pub miss_namespace: i64,
    pub miss_budget: i64,
    pub miss_evicted: i64,
    pub miss_granularity: i64,
    pub miss_state: i64,
    pub draft_tokens: i64,
    pub draft_tokens_accepted: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_result_info"][::core::mem::size_of::<prefix_result_info>() - 160usize];
    ["Alignment of prefix_result_info"][::core::mem::align_of::<prefix_result_info>() - 8usize];
    ["Offset of field: prefix_result_info::struct_size"]
        [::core::mem::offset_of!(prefix_result_info, struct_size) - 0usize];
    ["Offset of field: prefix_result_info::status"]
        [::core::mem::offset_of!(prefix_result_info, status) - 4usize];
    ["Offset of field: prefix_result_info::finish"]
        [::core::mem::offset_of!(prefix_result_info, finish) - 8usize];
    ["Offset of field: prefix_result_info::flags"]
        [::core::mem::offset_of!(prefix_result_info, flags) - 12usize];
    ["Offset of field: prefix_result_info::user_tag"]
        [::core::mem::offset_of!(prefix_result_info, user_tag) - 16usize];
    ["Offset of field: prefix_result_info::prompt_tokens"]
        [::core::mem::offset_of!(prefix_result_info, prompt_tokens) - 24usize];
    ["Offset of field: prefix_result_info::cached_tokens"]
        [::core::mem::offset_of!(prefix_result_info, cached_tokens) - 32usize];
    ["Offset of field: prefix_result_info::shared_tokens"]
        [::core::mem::offset_of!(prefix_result_info, shared_tokens) - 40usize];
    ["Offset of field: prefix_result_info::computed_tokens"]
        [::core::mem::offset_of!(prefix_result_info, computed_tokens) - 48usize];
    ["Offset of field: prefix_result_info::generated_tokens"]
        [::core::mem::offset_of!(prefix_result_info, generated_tokens) - 56usize];
    ["Offset of field: prefix_result_info::queue_us"]
        [::core::mem::offset_of!(prefix_result_info, queue_us) - 64usize];
    ["Offset of field: prefix_result_info::first_us"]
        [::core::mem::offset_of!(prefix_result_info, first_us) - 72usize];
    ["Offset of field: prefix_result_info::total_us"]
        [::core::mem::offset_of!(prefix_result_info, total_us) - 80usize];
    ["Offset of field: prefix_result_info::seed"]
        [::core::mem::offset_of!(prefix_result_info, seed) - 88usize];
    ["Offset of field: prefix_result_info::miss_first_seen"]
        [::core::mem::offset_of!(prefix_result_info, miss_first_seen) - 96usize];
    ["Offset of field: prefix_result_info::miss_namespace"]
        [::core::mem::offset_of!(prefix_result_info, miss_namespace) - 104usize];
    ["Offset of field: prefix_result_info::miss_budget"]
        [::core::mem::offset_of!(prefix_result_info, miss_budget) - 112usize];
    ["Offset of field: prefix_result_info::miss_evicted"]
        [::core::mem::offset_of!(prefix_result_info, miss_evicted) - 120usize];
    ["Offset of field: prefix_result_info::miss_granularity"]
        [::core::mem::offset_of!(prefix_result_info, miss_granularity) - 128usize];
    ["Offset of field: prefix_result_info::miss_state"]
        [::core::mem::offset_of!(prefix_result_info, miss_state) - 136usize];
    ["Offset of field: prefix_result_info::draft_tokens"]
        [::core::mem::offset_of!(prefix_result_info, draft_tokens) - 144usize];
    ["Offset of field: prefix_result_info::draft_tokens_accepted"]
        [::core::mem::offset_of!(prefix_result_info, draft_tokens_accepted) - 152usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_job_totals {
    pub struct_size: i32,
    pub reserved: i32,
    pub requests: i64,
    pub failed: i64,
    pub tokens_given: i64,
    pub tokens_computed: i64,
    pub tokens_cached: i64,
    pub tokens_shared: i64,
    pub tokens_generated: i64,
    pub steps: i64,
    pub rows: i64,
    pub total_us: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_job_totals"][::core::mem::size_of::<prefix_job_totals>() - 88usize];
    ["Alignment of prefix_job_totals"][::core::mem::align_of::<prefix_job_totals>() - 8usize];
    ["Offset of field: prefix_job_totals::struct_size"]
        [::core::mem::offset_of!(prefix_job_totals, struct_size) - 0usize];
    ["Offset of field: prefix_job_totals::reserved"]
        [::core::mem::offset_of!(prefix_job_totals, reserved) - 4usize];
    ["Offset of field: prefix_job_totals::requests"]
        [::core::mem::offset_of!(prefix_job_totals, requests) - 8usize];
    ["Offset of field: prefix_job_totals::failed"]
        [::core::mem::offset_of!(prefix_job_totals, failed) - 16usize];
    ["Offset of field: prefix_job_totals::tokens_given"]
        [::core::mem::offset_of!(prefix_job_totals, tokens_given) - 24usize];
    ["Offset of field: prefix_job_totals::tokens_computed"]
        [::core::mem::offset_of!(prefix_job_totals, tokens_computed) - 32usize];
    ["Offset of field: prefix_job_totals::tokens_cached"]
        [::core::mem::offset_of!(prefix_job_totals, tokens_cached) - 40usize];
    ["Offset of field: prefix_job_totals::tokens_shared"]
        [::core::mem::offset_of!(prefix_job_totals, tokens_shared) - 48usize];
    ["Offset of field: prefix_job_totals::tokens_generated"]
        [::core::mem::offset_of!(prefix_job_totals, tokens_generated) - 56usize];
    ["Offset of field: prefix_job_totals::steps"]
        [::core::mem::offset_of!(prefix_job_totals, steps) - 64usize];
    ["Offset of field: prefix_job_totals::rows"]
        [::core::mem::offset_of!(prefix_job_totals, rows) - 72usize];
    ["Offset of field: prefix_job_totals::total_us"]
        [::core::mem::offset_of!(prefix_job_totals, total_us) - 80usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_cache_info {
    pub struct_size: i32,
    pub reserved: i32,
    pub cached_tokens: i64,
    pub pending_tokens: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_cache_info"][::core::mem::size_of::<prefix_cache_info>() - 24usize];
    ["Alignment of prefix_cache_info"][::core::mem::align_of::<prefix_cache_info>() - 8usize];
    ["Offset of field: prefix_cache_info::struct_size"]
        [::core::mem::offset_of!(prefix_cache_info, struct_size) - 0usize];
    ["Offset of field: prefix_cache_info::reserved"]
        [::core::mem::offset_of!(prefix_cache_info, reserved) - 4usize];
    ["Offset of field: prefix_cache_info::cached_tokens"]
        [::core::mem::offset_of!(prefix_cache_info, cached_tokens) - 8usize];
    ["Offset of field: prefix_cache_info::pending_tokens"]
        [::core::mem::offset_of!(prefix_cache_info, pending_tokens) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_cache_usage {
    pub struct_size: i32,
    pub reserved: i32,
    pub tokens: i64,
    pub bytes: i64,
    pub floor_bytes: i64,
    pub quota_bytes: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_cache_usage"][::core::mem::size_of::<prefix_cache_usage>() - 40usize];
    ["Alignment of prefix_cache_usage"][::core::mem::align_of::<prefix_cache_usage>() - 8usize];
    ["Offset of field: prefix_cache_usage::struct_size"]
        [::core::mem::offset_of!(prefix_cache_usage, struct_size) - 0usize];
    ["Offset of field: prefix_cache_usage::reserved"]
        [::core::mem::offset_of!(prefix_cache_usage, reserved) - 4usize];
    ["Offset of field: prefix_cache_usage::tokens"]
        [::core::mem::offset_of!(prefix_cache_usage, tokens) - 8usize];
    ["Offset of field: prefix_cache_usage::bytes"]
        [::core::mem::offset_of!(prefix_cache_usage, bytes) - 16usize];
    ["Offset of field: prefix_cache_usage::floor_bytes"]
        [::core::mem::offset_of!(prefix_cache_usage, floor_bytes) - 24usize];
    ["Offset of field: prefix_cache_usage::quota_bytes"]
        [::core::mem::offset_of!(prefix_cache_usage, quota_bytes) - 32usize];
};
pub const PREFIX_CACHE_STORED: i32 = 0;
pub const PREFIX_CACHE_REMOVED: i32 = 1;
pub const PREFIX_CACHE_CLEARED: i32 = 2;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_cache_event {
    pub struct_size: i32,
    pub kind: i32,
    pub sequence: i64,
    pub block: i64,
    pub parent: i64,
    pub ns: i32,
    pub position: i32,
    pub time_us: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_cache_event"][::core::mem::size_of::<prefix_cache_event>() - 48usize];
    ["Alignment of prefix_cache_event"][::core::mem::align_of::<prefix_cache_event>() - 8usize];
    ["Offset of field: prefix_cache_event::struct_size"]
        [::core::mem::offset_of!(prefix_cache_event, struct_size) - 0usize];
    ["Offset of field: prefix_cache_event::kind"]
        [::core::mem::offset_of!(prefix_cache_event, kind) - 4usize];
    ["Offset of field: prefix_cache_event::sequence"]
        [::core::mem::offset_of!(prefix_cache_event, sequence) - 8usize];
    ["Offset of field: prefix_cache_event::block"]
        [::core::mem::offset_of!(prefix_cache_event, block) - 16usize];
    ["Offset of field: prefix_cache_event::parent"]
        [::core::mem::offset_of!(prefix_cache_event, parent) - 24usize];
    ["Offset of field: prefix_cache_event::ns"]
        [::core::mem::offset_of!(prefix_cache_event, ns) - 32usize];
    ["Offset of field: prefix_cache_event::position"]
        [::core::mem::offset_of!(prefix_cache_event, position) - 36usize];
    ["Offset of field: prefix_cache_event::time_us"]
        [::core::mem::offset_of!(prefix_cache_event, time_us) - 40usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_snapshot_info {
    pub struct_size: i32,
    pub reserved: i32,
    pub namespaces: i64,
    pub nodes: i64,
    pub tokens: i64,
    pub states: i64,
    pub bytes: i64,
    pub skipped_tokens: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_snapshot_info"][::core::mem::size_of::<prefix_snapshot_info>() - 56usize];
    ["Alignment of prefix_snapshot_info"][::core::mem::align_of::<prefix_snapshot_info>() - 8usize];
    ["Offset of field: prefix_snapshot_info::struct_size"]
        [::core::mem::offset_of!(prefix_snapshot_info, struct_size) - 0usize];
    ["Offset of field: prefix_snapshot_info::reserved"]
        [::core::mem::offset_of!(prefix_snapshot_info, reserved) - 4usize];
    ["Offset of field: prefix_snapshot_info::namespaces"]
        [::core::mem::offset_of!(prefix_snapshot_info, namespaces) - 8usize];
    ["Offset of field: prefix_snapshot_info::nodes"]
        [::core::mem::offset_of!(prefix_snapshot_info, nodes) - 16usize];
    ["Offset of field: prefix_snapshot_info::tokens"]
        [::core::mem::offset_of!(prefix_snapshot_info, tokens) - 24usize];
    ["Offset of field: prefix_snapshot_info::states"]
        [::core::mem::offset_of!(prefix_snapshot_info, states) - 32usize];
    ["Offset of field: prefix_snapshot_info::bytes"]
        [::core::mem::offset_of!(prefix_snapshot_info, bytes) - 40usize];
    ["Offset of field: prefix_snapshot_info::skipped_tokens"]
        [::core::mem::offset_of!(prefix_snapshot_info, skipped_tokens) - 48usize];
};
#[repr(C)]
#[derive(Debug)]
pub struct prefix_sim {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_order_info {
    pub struct_size: i32,
    pub reserved: i32,
    pub tokens: i64,
    pub hit_before: i64,
    pub hit: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_order_info"][::core::mem::size_of::<prefix_order_info>() - 32usize];
    ["Alignment of prefix_order_info"][::core::mem::align_of::<prefix_order_info>() - 8usize];
    ["Offset of field: prefix_order_info::struct_size"]
        [::core::mem::offset_of!(prefix_order_info, struct_size) - 0usize];
    ["Offset of field: prefix_order_info::reserved"]
        [::core::mem::offset_of!(prefix_order_info, reserved) - 4usize];
    ["Offset of field: prefix_order_info::tokens"]
        [::core::mem::offset_of!(prefix_order_info, tokens) - 8usize];
    ["Offset of field: prefix_order_info::hit_before"]
        [::core::mem::offset_of!(prefix_order_info, hit_before) - 16usize];
    ["Offset of field: prefix_order_info::hit"]
        [::core::mem::offset_of!(prefix_order_info, hit) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_partition_info {
    pub struct_size: i32,
    pub reserved: i32,
    pub tokens: i64,
    pub distinct: i64,
    pub computed: i64,
    pub largest: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_partition_info"][::core::mem::size_of::<prefix_partition_info>() - 40usize];
    ["Alignment of prefix_partition_info"]
        [::core::mem::align_of::<prefix_partition_info>() - 8usize];
    ["Offset of field: prefix_partition_info::struct_size"]
        [::core::mem::offset_of!(prefix_partition_info, struct_size) - 0usize];
    ["Offset of field: prefix_partition_info::reserved"]
        [::core::mem::offset_of!(prefix_partition_info, reserved) - 4usize];
    ["Offset of field: prefix_partition_info::tokens"]
        [::core::mem::offset_of!(prefix_partition_info, tokens) - 8usize];
    ["Offset of field: prefix_partition_info::distinct"]
        [::core::mem::offset_of!(prefix_partition_info, distinct) - 16usize];
    ["Offset of field: prefix_partition_info::computed"]
        [::core::mem::offset_of!(prefix_partition_info, computed) - 24usize];
    ["Offset of field: prefix_partition_info::largest"]
        [::core::mem::offset_of!(prefix_partition_info, largest) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct prefix_estimate_info {
    pub struct_size: i32,
    pub reserved: i32,
    pub tokens: i64,
    pub computed: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of prefix_estimate_info"][::core::mem::size_of::<prefix_estimate_info>() - 24usize];
    ["Alignment of prefix_estimate_info"][::core::mem::align_of::<prefix_estimate_info>() - 8usize];
    ["Offset of field: prefix_estimate_info::struct_size"]
        [::core::mem::offset_of!(prefix_estimate_info, struct_size) - 0usize];
    ["Offset of field: prefix_estimate_info::reserved"]
        [::core::mem::offset_of!(prefix_estimate_info, reserved) - 4usize];
    ["Offset of field: prefix_estimate_info::tokens"]
        [::core::mem::offset_of!(prefix_estimate_info, tokens) - 8usize];
    ["Offset of field: prefix_estimate_info::computed"]
        [::core::mem::offset_of!(prefix_estimate_info, computed) - 16usize];
};
functions! {
    pub fn prefix_version() -> i32;
    pub fn prefix_version_string() -> *const ::core::ffi::c_char;
    pub fn prefix_abi_version() -> i32;
    pub fn prefix_build_info() -> *const ::core::ffi::c_char;
    pub fn prefix_feature_count() -> usize;
    pub fn prefix_feature_name(index: usize) -> *const ::core::ffi::c_char;
    pub fn prefix_has_feature(name: *const ::core::ffi::c_char, name_len: usize) -> i32;
    pub fn prefix_status_name(status: prefix_status) -> *const ::core::ffi::c_char;
    pub fn prefix_status_is_retryable(status: prefix_status) -> i32;
    pub fn prefix_options_create(
        out: *mut *mut prefix_options,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_retain(
        options: *mut prefix_options,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_release(options: *mut prefix_options);
    pub fn prefix_options_set(
        options: *mut prefix_options,
        key: *const ::core::ffi::c_char,
        key_len: usize,
        value: *const ::core::ffi::c_char,
        value_len: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_set_int(
        options: *mut prefix_options,
        key: *const ::core::ffi::c_char,
        key_len: usize,
        number: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_set_double(
        options: *mut prefix_options,
        key: *const ::core::ffi::c_char,
        key_len: usize,
        number: f64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_set_bool(
        options: *mut prefix_options,
        key: *const ::core::ffi::c_char,
        key_len: usize,
        value: i32,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_set_ints(
        options: *mut prefix_options,
        key: *const ::core::ffi::c_char,
        key_len: usize,
        values: *const prefix_token,
        n_values: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_set_texts(
        options: *mut prefix_options,
        key: *const ::core::ffi::c_char,
        key_len: usize,
        texts: *const *const ::core::ffi::c_char,
        lengths: *const usize,
        n_texts: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_set_json(
        options: *mut prefix_options,
        json: *const ::core::ffi::c_char,
        json_len: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_get(
        options: *const prefix_options,
        key: *const ::core::ffi::c_char,
        key_len: usize,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_options_json(
        options: *const prefix_options,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_option_count() -> usize;
    pub fn prefix_option_info(
        index: usize,
        out: *mut prefix_option_details,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_pool_create(
        options: *const prefix_options,
        out: *mut *mut prefix_pool,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_pool_retain(pool: *mut prefix_pool, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_pool_release(pool: *mut prefix_pool);
    pub fn prefix_options_set_pool(
        options: *mut prefix_options,
        pool: *mut prefix_pool,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_set_log_callback(callback: prefix_log_callback, user: *mut ::core::ffi::c_void);
    pub fn prefix_set_log_level(level: i32);
    pub fn prefix_log_next(
        level: *mut i32,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
    ) -> prefix_status;
    pub fn prefix_log_write(
        level: i32,
        text: *const ::core::ffi::c_char,
        text_len: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_device_count() -> usize;
    pub fn prefix_device_info(
        index: usize,
        out: *mut prefix_device_details,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_queue_create(
        out: *mut *mut prefix_queue,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_queue_retain(queue: *mut prefix_queue, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_queue_release(queue: *mut prefix_queue);
    pub fn prefix_queue_next(
        queue: *mut prefix_queue,
        timeout_ms: i64,
        tag: *mut i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_queue_post(
        queue: *mut prefix_queue,
        tag: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_queue_descriptor(
        queue: *mut prefix_queue,
        descriptor: *mut i32,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_source_create(
        out: *mut *mut prefix_source,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_source_retain(
        source: *mut prefix_source,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_source_release(source: *mut prefix_source);
    pub fn prefix_source_add_buffer(
        source: *mut prefix_source,
        name: *const ::core::ffi::c_char,
        name_len: usize,
        data: *const ::core::ffi::c_void,
        size: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_source_add_reader(
        source: *mut prefix_source,
        name: *const ::core::ffi::c_char,
        name_len: usize,
        size: i64,
        read: prefix_read_at,
        user: *mut ::core::ffi::c_void,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_model_info_json(
        path: *const ::core::ffi::c_char,
        path_len: usize,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_estimate(
        path: *const ::core::ffi::c_char,
        path_len: usize,
        options: *const prefix_options,
        out: *mut prefix_memory,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_create(
        path: *const ::core::ffi::c_char,
        path_len: usize,
        options: *const prefix_options,
        out: *mut *mut prefix_engine,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_open(
        path: *const ::core::ffi::c_char,
        path_len: usize,
        options: *const prefix_options,
        out: *mut *mut prefix_engine,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_open_source(
        source: *mut prefix_source,
        options: *const prefix_options,
        out: *mut *mut prefix_engine,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_wait(
        engine: *mut prefix_engine,
        timeout_ms: i64,
        fraction: *mut f64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_notify(
        engine: *mut prefix_engine,
        queue: *mut prefix_queue,
        tag: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_retain(
        engine: *mut prefix_engine,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_release(engine: *mut prefix_engine);
    pub fn prefix_engine_shutdown(
        engine: *mut prefix_engine,
        timeout_ms: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_state(engine: *const prefix_engine) -> i32;
    pub fn prefix_engine_info_json(
        engine: *const prefix_engine,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_get_info(
        engine: *const prefix_engine,
        out: *mut prefix_engine_info,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_end_tokens(
        engine: *const prefix_engine,
        out: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_engine_get_stats(
        engine: *const prefix_engine,
        out: *mut prefix_engine_stats,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_metrics_text(
        engine: *const prefix_engine,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_namespace_open(
        engine: *mut prefix_engine,
        name: *const ::core::ffi::c_char,
        name_len: usize,
        ns: *mut i32,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_namespace_open_tuple(
        engine: *mut prefix_engine,
        text: *const ::core::ffi::c_char,
        text_len: usize,
        offsets: *const i64,
        n_offsets: usize,
        ns: *mut i32,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_namespace_find(
        engine: *const prefix_engine,
        name: *const ::core::ffi::c_char,
        name_len: usize,
        ns: *mut i32,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_namespace_drop(
        engine: *mut prefix_engine,
        ns: i32,
        freed: *mut i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_namespace_close(
        engine: *mut prefix_engine,
        ns: i32,
        freed: *mut i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_namespace_count(
        engine: *const prefix_engine,
        count: *mut i32,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_adapter_load(
        engine: *mut prefix_engine,
        name: *const ::core::ffi::c_char,
        name_len: usize,
        path: *const ::core::ffi::c_char,
        path_len: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_adapter_load_source(
        engine: *mut prefix_engine,
        name: *const ::core::ffi::c_char,
        name_len: usize,
        source: *mut prefix_source,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_adapter_unload(
        engine: *mut prefix_engine,
        name: *const ::core::ffi::c_char,
        name_len: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_adapter_namespace(
        engine: *mut prefix_engine,
        ns: i32,
        name: *const ::core::ffi::c_char,
        name_len: usize,
        adapter_ns: *mut i32,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_adapters_json(
        engine: *const prefix_engine,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_constraint_create(
        calls: *const prefix_constraint_calls,
        user: *mut ::core::ffi::c_void,
        out: *mut *mut prefix_constraint,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_constraint_retain(
        constraint: *mut prefix_constraint,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_constraint_release(constraint: *mut prefix_constraint);
    pub fn prefix_batch_create(
        engine: *mut prefix_engine,
        out: *mut *mut prefix_batch,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_retain(batch: *mut prefix_batch, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_batch_release(batch: *mut prefix_batch);
    pub fn prefix_batch_clear(batch: *mut prefix_batch, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_batch_count(
        batch: *const prefix_batch,
        count: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_add_logits(
        batch: *mut prefix_batch,
        tokens: *const prefix_token,
        n_tokens: usize,
        ids: *const prefix_token,
        n_ids: usize,
        options: *const prefix_options,
        user_tag: i64,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_add_logprobs(
        batch: *mut prefix_batch,
        tokens: *const prefix_token,
        n_tokens: usize,
        from: i32,
        options: *const prefix_options,
        user_tag: i64,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_add_choices(
        batch: *mut prefix_batch,
        tokens: *const prefix_token,
        n_tokens: usize,
        choice_tokens: *const prefix_token,
        n_choice_tokens: usize,
        offsets: *const i64,
        n_offsets: usize,
        options: *const prefix_options,
        user_tag: i64,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_add_continuations(
        batch: *mut prefix_batch,
        tokens: *const prefix_token,
        n_tokens: usize,
        choice_tokens: *const prefix_token,
        n_choice_tokens: usize,
        offsets: *const i64,
        n_offsets: usize,
        options: *const prefix_options,
        user_tag: i64,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_add_embedding(
        batch: *mut prefix_batch,
        tokens: *const prefix_token,
        n_tokens: usize,
        options: *const prefix_options,
        user_tag: i64,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_add_generate(
        batch: *mut prefix_batch,
        tokens: *const prefix_token,
        n_tokens: usize,
        options: *const prefix_options,
        user_tag: i64,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_constrain(
        batch: *mut prefix_batch,
        index: usize,
        constraint: *mut prefix_constraint,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_add_warm(
        batch: *mut prefix_batch,
        tokens: *const prefix_token,
        n_tokens: usize,
        options: *const prefix_options,
        user_tag: i64,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_batch_plan_json(
        batch: *const prefix_batch,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_run(
        engine: *mut prefix_engine,
        batch: *const prefix_batch,
        out: *mut *mut prefix_job,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_submit(
        engine: *mut prefix_engine,
        batch: *const prefix_batch,
        out: *mut *mut prefix_job,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_retain(job: *mut prefix_job, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_job_release(job: *mut prefix_job);
    pub fn prefix_job_detach(job: *mut prefix_job, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_job_wait(
        job: *mut prefix_job,
        timeout_ms: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_notify(
        job: *mut prefix_job,
        queue: *mut prefix_queue,
        tag: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_cancel(job: *mut prefix_job, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_job_cancel_request(
        job: *mut prefix_job,
        index: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_count(
        job: *const prefix_job,
        count: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_finished_count(
        job: *const prefix_job,
        count: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_next_event(
        job: *mut prefix_job,
        timeout_ms: i64,
        event: *mut prefix_event,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_notify_events(
        job: *mut prefix_job,
        queue: *mut prefix_queue,
        tag: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_result_info(
        job: *const prefix_job,
        index: usize,
        out: *mut prefix_result_info,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_result_message(
        job: *const prefix_job,
        index: usize,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_result_values(
        job: *const prefix_job,
        index: usize,
        out: *mut f32,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_result_tokens(
        job: *const prefix_job,
        index: usize,
        out: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_result_logprobs(
        job: *const prefix_job,
        index: usize,
        out: *mut f32,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_partial_tokens(
        job: *const prefix_job,
        index: usize,
        out: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_result_top(
        job: *const prefix_job,
        index: usize,
        tokens: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        logprobs: *mut f32,
        capacity_logprobs: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_partial_top(
        job: *const prefix_job,
        index: usize,
        place: usize,
        tokens: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        logprobs: *mut f32,
        capacity_logprobs: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_all_values(
        job: *const prefix_job,
        out: *mut f32,
        capacity: usize,
        needed: *mut usize,
        offsets: *mut i64,
        capacity_offsets: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_first_failure(
        job: *const prefix_job,
        index: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_job_get_totals(
        job: *const prefix_job,
        out: *mut prefix_job_totals,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_lookup(
        engine: *const prefix_engine,
        ns: i32,
        tokens: *const prefix_token,
        n_tokens: usize,
        out: *mut prefix_cache_info,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_lookup_many(
        engine: *const prefix_engine,
        ns: i32,
        tokens: *const prefix_token,
        n_tokens: usize,
        offsets: *const i64,
        n_offsets: usize,
        cached: *mut i64,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_get_usage(
        engine: *const prefix_engine,
        ns: i32,
        out: *mut prefix_cache_usage,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_set_limits(
        engine: *mut prefix_engine,
        ns: i32,
        floor_bytes: i64,
        quota_bytes: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_pin(
        engine: *mut prefix_engine,
        ns: i32,
        tokens: *const prefix_token,
        n_tokens: usize,
        ttl_ms: i64,
        lease: *mut i64,
        pinned: *mut i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_unpin(
        engine: *mut prefix_engine,
        lease: i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_evict(
        engine: *mut prefix_engine,
        ns: i32,
        tokens: *const prefix_token,
        n_tokens: usize,
        freed: *mut i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_trim(
        engine: *mut prefix_engine,
        target_bytes: i64,
        freed: *mut i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_tree_json(
        engine: *const prefix_engine,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_next_event(
        engine: *const prefix_engine,
        from: i64,
        event: *mut prefix_cache_event,
        tokens: *mut prefix_token,
        capacity: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_cache_dump_events(
        engine: *const prefix_engine,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_snapshot_save(
        engine: *mut prefix_engine,
        path: *const ::core::ffi::c_char,
        path_len: usize,
        ns: *const i32,
        n_ns: usize,
        out: *mut prefix_snapshot_info,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_snapshot_load(
        engine: *mut prefix_engine,
        path: *const ::core::ffi::c_char,
        path_len: usize,
        out: *mut prefix_snapshot_info,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_sim_create(
        options: *const ::core::ffi::c_char,
        length: usize,
        out: *mut *mut prefix_sim,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_sim_apply(
        sim: *mut prefix_sim,
        operation: *const ::core::ffi::c_char,
        length: usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_sim_result(
        sim: *const prefix_sim,
        buf: *mut ::core::ffi::c_char,
        cap: usize,
        needed: *mut usize,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_sim_request(
        sim: *mut prefix_sim,
        name: *const ::core::ffi::c_char,
        name_length: usize,
        tokens: *const prefix_token,
        n_tokens: usize,
        n_prompt: usize,
        reused: *mut i64,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_sim_retain(sim: *mut prefix_sim, err: *mut prefix_error) -> prefix_status;
    pub fn prefix_sim_release(sim: *mut prefix_sim);
    pub fn prefix_order(
        values: *const i64,
        n_values: usize,
        lengths: *const i32,
        n_lengths: usize,
        n_columns: usize,
        rows: *mut i64,
        capacity_rows: usize,
        columns: *mut i32,
        capacity_columns: usize,
        out: *mut prefix_order_info,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_partition(
        tokens: *const prefix_token,
        n_tokens: usize,
        offsets: *const i64,
        n_offsets: usize,
        n_parts: i32,
        balance: f64,
        parts: *mut i32,
        capacity_parts: usize,
        order: *mut i64,
        capacity_order: usize,
        work: *mut i64,
        capacity_work: usize,
        out: *mut prefix_partition_info,
        err: *mut prefix_error,
    ) -> prefix_status;
    pub fn prefix_estimate_batch(
        tokens: *const prefix_token,
        n_tokens: usize,
        offsets: *const i64,
        n_offsets: usize,
        computed: *mut i64,
        capacity: usize,
        out: *mut prefix_estimate_info,
        err: *mut prefix_error,
    ) -> prefix_status;
}
