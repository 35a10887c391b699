// The engine: one model on one device, one prefix tree, one scheduler thread.
//
//   any thread ── submit(requests) ──> queue ──> scheduler thread: match, extend, step, finish
//   any thread <── Job: wait, events, results <──┘            (see schedule/scheduler.h)
//
// All methods may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache_events.h"
#include "cache/namespaces.h"
#include "cache/snapshot.h"
#include "cache/tier.h"
#include "engine/job.h"
#include "engine/options.h"
#include "engine/request.h"

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
  int64_t miss_granularity = 0;
  int64_t gemm_ns = 0, attention_ns = 0, other_ns = 0, plan_ns = 0, run_ns = 0, load_ns = 0;
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
  std::string architecture, isa, device, dtype;
  int32_t vocab_size = 0, hidden = 0, layers = 0, max_positions = 0, threads = 0;
  int32_t heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  bool tied = false;
  int64_t weight_bytes = 0, kv_bytes_per_token = 0;
  std::vector<int32_t> eos_ids;
};

// progress(fraction in [0, 1]) returns false to abort the load (kCancelled).
using LoadProgress = std::function<bool(double)>;

class Engine {
 public:
  // Reads headers only. Throws as create does for a bad model.
  static MemoryEstimate estimate(const std::string& path, const Options& options);
  // Deadlines, times to live, leases and the times in events and results go by `now`; waiting does
  // not.
  static std::shared_ptr<Engine> create(const std::string& path, const Options& options,
                                        const LoadProgress& progress, Now now = Clock::now);
  virtual ~Engine() = default;

  // Checks each request alone: a bad one is finished at once with its own status; throws only when
  // the queue is full (kQueueFull) or the engine is closed or failed. namespaces is empty or has a
  // name for each request, which is opened and takes the place of name_space unless it is empty.
  virtual std::shared_ptr<Job> submit(std::vector<RequestSpec> requests,
                                      const std::vector<std::string>& namespaces = {}) = 0;

  // Interns a namespace; nothing is shared across namespaces. () is 0.
  virtual int32_t open_namespace(const NamespaceParts& parts) = 0;
  virtual int32_t find_namespace(const NamespaceParts& parts) = 0;  // -1 when it was never opened
  int32_t open_namespace(std::string_view name) { return open_namespace(namespace_parts(name)); }
  int32_t find_namespace(std::string_view name) { return find_namespace(namespace_parts(name)); }
  // Evicts everything unlocked in it; returns freed tokens.
  virtual int64_t drop_namespace(int32_t name_space) = 0;
  virtual int32_t namespace_count() = 0;

  // A pure read: does not change eviction order. One answer for each prompt.
  virtual std::vector<CacheInfo> cache_lookup(
      int32_t name_space, std::span<const std::span<const int32_t>> prompts) = 0;
  CacheInfo cache_lookup(int32_t name_space, const int32_t* tokens, size_t n) {
    const std::span<const int32_t> prompt(tokens, n);
    return cache_lookup(name_space, {&prompt, 1}).front();
  }
  // Evicts what continues this prefix, as far as nobody uses it; returns freed tokens.
  virtual int64_t cache_evict(int32_t name_space, const int32_t* tokens, size_t n) = 0;
  // Keeps the longest computed prefix in the cache until the lease ends; ttl_ms 0: until unpin.
  // Throws kNotFound when nothing of it is computed.
  virtual CachePin cache_pin(int32_t name_space, const int32_t* tokens, size_t n,
                             int64_t ttl_ms) = 0;
  virtual void cache_unpin(int64_t lease) = 0;  // kNotFound: no such lease, or it ended
  // Others do not evict the namespace below its floor, and it never holds more than its quota
  // (0: no quota). Both are rounded down to tokens.
  virtual void set_cache_limits(int32_t name_space, int64_t floor_bytes, int64_t quota_bytes) = 0;
  virtual CacheUsage cache_usage(int32_t name_space) = 0;
  // Evicts leaves in the order of the policy until at most target_bytes are held.
  virtual int64_t cache_trim(int64_t target_bytes) = 0;
  virtual std::string tree_json() = 0;
  // format: "svg" or "dot"; throws kInvalidArgument for another one.
  virtual std::string tree_picture(std::string_view format) = 0;

  // The first cache event that is kept with a sequence of at least `from`. Throws kNoEvent when
  // there is none yet, and kMisuse without option cache_events.
  virtual CacheEvent read_event(int64_t from) = 0;
  virtual EventDump dump_events() = 0;

  // No namespaces: all. They throw what the file's classes do (cache/snapshot_file.h).
  virtual SnapshotResult save_snapshot(const std::string& path,
                                       std::vector<int32_t> namespaces) = 0;
  virtual SnapshotResult load_snapshot(const std::string& path) = 0;
  virtual std::vector<TierInfo> tiers() = 0;

  virtual EngineStats stats() = 0;
  virtual EngineInfo info() = 0;
  virtual std::string info_json() = 0;  // effective options, model card, device
  virtual EngineState state() = 0;
  // Stops taking requests, waits up to timeout_ms for running ones (then cancels them), frees the
  // weights and the cache. Later calls answer kMisuse. Idempotent.
  virtual void shutdown(int64_t timeout_ms) = 0;
};

}  // namespace prefix
