// libprefix_redis.so, from outside: one function that makes a tier, and the log of the host.
#include <atomic>
#include <cstdio>
#include <exception>

#include "base/plugin.h"
#include "cache/store/redis_tier.h"
#include "cache/store_plugin.h"

namespace prefix {
namespace {

std::atomic<decltype(StoreRequest::log)> host_log{nullptr};

}  // namespace

// In place of base/log.cc, for the files of the core that are in here too.
void log_message(LogLevel level, std::string_view text) noexcept {
  if (const auto log = host_log.load()) log(level, text);
}

}  // namespace prefix

PREFIX_PLUGIN_EXPORT void prefix_open_store(prefix::StoreRequest* request);

void prefix_open_store(prefix::StoreRequest* request) {
  try {
    prefix::host_log = request->log;
    request->tier = new prefix::RedisTier(prefix::parse_redis_url(request->url), *request->options);
  } catch (const std::exception& e) {
    std::snprintf(request->error, sizeof(request->error), "%s", e.what());
  } catch (...) {
    std::snprintf(request->error, sizeof(request->error), "unknown failure");
  }
}
