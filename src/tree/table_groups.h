// Greedy recursion over groups: the rows that have one value in one column are a group; the best
// one is taken out first, its value in front of its prompts, then the best of what is left, and so
// on; each group is then ordered by itself over the other columns.
//
//     A  B  C      groups      1. B=x  {0, 2}   over A, C:  C=p {0, 2} common
//     1  xx p                  2. A=1  {1, 3, 4}   over B, C:  C=q {1, 3}, alone {4}
//     1  y  q
//     3  xx p                  A=1 has more rows, but a row of B=xx saves more
//     1  w  q
//     1  z  r
//
// What all rows of a group have in common goes to the front at once, and counts for a group where
// its column determines another one in the whole table. The counts of all groups are kept up to
// date as rows are taken, so a level costs its rows times its columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tree/numbered_table.h"

namespace prefix {

struct RowOrder {
  std::vector<uint32_t> rows;
  std::vector<int32_t> columns;  // of each of these rows, one after the other
};
// Which group is best. By what it saves in all, two values for many rows would come before a long
// text that some of them share, and tear these apart.
enum class GroupScore {
  kPerRow,    // what a row of it saves: length * (rows - 1) / rows
  kLogarithm  // length * log2(rows): more for many rows; better only where many columns are alike
};
// looks: cells that the levels may look at in all.
// Rows for which none are left stay as they are given.
RowOrder order_by_groups(const NumberedTable& table, GroupScore score, size_t looks);

}  // namespace prefix
