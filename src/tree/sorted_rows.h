// The rows of a table in the order of their cells: the same whatever order they are given in, so
// that a result which goes by it depends on the set of rows alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace prefix {

// The numbers of the rows; equal rows in the order given.
// columns >= 1 divides the number of values.
std::vector<uint32_t> sorted_rows(std::span<const int64_t> values, size_t columns);

}  // namespace prefix
