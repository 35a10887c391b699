// Greedy recursion over groups: the rows that have one value in one column are a group; the one that
// saves the most is taken out first, its value in front of its prompts, then the best of what is left,
// and so on; each group is then ordered by itself over the other columns.
//
//     A  B  C      groups      1. B=x  {0, 2}   over A, C:  C=p {0, 2} common
//     1  x  p                  2. C=q  {1, 3}   over A, B:  A=1 {1, 3} common
//     1  y  q                  alone:  {4}
//     3  x  p
//     1  w  q      A=1 was larger than C=q, until row 0 was taken
//     1  z  r
//
// What all rows of a group have in common goes to the front at once, and counts for a group where its
// column determines another one in the whole table. The counts of all groups are kept up to date as
// rows are taken, so the recursion needs no bound: a level costs its rows times its columns.
#pragma once

#include <cstdint>
#include <vector>

#include "tree/numbered_table.h"

namespace prefix {

struct RowOrder {
  std::vector<uint32_t> rows;
  std::vector<int32_t> columns;  // of each of these rows, one after the other
};
// squares: a group counts by the squares of its lengths, which puts long values before frequent ones.
RowOrder order_by_groups(const NumberedTable& table, bool squares);

}  // namespace prefix
