#include "tree/sorted_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace prefix {
namespace {

// Rows that are compared cell by cell; more of them are sorted by one column at a time, since most
// are told apart by the first few, and a column by itself is sorted in the processor's cache.
constexpr size_t kComparedRows = 24;

// Rows [begin, end) of the order, which are equal up to a column.
struct Run {
  size_t begin, end, column;
};

}  // namespace

std::vector<uint32_t> sorted_rows(std::span<const int64_t> values, size_t columns) {
  std::vector<uint32_t> rows(values.size() / columns);
  std::iota(rows.begin(), rows.end(), 0U);
  const auto less_from = [&](size_t column) {
    return [&values, columns, column](uint32_t a, uint32_t b) {
      const int64_t* const left = &values[a * columns];
      const int64_t* const right = &values[b * columns];
      for (size_t c = column; c < columns; ++c)
        if (left[c] != right[c]) return left[c] < right[c];
      return a < b;
    };
  };
  if (std::is_sorted(rows.begin(), rows.end(), less_from(0))) return rows;
  std::vector<Run> runs = {{0, rows.size(), 0}};
  std::vector<std::pair<int64_t, uint32_t>> keys;
  while (!runs.empty()) {
    const Run run = runs.back();
    runs.pop_back();
    const auto first = rows.begin() + static_cast<std::ptrdiff_t>(run.begin);
    const auto last = rows.begin() + static_cast<std::ptrdiff_t>(run.end);
    if (run.end - run.begin <= kComparedRows || run.column == columns) {
      std::sort(first, last, less_from(run.column));
      continue;
    }
    keys.clear();
    for (auto row = first; row != last; ++row)
      keys.emplace_back(values[*row * columns + run.column], *row);
    std::sort(keys.begin(), keys.end());
    size_t begin = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      rows[run.begin + i] = keys[i].second;
      if (i + 1 < keys.size() && keys[i + 1].first == keys[i].first) continue;
      if (i > begin) runs.push_back({run.begin + begin, run.begin + i + 1, run.column + 1});
      begin = i + 1;
    }
  }
  return rows;
}

}  // namespace prefix
