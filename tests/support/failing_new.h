// An operator new that can be told to fail, and counts.
#pragma once

#include <cstdint>

namespace prefix::testing_support {

// Allocations of this thread that still succeed; below 0: all of them.
extern thread_local int64_t allocations_left;
extern thread_local int64_t live_bytes;  // of this thread

// While it lives, only so many allocations succeed.
struct Allowing {
  explicit Allowing(int64_t allocations) { allocations_left = allocations; }
  Allowing(const Allowing&) = delete;
  Allowing& operator=(const Allowing&) = delete;
  ~Allowing() { allocations_left = -1; }
};

}  // namespace prefix::testing_support
