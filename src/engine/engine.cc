#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/quote.h"
#include "cache/disk_tier.h"
#include "cache/kv_memory.h"
#include "cache/store_plugin.h"
#include "engine/lower_tiers.h"
#include "engine/page_keys.h"
#include "engine/request_check.h"
#include "engine/scheduler.h"
#include "engine/tree_text.h"
#include "model/model.h"
#include "ops/devices.h"
#include "tree/tree.h"

namespace prefix {
namespace {

using Clock = std::chrono::steady_clock;

// Longest sleep while all requests wait for a tier, which may also be cancelled or overdue.
constexpr std::chrono::milliseconds kTierPoll(10);
// What an engine that is closed waits for pages that are still on their way to a tier.
constexpr std::chrono::seconds kFlushTime(5);

ops::DType dtype_of(const Options& options) {
  return options.get("dtype") == "f32" ? ops::DType::kF32 : ops::DType::kBf16;
}

ops::KvLayout kv_layout_of(const ModelConfig& config, ops::DType dtype) {
  return {dtype, config.layers, config.kv_heads, config.head_dim};
}

int64_t kv_budget(const Options& options, int64_t page_bytes, int64_t free_bytes) {
  const int64_t asked = options.get_int("cache_bytes");
  if (asked > 0 && asked < page_bytes)
    fail(Code::kOutOfRange, "cache_bytes is ", asked, "; one page of ", kPageTokens,
         " tokens of this model takes ", page_bytes);
  return asked > 0 ? asked : std::max(free_bytes / 4, 64 * page_bytes);
}

int32_t context_length(const Options& options, const ModelConfig& config) {
  const int64_t asked = options.get_int("max_positions");
  return asked > 0 ? static_cast<int32_t>(std::min<int64_t>(asked, config.max_positions))
                   : config.max_positions;
}

MemoryEstimate estimate_of(const ModelConfig& c, const Options& options) {
  MemoryEstimate e;
  const ops::DType dtype = dtype_of(options);
  const auto padded = [](int64_t n) { return (n + 31) / 32 * 32; };
  const auto matrix = [&](int64_t n, int64_t k) {
    return padded(n) * padded(k) * static_cast<int64_t>(ops::dtype_bytes(dtype));
  };
  const int64_t q = int64_t{c.heads} * c.head_dim;
  const int64_t kv = int64_t{c.kv_heads} * c.head_dim;
  e.weight_bytes =
      c.layers * (matrix(q + 2 * kv, c.hidden) + matrix(c.hidden, q) +
                  2 * matrix(c.intermediate, c.hidden) + matrix(c.hidden, c.intermediate)) +
      matrix(c.vocab_size, c.hidden) * (c.tie_embeddings ? 1 : 2);
  const ops::KvLayout layout = kv_layout_of(c, dtype);
  e.kv_bytes_per_token = static_cast<int64_t>(layout.page_bytes()) / kPageTokens;
  e.kv_budget_bytes =
      kv_budget(options, static_cast<int64_t>(layout.page_bytes()), ops::available_host_memory());
  // Per row: residual, fused projection and its f32 output, activations of attention and FFN.
  const int64_t per_row = 4 * (2 * int64_t{c.hidden} + q + 2 * kv) + 4 * (c.hidden + 2 * q) +
                          4 * padded(c.intermediate);
  e.activation_bytes = options.get_int("rows") * per_row + 64 * 4 * padded(c.vocab_size);
  e.total_bytes = e.weight_bytes + e.kv_budget_bytes + e.activation_bytes;
  return e;
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(const std::string& path, const Options& options, const LoadProgress& progress)
      : options_(options) {
    const auto start = Clock::now();
    ModelFiles files = open_model(path);
    threads_ = static_cast<int>(options.get_int("threads"));
    if (threads_ <= 0) threads_ = static_cast<int>(std::thread::hardware_concurrency());
    threads_ = std::max(1, threads_);
    device_ = ops::make_device({options.get("device"), dtype_of(options), options.get("isa"),
                                threads_, options.get_bool("invariant")});
    model_ = std::make_unique<Model>(std::move(files), *device_,
                                     context_length(options, files.config), progress);
    const ops::KvLayout layout = model_->kv_layout();
    const auto page_bytes = static_cast<int64_t>(layout.page_bytes());
    const int64_t pages = std::min<int64_t>(
        kv_budget(options, page_bytes, device_->free_bytes()) / page_bytes, 1 << 26);
    pages_ = std::make_unique<PagePool>(static_cast<int32_t>(pages));
    kv_ = std::make_unique<KvMemory>(*device_, layout, static_cast<int32_t>(pages));
    tree_ = std::make_unique<Tree>(*pages_, tree_options());
    keys_ = std::make_unique<PageKeys>(*tree_, *pages_,
                                       [this](NodeId root) { return root_key_of(root); });
    open_tiers();
    scheduler_ = std::make_unique<Scheduler>(
        *model_, *kv_, *pages_, *tree_,
        SchedulerOptions{static_cast<int32_t>(options.get_int("rows")), options.get_bool("sharing"),
                         options.get_bool("cache"), threads_},
        tiers_.get());
    watch_tree();
    fill_info();
    load_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    thread_ = std::thread([this] { loop(); });
  }

  ~EngineImpl() override { shutdown(0); }

  std::shared_ptr<Job> submit(std::vector<RequestSpec> requests,
                              const std::vector<std::string>& namespaces) override {
    std::unique_lock lock(mutex_);
    require_open();
    const SchedulerCounters& c = scheduler_->counters();
    const int64_t limit = options_.get_int("queue_limit");
    const auto count = static_cast<int64_t>(requests.size());
    if (c.waiting + c.running + count > limit)
      fail(Code::kQueueFull, count, " requests do not fit: ", c.waiting + c.running,
           " are unfinished and queue_limit is ", limit);
    for (size_t i = 0; i < namespaces.size(); ++i)
      if (!namespaces[i].empty())
        requests[i].name_space = namespaces_.open(namespace_parts(namespaces[i]));
    auto job = std::make_shared<Job>(std::move(requests));
    for (size_t i = 0; i < job->count(); ++i) {
      try {
        const RequestSpec& spec = job->spec(i);
        check_request(spec, model_->config(), model_->max_positions(), namespaces_.count());
        if (require_salt_ && !namespaces_.has_salt(spec.name_space))
          fail(Code::kInvalidArgument, "namespace ", spec.name_space,
               " has no salt, and option require_salt is set");
      } catch (const Error& e) {
        RequestResult& result = job->edit_result(i);
        result.status = e.code();
        result.message = e.message();
        result.finish = Finish::kError;
        job->finish(i);
      }
    }
    scheduler_->enqueue(job);
    news_ = true;
    wake_.notify_all();
    return job;
  }

  int32_t open_namespace(const NamespaceParts& parts) override {
    std::lock_guard lock(mutex_);
    return namespaces_.open(parts);
  }
  int32_t find_namespace(const NamespaceParts& parts) override {
    std::lock_guard lock(mutex_);
    return namespaces_.find(parts);
  }
  int32_t namespace_count() override {
    std::lock_guard lock(mutex_);
    return namespaces_.count();
  }
  int64_t drop_namespace(int32_t name_space) override {
    std::lock_guard lock(mutex_);
    require_open();
    require_namespace(name_space);
    int64_t tokens = 0;
    for (NodeId root : scheduler_->roots_of(name_space)) tokens += tree_->drop(root);
    if (events_) events_->check_cleared();
    return tokens;
  }

  std::vector<CacheInfo> cache_lookup(int32_t name_space,
                                      std::span<const std::span<const int32_t>> prompts) override {
    std::lock_guard lock(mutex_);
    require_open();
    require_namespace(name_space);
    scheduler_->expire_cache();
    const std::vector<NodeId> roots = scheduler_->roots_of(name_space);
    std::vector<CacheInfo> found(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      for (const NodeId root : roots) {
        const Match m = tree_->match(root, prompts[i]);
        if (m.computed >= found[i].cached_tokens) found[i] = {m.computed, m.matched - m.computed};
      }
    }
    return found;
  }
  int64_t cache_evict(int32_t name_space, const int32_t* tokens, size_t n) override {
    std::lock_guard lock(mutex_);
    require_open();
    require_namespace(name_space);
    int64_t evicted = 0;
    for (NodeId root : scheduler_->roots_of(name_space)) {
      const Match m = tree_->match(root, {tokens, n});
      if (static_cast<size_t>(m.matched) == n) evicted += tree_->drop_after(m);
    }
    if (events_) events_->check_cleared();
    return evicted;
  }
  CachePin cache_pin(int32_t name_space, const int32_t* tokens, size_t n, int64_t ttl_ms) override {
    std::lock_guard lock(mutex_);
    require_open();
    require_namespace(name_space);
    if (ttl_ms < 0) fail(Code::kOutOfRange, "ttl_ms is ", ttl_ms, ", below 0");
    scheduler_->expire_cache();
    Match best;
    for (NodeId root : scheduler_->roots_of(name_space)) {
      const Match m = tree_->match(root, {tokens, n});
      if (m.computed > best.computed) best = m;
    }
    if (best.computed == 0) fail(Code::kNotFound, "nothing of these ", n, " tokens is cached");
    // The whole edge stays that holds the last token: a split would disturb a step that runs now.
    const NodeId node = tree_->node_at(best.node, best.computed - 1);
    return {scheduler_->add_lease(node, ttl_ms), best.computed};
  }
  void cache_unpin(int64_t lease) override {
    std::lock_guard lock(mutex_);
    require_open();
    scheduler_->expire_cache();
    if (!scheduler_->remove_lease(lease))
      fail(Code::kNotFound, "lease ", lease, " does not exist, or it has ended");
  }
  void set_cache_limits(int32_t name_space, int64_t floor_bytes, int64_t quota_bytes) override {
    std::lock_guard lock(mutex_);
    require_open();
    require_namespace(name_space);
    const int64_t token = info_.kv_bytes_per_token;
    if (floor_bytes < 0) fail(Code::kOutOfRange, "floor_bytes is ", floor_bytes, ", below 0");
    if (quota_bytes < 0) fail(Code::kOutOfRange, "quota_bytes is ", quota_bytes, ", below 0");
    if (quota_bytes > 0 && quota_bytes < token)
      fail(Code::kOutOfRange, "quota_bytes is ", quota_bytes, "; one token takes ", token);
    if (quota_bytes > 0 && floor_bytes > quota_bytes)
      fail(Code::kOutOfRange, "floor_bytes is ", floor_bytes, ", above quota_bytes, ", quota_bytes);
    tree_->set_limits(name_space, floor_bytes / token, quota_bytes / token);
    limits_[name_space] = {floor_bytes, quota_bytes};
  }
  CacheUsage cache_usage(int32_t name_space) override {
    std::lock_guard lock(mutex_);
    require_open();
    require_namespace(name_space);
    scheduler_->expire_cache();
    CacheUsage usage;
    usage.tokens = tree_->tokens_of(name_space);
    usage.bytes = usage.tokens * info_.kv_bytes_per_token;
    if (const auto found = limits_.find(name_space); found != limits_.end())
      std::tie(usage.floor_bytes, usage.quota_bytes) = found->second;
    return usage;
  }
  int64_t cache_trim(int64_t target_bytes) override {
    std::lock_guard lock(mutex_);
    require_open();
    if (target_bytes < 0) fail(Code::kOutOfRange, "target_bytes is ", target_bytes, ", below 0");
    const auto page = static_cast<int64_t>(kv_->layout().page_bytes());
    const int64_t evicted =
        tree_->trim(static_cast<int32_t>(std::min<int64_t>(target_bytes / page, INT32_MAX)));
    if (events_) events_->check_cleared();
    return evicted;
  }

  std::string tree_json() override {
    std::lock_guard lock(mutex_);
    require_open();
    return prefix::tree_json(*tree_);
  }

  std::string tree_picture(std::string_view format) override {
    std::lock_guard lock(mutex_);
    require_open();
    if (format == "dot") return tree_dot(picture());
    if (format == "svg") return tree_svg(picture());
    fail(Code::kInvalidArgument, "format is \"", format.substr(0, 40), "\"; it must be svg or dot");
  }

  CacheEvent read_event(int64_t from) override {
    std::lock_guard lock(mutex_);
    require_open();
    require_events();
    const CacheEvent* event = events_->read(from);
    if (!event) fail(Code::kNoEvent, "there is no event from ", from, " on");
    return *event;
  }
  EventDump dump_events() override {
    std::lock_guard lock(mutex_);
    require_open();
    require_events();
    EventDump dump;
    events_->dump(all_roots(), [&](const CacheEvent& event) { dump.blocks.push_back(event); });
    dump.next = events_->next_sequence();
    return dump;
  }

  SnapshotResult save_snapshot(const std::string& path, std::vector<int32_t> namespaces) override {
    const SnapshotCache cache = snapshot_cache();
    between_steps([&] {
      if (namespaces.empty()) {
        namespaces.resize(static_cast<size_t>(namespaces_.count()));
        std::iota(namespaces.begin(), namespaces.end(), 0);
      }
      for (const int32_t name_space : namespaces) require_namespace(name_space);
    });
    std::sort(namespaces.begin(), namespaces.end());
    namespaces.erase(std::unique(namespaces.begin(), namespaces.end()), namespaces.end());
    return prefix::save_snapshot(cache, path, namespaces);
  }
  SnapshotResult load_snapshot(const std::string& path) override {
    return prefix::load_snapshot(snapshot_cache(), path);
  }

  EngineStats stats() override {
    std::lock_guard lock(mutex_);
    EngineStats s;
    s.load_ns = load_ns_;
    if (!scheduler_) return s;
    const SchedulerCounters& c = scheduler_->counters();
    s.requests_waiting = c.waiting;
    s.requests_running = c.running;
    s.requests_finished = c.finished;
    s.requests_failed = c.failed;
    s.tokens_given = c.given;
    s.tokens_computed = c.computed;
    s.tokens_cached = c.cached;
    s.tokens_shared = c.shared;
    s.tokens_generated = c.generated;
    s.steps = c.steps;
    s.rows = c.rows;
    s.plan_ns = c.plan_ns;
    s.run_ns = c.run_ns;
    const auto page_bytes = static_cast<int64_t>(kv_->layout().page_bytes());
    s.pages_total = pages_->capacity();
    s.pages_used = pages_->used();
    s.page_tokens = kPageTokens;
    s.kv_bytes = pages_->used() * page_bytes;
    s.kv_bytes_peak = pages_->peak() * page_bytes;
    s.kv_budget_bytes = pages_->capacity() * page_bytes;
    s.weight_bytes = model_->weight_bytes();
    s.tree_nodes = static_cast<int64_t>(tree_->node_count());
    s.tree_tokens = tree_->token_count();
    s.evictions = tree_->evictions();
    s.evicted_tokens = tree_->evicted_tokens();
    const MissCounts& misses = scheduler_->misses().counts();
    s.miss_first_seen = misses.first_seen;
    s.miss_namespace = misses.name_space;
    s.miss_budget = misses.budget;
    s.miss_evicted = misses.evicted;
    s.miss_granularity = misses.granularity;
    s.metadata_bytes = static_cast<int64_t>(tree_->metadata_bytes() + pages_->metadata_bytes());
    if (tiers_) {
      s.fetched_tokens = tiers_->counters().fetched_tokens;
      s.fetch_skipped_tokens = tiers_->counters().skipped_tokens;
      s.fetch_timeouts = tiers_->counters().timeouts;
    }
    const ModelTimes& t = times_;
    s.activation_bytes_peak = t.activation_bytes_peak;
    s.gemm_ns = t.gemm_ns;
    s.attention_ns = t.attention_ns;
    s.other_ns = t.other_ns;
    return s;
  }

  std::vector<TierInfo> tiers() override {
    std::lock_guard lock(mutex_);
    std::vector<TierInfo> list;
    for (size_t i = 0; tiers_ && i < tiers_->count(); ++i)
      list.push_back({tiers_->name(i), tiers_->stats(i)});
    return list;
  }

  EngineInfo info() override { return info_; }

  std::string info_json() override {
    JsonText json;
    json.open('{').key("model").open('{').field("architecture", info_.architecture);
    json.field("vocab_size", info_.vocab_size).field("hidden", info_.hidden);
    json.field("layers", info_.layers).field("heads", info_.heads);
    json.field("kv_heads", info_.kv_heads).field("head_dim", info_.head_dim);
    json.field("intermediate", info_.intermediate).field("max_positions", info_.max_positions);
    json.field("tied", info_.tied).list("eos_ids", info_.eos_ids);
    json.field("weight_bytes", info_.weight_bytes);
    json.field("kv_bytes_per_token", info_.kv_bytes_per_token).close('}');
    json.key("options").open('{');
    for (const OptionInfo& o : option_table())
      if (o.scope == OptionScope::kEngine) json.field(o.key, options_.get(o.key));
    json.close('}').field("device", info_.device).field("isa", info_.isa);
    json.field("dtype", info_.dtype).field("threads", info_.threads);
    return json.close('}').text();
  }

  EngineState state() override {
    std::lock_guard lock(mutex_);
    return state_;
  }

  void shutdown(int64_t timeout_ms) override {
    std::unique_lock lock(mutex_);
    if (state_ == EngineState::kClosed) return;
    if (state_ == EngineState::kReady) state_ = EngineState::kDraining;
    // A second shutdown may run out of patience first; after it there is no scheduler.
    const auto idle = [this] { return stop_ || scheduler_->idle(); };
    if (timeout_ms > 0) idle_.wait_for(lock, waiting_time(timeout_ms), idle);
    stop_ = true;
    wake_.notify_all();
    idle_.notify_all();
    lock.unlock();
    {
      std::lock_guard join(join_mutex_);
      if (thread_.joinable()) thread_.join();
    }
    lock.lock();
    if (state_ == EngineState::kClosed) return;
    scheduler_->abort_all(Code::kCancelled, "the engine was shut down");
    state_ = EngineState::kClosed;
    scheduler_.reset();
    if (tiers_) tiers_->flush(kFlushTime);
    tiers_.reset();
    events_.reset();
    keys_.reset();
    tree_.reset();
    kv_.reset();
    pages_.reset();
    model_.reset();
    device_.reset();
    lock.unlock();
    log_message(LogLevel::kInfo, "an engine was shut down");
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (scheduler_->idle()) idle_.notify_all();
      stepping_ = false;
      if (visitors_ > 0) {
        quiet_.notify_all();
        quiet_.wait(lock, [this] { return visitors_ == 0; });
      }
      wake_.wait(lock, [this] { return stop_ || !scheduler_->idle(); });
      if (stop_) return;
      try {
        scheduler_->plan();
        if (scheduler_->only_waits()) {
          wake_.wait_for(lock, kTierPoll, [this] { return stop_ || news_.exchange(false); });
          continue;
        }
        stepping_ = true;
        lock.unlock();
        scheduler_->execute();
        lock.lock();
        times_ = model_->times();
        scheduler_->complete();
        if (scheduler_->failed())
          fail_engine(lock, Code::kEngineFailed, "the engine failed on an earlier request");
      } catch (const std::bad_alloc&) {  // in the middle of a plan: what it left is not known
        fail_engine(lock, Code::kOutOfMemory, "out of host memory while a step was planned");
      } catch (const std::exception& e) {  // an invariant of the engine itself
        fail_engine(lock, Code::kEngineFailed, e.what());
      }
    }
  }

