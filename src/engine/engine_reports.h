// What an engine tells of itself and of its cache: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/cache_events.h"
#include "cache/tier.h"
#include "model/config/declared.h"

namespace prefix {

enum class EngineState : int32_t {
  kLoading = 0,
  kReady = 1,
  kDraining = 2,
  kClosed = 3,
  kFailed = 4
};

struct MemoryEstimate {
  int64_t weight_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t kv_budget_bytes = 0;
  int64_t activation_bytes = 0;
  int64_t total_bytes = 0;
};

struct EngineStats {
  int64_t requests_waiting = 0, requests_running = 0, requests_finished = 0, requests_failed = 0;
  int64_t tokens_given = 0, tokens_computed = 0, tokens_cached = 0, tokens_shared = 0;
  int64_t tokens_generated = 0;
  int64_t steps = 0, rows = 0;
  int64_t pages_total = 0, pages_used = 0, page_tokens = 0;
  int64_t kv_bytes = 0, kv_bytes_peak = 0, kv_budget_bytes = 0;
  int64_t weight_bytes = 0, activation_bytes_peak = 0;
  int64_t tree_nodes = 0, tree_tokens = 0, evicted_tokens = 0, evictions = 0;
  int64_t metadata_bytes = 0;
  int64_t fetched_tokens = 0, fetch_skipped_tokens = 0, fetch_timeouts = 0;
  int64_t miss_first_seen = 0, miss_namespace = 0, miss_budget = 0, miss_evicted = 0;
  int64_t miss_granularity = 0, miss_state = 0;
  int64_t states = 0, state_bytes = 0, state_evictions = 0, live_state_bytes_peak = 0;
  int64_t gemm_ns = 0, attention_ns = 0, other_ns = 0, plan_ns = 0, run_ns = 0, load_ns = 0;
  int64_t gemm_flops = 0;
  int64_t draft_tokens = 0, draft_tokens_accepted = 0;
};

struct CacheInfo {
  int64_t cached_tokens = 0;   // longest computed prefix
  int64_t pending_tokens = 0;  // further tokens that are being computed now
};

struct CacheUsage {  // of one namespace
  int64_t tokens = 0, bytes = 0;
  int64_t floor_bytes = 0, quota_bytes = 0;
};

struct CachePin {
  int64_t lease = 0;
  int64_t tokens = 0;  // that stay; the longest computed prefix
};

// Every block of the cache, as if it were stored now, and the sequence of the next event.
struct EventDump {
  std::vector<CacheEvent> blocks;
  int64_t next = 0;
};

struct TierInfo {
  std::string name;
  TierStats stats;
};

struct EngineInfo {  // of a loaded engine
  std::string name, architecture, isa, device, dtype, compute;
  std::string cpus;   // that its worker threads are bound to; empty: to none
  bool pool = false;  // other engines may use these threads as well
  int32_t vocab_size = 0, hidden = 0, layers = 0, max_positions = 0, threads = 0;
  int32_t heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  bool tied = false;
  bool logits = true;          // false: no output matrix, or
  bool bidirectional = false;  // tokens see those behind them
  int64_t weight_bytes = 0, kv_bytes_per_token = 0;
  int64_t matrices = 0, packed_matrices = 0;  // of them those that weights=packed keeps in blocks
  int64_t recurrent_layers = 0, state_bytes = 0;
  std::vector<int32_t> eos_ids;
  int32_t labels = 0;       // of a classification head
  int32_t dense_width = 0;  // of what Dense layers make of a vector; 0: there are none
  int32_t dense_layers = 0;
  bool dense_of_tokens = false;  // whether the vectors of single tokens go through them as well
  Declared declared;
};

}  // namespace prefix
