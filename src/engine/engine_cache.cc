// The cache as the owner of the engine sees it.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "cache/disk_tier.h"
#include "cache/kv_memory.h"
#include "cache/lower_tiers.h"
#include "cache/page_keys.h"
#include "cache/store_plugin.h"
#include "engine/engine.h"
#include "engine/pool.h"
#include "engine/schedule/scheduler.h"
#include "engine/tree_json.h"

namespace prefix {

int64_t Engine::drop_namespace(int32_t name_space) {
  std::lock_guard lock(mutex_);
  require_open();
  namespaces_.require(name_space);
  scheduler_->expire_cache();
  std::vector<int32_t> all = adapter_namespaces(name_space);
  all.push_back(name_space);
  int64_t tokens = 0;
  for (const int32_t one : all)
    scheduler_->roots().for_each(one, [&](NodeId root) { tokens += tree_->drop(root); });
  if (events_) events_->check_cleared();
  return tokens;
}

int64_t Engine::close_namespace(int32_t name_space) {
  std::lock_guard lock(mutex_);
  require_open();
  namespaces_.require(name_space);
  if (name_space == 0)
    fail(Code::kInvalidArgument, "namespace 0 is always there and cannot be closed");
  int64_t freed = 0;
  for (const int32_t one : adapter_namespaces(name_space)) freed += close_one(one);
  freed += close_one(name_space);
  free_closed_namespaces();
  return freed;
}

// What its requests hold stays in memory, but nobody finds it there, and its blocks have the names
// of those of the next namespace that is opened by its name: for readers of events it goes now.
int64_t Engine::close_one(int32_t name_space) {
  const int64_t before = tree_->tokens_of(name_space);
  scheduler_->expire_cache();
  scheduler_->end_leases(name_space);
  scheduler_->roots().for_each(name_space, [&](NodeId root) {
    tree_->drop(root);
    if (events_) events_->removed(root);
  });
  const int64_t freed = before - tree_->tokens_of(name_space);
  limits_.erase(name_space);
  namespaces_.close(name_space);
  return freed;
}

// Also whenever requests may have ended, before anyone can see that.
void Engine::free_closed_namespaces() {
  const auto& closed = namespaces_.closed();
  for (auto at = closed.begin(); at != closed.end();) {
    const int32_t name_space = at++->first;
    if (scheduler_->uses(name_space)) continue;
    scheduler_->roots().for_each(name_space, [&](NodeId root) {
      tree_->drop(root);
      keys_->forget(root);
      if (tiers_) tiers_->forget(root);
    });
    scheduler_->forget(name_space);
    tree_->remove_namespace(name_space);
    namespaces_.forget(name_space);
    if (events_) events_->check_cleared();
  }
  if (!adapters_.retired().empty()) free_retired_adapters();
}

// Of what matched, as far as a request can go on from: of a model with recurrent layers the deepest
// state; with a window the deepest place before which the keys of a window are, `lasting`: and stay
// while the path is held; of a bidirectional model all `length` tokens, or none.
int32_t Engine::usable_tokens(const Match& match, size_t length, bool lasting) const {
  if (info_.bidirectional && static_cast<size_t>(match.matched) != length) return 0;
  if (info_.recurrent_layers == 0) return tree_->resumable(match.node, match.computed, lasting);
  const NodeId state = tree_->state_at(match.node, match.computed, lasting);
  return state == kNoNode ? 0 : tree_->node(state).end();
}

// What there is of the path that a request would have which reads these tokens and no more.
Match Engine::match_of(int32_t name_space, std::span<const int32_t> tokens) const {
  const auto length = static_cast<int32_t>(std::min<size_t>(tokens.size(), INT32_MAX));
  const NodeId root = scheduler_->roots().find(name_space, length);
  return root == kNoNode ? Match{} : tree_->match(root, tokens);
}

std::vector<CacheInfo> Engine::cache_lookup(int32_t name_space,
                                            std::span<const std::span<const int32_t>> prompts) {
  std::lock_guard lock(mutex_);
  require_open();
  namespaces_.require(name_space);
  scheduler_->expire_cache();
  std::vector<CacheInfo> found;
  found.reserve(prompts.size());
  for (const std::span<const int32_t> prompt : prompts) {
    const Match m = match_of(name_space, prompt);
    found.push_back({usable_tokens(m, prompt.size()), m.matched - m.computed});
  }
  return found;
}

int64_t Engine::cache_evict(int32_t name_space, const int32_t* tokens, size_t n) {
  std::lock_guard lock(mutex_);
  require_open();
  namespaces_.require(name_space);
  scheduler_->expire_cache();
  int64_t evicted = 0;
  scheduler_->roots().for_each(name_space, [&](NodeId root) {
    const Match m = tree_->match(root, {tokens, n});
    if (static_cast<size_t>(m.matched) == n) evicted += tree_->drop_after(m);
  });
  if (events_) events_->check_cleared();
  return evicted;
}

// The node of the last token that stays is to end there, so that no more stays. No lease: it takes
// a split, which would disturb the step that runs.
CachePin Engine::pin_now(int32_t name_space, std::span<const int32_t> tokens, int64_t ttl_ms) {
  namespaces_.require(name_space);
  if (ttl_ms < 0) fail(Code::kOutOfRange, "ttl_ms is ", ttl_ms, ", below 0");
  scheduler_->expire_cache();
  const Match m = match_of(name_space, tokens);
  const int32_t stays = usable_tokens(m, tokens.size(), true);
  if (stays == 0) fail(Code::kNotFound, "nothing of these ", tokens.size(), " tokens is cached");
  if (gate_.stepping() && tree_->node(tree_->node_at(m.node, stays - 1)).end() != stays) return {};
  return {scheduler_->add_lease(tree_->end_at(m.node, stays), ttl_ms), stays};
}

CachePin Engine::cache_pin(int32_t name_space, const int32_t* tokens, size_t n, int64_t ttl_ms) {
  const Hold hold(*this);
  CachePin pin;
  {
    std::lock_guard lock(mutex_);
    require_open();
    pin = pin_now(name_space, {tokens, n}, ttl_ms);
  }
  if (pin.lease == 0) run_exclusive([&] { pin = pin_now(name_space, {tokens, n}, ttl_ms); });
  return pin;
}

void Engine::cache_unpin(int64_t lease) {
  std::lock_guard lock(mutex_);
  require_open();
  scheduler_->expire_cache();
  if (!scheduler_->remove_lease(lease))
    fail(Code::kNotFound, "lease ", lease, " does not exist, or it has ended");
}

void Engine::set_cache_limits(int32_t name_space, int64_t floor_bytes, int64_t quota_bytes) {
  std::lock_guard lock(mutex_);
  require_open();
  namespaces_.require(name_space);
  const int64_t token = info_.kv_bytes_per_token;
  if (floor_bytes < 0) fail(Code::kOutOfRange, "floor_bytes is ", floor_bytes, ", below 0");
  if (quota_bytes < 0) fail(Code::kOutOfRange, "quota_bytes is ", quota_bytes, ", below 0");
  if (quota_bytes > 0 && quota_bytes < token)
    fail(Code::kOutOfRange, "quota_bytes is ", quota_bytes, "; one token takes ", token);
  if (quota_bytes > 0 && floor_bytes > quota_bytes)
    fail(Code::kOutOfRange, "floor_bytes is ", floor_bytes, ", above quota_bytes, ", quota_bytes);
  auto& limits = limits_[name_space];  // while nothing has changed: it may find no memory
  tree_->set_limits(name_space, floor_bytes / token, quota_bytes / token);
  limits = {floor_bytes, quota_bytes};
}

CacheUsage Engine::cache_usage(int32_t name_space) {
  std::lock_guard lock(mutex_);
  require_open();
  namespaces_.require(name_space);
  scheduler_->expire_cache();
  CacheUsage usage;
  usage.tokens = tree_->tokens_of(name_space);
  usage.bytes = usage.tokens * info_.kv_bytes_per_token;
  if (const auto found = limits_.find(name_space); found != limits_.end())
    std::tie(usage.floor_bytes, usage.quota_bytes) = found->second;
  return usage;
}

int64_t Engine::cache_trim(int64_t target_bytes) {
  std::lock_guard lock(mutex_);
  require_open();
  if (target_bytes < 0) fail(Code::kOutOfRange, "target_bytes is ", target_bytes, ", below 0");
  scheduler_->expire_cache();
  const auto page = static_cast<int64_t>(kv_->layout().page_bytes());
  const int64_t evicted =
      tree_->trim(static_cast<int32_t>(std::min<int64_t>(target_bytes / page, INT32_MAX)));
  if (events_) events_->check_cleared();
  return evicted;
}

std::string Engine::tree_json() {
  const auto copy = [this] {
    std::lock_guard lock(mutex_);
    require_open();
    scheduler_->expire_cache();
    return copy_tree(*tree_, namespaces_);
  };
  return prefix::tree_json(copy());
}

void Engine::require_events() const {
  if (!events_)
    fail(Code::kMisuse, info_.bidirectional
                            ? "attention of this model is bidirectional, so no prefix of a text is "
                              "cached that events could tell of"
                            : "the engine keeps no events; create it with option cache_events");
}

CacheEvent Engine::read_event(int64_t from) {
  std::lock_guard lock(mutex_);
  require_open();
  require_events();
  scheduler_->expire_cache();
  const CacheEvent* event = events_->read(from);
  if (!event) fail(Code::kNoEvent, "there is no event from ", from, " on");
  return *event;
}

EventDump Engine::dump_events() {
  std::lock_guard lock(mutex_);
  require_open();
  require_events();
  scheduler_->expire_cache();
  EventDump dump;
  std::vector<NodeId> roots = scheduler_->roots().all();
  std::erase_if(roots, [&](NodeId root) { return !is_open(root); });
  events_->dump(roots, [&](const CacheEvent& event) { dump.blocks.push_back(event); });
  dump.next = events_->next_sequence();
  return dump;
}

SnapshotResult Engine::save_snapshot(const std::string& path, std::vector<int32_t> namespaces) {
  return prefix::save_snapshot(snapshot_cache(), path, std::move(namespaces));
}

SnapshotResult Engine::load_snapshot(const std::string& path) {
  return prefix::load_snapshot(snapshot_cache(), path);
}

std::vector<TierInfo> Engine::tiers() {
  std::lock_guard lock(mutex_);
  return scheduler_ ? tiers_now() : last_.tiers;
}

std::vector<TierInfo> Engine::tiers_now() const {
  std::vector<TierInfo> list;
  for (size_t i = 0; tiers_ && i < tiers_->count(); ++i)
    list.push_back({tiers_->name(i), tiers_->stats(i)});
  return list;
}

SnapshotCache Engine::snapshot_cache() {
  const Hold hold(*this);
  if (!options_.get_bool("sharing"))
    fail(Code::kMisuse, "the engine shares nothing (option sharing), so there is no cache");
  if (info_.bidirectional)
    fail(Code::kMisuse,
         "attention of this model is bidirectional; a snapshot has keys and values, ",
         "and none are kept of its texts");
  if (!options_.get_bool("cache"))
    fail(Code::kMisuse, "the engine keeps nothing (option cache), so there is no cache");
  const Sha256::Digest& model = fingerprint([this](double) {
    check_ready();
    return true;
  });
  const auto page_bytes = static_cast<uint64_t>(kv_->layout().page_bytes());
  return {*tree_,
          *pages_,
          *kv_,
          namespaces_,
          [this](const std::function<void()>& f) { run_exclusive(f); },
          [this](int32_t name_space) { return scheduler_->roots().roots_of(name_space); },
          [this](int32_t name_space, bool long_regime) {
            return scheduler_->roots().root_of(
                name_space, long_regime ? model_->max_positions() : 1, adapter_of(name_space));
          },
          [this](std::weak_ptr<PagesToSave> pages) { saves_.push_back(std::move(pages)); },
          {model, kPageTokens, page_bytes, model_->state_pages()},
          kv_->layout(),
          [this](int32_t name_space) { return scheduler_->reserved_tokens(name_space); }};
}

void Engine::check_options(const Options& options) {
  const int64_t event_tokens = options.get_int("cache_event_tokens");
  if (event_tokens % kPageTokens != 0)
    fail(Code::kOutOfRange, "cache_event_tokens is ", event_tokens,
         "; it must be a multiple of the page of ", kPageTokens, " tokens");
  const bool tiers = !options.get("cache_disk").empty() || !options.get("cache_store").empty();
  if (tiers && !(options.get_bool("cache") && options.get_bool("sharing")))
    fail(Code::kInvalidArgument, "options cache_disk and cache_store need cache and sharing");
  const bool whole_numbers = options.get("compute") == "int8";
  if (options.get_int("cache_events") > 0 && !options.get_bool("sharing"))
    fail(Code::kInvalidArgument, "option cache_events needs sharing");
  if (!options.get("pack_to").empty() && !whole_numbers)
    fail(Code::kInvalidArgument, "option pack_to is ", quote(options.get("pack_to")),
         "; it writes matrices in whole numbers and needs compute=int8");
  if (!options.get("compute_keep").empty() && !whole_numbers)
    fail(Code::kInvalidArgument, "option compute_keep is ", quote(options.get("compute_keep")),
         "; it says which matrices compute=int8 leaves as they are");
  check_threads(options);
}

bool Engine::is_open(NodeId id) const {
  return namespaces_.has(tree_->name_space(tree_->node(id)));
}

void Engine::watch_tree(const LoadProgress& progress) {
  if (!options_.get_bool("sharing")) return;
  const int64_t capacity = options_.get_int("cache_events");
  const auto event_tokens = static_cast<int32_t>(options_.get_int("cache_event_tokens"));
  if (capacity > 0 && !model_->config().bidirectional) {
    events_ = std::make_unique<CacheEvents>(*tree_, *keys_, *pages_, static_cast<size_t>(capacity),
                                            event_tokens, model_->state_layout().layers > 0, now_);
    fingerprint(progress);  // now, not in the middle of a request
  }
  TreeObserver observer;
  observer.evicting = [this](NodeId id, int32_t from, EvictReason why) {
    if (why == EvictReason::kCapacity) scheduler_->misses().made_room(*tree_, id, from);
    if (events_ && is_open(id)) events_->evicting(id, from);
    std::erase_if(saves_, [&](const std::weak_ptr<PagesToSave>& save) {
      const std::shared_ptr<PagesToSave> pages = save.lock();
      if (pages) pages->evicting(*tree_, id, from);
      return !pages;
    });
  };
  observer.taking_state = [this](NodeId id) {
    if (events_ && is_open(id)) events_->taking_state(id);
    for (const std::weak_ptr<PagesToSave>& save : saves_)
      if (const std::shared_ptr<PagesToSave> to_save = save.lock())
        to_save->taking_state(tree_->state_pages(id));
  };
  if (events_) {
    observer.computed = [this](NodeId id, int32_t from) {
      if (is_open(id)) events_->computed(id, from);
    };
    observer.state_kept = [this](NodeId id) {
      if (is_open(id)) events_->state_kept(id);
    };
  }
  tree_->set_observer(std::move(observer));
}

void Engine::open_tiers(const LoadProgress& progress) {
  std::vector<LowerTier> tiers;
  // When the scheduler has nothing to do but wait for pages.
  const auto on_done = [this] {
    wake_requested_ = true;
    wake_.notify_all();
  };
  if (const std::string folder = options_.get("cache_disk"); !folder.empty()) {
    DiskTierOptions disk;
    disk.folder = folder;
    disk.cap_bytes = static_cast<uint64_t>(options_.get_int("cache_disk_bytes"));
    disk.queue.on_done = on_done;
    auto tier = std::make_unique<DiskTier>(std::move(disk));
    if (!tier->problem().empty()) {
      warnings_.push_back(cat("option cache_disk has no effect: the folder ", quote_path(folder),
                              ": ", tier->problem()));
      log_message(LogLevel::kWarning, warnings_.back());
    }
    tiers.push_back({"disk", std::move(tier)});
  }
  if (const std::string url = options_.get("cache_store"); !url.empty()) {
    StoreOptions store;
    store.queue.on_done = on_done;
    tiers.push_back({"store", open_store(url, store)});
  }
  if (tiers.empty()) return;
  const std::chrono::milliseconds timeout(options_.get_int("cache_fetch_ms"));
  LowerTierLimits limits;
  limits.now = now_;
  limits.reserved_tokens = [this](int32_t name_space) {
    return scheduler_->reserved_tokens(name_space);
  };
  tiers_ = std::make_unique<LowerTiers>(std::move(tiers), *tree_, *pages_, *kv_, *keys_, timeout,
                                        std::move(limits), model_->state_pages());
  fingerprint(progress);  // now, not in the middle of a request
}

const Sha256::Digest& Engine::fingerprint(const LoadProgress& progress) {
  std::lock_guard lock(fingerprint_mutex_);
  if (!fingerprint_) fingerprint_ = model_->fingerprint(threads_->count(), progress);
  return *fingerprint_;
}

PageKey Engine::root_key_of(NodeId root) {
  const Node& n = tree_->node(root);
  const NamespaceParts& parts = namespaces_.parts(tree_->name_space(n));
  const std::vector<std::string_view> views(parts.begin(), parts.end());
  const Sha256::Digest& fingerprint = fingerprint_.value();
  Sha256 model;
  model.update(fingerprint.data(), fingerprint.size());
  model.update(tree_->rope_offset(n) > 0 ? "long" : "base", 4);
  return root_key(model.finish(), views);
}

}  // namespace prefix
