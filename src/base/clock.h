// Times as numbers.
#pragma once

#include <chrono>
#include <cstdint>

namespace prefix {

using Clock = std::chrono::steady_clock;

inline int64_t ns_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace prefix