  // Runs f under the lock while no step is being computed; the next one waits.
  void between_steps(const std::function<void()>& f) {
    std::unique_lock lock(mutex_);
    struct Visit {
      EngineImpl& engine;
      explicit Visit(EngineImpl& e) : engine(e) { ++engine.visitors_; }
      ~Visit() {
        if (--engine.visitors_ == 0) engine.quiet_.notify_all();
      }
    } visit(*this);
    quiet_.wait(lock, [this] { return !stepping_; });
    require_open();
    f();
  }

  SnapshotCache snapshot_cache() {
    std::unique_lock lock(mutex_);
    require_open();
    if (!options_.get_bool("sharing"))
      fail(Code::kMisuse, "the engine shares nothing (option sharing), so there is no cache");
    const auto page_bytes = static_cast<uint64_t>(kv_->layout().page_bytes());
    return {*tree_,
            *pages_,
            *kv_,
            namespaces_,
            [this](const std::function<void()>& f) { between_steps(f); },
            [this](int32_t name_space) { return scheduler_->roots_of(name_space); },
            [this](int32_t name_space, bool long_regime) {
              return scheduler_->root_of(name_space, long_regime ? model_->max_positions() : 1);
            },
            {fingerprint(), kPageTokens, page_bytes}};
  }

  // The status is that of the requests that were there; later calls answer ENGINE_FAILED. Runs when
  // memory may be short, so it takes none.
  void fail_engine(std::unique_lock<std::mutex>& lock, Code code, const char* message) noexcept {
    if (!lock.owns_lock()) lock.lock();
    state_ = EngineState::kFailed;
    scheduler_->abort_all(code, message);
    lock.unlock();  // the log's callback may call the engine
    log_message(LogLevel::kError, message);
    lock.lock();
  }

