// Engines: their load, what they tell of themselves, their namespaces and their end. A handle may
// stand for an engine that is still loading: load_of() gives the load, engine_of() the engine or an
// error.
#include "abi/entry.h"
#include "abi/metrics.h"
#include "base/log.h"
#include "base/quote.h"
#include "model/model_info.h"

namespace {

using prefix::Engine;
using prefix::EngineLoad;
using prefix::Options;
using prefix::abi::engine_of;
using prefix::abi::EngineObject;
using prefix::abi::guard;
using prefix::abi::HandleTable;
using prefix::abi::Kind;
using prefix::abi::load_of;
using prefix::abi::path_in;
using prefix::abi::require;
using prefix::abi::text_in;
using prefix::abi::Waited;

Options engine_options_of(const prefix_options* handle) {
  Options options = prefix::abi::options_of(handle);
  options.require_scopes({prefix::OptionScope::kEngine}, "an engine");
  return options;
}

// `begin` begins the load of what `find_model` says; it has ended then, or goes on by itself.
template <typename FindModel, typename Begin>
void open(const FindModel& find_model, const prefix_options* handle, prefix_engine** out,
          const Begin& begin) {
  require(out, "out");
  HandleTable::refuse_forked_child("a new engine");  // before the work of loading it
  Options options = engine_options_of(handle);
  auto object = std::make_shared<EngineObject>();
  object->load = std::make_shared<EngineLoad>(find_model(), std::move(options));
  begin(*object->load);
  *out = static_cast<prefix_engine*>(HandleTable::get().add(Kind::kEngine, std::move(object)));
}

prefix::ModelSource model_of(const prefix_source* source) {
  return prefix::ModelSource(
      std::make_shared<const prefix::FedFiles>(prefix::abi::files_of(source)));
}

}  // namespace

