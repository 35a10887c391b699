// The engine: one model on one device, one prefix tree, one scheduler thread.
//
//   any thread ── submit(requests) ──> queue ──> scheduler thread: match, extend, step, finish
//   any thread <── Job: wait, events, results <──┘            (see schedule/scheduler.h)
//
// All methods may be called from any thread: one lock guards everything but the computing of
// a step. engine.cc has the life of an engine and of its requests, engine_adapters.cc that
// of adapters, engine_cache.cc what its owner does with the cache, engine_info.cc what it
// tells of itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/input_folder.h"
#include "base/sha256.h"
#include "cache/namespaces.h"
#include "cache/snapshot.h"
#include "engine/adapter_names.h"
#include "engine/engine_reports.h"
#include "engine/job.h"
#include "engine/options.h"
#include "engine/request.h"
#include "engine/request_check.h"
#include "engine/request_histograms.h"
#include "engine/step_gate.h"
#include "model/model.h"
#include "tree/tree.h"

namespace prefix {

namespace ops {
struct DeviceOptions;
}  // namespace ops

class KvMemory;
class LowerTiers;
class PageKeys;
class PolicyGhosts;
class Scheduler;

// progress(fraction in [0, 1]) returns false to abort the load (kCancelled).
using LoadProgress = std::function<bool(double)>;

class Engine {
 public:
  // Throws for options that contradict each other; create does too, and looks at no file before.
  static void check_options(const Options& options);
  // Reads headers only. Throws as create does for a bad model.
  static MemoryEstimate estimate(const ModelSource& source, const Options& options);
  // Deadlines, times to live, leases and the times in events and results go by `now`; waiting does
  // not.
  static std::shared_ptr<Engine> create(const ModelSource& source, const Options& options,
                                        const LoadProgress& progress, Now now = Clock::now);
  Engine(const ModelSource& source, const Options& options, const LoadProgress& progress, Now now);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks each request alone: a bad one is finished at once with its own status; throws only when
  // the queue is full (kQueueFull) or the engine is closed or failed. namespaces is empty or has a
  // name for each request, which is opened and takes the place of name_space unless it is empty.
  std::shared_ptr<Job> submit(std::vector<RequestSpec> requests,
                              const std::vector<std::string>& namespaces = {});

  // Interns a namespace; nothing is shared across namespaces. () is 0.
  int32_t open_namespace(const NamespaceParts& parts);
  int32_t find_namespace(const NamespaceParts& parts);  // -1 when it is not open
  int32_t open_namespace(std::string_view name) { return open_namespace(namespace_parts(name)); }
  int32_t find_namespace(std::string_view name) { return find_namespace(namespace_parts(name)); }
  // Evicts everything unlocked in it; returns freed tokens.
  int64_t drop_namespace(int32_t name_space);
  // The name is free at once and the number never given again; leases in it end. What requests
  // still use goes with the last of them. Returns freed tokens. Throws kInvalidArgument for 0.
  int64_t close_namespace(int32_t name_space);
  int32_t namespace_count();  // that are open

  // Loads the files of a PEFT directory on the calling thread while the engine goes on; a name that
  // was there stands for it from then on. Throws what open_adapter() and Model::load_adapter() do.
  void load_adapter(const std::string& name, const InputFolder& folder);
  void load_adapter(const std::string& name, const std::string& path) {
    load_adapter(name, Directory(path));
  }
  // Requests that were submitted keep it until they end. Throws kNotFound.
  void unload_adapter(const std::string& name);
  // The namespace in which requests of this one with the adapter run, made when it is new.
  int32_t adapter_namespace(int32_t name_space, const std::string& adapter);
  std::string adapters_json();

  // A pure read: does not change eviction order. One answer for each prompt.
  std::vector<CacheInfo> cache_lookup(int32_t name_space,
                                      std::span<const std::span<const int32_t>> prompts);
  CacheInfo cache_lookup(int32_t name_space, const int32_t* tokens, size_t n) {
    const std::span<const int32_t> prompt(tokens, n);
    return cache_lookup(name_space, {&prompt, 1}).front();
  }
  // Evicts what continues this prefix and is not in use; returns freed tokens.
  int64_t cache_evict(int32_t name_space, const int32_t* tokens, size_t n);
  // Keeps the longest computed prefix in the cache until the lease ends; ttl_ms 0: until unpin.
  // Throws kNotFound when nothing of it is computed.
  CachePin cache_pin(int32_t name_space, const int32_t* tokens, size_t n, int64_t ttl_ms);
  void cache_unpin(int64_t lease);  // kNotFound: no such lease, or it ended
  // Others do not evict the namespace below its floor, and it never holds more than its quota
  // (0: no quota). Both are rounded down to tokens.
  void set_cache_limits(int32_t name_space, int64_t floor_bytes, int64_t quota_bytes);
  CacheUsage cache_usage(int32_t name_space);
  // Evicts leaves in the order of the policy until at most target_bytes are held.
  int64_t cache_trim(int64_t target_bytes);
  std::string tree_json();  // engine/tree_json.h

  // The first cache event that is kept with a sequence of at least `from`. Throws kNoEvent when
  // there is none yet, and kMisuse without option cache_events.
  CacheEvent read_event(int64_t from);
  EventDump dump_events();