  TreeOptions tree_options() const {
    const ModelConfig& c = model_->config();
    // Multiplications for one token in a layer: of the matrices, and of attention for each key.
    const double q = static_cast<double>(c.heads) * c.head_dim;
    const double kv = static_cast<double>(c.kv_heads) * c.head_dim;
    TreeOptions tree;
    tree.policy = *policy_of(options_.get("cache_policy"));
    tree.token_cost = c.hidden * (2 * q + 2 * kv + 3.0 * c.intermediate);
    tree.position_cost = 2 * q;
    return tree;
  }
  void watch_tree() {
    if (!options_.get_bool("sharing")) return;
    const int64_t capacity = options_.get_int("cache_events");
    const auto event_tokens = static_cast<int32_t>(options_.get_int("cache_event_tokens"));
    if (event_tokens % kPageTokens != 0)
      fail(Code::kOutOfRange, "cache_event_tokens is ", event_tokens,
           "; it must be a multiple of the page of ", kPageTokens, " tokens");
    if (capacity > 0) {
      events_ = std::make_unique<CacheEvents>(*tree_, *keys_, *pages_,
                                              static_cast<size_t>(capacity), event_tokens);
      fingerprint();  // now, not in the middle of a request
    }
    Tree::Observer observer;
    observer.gone = [this](NodeId id, int32_t from, Gone why) {
      if (why == Gone::kRoom) scheduler_->misses().made_room(*tree_, id, from);
      if (events_) events_->gone(id, from);
    };
    if (events_)
      observer.computed = [this](NodeId id, int32_t from) { events_->computed(id, from); };
    tree_->set_observer(std::move(observer));
  }
  TreePicture picture() const {
    std::vector<std::pair<NodeId, std::string>> roots;
    for (int32_t i = 0; i < namespaces_.count(); ++i)
      for (const NodeId root : scheduler_->roots_of(i))
        roots.emplace_back(root, namespace_label(namespaces_.parts(i)));
    return picture_of(*tree_, roots);
  }
  void require_events() const {
    if (!events_)
      fail(Code::kMisuse, "the engine keeps no events; create it with option cache_events");
  }
  std::vector<NodeId> all_roots() const {
    std::vector<NodeId> roots;
    for (int32_t i = 0; i < namespaces_.count(); ++i)
      for (const NodeId root : scheduler_->roots_of(i)) roots.push_back(root);
    return roots;
  }