extern "C" {

prefix_status prefix_model_info_json(const char* path, size_t path_len, char* buf, size_t cap,
                                     size_t* needed, prefix_error* err) {
  return guard("prefix_model_info_json", err, [&] {
    const std::string where = path_in(path, path_len);
    prefix::abi::text_out(prefix::model_info_json(where), buf, cap, needed);
  });
}

prefix_status prefix_engine_estimate(const char* path, size_t path_len,
                                     const prefix_options* options, prefix_memory* out,
                                     prefix_error* err) {
  return guard("prefix_engine_estimate", err, [&] {
    const std::string where = path_in(path, path_len);
    const prefix::MemoryEstimate e = Engine::estimate(where, engine_options_of(options));
    prefix_memory m{};
    m.weight_bytes = e.weight_bytes;
    m.kv_bytes_per_token = e.kv_bytes_per_token;
    m.kv_budget_bytes = e.kv_budget_bytes;
    m.activation_bytes = e.activation_bytes;
    m.total_bytes = e.total_bytes;
    prefix::abi::struct_out(m, out);
  });
}

prefix_status prefix_engine_create(const char* path, size_t path_len, const prefix_options* options,
                                   prefix_engine** out, prefix_error* err) {
  return guard("prefix_engine_create", err, [&] {
    open([&] { return path_in(path, path_len); }, options, out,
         [](EngineLoad& load) {
           load.run();
           load.wait(0);  // throws when it failed
         });
  });
}

prefix_status prefix_engine_open(const char* path, size_t path_len, const prefix_options* options,
                                 prefix_engine** out, prefix_error* err) {
  return guard("prefix_engine_open", err, [&] {
    open([&] { return path_in(path, path_len); }, options, out,
         [](EngineLoad& load) { load.start(); });
  });
}

prefix_status prefix_engine_open_source(prefix_source* source, const prefix_options* options,
                                        prefix_engine** out, prefix_error* err) {
  return guard("prefix_engine_open_source", err, [&] {
    open([&] { return model_of(source); }, options, out, [](EngineLoad& load) { load.start(); });
  });
}

prefix_status prefix_engine_wait(prefix_engine* engine, int64_t timeout_ms, double* fraction,
                                 prefix_error* err) {
  return guard("prefix_engine_wait", err, [&]() -> Waited {
    double done = 0;
    const bool ready = load_of(engine)->wait(timeout_ms, &done);
    if (fraction) *fraction = done;
    if (ready) return {};
    return {prefix::Code::kTimeout,
            prefix::cat("the engine is still loading after ", timeout_ms,
                        " ms: ", static_cast<int>(done * 100), "% of its weights are there")};
  });
}

prefix_status prefix_engine_notify(prefix_engine* engine, prefix_queue* queue, int64_t tag,
                                   prefix_error* err) {
  return guard("prefix_engine_notify", err, [&] {
    const auto load = load_of(engine);
    load->notify(prefix::abi::queue_of(queue), tag);
  });
}

prefix_status prefix_engine_retain(prefix_engine* engine, prefix_error* err) {
  return guard("prefix_engine_retain", err,
               [&] { HandleTable::get().retain(Kind::kEngine, engine, "the engine"); });
}

void prefix_engine_release(prefix_engine* engine) {
  guard("prefix_engine_release", nullptr,
        [&] { HandleTable::get().release(Kind::kEngine, engine); });
}

prefix_status prefix_engine_shutdown(prefix_engine* engine, int64_t timeout_ms, prefix_error* err) {
  return guard("prefix_engine_shutdown", err, [&] {
    if (timeout_ms < 0)
      prefix::fail(prefix::Code::kOutOfRange, "timeout_ms is ", timeout_ms, ", below 0");
    if (prefix::inside_log_callback())
      prefix::fail(
          prefix::Code::kMisuse,
          "a log callback cannot wait for the threads of an engine, which may be calling it");
    load_of(engine)->shutdown(timeout_ms);
  });
}

int32_t prefix_engine_state(const prefix_engine* engine) {
  int32_t state = PREFIX_ENGINE_CLOSED;
  guard("prefix_engine_state", nullptr,
        [&] { state = static_cast<int32_t>(load_of(engine)->state()); });
  return state;
}

prefix_status prefix_engine_info_json(const prefix_engine* engine, char* buf, size_t cap,
                                      size_t* needed, prefix_error* err) {
  return guard("prefix_engine_info_json", err,
               [&] { prefix::abi::text_out(engine_of(engine)->info_json(), buf, cap, needed); });
}

prefix_status prefix_engine_get_info(const prefix_engine* engine, prefix_engine_info* out,
                                     prefix_error* err) {
  return guard("prefix_engine_get_info", err, [&] {
    const auto e = engine_of(engine);
    const prefix::EngineInfo& i = e->info();
    prefix_engine_info t{};
    t.layers = i.layers;
    t.hidden = i.hidden;
    t.heads = i.heads;
    t.kv_heads = i.kv_heads;
    t.head_dim = i.head_dim;
    t.vocabulary = i.vocab_size;
    t.max_positions = i.max_positions;
    t.threads = i.threads;
    t.page_tokens = prefix::kPageTokens;
    t.weight_bytes = i.weight_bytes;
    t.kv_bytes_per_token = i.kv_bytes_per_token;
    t.recurrent_layers = i.recurrent_layers;
    t.state_bytes = i.state_bytes;
    t.labels = i.labels;
    prefix::abi::struct_out(t, out);
  });
}

prefix_status prefix_engine_end_tokens(const prefix_engine* engine, prefix_token* out,
                                       size_t capacity, size_t* needed, prefix_error* err) {
  return guard("prefix_engine_end_tokens", err, [&] {
    const auto e = engine_of(engine);
    const std::vector<int32_t>& ids = e->info().eos_ids;
    prefix::abi::array_out(ids.data(), ids.size(), out, capacity, needed);
  });
}

prefix_status prefix_engine_get_stats(const prefix_engine* engine, prefix_engine_stats* out,
                                      prefix_error* err) {
  return guard("prefix_engine_get_stats", err, [&] {
    const prefix::EngineStats s = engine_of(engine)->stats();
    prefix_engine_stats t{};
#define COPY(field) t.field = s.field
    COPY(requests_waiting), COPY(requests_running), COPY(requests_finished), COPY(requests_failed);
    COPY(tokens_given), COPY(tokens_cached), COPY(tokens_shared), COPY(tokens_computed);
    COPY(tokens_generated), COPY(steps), COPY(rows), COPY(pages_total), COPY(pages_used);
    COPY(page_tokens), COPY(kv_bytes), COPY(kv_bytes_peak), COPY(kv_budget_bytes);
    COPY(weight_bytes), COPY(activation_bytes_peak), COPY(tree_nodes), COPY(tree_tokens);
    COPY(evictions), COPY(evicted_tokens), COPY(metadata_bytes), COPY(fetched_tokens);
    COPY(fetch_skipped_tokens), COPY(fetch_timeouts), COPY(miss_first_seen), COPY(miss_namespace);
    COPY(miss_budget), COPY(miss_evicted), COPY(miss_granularity);
    COPY(miss_state), COPY(states), COPY(state_bytes), COPY(state_evictions);
    COPY(live_state_bytes_peak), COPY(gemm_flops), COPY(draft_tokens), COPY(draft_tokens_accepted);
#undef COPY
#define COPY_TIME(field) t.field##_us = s.field##_ns / 1000
    COPY_TIME(gemm), COPY_TIME(attention), COPY_TIME(other), COPY_TIME(plan), COPY_TIME(run);
    COPY_TIME(load);
#undef COPY_TIME
    prefix::abi::struct_out(t, out);
  });
}

prefix_status prefix_metrics_text(const prefix_engine* engine, char* buf, size_t cap,
                                  size_t* needed, prefix_error* err) {
  return guard("prefix_metrics_text", err, [&] {
    const auto e = engine_of(engine);
    prefix::abi::text_out(
        prefix::abi::metrics_text(e->stats(), e->histograms(), e->info(), e->tiers()), buf, cap,
        needed);
  });
}

prefix_status prefix_namespace_open(prefix_engine* engine, const char* name, size_t name_len,
                                    int32_t* ns, prefix_error* err) {
  return guard("prefix_namespace_open", err, [&] {
    require(ns, "ns");
    *ns = engine_of(engine)->open_namespace(text_in(name, name_len, "name"));
  });
}

prefix_status prefix_namespace_open_tuple(prefix_engine* engine, const char* text, size_t text_len,
                                          const int64_t* offsets, size_t n_offsets, int32_t* ns,
                                          prefix_error* err) {
  return guard("prefix_namespace_open_tuple", err, [&] {
    require(ns, "ns");
    const std::string_view all = text_in(text, text_len, "text");
    prefix::NamespaceParts parts;
    for (const auto part :
         prefix::abi::pieces_in(std::span<const char>(all), offsets, n_offsets, "parts"))
      parts.emplace_back(part.begin(), part.end());
    *ns = engine_of(engine)->open_namespace(parts);
  });
}

prefix_status prefix_namespace_find(const prefix_engine* engine, const char* name, size_t name_len,
                                    int32_t* ns, prefix_error* err) {
  return guard("prefix_namespace_find", err, [&] {
    require(ns, "ns");
    const std::string_view wanted = text_in(name, name_len, "name");
    const int32_t found = engine_of(engine)->find_namespace(wanted);
    if (found < 0)
      prefix::fail(prefix::Code::kNotFound, "namespace ", prefix::quote(wanted), " is not open");
    *ns = found;
  });
}

prefix_status prefix_namespace_drop(prefix_engine* engine, int32_t ns, int64_t* freed,
                                    prefix_error* err) {
  return guard("prefix_namespace_drop", err, [&] {
    const int64_t tokens = engine_of(engine)->drop_namespace(ns);
    if (freed) *freed = tokens;
  });
}

prefix_status prefix_namespace_close(prefix_engine* engine, int32_t ns, int64_t* freed,
                                     prefix_error* err) {
  return guard("prefix_namespace_close", err, [&] {
    const int64_t tokens = engine_of(engine)->close_namespace(ns);
    if (freed) *freed = tokens;
  });
}

prefix_status prefix_namespace_count(const prefix_engine* engine, int32_t* count,
                                     prefix_error* err) {
  return guard("prefix_namespace_count", err, [&] {
    require(count, "count");
    *count = engine_of(engine)->namespace_count();
  });
}

}  // extern "C"
