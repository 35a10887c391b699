#include "abi/metrics.h"

#include <tuple>
#include <utility>

#include "abi/entry.h"

namespace prefix::abi {
namespace {

struct Metric {
  const char* name;
  const char* type;
  const char* help;
  double value;
};

// The value of a label, between its quotes.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n' || c == '\0') {
      // U+FFFD for a zero, which would end the text for readers in C.
      out += c == '\n' ? "\\n" : "\xef\xbf\xbd";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

class Exposition {
 public:
  explicit Exposition(const std::string& model)
      : model_(cat("{model_name=\"", escaped(model), "\"")) {}

  void family(std::string_view name, const char* type, const char* help) {
    name_ = name;
    text_ += cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  // labels: further ones, as ,tier="disk"
  void series(const std::string& labels, const std::string& value, const char* suffix = "") {
    text_ += cat(name_, suffix, model_, labels, "} ", value, "\n");
  }
  void histogram(std::string_view name, const char* help, const Histogram& h) {
    family(name, "histogram", help);
    int64_t below = 0;
    for (size_t i = 0; i < h.counts().size(); ++i) {
      below += h.counts()[i];
      const std::string bound = i < h.bounds().size() ? number_text(h.bounds()[i]) : "+Inf";
      series(cat(",le=\"", bound, "\""), std::to_string(below), "_bucket");
    }
    series("", number_text(h.sum()), "_sum");
    series("", std::to_string(below), "_count");
  }
  const std::string& text() const { return text_; }

 private:
  std::string model_, name_, text_;
};

void add_numbers(const EngineStats& s, Exposition& out) {
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
      {"prefix_metadata_bytes", "gauge", "Bytes of the tree and the namespaces",
       number(s.metadata_bytes)},
      {"prefix_kv_bytes", "gauge", "Bytes of keys, values and states in use", number(s.kv_bytes)},
      {"prefix_states", "gauge", "States of recurrent layers in the cache", number(s.states)},
      {"prefix_state_bytes", "gauge", "Bytes of these states", number(s.state_bytes)},
      {"prefix_state_evictions_total", "counter", "States that made room",
       number(s.state_evictions)},
      {"prefix_gemm_seconds_total", "counter", "Time in matrix products", number(s.gemm_ns) * 1e-9},
      {"prefix_gemm_flops_total", "counter", "Operations of these products, two a multiply-add",
       number(s.gemm_flops)},
      {"prefix_draft_tokens_total", "counter",
       "Tokens of generations that were guessed and checked", number(s.draft_tokens)},
      {"prefix_draft_tokens_accepted_total", "counter", "Those of them that the model said as well",
       number(s.draft_tokens_accepted)},
      {"prefix_attention_seconds_total", "counter", "Time in attention",
       number(s.attention_ns) * 1e-9},
  };
  for (const Metric& m : list) {
    out.family(m.name, m.type, m.help);
    out.series("", number_text(m.value));
  }
}

void add_histograms(const RequestHistograms& requests, Exposition& out) {
  out.histogram("time_to_first_token_seconds", "Generations: submission to first token",
                requests.first_token);
  out.histogram("inter_token_latency_seconds", "Generations: from one token to the next",
                requests.between_tokens);
  out.histogram("request_queue_time_seconds", "Requests that succeeded: submission to first step",
                requests.queue);
  out.histogram("e2e_request_latency_seconds", "Requests that succeeded: submission to end",
                requests.total);
  out.histogram("request_prompt_tokens", "Requests that succeeded: tokens of the prompt",
                requests.prompt);
  out.histogram("request_generation_tokens", "Generations that succeeded: their tokens",
                requests.generated);
}

void add_misses(const EngineStats& s, Exposition& out) {
  const std::pair<const char*, int64_t> misses[] = {
      {"first_seen", s.miss_first_seen},   {"namespace", s.miss_namespace},
      {"budget", s.miss_budget},           {"evicted", s.miss_evicted},
      {"granularity", s.miss_granularity}, {"state", s.miss_state}};
  out.family("prefix_cache_miss_tokens_total", "counter", "Prompt tokens computed, by reason");
  for (const auto& [reason, tokens] : misses)
    out.series(cat(",reason=\"", reason, "\""), std::to_string(tokens));
}

void add_tiers(const std::vector<TierInfo>& tiers, Exposition& out) {
  if (tiers.empty()) return;
  using Count = uint64_t TierStats::*;
  const std::tuple<const char*, const char*, Count> counts[] = {
      {"hits_total", "counter", &TierStats::hits},
      {"misses_total", "counter", &TierStats::misses},
      {"stored_total", "counter", &TierStats::stored},
      {"not_stored_total", "counter", &TierStats::not_stored},
      {"damaged_total", "counter", &TierStats::damaged},
      {"errors_total", "counter", &TierStats::errors},
      {"evicted_total", "counter", &TierStats::evicted},
      {"pages", "gauge", &TierStats::pages},
      {"bytes", "gauge", &TierStats::bytes},
      {"read_bytes_total", "counter", &TierStats::bytes_read},
      {"written_bytes_total", "counter", &TierStats::bytes_written}};
  for (const auto& [name, type, count] : counts) {
    out.family(cat("prefix_tier_", name), type, "Of the tiers below memory, in pages or bytes");
    for (const TierInfo& tier : tiers)
      out.series(cat(",tier=\"", tier.name, "\""), std::to_string(tier.stats.*count));
  }
}

// What does not change, in labels.
void add_descriptions(const EngineStats& s, const EngineInfo& info, Exposition& out) {
  out.family("cache_config_info", "gauge", "Page size and number");
  out.series(cat(",block_size=\"", s.page_tokens, "\",num_blocks=\"", s.pages_total, "\""), "1");
  out.family("prefix_build_info", "gauge", "Library and device");
  out.series(cat(",version=\"", prefix_version_string(), "\",isa=\"", info.isa, "\",dtype=\"",
                 info.dtype, "\""),
             "1");
}

}  // namespace

std::string metrics_text(const EngineStats& s, const RequestHistograms& requests,
                         const EngineInfo& info, const std::vector<TierInfo>& tiers) {
  Exposition out(info.name);
  add_numbers(s, out);
  add_histograms(requests, out);
  add_misses(s, out);
  add_tiers(tiers, out);
  add_descriptions(s, info, out);
  return out.text();
}

}  // namespace prefix::abi
