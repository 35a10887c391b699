// The order of rows, and of the columns within each row, in which the prompts made of a table share
// the longest prefixes with their neighbours: the problem of "Optimizing LLM Queries in Relational
// Data Analytics Workloads" (arXiv 2403.05821).
//
//     table          order        prompts, "│" behind what is shared with the one before
//     A  B  C
//     1  x  p        row 0        B=x C=p A=1
//     2  y  q        row 2        B=x C=p│A=3
//     3  x  p        row 3        C=p│A=1 B=z      columns may stand otherwise in each row
//     1  z  p        row 1        A=2 B=y C=q
//
// Greedy recursion over groups makes an order (table_groups.h), and exact rearrangement of small
// pieces improves it (table_clusters.h): much on small tables, where it finds the best there is,
// and little on large ones, where the counts that the greedy step goes by are telling.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace prefix {

struct TableOrder {
  std::vector<uint32_t> rows;    // [k]: the row whose prompt is the k-th
  std::vector<int32_t> columns;  // of the k-th prompt, as they stand in it: [k * columns ..]
  int64_t tokens = 0;
  int64_t hit_before = 0;  // tokens that prompts share with the one before, as the table is given
  int64_t hit = 0;         // in this order
};

// Row after row, at least one: equal values of a column are equal cells. lengths: tokens of each,
// all >= 0. Throws Error where a value of a column has two.
TableOrder order_table(std::span<const int64_t> values, std::span<const int32_t> lengths,
                       int32_t columns);

}  // namespace prefix
