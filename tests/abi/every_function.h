// Every function of prefix.h as one call that takes handles and arguments from outside, so that a
// test can give each of them the same kind of nonsense.
#pragma once

#include <prefix.h>

#include <vector>

namespace prefix_abi {

struct Handles {
  prefix_options* options = nullptr;
  prefix_engine* engine = nullptr;
  prefix_batch* batch = nullptr;
  prefix_job* job = nullptr;
  prefix_queue* queue = nullptr;
  prefix_sim* sim = nullptr;
  prefix_source* source = nullptr;
  prefix_pool* pool = nullptr;
  prefix_constraint* constraint = nullptr;
};

// All that is not a handle. Made by itself: everything NULL, and numbers that make no sense.
struct Arguments {
  const char* text = nullptr;
  const char* const* texts = nullptr;
  const size_t* lengths = nullptr;
  size_t length = PREFIX_NUL;
  const prefix_token* tokens = nullptr;
  size_t n_tokens = 0;
  const int64_t* offsets = nullptr;
  size_t n_offsets = 0;
  int32_t number = -1;
  prefix_options** options = nullptr;
  prefix_engine** engine = nullptr;
  prefix_batch** batch = nullptr;
  prefix_job** job = nullptr;
  prefix_queue** queue = nullptr;
  prefix_sim** sim = nullptr;
  prefix_source** source = nullptr;
  prefix_read_at read = nullptr;
  prefix_pool** pool = nullptr;
  const prefix_constraint_calls* constraint_calls = nullptr;
  prefix_constraint** constraint = nullptr;
  size_t* size = nullptr;
  int32_t* number_out = nullptr;
  int64_t* long_out = nullptr;
  char* buf = nullptr;
  double* fraction = nullptr;
  float* floats = nullptr;
  prefix_token* tokens_out = nullptr;
  size_t capacity = 0;
  prefix_option_details* option_details = nullptr;
  prefix_device_details* device_details = nullptr;
  prefix_memory* memory = nullptr;
  prefix_engine_info* engine_info = nullptr;
  prefix_engine_stats* stats = nullptr;
  prefix_event* event = nullptr;
  prefix_result_info* info = nullptr;
  prefix_job_totals* totals = nullptr;
  prefix_cache_info* cache = nullptr;
  prefix_cache_usage* usage = nullptr;
  prefix_cache_event* cache_event = nullptr;
  prefix_snapshot_info* snapshot = nullptr;
  prefix_order_info* order = nullptr;
  prefix_partition_info* partition = nullptr;
  prefix_estimate_info* estimate = nullptr;
  prefix_error* err = nullptr;
};

struct Function {
  const char* name;
  bool takes_handle;  // it can be given a bad one
  bool fallible;      // it returns a prefix_status
  // With live handles and Arguments{}: what rule 2 and the comments of the header promise.
  prefix_status with_null_arguments;
  prefix_status (*call)(const Handles&, const Arguments&);
};

inline const std::vector<Function>& every_function() {
#define CALL(expression)                                      \
  [](const Handles& h, const Arguments& a) -> prefix_status { \
    (void)h, (void)a;                                         \
    return expression;                                        \
  }
#define VOID(expression)                                      \
  [](const Handles& h, const Arguments& a) -> prefix_status { \
    (void)h, (void)a;                                         \
    expression;                                               \
    return PREFIX_OK;                                         \
  }
#define ON_HANDLE(name, status, ...) {#name, true, true, status, CALL(name(__VA_ARGS__))}
#define WITHOUT(name, status, ...) {#name, false, true, status, CALL(name(__VA_ARGS__))}
#define RELEASE(name, handle) {#name, true, false, PREFIX_OK, VOID(name(handle))}
#define VALUE(name, ...) {#name, false, false, PREFIX_OK, VOID((void)name(__VA_ARGS__))}
  constexpr prefix_status kOk = PREFIX_OK;
  constexpr prefix_status kInvalid = PREFIX_ERR_INVALID_ARGUMENT;
  static const std::vector<Function> kFunctions = {
      VALUE(prefix_version),
      VALUE(prefix_version_string),
      VALUE(prefix_abi_version),
      VALUE(prefix_build_info),
      VALUE(prefix_feature_count),
      VALUE(prefix_feature_name, a.length),
      VALUE(prefix_has_feature, a.text, a.length),
      VALUE(prefix_status_name, a.number),
      VALUE(prefix_status_is_retryable, a.number),
      WITHOUT(prefix_options_create, kInvalid, a.options, a.err),
      ON_HANDLE(prefix_options_retain, kOk, h.options, a.err),
      RELEASE(prefix_options_release, h.options),
      ON_HANDLE(prefix_options_set, kInvalid, h.options, a.text, a.length, a.text, a.length, a.err),
      ON_HANDLE(prefix_options_set_int, kInvalid, h.options, a.text, a.length, 1, a.err),
      ON_HANDLE(prefix_options_set_double, kInvalid, h.options, a.text, a.length, 1.0, a.err),
      ON_HANDLE(prefix_options_set_bool, kInvalid, h.options, a.text, a.length, 1, a.err),
      ON_HANDLE(prefix_options_set_ints, kInvalid, h.options, a.text, a.length, a.tokens,
                a.n_tokens, a.err),
      ON_HANDLE(prefix_options_set_texts, kInvalid, h.options, a.text, a.length, a.texts, a.lengths,
                1, a.err),
      ON_HANDLE(prefix_options_set_json, kInvalid, h.options, a.text, a.length, a.err),
      ON_HANDLE(prefix_options_get, kInvalid, h.options, a.text, a.length, a.buf, a.capacity,
                a.size, a.err),
      ON_HANDLE(prefix_options_json, kOk, h.options, a.buf, a.capacity, a.size, a.err),
      VALUE(prefix_option_count),
      WITHOUT(prefix_option_info, kInvalid, 0, a.option_details, a.err),
      VALUE(prefix_set_log_callback, nullptr, nullptr),
      VALUE(prefix_set_log_level, PREFIX_LOG_WARNING),
      WITHOUT(prefix_log_next, PREFIX_ERR_NO_EVENT, a.number_out, a.buf, a.capacity, a.size),
      WITHOUT(prefix_log_write, kInvalid, PREFIX_LOG_WARNING, a.text, a.length, a.err),
      VALUE(prefix_device_count),
      WITHOUT(prefix_device_info, kInvalid, 0, a.device_details, a.err),
      WITHOUT(prefix_model_info_json, kInvalid, a.text, a.length, a.buf, a.capacity, a.size, a.err),
      WITHOUT(prefix_engine_estimate, kInvalid, a.text, a.length, h.options, a.memory, a.err),
      WITHOUT(prefix_engine_create, kInvalid, a.text, a.length, h.options, a.engine, a.err),
      WITHOUT(prefix_engine_open, kInvalid, a.text, a.length, h.options, a.engine, a.err),
      WITHOUT(prefix_source_create, kInvalid, a.source, a.err),
      ON_HANDLE(prefix_source_retain, kOk, h.source, a.err),
      RELEASE(prefix_source_release, h.source),
      ON_HANDLE(prefix_source_add_buffer, kInvalid, h.source, a.text, a.length, a.text, 2, a.err),
      ON_HANDLE(prefix_source_add_reader, kInvalid, h.source, a.text, a.length, 2, a.read, nullptr,
                a.err),
      ON_HANDLE(prefix_engine_open_source, kInvalid, h.source, h.options, a.engine, a.err),
      ON_HANDLE(prefix_engine_wait, kOk, h.engine, a.number, a.fraction, a.err),
      ON_HANDLE(prefix_engine_notify, kOk, h.engine, h.queue, 7, a.err),
      ON_HANDLE(prefix_engine_retain, kOk, h.engine, a.err),
      RELEASE(prefix_engine_release, h.engine),
      ON_HANDLE(prefix_engine_shutdown, PREFIX_ERR_OUT_OF_RANGE, h.engine, a.number, a.err),
      VALUE(prefix_engine_state, h.engine),
      ON_HANDLE(prefix_engine_info_json, kOk, h.engine, a.buf, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_engine_get_info, kInvalid, h.engine, a.engine_info, a.err),
      ON_HANDLE(prefix_engine_end_tokens, kOk, h.engine, a.tokens_out, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_engine_get_stats, kInvalid, h.engine, a.stats, a.err),
      ON_HANDLE(prefix_metrics_text, kOk, h.engine, a.buf, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_namespace_open, kInvalid, h.engine, a.text, a.length, a.number_out, a.err),
      ON_HANDLE(prefix_namespace_open_tuple, kInvalid, h.engine, a.text, a.length, a.offsets,
                a.n_offsets, a.number_out, a.err),
      ON_HANDLE(prefix_namespace_find, kInvalid, h.engine, a.text, a.length, a.number_out, a.err),
      ON_HANDLE(prefix_namespace_drop, PREFIX_ERR_NOT_FOUND, h.engine, a.number, a.long_out, a.err),
      ON_HANDLE(prefix_namespace_close, PREFIX_ERR_NOT_FOUND, h.engine, a.number, a.long_out,
                a.err),
      ON_HANDLE(prefix_namespace_count, kInvalid, h.engine, a.number_out, a.err),
      ON_HANDLE(prefix_adapter_load, kInvalid, h.engine, a.text, a.length, a.text, a.length, a.err),
      ON_HANDLE(prefix_adapter_load_source, kInvalid, h.engine, a.text, a.length, h.source, a.err),
      ON_HANDLE(prefix_adapter_unload, kInvalid, h.engine, a.text, a.length, a.err),
      ON_HANDLE(prefix_adapter_namespace, kInvalid, h.engine, a.number, a.text, a.length,
                a.number_out, a.err),
      ON_HANDLE(prefix_adapters_json, kOk, h.engine, a.buf, a.capacity, a.size, a.err),
      WITHOUT(prefix_constraint_create, kInvalid, a.constraint_calls, nullptr, a.constraint, a.err),
      ON_HANDLE(prefix_constraint_retain, kOk, h.constraint, a.err),
      RELEASE(prefix_constraint_release, h.constraint),
      WITHOUT(prefix_batch_create, kInvalid, h.engine, a.batch, a.err),
      ON_HANDLE(prefix_batch_retain, kOk, h.batch, a.err),
      RELEASE(prefix_batch_release, h.batch),
      ON_HANDLE(prefix_batch_clear, kOk, h.batch, a.err),
      ON_HANDLE(prefix_batch_count, kInvalid, h.batch, a.size, a.err),
      ON_HANDLE(prefix_batch_add_logits, kOk, h.batch, a.tokens, a.n_tokens, a.tokens, a.n_tokens,
                h.options, 0, a.size, a.err),
      ON_HANDLE(prefix_batch_add_logprobs, kOk, h.batch, a.tokens, a.n_tokens, a.number, h.options,
                0, a.size, a.err),
      ON_HANDLE(prefix_batch_add_choices, kInvalid, h.batch, a.tokens, a.n_tokens, a.tokens,
                a.n_tokens, a.offsets, a.n_offsets, h.options, 0, a.size, a.err),
      ON_HANDLE(prefix_batch_add_continuations, kInvalid, h.batch, a.tokens, a.n_tokens, a.tokens,
                a.n_tokens, a.offsets, a.n_offsets, h.options, 0, a.size, a.err),
      ON_HANDLE(prefix_batch_add_embedding, kOk, h.batch, a.tokens, a.n_tokens, h.options, 0,
                a.size, a.err),
      ON_HANDLE(prefix_batch_add_generate, kOk, h.batch, a.tokens, a.n_tokens, h.options, 0, a.size,
                a.err),
      ON_HANDLE(prefix_batch_constrain, PREFIX_ERR_OUT_OF_RANGE, h.batch, a.length, h.constraint,
                a.err),
      ON_HANDLE(prefix_batch_add_warm, kOk, h.batch, a.tokens, a.n_tokens, h.options, 0, a.size,
                a.err),
      ON_HANDLE(prefix_batch_plan_json, kOk, h.batch, a.buf, a.capacity, a.size, a.err),
      WITHOUT(prefix_queue_create, kInvalid, a.queue, a.err),
      ON_HANDLE(prefix_queue_retain, kOk, h.queue, a.err),
      RELEASE(prefix_queue_release, h.queue),
      ON_HANDLE(prefix_queue_next, kInvalid, h.queue, 0, a.long_out, a.err),
      ON_HANDLE(prefix_queue_post, kOk, h.queue, 7, a.err),
      ON_HANDLE(prefix_queue_descriptor, kInvalid, h.queue, a.number_out, a.err),
      ON_HANDLE(prefix_run, kInvalid, h.engine, h.batch, a.job, a.err),
      ON_HANDLE(prefix_submit, kInvalid, h.engine, h.batch, a.job, a.err),
      ON_HANDLE(prefix_job_retain, kOk, h.job, a.err),
      RELEASE(prefix_job_release, h.job),
      ON_HANDLE(prefix_job_detach, kOk, h.job, a.err),
      ON_HANDLE(prefix_job_wait, kOk, h.job, -1, a.err),
      ON_HANDLE(prefix_job_notify, kOk, h.job, h.queue, 7, a.err),
      ON_HANDLE(prefix_job_cancel, kOk, h.job, a.err),
      ON_HANDLE(prefix_job_cancel_request, kOk, h.job, 0, a.err),
      ON_HANDLE(prefix_job_count, kInvalid, h.job, a.size, a.err),
      ON_HANDLE(prefix_job_finished_count, kInvalid, h.job, a.size, a.err),
      ON_HANDLE(prefix_job_next_event, kInvalid, h.job, 0, a.event, a.err),
      ON_HANDLE(prefix_job_notify_events, kOk, h.job, h.queue, 7, a.err),
      ON_HANDLE(prefix_job_result_info, kInvalid, h.job, 0, a.info, a.err),
      ON_HANDLE(prefix_job_result_message, kOk, h.job, 0, a.buf, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_job_result_values, kOk, h.job, 0, a.floats, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_job_result_tokens, kOk, h.job, 0, a.tokens_out, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_job_partial_tokens, kOk, h.job, 0, a.tokens_out, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_job_first_failure, kOk, h.job, a.size, a.err),
      ON_HANDLE(prefix_job_result_logprobs, kOk, h.job, 0, a.floats, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_job_result_top, kOk, h.job, 0, a.tokens_out, a.capacity, a.size, a.floats,
                a.capacity, a.err),
      ON_HANDLE(prefix_job_partial_top, kInvalid, h.job, 0, 0, a.tokens_out, a.capacity, a.size,
                a.floats, a.capacity, a.err),
      ON_HANDLE(prefix_job_all_values, kOk, h.job, a.floats, a.capacity, a.size, nullptr, 0, a.err),
      ON_HANDLE(prefix_job_get_totals, kInvalid, h.job, a.totals, a.err),
      ON_HANDLE(prefix_cache_lookup, kInvalid, h.engine, 0, a.tokens, a.n_tokens, a.cache, a.err),
      ON_HANDLE(prefix_cache_lookup_many, kInvalid, h.engine, 0, a.tokens, a.n_tokens, a.offsets,
                a.n_offsets, a.long_out, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_cache_get_usage, PREFIX_ERR_NOT_FOUND, h.engine, a.number, a.usage, a.err),
      ON_HANDLE(prefix_cache_set_limits, PREFIX_ERR_NOT_FOUND, h.engine, a.number, 0, 0, a.err),
      ON_HANDLE(prefix_cache_pin, kInvalid, h.engine, a.number, a.tokens, a.n_tokens, 0, a.long_out,
                nullptr, a.err),
      ON_HANDLE(prefix_cache_unpin, PREFIX_ERR_NOT_FOUND, h.engine, a.number, a.err),
      ON_HANDLE(prefix_cache_evict, PREFIX_ERR_NOT_FOUND, h.engine, a.number, a.tokens, a.n_tokens,
                a.long_out, a.err),
      ON_HANDLE(prefix_cache_trim, PREFIX_ERR_OUT_OF_RANGE, h.engine, a.number, a.long_out, a.err),
      ON_HANDLE(prefix_cache_tree_json, kOk, h.engine, a.buf, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_cache_next_event, kInvalid, h.engine, a.number, a.cache_event, a.tokens_out,
                a.capacity, a.size, a.err),
      ON_HANDLE(prefix_cache_dump_events, PREFIX_ERR_MISUSE, h.engine, a.buf, a.capacity, a.size,
                a.err),
      ON_HANDLE(prefix_snapshot_save, kInvalid, h.engine, a.text, a.length, nullptr, 0, a.snapshot,
                a.err),
      ON_HANDLE(prefix_snapshot_load, kInvalid, h.engine, a.text, a.length, a.snapshot, a.err),
      WITHOUT(prefix_sim_create, kInvalid, a.text, a.length, a.sim, a.err),
      ON_HANDLE(prefix_sim_apply, kInvalid, h.sim, a.text, a.length, a.err),
      ON_HANDLE(prefix_sim_result, kOk, h.sim, a.buf, a.capacity, a.size, a.err),
      ON_HANDLE(prefix_sim_request, kInvalid, h.sim, a.text, a.length, a.tokens, a.n_tokens,
                a.n_tokens, a.long_out, a.err),
      ON_HANDLE(prefix_sim_retain, kOk, h.sim, a.err),
      RELEASE(prefix_sim_release, h.sim),
      WITHOUT(prefix_order, kInvalid, a.offsets, a.n_offsets, nullptr, 0, 1, a.long_out, a.capacity,
              nullptr, 0, a.order, a.err),
      WITHOUT(prefix_partition, kInvalid, a.tokens, a.n_tokens, a.offsets, a.n_offsets, a.number, 0,
              nullptr, 0, nullptr, 0, nullptr, 0, a.partition, a.err),
      WITHOUT(prefix_estimate_batch, kInvalid, a.tokens, a.n_tokens, a.offsets, a.n_offsets,
              a.long_out, a.capacity, a.estimate, a.err),
      WITHOUT(prefix_pool_create, kInvalid, h.options, a.pool, a.err),
      ON_HANDLE(prefix_pool_retain, kOk, h.pool, a.err),
      RELEASE(prefix_pool_release, h.pool),
      // The last: from here on the options are for engines alone.
      ON_HANDLE(prefix_options_set_pool, kOk, h.options, h.pool, a.err),
  };
#undef CALL
#undef VOID
#undef ON_HANDLE
#undef WITHOUT
#undef RELEASE
#undef VALUE
  return kFunctions;
}

}  // namespace prefix_abi
