// Times as numbers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace prefix {

using Clock = std::chrono::steady_clock;

// Says what time it is. What has deadlines or leases asks one that it was made with, so that a test
// can set the time.
using Now = std::function<Clock::time_point()>;

inline int64_t ns_of(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}
inline int64_t ns_since(Clock::time_point start) { return ns_of(Clock::now() - start); }
inline int64_t now_ns() { return ns_of(Clock::now().time_since_epoch()); }

}  // namespace prefix
