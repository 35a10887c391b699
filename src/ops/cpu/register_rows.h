// The rows of a tile in register blocks: of kTall rows, if that is not 0, then of kRows,
// then what is left as one block of its own.
#pragma once

#include <cstdint>

namespace prefix::ops {

inline constexpr int64_t kBlockRows = 6;

namespace {

// Calls fn.operator()<MR>(row) for each block of MR rows from `row` on.
template <int kTall = 0, int kRows = kBlockRows, class Fn>
inline void each_row_block(int64_t rows, const Fn& fn) {
  int64_t row = 0;
  if constexpr (kTall > 0) {
    for (; row + kTall <= rows; row += kTall) fn.template operator()<kTall>(row);
  }
  static_assert(kRows == 4 || kRows == 6);
  for (; row + kRows <= rows; row += kRows) fn.template operator()<kRows>(row);
  switch (rows - row) {
    case 1:
      return fn.template operator()<1>(row);
    case 2:
      return fn.template operator()<2>(row);
    case 3:
      return fn.template operator()<3>(row);
    case 4:
      if constexpr (kRows > 4) return fn.template operator()<4>(row);
      break;
    case 5:
      if constexpr (kRows > 5) return fn.template operator()<5>(row);
      break;
    default:
      return;
  }
}

}  // namespace
}  // namespace prefix::ops
