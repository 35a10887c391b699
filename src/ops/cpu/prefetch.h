// Rows that are asked for before they are read or written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace prefix::ops {

// Towards L2: of a row that comes next, because what fetches by itself stops at the end of a page.
inline void prefetch_row(const void* row, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64)
    __builtin_prefetch(static_cast<const std::byte*>(row) + i, 0, 2);
}

// Of one that is written: otherwise the first store to each of its
// lines waits until they are there.
inline void prefetch_to_write(const void* row, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64)
    __builtin_prefetch(static_cast<const std::byte*>(row) + i, 1);
}

// How far ahead a head of a row is asked for, while those of the rows before it are computed.
inline constexpr int64_t kHeadsAhead = 4;

}  // namespace prefix::ops
