// A table in which equal cells are found: the values of each column are numbered from 0, so that
// counts of them are arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace prefix {

struct NumberedTable {
  uint32_t rows = 0;
  int32_t columns = 0;
  std::vector<uint32_t> cells;                // row after row
  std::vector<std::vector<int32_t>> lengths;  // [column][value]: tokens of it
  // [column]: those whose value it determines; with more than 64 columns some of them.
  std::vector<std::vector<int32_t>> followers;

  const uint32_t* row(uint32_t r) const { return &cells[r * static_cast<size_t>(columns)]; }
  int64_t length(int32_t column, uint32_t row_number) const {
    return lengths[static_cast<size_t>(column)][row(row_number)[column]];
  }
};

// Row after row; columns >= 1 divides the number of values.
// Throws Error where a value of a column has two lengths.
NumberedTable number_table(std::span<const int64_t> values, std::span<const int32_t> lengths,
                           int32_t columns);

}  // namespace prefix
