// What stands behind Engine: one lock, one scheduler thread, and everything they own. Its methods
// are in three files: engine.cc has the life of an engine and of its requests, engine_cache.cc what
// its owner does with the cache, engine_info.cc what it tells of itself.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/kv_memory.h"
#include "cache/lower_tiers.h"
#include "cache/page_keys.h"
#include "engine/engine.h"
#include "engine/schedule/scheduler.h"
#include "engine/tree_text.h"
#include "model/model.h"
#include "tree/tree.h"

namespace prefix {

class EngineImpl final : public Engine {
 public:
  EngineImpl(const std::string& path, const Options& options, const LoadProgress& progress,
             Now now);

  ~EngineImpl() override { shutdown(0); }

  std::shared_ptr<Job> submit(std::vector<RequestSpec> requests,
                              const std::vector<std::string>& namespaces) override;

  int32_t open_namespace(const NamespaceParts& parts) override {
    std::lock_guard lock(mutex_);
    require_open();
    return namespaces_.open(parts);
  }
  int32_t find_namespace(const NamespaceParts& parts) override {
    std::lock_guard lock(mutex_);
    require_open();
    return namespaces_.find(parts);
  }
  int32_t namespace_count() override {
    std::lock_guard lock(mutex_);
    return namespaces_.count();
  }
  int64_t drop_namespace(int32_t name_space) override;

  std::vector<CacheInfo> cache_lookup(int32_t name_space,
                                      std::span<const std::span<const int32_t>> prompts) override;
  int64_t cache_evict(int32_t name_space, const int32_t* tokens, size_t n) override;
  CachePin cache_pin(int32_t name_space, const int32_t* tokens, size_t n, int64_t ttl_ms) override;
  void cache_unpin(int64_t lease) override;
  void set_cache_limits(int32_t name_space, int64_t floor_bytes, int64_t quota_bytes) override;
  CacheUsage cache_usage(int32_t name_space) override;
  int64_t cache_trim(int64_t target_bytes) override;

  std::string tree_json() override;

  std::string tree_picture(std::string_view format) override;

  CacheEvent read_event(int64_t from) override;
  EventDump dump_events() override;

  SnapshotResult save_snapshot(const std::string& path, std::vector<int32_t> namespaces) override;
  SnapshotResult load_snapshot(const std::string& path) override;

  EngineStats stats() override;

  std::vector<TierInfo> tiers() override;

  EngineInfo info() override { return info_; }

  std::string info_json() override;

  EngineState state() override {
    std::lock_guard lock(mutex_);
    return state_;
  }

  void shutdown(int64_t timeout_ms) override;

 private:
  void loop();

  // Runs f under the lock while no step is being computed; the next one waits.
  void between_steps(const std::function<void()>& f);

  SnapshotCache snapshot_cache();

  // The status is that of the requests that were there; later calls answer ENGINE_FAILED. Runs when
  // memory may be short, so it takes none.
  void fail_engine(std::unique_lock<std::mutex>& lock, Code code, const char* message) noexcept;

  TreeOptions tree_options() const;
  void watch_tree();
  TreePicture picture() const;
  void require_events() const {
    if (!events_)
      fail(Code::kMisuse, "the engine keeps no events; create it with option cache_events");
  }
  std::vector<NodeId> all_roots() const;

  // The tiers that the options name. Whatever keeps one from being used is known here, or a miss.
  void open_tiers();
  const Sha256::Digest& fingerprint() {
    std::call_once(fingerprint_once_, [this] { fingerprint_ = model_->fingerprint(threads_); });
    return fingerprint_;
  }
  // The keys of all pages of a namespace hang on this; of a model with two rotary regimes, each has
  // its own.
  PageKey root_key_of(NodeId root);
  void require_open() const {
    if (state_ == EngineState::kFailed)
      fail(Code::kEngineFailed, "the engine failed earlier; create a new one");
    if (state_ != EngineState::kReady)
      fail(Code::kMisuse, "the engine is shut down and takes no more calls");
  }
  void require_namespace(int32_t name_space) const {
    if (!namespaces_.has(name_space))
      fail(Code::kNotFound, "namespace ", name_space, " was never opened");
  }
  int64_t take_memory(int64_t page_bytes);
  void fill_info();

  Options options_;
  Now now_;
  int threads_ = 1;
  std::unique_ptr<ops::Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<KvMemory> kv_;
  std::unique_ptr<Tree> tree_;
  std::unique_ptr<PageKeys> keys_;
  std::unique_ptr<LowerTiers> tiers_;              // null: none
  std::unique_ptr<CacheEvents> events_;            // null: nobody wants them
  std::vector<std::weak_ptr<PagesToSave>> saves_;  // that run, and some that are over
  std::unique_ptr<Scheduler> scheduler_;
  Namespaces namespaces_;
  bool require_salt_ = options_.get_bool("require_salt");
  std::once_flag fingerprint_once_;
  Sha256::Digest fingerprint_{};
  std::map<int32_t, std::pair<int64_t, int64_t>> limits_;  // floor and quota in bytes
  EngineInfo info_;
  std::vector<std::string> warnings_;  // of the options, for whoever does not read the log
  ModelTimes times_;
  int64_t load_ns_ = 0;

  std::mutex mutex_;
  std::mutex join_mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  EngineState state_ = EngineState::kReady;
  bool stop_ = false;
  bool stepping_ = false;          // a step is being computed, without the lock
  int visitors_ = 0;               // of between_steps()
  std::condition_variable quiet_;  // stepping_ or visitors_ changed
  std::atomic<bool> news_{false};  // a request came, or pages from a tier
  std::thread thread_;
};

}  // namespace prefix
