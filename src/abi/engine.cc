#include <cstddef>
#include <tuple>
#include <utility>

#include "abi/entry.h"
#include "base/quote.h"
#include "model/model_info.h"

namespace {

using prefix::Engine;
using prefix::Options;
using prefix::abi::engine_of;
using prefix::abi::EngineObject;
using prefix::abi::guard;
using prefix::abi::HandleTable;
using prefix::abi::Kind;
using prefix::abi::path_in;
using prefix::abi::require;
using prefix::abi::text_in;

Options options_of(const prefix_options* handle) {
  if (!handle) return {};
  const auto object =
      prefix::abi::find<prefix::abi::OptionsObject>(Kind::kOptions, handle, "options");
  std::lock_guard lock(object->mutex);
  return object->options;
}

void create(const char* path, size_t path_len, const prefix_options* options,
            const prefix::LoadProgress& progress, prefix_engine** out) {
  require(out, "out");
  HandleTable::refuse_forked_child("a new engine");  // before the work of loading it
  const std::string where = path_in(path, path_len);
  auto object = std::make_shared<EngineObject>();
  object->engine = Engine::create(where, options_of(options), progress);
  *out = static_cast<prefix_engine*>(HandleTable::get().add(Kind::kEngine, std::move(object)));
}

struct Metric {
  const char* name;
  const char* type;
  const char* help;
  double value;
};

// Names of the first four are those that request routers read.
std::string metrics(const prefix::EngineStats& s, const prefix::EngineInfo& info,
                    const std::vector<prefix::TierInfo>& tiers) {
  const auto number = [](int64_t v) { return static_cast<double>(v); };
  const Metric list[] = {
      {"num_requests_waiting", "gauge", "Requests not started yet", number(s.requests_waiting)},
      {"num_requests_running", "gauge", "Requests running now", number(s.requests_running)},
      {"kv_cache_usage_perc", "gauge", "Share of KV pages in use, 0 to 1",
       s.pages_total ? number(s.pages_used) / number(s.pages_total) : 0},
      {"prefix_cache_queries_total", "counter", "Prompt tokens looked up", number(s.tokens_given)},
      {"prefix_cache_hits_total", "counter", "Prompt tokens found computed or shared",
       number(s.tokens_cached + s.tokens_shared)},
      {"prefix_tokens_computed_total", "counter", "Prompt tokens computed",
       number(s.tokens_computed)},
      {"prefix_tokens_generated_total", "counter", "Tokens generated", number(s.tokens_generated)},
      {"prefix_requests_finished_total", "counter", "Requests that succeeded",
       number(s.requests_finished)},
      {"prefix_requests_failed_total", "counter", "Requests that failed",
       number(s.requests_failed)},
      {"prefix_steps_total", "counter", "Steps of the model", number(s.steps)},
      {"prefix_rows_total", "counter", "Rows the model computed", number(s.rows)},
      {"prefix_evicted_tokens_total", "counter", "Tokens evicted from the cache",
       number(s.evicted_tokens)},
      {"prefix_fetched_tokens_total", "counter", "Tokens that came from disk or store",
       number(s.fetched_tokens)},
      {"prefix_fetch_skipped_tokens_total", "counter", "Tokens that were faster to compute",
       number(s.fetch_skipped_tokens)},
      {"prefix_fetch_timeouts_total", "counter", "Fetches that took longer than cache_fetch_ms",
       number(s.fetch_timeouts)},
      {"prefix_metadata_bytes", "gauge", "Bytes of the tree", number(s.metadata_bytes)},
      {"prefix_kv_bytes", "gauge", "Bytes of keys and values in use", number(s.kv_bytes)},
      {"prefix_gemm_seconds_total", "counter", "Time in matrix products", number(s.gemm_ns) * 1e-9},
      {"prefix_attention_seconds_total", "counter", "Time in attention",
       number(s.attention_ns) * 1e-9},
  };
  std::string text;
  for (const Metric& m : list)
    text += prefix::cat("# HELP ", m.name, " ", m.help, "\n# TYPE ", m.name, " ", m.type, "\n",
                        m.name, " ", prefix::abi::number_text(m.value), "\n");
  const std::pair<const char*, int64_t> misses[] = {{"first_seen", s.miss_first_seen},
                                                    {"namespace", s.miss_namespace},
                                                    {"budget", s.miss_budget},
                                                    {"evicted", s.miss_evicted},
                                                    {"granularity", s.miss_granularity}};
  text +=
      "# HELP prefix_cache_miss_tokens_total Prompt tokens computed, by reason\n"
      "# TYPE prefix_cache_miss_tokens_total counter\n";
  for (const auto& [reason, tokens] : misses)
    text += prefix::cat("prefix_cache_miss_tokens_total{reason=\"", reason, "\"} ", tokens, "\n");
  using Count = uint64_t prefix::TierStats::*;
  const std::tuple<const char*, const char*, Count> counts[] = {
      {"hits_total", "counter", &prefix::TierStats::hits},
      {"misses_total", "counter", &prefix::TierStats::misses},
      {"stored_total", "counter", &prefix::TierStats::stored},
      {"not_stored_total", "counter", &prefix::TierStats::not_stored},
      {"damaged_total", "counter", &prefix::TierStats::damaged},
      {"errors_total", "counter", &prefix::TierStats::errors},
      {"evicted_total", "counter", &prefix::TierStats::evicted},
      {"pages", "gauge", &prefix::TierStats::pages},
      {"bytes", "gauge", &prefix::TierStats::bytes},
      {"read_bytes_total", "counter", &prefix::TierStats::bytes_read},
      {"written_bytes_total", "counter", &prefix::TierStats::bytes_written}};
  for (const auto& [name, type, count] : counts) {
    if (tiers.empty()) break;
    text +=
        prefix::cat("# HELP prefix_tier_", name, " Of the tiers below memory, in pages or bytes\n",
                    "# TYPE prefix_tier_", name, " ", type, "\n");
    for (const prefix::TierInfo& tier : tiers)
      text +=
          prefix::cat("prefix_tier_", name, "{tier=\"", tier.name, "\"} ", tier.stats.*count, "\n");
  }
  text += prefix::cat("# HELP cache_config_info Page size and number\n",
                      "# TYPE cache_config_info gauge\ncache_config_info{block_size=\"",
                      s.page_tokens, "\",num_blocks=\"", s.pages_total, "\"} 1\n");
  text += prefix::cat("# HELP prefix_build_info Library and device\n",
                      "# TYPE prefix_build_info gauge\nprefix_build_info{version=\"",
                      prefix_version_string(), "\",isa=\"", info.isa, "\",dtype=\"", info.dtype,
                      "\"} 1\n");
  return text;
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
    const prefix::MemoryEstimate e = Engine::estimate(where, options_of(options));
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
  return guard("prefix_engine_create", err, [&] { create(path, path_len, options, nullptr, out); });
}

prefix_status prefix_engine_create_with_progress(const char* path, size_t path_len,
                                                 const prefix_options* options,
                                                 prefix_progress_callback callback, void* user,
                                                 prefix_engine** out, prefix_error* err) {
  return guard("prefix_engine_create_with_progress", err, [&] {
    prefix::LoadProgress progress;
    if (callback) progress = [=](double fraction) { return callback(fraction, user) == 0; };
    create(path, path_len, options, progress, out);
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
    engine_of(engine)->shutdown(timeout_ms);
  });
}

int32_t prefix_engine_state(const prefix_engine* engine) {
  int32_t state = PREFIX_ENGINE_CLOSED;
  guard("prefix_engine_state", nullptr,
        [&] { state = static_cast<int32_t>(engine_of(engine)->state()); });
  return state;
}

prefix_status prefix_engine_info_json(const prefix_engine* engine, char* buf, size_t cap,
                                      size_t* needed, prefix_error* err) {
  return guard("prefix_engine_info_json", err,
               [&] { prefix::abi::text_out(engine_of(engine)->info_json(), buf, cap, needed); });
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
    COPY(evictions), COPY(evicted_tokens), COPY(gemm_ns), COPY(attention_ns), COPY(other_ns);
    COPY(plan_ns), COPY(run_ns), COPY(load_ns), COPY(metadata_bytes), COPY(fetched_tokens);
    COPY(fetch_skipped_tokens), COPY(fetch_timeouts), COPY(miss_first_seen), COPY(miss_namespace);
    COPY(miss_budget), COPY(miss_evicted), COPY(miss_granularity);
#undef COPY
    prefix::abi::struct_out(t, out, offsetof(prefix_engine_stats, metadata_bytes));
  });
}

prefix_status prefix_metrics_text(const prefix_engine* engine, char* buf, size_t cap,
                                  size_t* needed, prefix_error* err) {
  return guard("prefix_metrics_text", err, [&] {
    const auto e = engine_of(engine);
    prefix::abi::text_out(metrics(e->stats(), e->info(), e->tiers()), buf, cap, needed);
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
      prefix::fail(prefix::Code::kNotFound, "namespace ", prefix::quote(wanted),
                   " was never opened");
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

prefix_status prefix_namespace_count(const prefix_engine* engine, int32_t* count,
                                     prefix_error* err) {
  return guard("prefix_namespace_count", err, [&] {
    require(count, "count");
    *count = engine_of(engine)->namespace_count();
  });
}

}  // extern "C"