  // No namespaces: all. They throw what the file's classes do (cache/snapshot_file.h), and
  // kNotFound for a namespace that is not open.
  SnapshotResult save_snapshot(const std::string& path, std::vector<int32_t> namespaces);
  SnapshotResult load_snapshot(const std::string& path);
  std::vector<TierInfo> tiers();

  EngineStats stats();
  RequestHistograms histograms();
  const EngineInfo& info() const { return info_; }  // as long as the engine
  std::string info_json();                          // effective options, model card, device
  EngineState state();
  void check();        // throws kInternal when an invariant is broken; for tests
  void check_ready();  // throws kMisuse when it is shut down, kEngineFailed
  // Stops taking requests, waits up to timeout_ms for running ones (then cancels them), frees the
  // weights and the cache. Later calls answer kMisuse. Idempotent.
  void shutdown(int64_t timeout_ms);

 private:
  // Nothing is freed while there is one. Throws unless the engine takes calls,
  // and has room for so many requests.
  class Hold {
   public:
    explicit Hold(Engine& engine, int64_t requests = 0);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Engine& engine_;
  };

  void loop();

  // Runs f under the lock while no step is being computed (step_gate.h).
  void run_exclusive(const std::function<void()>& f);

  Match match_of(int32_t name_space, std::span<const int32_t> tokens) const;
  int32_t usable_tokens(const Match& match, size_t length, bool lasting = false) const;

  CachePin pin_now(int32_t name_space, std::span<const int32_t> tokens, int64_t ttl_ms);

  SnapshotCache snapshot_cache();

  // The status is that of the requests that were there; later calls answer ENGINE_FAILED. Runs when
  // memory may be short, so it takes none.
  void fail_engine(std::unique_lock<std::mutex>& lock, Code code, const char* message) noexcept;

  TreeOptions tree_options() const;
  std::shared_ptr<PolicyGhosts> policy_ghosts() const;
  void watch_tree(const LoadProgress& progress);
  bool is_open(NodeId id) const;  // the namespace that it belongs to
  RequestLimits request_limits() const;
  void require_events() const;

  void load_model(const ModelSource& source, ModelFiles files,
                  const ops::DeviceOptions& device_options, const LoadProgress& progress);
  // The tiers that the options name. Whatever keeps one from being used is known here, or a miss.
  void open_tiers(const LoadProgress& progress);
  // Reads all weights the first time, so not under the lock.
  const Sha256::Digest& fingerprint(const LoadProgress& progress);
  // The keys of all pages of a namespace hang on this; of a model with two rotary regimes, each has
  // its own.
  PageKey root_key_of(NodeId root);
  void require_open() const;
  void require_room(int64_t requests) const;
  std::map<size_t, Error> check_requests(const std::vector<RequestSpec>& requests);
  void admit_to_namespace(RequestSpec& spec);
  int64_t close_one(int32_t name_space);
  void free_closed_namespaces();
  void name_adapter(const std::string& name, AdapterNames::Entry entry);
  void change_adapter(const std::string& part, const std::function<void()>& f);
  void free_retired_adapters();
  const AdapterNames::Entry& require_adapter(const std::string& name) const;
  std::vector<int32_t> adapter_namespaces(int32_t name_space) const;
  int32_t open_adapter_namespace(int32_t name_space, const std::string& adapter);
  void adapt(RequestSpec& spec);
  int32_t adapter_of(int32_t name_space);
  int64_t take_memory(int64_t page_bytes);
  void refuse_tiers() const;
  EngineStats stats_now() const;
  std::vector<TierInfo> tiers_now() const;
  void keep_reports();
  void fill_info(const std::string& source_name);

  Options options_;
  Now now_;
  std::shared_ptr<Threads> threads_;
  std::shared_ptr<ops::Device> device_;  // shared with loads of adapters, and so is the model
  std::shared_ptr<Model> model_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<KvMemory> kv_;
  std::unique_ptr<Tree> tree_;
  std::unique_ptr<PageKeys> keys_;
  std::unique_ptr<LowerTiers> tiers_;              // null: none
  std::unique_ptr<CacheEvents> events_;            // null: option cache_events is off
  std::vector<std::weak_ptr<PagesToSave>> saves_;  // that run, and some that are over
  std::unique_ptr<Scheduler> scheduler_;
  Namespaces namespaces_;
  AdapterNames adapters_;
  int holds_ = 0;
  bool require_salt_ = options_.get_bool("require_salt");
  std::optional<Sha256::Digest> fingerprint_;  // with tiers or events from the beginning
  std::map<int32_t, std::pair<int64_t, int64_t>> limits_;  // floor and quota in bytes
  EngineInfo info_;
  std::vector<std::string> warnings_;  // of the options
  ModelTimes times_;
  int64_t load_ns_ = 0;
  // Of an engine that was shut down.
  struct {
    EngineStats stats;
    std::optional<RequestHistograms> histograms;
    std::vector<TierInfo> tiers;
  } last_;

  std::mutex mutex_;
  std::mutex fingerprint_mutex_;  // before mutex_
  std::mutex close_mutex_;        // before mutex_: of those that shut down, one after the other
  std::condition_variable wake_;
  std::condition_variable idle_;
  EngineState state_ = EngineState::kReady;
  bool stop_ = false;
  StepGate gate_;                            // steps are computed without the lock
  std::atomic<bool> wake_requested_{false};  // a request came, or pages from a tier
  std::thread thread_;
};

}  // namespace prefix
