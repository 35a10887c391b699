// Times as numbers.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace prefix {

using Clock = std::chrono::steady_clock;

// Says what time it is. What has deadlines or leases asks one that it was made with, so that a test
// can set the time.
using Now = std::function<Clock::time_point()>;

// A caller's timeout as the clock can add it: a hundred years are as good as for ever.
inline std::chrono::milliseconds waiting_time(int64_t timeout_ms) {
  constexpr int64_t kHundredYears = int64_t{100} * 366 * 24 * 3600 * 1000;
  return std::chrono::milliseconds(std::min(timeout_ms, kHundredYears));
}

// Waits until ready(): for any time when timeout_ms < 0; for none when 0, which the system would
// make some 50 microseconds. Returns what ready() says in the end.
template <typename Ready>
bool wait_until_ready(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                      int64_t timeout_ms, const Ready& ready) {
  if (timeout_ms == 0) return ready();
  if (timeout_ms > 0) return changed.wait_for(lock, waiting_time(timeout_ms), ready);
  changed.wait(lock, ready);
  return true;
}

inline int64_t ns_of(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}
inline int64_t ns_since(Clock::time_point start) { return ns_of(Clock::now() - start); }
inline int64_t now_ns() { return ns_of(Clock::now().time_since_epoch()); }

}  // namespace prefix