  // The tiers that the options name. Whatever keeps one from being used is known here, or a miss.
  void open_tiers() {
    std::vector<LowerTier> tiers;
    // When the scheduler has nothing to do but wait for pages.
    const auto on_done = [this] {
      news_ = true;
      wake_.notify_all();
    };
    if (const std::string folder = options_.get("cache_disk"); !folder.empty()) {
      DiskTierOptions disk;
      disk.folder = folder;
      disk.cap_bytes = static_cast<uint64_t>(options_.get_int("cache_disk_bytes"));
      disk.queue.on_done = on_done;
      tiers.push_back({"disk", std::make_unique<DiskTier>(std::move(disk))});
    }
    if (const std::string url = options_.get("cache_store"); !url.empty()) {
      StoreOptions store;
      store.queue.on_done = on_done;
      tiers.push_back({"store", open_store(url, store)});
    }
    if (tiers.empty()) return;
    const std::chrono::milliseconds timeout(options_.get_int("cache_fetch_ms"));
    tiers_ = std::make_unique<LowerTiers>(std::move(tiers), *tree_, *pages_, *kv_, *keys_, timeout);
    fingerprint();  // now, not in the middle of a request
  }
  const Sha256::Digest& fingerprint() {
    std::call_once(fingerprint_once_, [this] { fingerprint_ = model_->fingerprint(threads_); });
    return fingerprint_;
  }
  // The keys of all pages of a namespace hang on this; of a model with two rotary regimes, each has
  // its own.
  PageKey root_key_of(NodeId root) {
    const Node& n = tree_->node(root);
    const NamespaceParts& parts = namespaces_.parts(tree_->space(n));
    const std::vector<std::string_view> views(parts.begin(), parts.end());
    Sha256 model;
    model.update(fingerprint().data(), fingerprint().size());
    model.update(tree_->rope_offset(n) > 0 ? "long" : "base", 4);
    return root_key(model.finish(), views);
  }
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
  void fill_info() {
    const ModelConfig& c = model_->config();
    info_.architecture = c.architecture;
    info_.isa = device_->isa();
    info_.device = device_->name();
    info_.dtype = device_->dtype() == ops::DType::kF32 ? "f32" : "bf16";
    info_.vocab_size = c.vocab_size;
    info_.hidden = c.hidden;
    info_.layers = c.layers;
    info_.max_positions = model_->max_positions();
    info_.threads = threads_;
    info_.eos_ids = c.eos_ids;
    info_.heads = c.heads;
    info_.kv_heads = c.kv_heads;
    info_.head_dim = c.head_dim;
    info_.intermediate = c.intermediate;
    info_.tied = c.tie_embeddings;
    info_.weight_bytes = model_->weight_bytes();
    info_.kv_bytes_per_token = static_cast<int64_t>(model_->kv_layout().page_bytes()) / kPageTokens;
  }

