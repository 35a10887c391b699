// A number for each row of a step that its kernels set, on its way to the host:
//
//   zeros() ── staged with the step ──> device ── fetch() ──> pinned ── here() ──> flags()
//                                         ▲ kernels
//
// They come back with whatever is waited for next, so that they cost no wait of their own. Other
// threads wait too, also for what they sent before fetch(): by the numbers of Uploads it is known
// whether a wait was for the flags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/gpu/staging.h"

namespace prefix::ops::gpu {

class RowFlags {
 public:
  RowFlags(Runtime& runtime, Uploads& uploads)
      : runtime_(runtime), uploads_(uploads), pinned_(runtime, true) {}

  void reserve(size_t rows) { pinned_.reserve(rows * sizeof(int32_t)); }
  void begin(size_t rows);
  std::span<const int32_t> zeros() const { return zeros_; }
  // `device`: where zeros() went.
  void fetch(const int32_t* device);
  bool here() const { return zeros_.empty() || (coming_ > 0 && uploads_.done(coming_)); }
  std::span<const int32_t> flags() const {
    return {reinterpret_cast<const int32_t*>(pinned_.data()), zeros_.size()};
  }

 private:
  Runtime& runtime_;
  Uploads& uploads_;
  Buffer pinned_;
  std::vector<int32_t> zeros_;
  uint64_t coming_ = 0;  // number of the copy; 0: not fetched
};

}  // namespace prefix::ops::gpu
