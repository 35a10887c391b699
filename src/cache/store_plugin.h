// A store: a server that keeps pages for several machines, as a tier. Which servers there are is a
// matter of plugins (src/base/plugin.h), so that libprefix.so needs none of their libraries:
//
//   open_store("redis://...") ──> libprefix_redis.so ──> RedisTier (cache/store/redis_tier.h)
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/log.h"
#include "base/plugin.h"
#include "cache/tier.h"
#include "cache/tier_queue.h"

namespace prefix {

struct StoreOptions {
  // To find, reach and log in to the server, and for one trip to it: all that goes there and back
  // at once. A tier of local memory would answer in microseconds; a wait that is longer than
  // computing the page gains nothing.
  std::chrono::milliseconds connect_timeout{200};
  std::chrono::milliseconds command_timeout{500};
  // The server drops a page that was not used for this long; zero: never.
  std::chrono::milliseconds time_to_live = std::chrono::hours(24);
  // After a failure nothing is asked for this long, and for twice as long each time in a row, up to
  // 32 times.
  std::chrono::milliseconds pause{1000};
  // Of pages in one trip, which takes one page of any size at least. With 500 ms for a trip, 8 MiB
  // want a network of 140 Mbit/s.
  uint64_t trip_bytes = 8ull << 20;
  // `run` is the number of pages in one trip, at most.
  TierQueueOptions queue{.run = 32};
};

// URL is one of
//
//   redis://[user:password@]host[:port][/database]        redis://:password@host without a user
//   unix://[user:password@]/path/of/the/socket
//
// with %XX for what has a meaning there. TLS is not spoken: use a private network or a tunnel. The
// server is reached when the first page wants it, so one that does not answer is no error here.
//
// Throws kInvalidArgument for a URL or options that make no sense, and kNotFound when the plugin
// cannot be used. No message holds the password.
std::unique_ptr<Tier> open_store(std::string_view url, const StoreOptions& options);

// The border between libprefix.so and a plugin with a store. The plugin's prefix_open_store makes a
// tier, or puts the reason why not into `error`.
struct StoreRequest {
  std::string_view url;
  const StoreOptions* options;
  void (*log)(LogLevel level, std::string_view text) noexcept;  // outlives the tier
  Tier* tier = nullptr;
  char error[512] = {};
};
using StoreEntry = void(StoreRequest* request);
inline constexpr const char* kStoreEntry = "prefix_open_store";

}  // namespace prefix
