// A number for each row of a step that its kernels set, on its way to the host:
//
//   zeros() ── staged with the step ──> device ── fetch() ──> pinned ── arrived() ──> flags()
//                                         ▲ kernels
//
// They come back with whatever is waited for next, so that they cost no wait of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/gpu/staging.h"

namespace prefix::ops::gpu {

class RowFlags {
 public:
  explicit RowFlags(Runtime& runtime) : runtime_(runtime) {}
  ~RowFlags() { runtime_.release_pinned(pinned_); }
  RowFlags(const RowFlags&) = delete;
  RowFlags& operator=(const RowFlags&) = delete;

  void reserve(size_t rows);
  void begin(size_t rows);
  std::span<const int32_t> zeros() const { return zeros_; }
  // `device`: where zeros() went.
  void fetch(const int32_t* device);
  // The stream was waited for.
  void arrived() { here_ = coming_; }
  bool here() const { return here_ || zeros_.empty(); }
  std::span<const int32_t> flags() const { return {pinned_, zeros_.size()}; }

 private:
  Runtime& runtime_;
  int32_t* pinned_ = nullptr;
  size_t room_ = 0;
  std::vector<int32_t> zeros_;
  bool coming_ = false, here_ = false;
};

}  // namespace prefix::ops::gpu
