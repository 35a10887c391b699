#include "tree/table_order.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/status.h"
#include "tree/numbered_table.h"
#include "tree/sorted_rows.h"
#include "tree/table_clusters.h"
#include "tree/table_groups.h"

namespace prefix {
namespace {

// Cells up to which both scores of groups are tried; beyond, an order takes seconds.
constexpr size_t kCellsTwice = size_t{1} << 22;
// What the levels of groups may look at, as the paper bounds their depth: all levels of up to 63
// columns, each of which has a column less than the one above.
// Groups of a wider table may lie in each other as deep as it has columns.
constexpr size_t kLooksPerCell = 32;
constexpr size_t kLeastLooks = size_t{1} << 27;  // of a small table: a second or two
// Pieces that are rearranged, of a microsecond or two each for every 64 columns,
// and how often over all of a table.
constexpr size_t kPieces = size_t{1} << 18;
constexpr size_t kPasses = 64;
constexpr size_t kFewRows = 1024;

// Tokens that each prompt shares with the one before.
std::vector<int64_t> hits_of(const NumberedTable& t, const RowOrder& order) {
  std::vector<int64_t> hits(order.rows.size());
  const auto width = static_cast<size_t>(t.columns);
  for (size_t k = 1; k < hits.size(); ++k) {
    const uint32_t *const row = t.row(order.rows[k]), *const before = t.row(order.rows[k - 1]);
    const int32_t* const columns = &order.columns[k * width];
    for (size_t i = 0; i < width; ++i) {
      const int32_t c = columns[i];
      if (*(columns + i - width) != c || row[c] != before[c]) break;
      hits[k] += t.length(c, order.rows[k]);
    }
  }
  return hits;
}

int64_t sum(const std::vector<int64_t>& hits) {
  return std::accumulate(hits.begin(), hits.end(), int64_t{0});
}

// sorted: the rows of the table as they were given.
RowOrder as_given(const NumberedTable& t, const std::vector<uint32_t>& sorted) {
  RowOrder order;
  order.rows.resize(t.rows);
  for (uint32_t r = 0; r < t.rows; ++r) order.rows[sorted[r]] = r;
  for (uint32_t r = 0; r < t.rows; ++r)
    for (int32_t c = 0; c < t.columns; ++c) order.columns.push_back(c);
  return order;
}

// The rows of a table in another order.
template <typename Cell>
std::vector<Cell> in_order(std::span<const Cell> cells, const std::vector<uint32_t>& rows,
                           size_t columns) {
  std::vector<Cell> out(cells.size());
  for (size_t k = 0; k < rows.size(); ++k)
    std::copy_n(&cells[rows[k] * columns], columns, &out[k * columns]);
  return out;
}

// Of rows that are alike in what they share the one that comes first is taken, so that the numbers
// of a table in one order are those of the table in any.
NumberedTable number_sorted(std::span<const int64_t> values, std::span<const int32_t> lengths,
                            int32_t columns, const std::vector<uint32_t>& sorted) {
  if (std::is_sorted(sorted.begin(), sorted.end())) return number_table(values, lengths, columns);
  const auto width = static_cast<size_t>(columns);
  try {
    return number_table(in_order(values, sorted, width), in_order(lengths, sorted, width), columns);
  } catch (const Error&) {
    return number_table(values, lengths, columns);  // names the row as the caller numbers it
  }
}

// Until there is nothing more to gain, or with many rows little.
void improve(const NumberedTable& t, RowOrder& order, std::vector<int64_t>& hits) {
  const size_t words = (static_cast<size_t>(t.columns) + 63) / 64;
  const size_t passes = std::min(kPasses, kPieces / (t.rows * words));
  if (passes == 0 || t.rows < 3) return;
  const bool few = t.rows <= kFewRows;
  const int64_t little = few ? 0 : sum(hits) / 10000;
  TableClusters clusters(t, order.rows, hits);
  size_t idle = 0;
  for (size_t i = 0; i < passes && idle < (few ? kPasses / 2 : 2); ++i) {
    using Open = TableClusters::Open;
    const int64_t gain = clusters.improve(i % 2 == 0 ? Open::kLoosest : Open::kAny);
    idle = gain > little ? 0 : idle + 1;
  }
  order = clusters.order();
  hits = hits_of(t, order);
}

}  // namespace

TableOrder order_table(std::span<const int64_t> values, std::span<const int32_t> lengths,
                       int32_t columns) {
  const std::vector<uint32_t> sorted = sorted_rows(values, static_cast<size_t>(columns));
  const NumberedTable t = number_sorted(values, lengths, columns, sorted);
  TableOrder out;
  for (const int32_t length : lengths) out.tokens += length;
  RowOrder best = as_given(t, sorted);
  std::vector<int64_t> best_hits = hits_of(t, best);
  out.hit_before = out.hit = sum(best_hits);
  for (const GroupScore score : {GroupScore::kPerRow, GroupScore::kLogarithm}) {
    if (score != GroupScore::kPerRow && t.cells.size() > kCellsTwice) break;
    RowOrder order =
        order_by_groups(t, score, std::max(kLeastLooks, kLooksPerCell * t.cells.size()));
    std::vector<int64_t> hits = hits_of(t, order);
    improve(t, order, hits);
    const int64_t hit = sum(hits);
    if (hit <= out.hit) continue;
    out.hit = hit;
    best = std::move(order);
  }
  for (uint32_t& row : best.rows) row = sorted[row];
  out.rows = std::move(best.rows);
  out.columns = std::move(best.columns);
  return out;
}

}  // namespace prefix
