/* prefix_cache.hpp - the cache of an engine in the shape of C++20: look up, pin, limit, evict,
 * watch, save. prefix.hpp includes it; what functions do stands in prefix.h.
 */
#ifndef PREFIX_CACHE_HPP
#define PREFIX_CACHE_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prefix_calls.hpp"

namespace prefix {
inline namespace cpp1 {

/* A prefix that stays in the cache until this is destroyed, its time is over or the engine is
 * gone. */
class Lease {
 public:
  Lease() = default;
  Lease(prefix_engine* engine, int64_t number, int64_t tokens)
      : engine_(engine), number_(number), tokens_(tokens) {}
  Lease(Lease&& other) noexcept { swap(other); }
  Lease& operator=(Lease&& other) noexcept {
    Lease(std::move(other)).swap(*this);
    return *this;
  }
  ~Lease() { release(); }
  /* Tokens that stay. */
  int64_t tokens() const noexcept { return tokens_; }
  /* Ends it now; one that has ended by itself is no failure. */
  void release() noexcept {
    if (number_ != 0) prefix_cache_unpin(engine_, std::exchange(number_, 0), nullptr);
  }
  /* Leaves it to its time. */
  void keep() noexcept { number_ = 0; }

 private:
  void swap(Lease& other) noexcept {
    std::swap(engine_, other.engine_);
    std::swap(number_, other.number_);
    std::swap(tokens_, other.tokens_);
  }

  prefix_engine* engine_ = nullptr;  // not kept: the library knows a handle that was released
  int64_t number_ = 0;
  int64_t tokens_ = 0;
};

/* What a router is told: see prefix_cache_next_event. */
struct CacheEvent {
  prefix_cache_event event = PREFIX_CACHE_EVENT_INIT;
  std::vector<prefix_token> tokens; /* of the block; PREFIX_CACHE_STORED */
};

/* The cache of one namespace; a view, whose engine must outlive it. */
class Cache {
 public:
  using Tokens = std::span<const prefix_token>;

  explicit Cache(prefix_engine* engine, int32_t ns = 0) : engine_(engine), ns_(ns) {}

  prefix_cache_info lookup(Tokens tokens, prefix_error* error = nullptr) const {
    return detail::filled<prefix_cache_info>(PREFIX_CACHE_INFO_INIT, error, [&](auto... to) {
      return prefix_cache_lookup(engine_, ns_, tokens.data(), tokens.size(), to...);
    });
  }
  /* Cached tokens of each prompt. */
  std::vector<int64_t> lookup_many(std::span<const std::vector<prefix_token>> prompts,
                                   prefix_error* error = nullptr) const {
    std::vector<prefix_token> tokens;
    std::vector<int64_t> offsets = {0};
    for (const std::vector<prefix_token>& prompt : prompts) {
      tokens.insert(tokens.end(), prompt.begin(), prompt.end());
      offsets.push_back(static_cast<int64_t>(tokens.size()));
    }
    return read<std::vector<int64_t>>(
        prompts.size(),
        [&](auto... to) {
          return prefix_cache_lookup_many(engine_, ns_, tokens.data(), tokens.size(),
                                          offsets.data(), offsets.size(), to...);
        },
        error);
  }
  prefix_cache_usage usage(prefix_error* error = nullptr) const {
    return detail::filled<prefix_cache_usage>(PREFIX_CACHE_USAGE_INIT, error, [&](auto... to) {
      return prefix_cache_get_usage(engine_, ns_, to...);
    });
  }
  /* A quota of 0: none. */
  void set_limits(int64_t floor_bytes, int64_t quota_bytes, prefix_error* error = nullptr) const {
    call(error, [&](prefix_error* e) {
      return prefix_cache_set_limits(engine_, ns_, floor_bytes, quota_bytes, e);
    });
  }
  /* Keeps the longest computed prefix of these tokens until the lease is destroyed or its time is
   * over; time 0: no limit. */
  [[nodiscard]] Lease pin(Tokens tokens, std::chrono::milliseconds time = {},
                          prefix_error* error = nullptr) const {
    int64_t lease = 0, pinned = 0;
    const bool done = call(error, [&](prefix_error* e) {
      return prefix_cache_pin(engine_, ns_, tokens.data(), tokens.size(), time.count(), &lease,
                              &pinned, e);
    });
    return done ? Lease(engine_, lease, pinned) : Lease();
  }
  /* What continues these tokens, of none the whole namespace; the tokens that it freed. */
  int64_t evict(Tokens tokens = {}, prefix_error* error = nullptr) const {
    return detail::filled<int64_t>(0, error, [&](auto... to) {
      return prefix_cache_evict(engine_, ns_, tokens.data(), tokens.size(), to...);
    });
  }
  /* Of all namespaces, until at most so many bytes are held; the tokens that it freed. */
  int64_t trim(int64_t target_bytes, prefix_error* error = nullptr) const {
    return detail::filled<int64_t>(
        0, error, [&](auto... to) { return prefix_cache_trim(engine_, target_bytes, to...); });
  }
  /* Of all namespaces: the tree, to look at. */
  std::string tree_json(prefix_error* error = nullptr) const {
    return read<std::string>(
        4096, [&](auto... to) { return prefix_cache_tree_json(engine_, to...); }, error);
  }
  /* Of all namespaces: the first event with a sequence of at least `from`; nothing when there is
   * none yet. Needs option cache_events. */
  std::optional<CacheEvent> next_event(int64_t from, prefix_error* error = nullptr) const {
    CacheEvent next;
    prefix_error failure = PREFIX_ERROR_INIT;
    next.tokens = read<std::vector<prefix_token>>(
        256, [&](auto... to) { return prefix_cache_next_event(engine_, from, &next.event, to...); },
        &failure);
    if (!detail::ok_unless(failure.code, failure, error, PREFIX_ERR_NO_EVENT)) return std::nullopt;
    return next;
  }
  /* Of all namespaces: the blocks that are in memory, and where events go on; lines of JSON. */
  std::string dump_events(prefix_error* error = nullptr) const {
    return read<std::string>(
        4096, [&](auto... to) { return prefix_cache_dump_events(engine_, to...); }, error);
  }

 private:
  prefix_engine* engine_;
  int32_t ns_;
};

}  // namespace cpp1
}  // namespace prefix

#endif /* PREFIX_CACHE_HPP */
