#include "cache/store_plugin.h"

#include "base/status.h"
#include "cache/store/redis_url.h"

namespace prefix {
namespace {

void check(const StoreOptions& options) {
  using std::chrono::milliseconds;
  const auto within = [](const char* name, milliseconds value, milliseconds least,
                         milliseconds most) {
    if (value < least || value > most)
      fail(Code::kOutOfRange, "store: ", name, " is ", value.count(), " ms; it must be from ",
           least.count(), " to ", most.count());
  };
  constexpr milliseconds kMinute = std::chrono::minutes(1);
  within("connect_timeout", options.connect_timeout, milliseconds(1), kMinute);
  within("command_timeout", options.command_timeout, milliseconds(1), kMinute);
  within("pause", options.pause, milliseconds(0), 60 * kMinute);
  within("time_to_live", options.time_to_live, milliseconds(0), 10 * 366 * 24 * 60 * kMinute);
}

}  // namespace

std::unique_ptr<Tier> open_store(std::string_view url, const StoreOptions& options) {
  (void)parse_redis_url(url);  // before a plugin is missed that would not help
  check(options);
  auto* const entry = reinterpret_cast<StoreEntry*>(open_plugin("redis", kStoreEntry));
  StoreRequest request{url, &options, &log_message};
  entry(&request);
  if (!request.tier) fail(Code::kInternal, "store: ", request.error);
  return std::unique_ptr<Tier>(request.tier);
}

}  // namespace prefix
