// Stored states (StateLayout), which are cut into pages, read and written as ranges of floats.
#pragma once

#include <algorithm>
#include <cstring>

#include "ops/step.h"

namespace prefix::ops {

// Goes forward through a stored state from byte `offset` on.
class StateCursor {
 public:
  StateCursor(const StepArrays& arrays, int32_t state, size_t offset)
      : pool_(arrays.pool),
        page_bytes_(arrays.kv.page_bytes()),
        page_(arrays.scan->pages.data() +
              static_cast<size_t>(state) * static_cast<size_t>(arrays.scan->state_pages) +
              offset / page_bytes_),
        at_(offset % page_bytes_) {}

  void read(float* to, int64_t n) {
    each_piece(n, [&](std::byte* piece, size_t done, size_t bytes) {
      std::memcpy(reinterpret_cast<std::byte*>(to) + done, piece, bytes);
    });
  }
  void write(const float* from, int64_t n) {
    each_piece(n, [&](std::byte* piece, size_t done, size_t bytes) {
      std::memcpy(piece, reinterpret_cast<const std::byte*>(from) + done, bytes);
    });
  }
  // The next n floats where they lie; nullptr when they lie in several pages.
  float* in_page(int64_t n) const {
    if (at_ + static_cast<size_t>(n) * sizeof(float) > page_bytes_) return nullptr;
    return reinterpret_cast<float*>(pool_ + static_cast<size_t>(*page_) * page_bytes_ + at_);
  }
  void skip(int64_t n) {
    at_ += static_cast<size_t>(n) * sizeof(float);
    if (at_ < page_bytes_) return;
    page_ += at_ / page_bytes_;
    at_ %= page_bytes_;
  }

 private:
  template <class Move>
  void each_piece(int64_t n, Move&& move) {
    const size_t bytes = static_cast<size_t>(n) * sizeof(float);
    size_t done = 0;
    while (done < bytes) {
      if (at_ == page_bytes_) {
        ++page_;
        at_ = 0;
      }
      const size_t piece = std::min(bytes - done, page_bytes_ - at_);
      move(pool_ + static_cast<size_t>(*page_) * page_bytes_ + at_, done, piece);
      done += piece;
      at_ += piece;
    }
  }

  std::byte* const pool_;
  const size_t page_bytes_;
  const int32_t* page_;
  size_t at_;  // in the page; at its end until the next one is needed
};

}  // namespace prefix::ops