  Options options_;
  int threads_ = 1;
  std::unique_ptr<ops::Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<KvMemory> kv_;
  std::unique_ptr<Tree> tree_;
  std::unique_ptr<PageKeys> keys_;
  std::unique_ptr<LowerTiers> tiers_;    // null: none
  std::unique_ptr<CacheEvents> events_;  // null: nobody wants them
  std::unique_ptr<Scheduler> scheduler_;
  Namespaces namespaces_;
  bool require_salt_ = options_.get_bool("require_salt");
  std::once_flag fingerprint_once_;
  Sha256::Digest fingerprint_{};
  std::map<int32_t, std::pair<int64_t, int64_t>> limits_;  // floor and quota in bytes
  EngineInfo info_;
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

}  // namespace

MemoryEstimate Engine::estimate(const std::string& path, const Options& options) {
  return estimate_of(open_model(path).config, options);
}

std::shared_ptr<Engine> Engine::create(const std::string& path, const Options& options,
                                       const LoadProgress& progress) {
  auto engine = std::make_shared<EngineImpl>(path, options, progress);
  const EngineInfo info = engine->info();
  log_message(LogLevel::kInfo,
              cat("loaded ", quote(path, 400), ": ", info.architecture, ", ", info.layers,
                  " layers, ", info.dtype, " on ", info.isa, " with ", info.threads,
                  " threads, in ", engine->stats().load_ns / 1000000, " ms"));
  return engine;
}

}  // namespace prefix
