// Tables and other ways to order them: what order_table is held against, in tests and in
// bench/tree/order_bench.cc.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace prefix::table_model {

struct Cells {
  std::string name;
  int32_t columns = 0;
  std::vector<int64_t> values;   // row after row
  std::vector<int32_t> lengths;  // of each
  // Columns that determine each other, as GGR is told them.
  std::vector<std::vector<int32_t>> alike;

  size_t rows() const { return values.size() / static_cast<size_t>(columns); }
  int64_t value(size_t r, int32_t c) const {
    return values[r * static_cast<size_t>(columns) + static_cast<size_t>(c)];
  }
  int64_t length(size_t r, int32_t c) const {
    return lengths[r * static_cast<size_t>(columns) + static_cast<size_t>(c)];
  }
  int64_t tokens() const;
};

struct Order {
  std::vector<int64_t> rows;
  std::vector<int32_t> columns;  // of each prompt
};

// Tokens that prompts share with the one before.
int64_t hits(const Cells& cells, const Order& order);

// The most that any order of rows and of columns in each row hits; up to about 12 rows. A set
// of rows whose prompts share a prefix is two such sets put together, which adds what all of
// them have alike.
int64_t best_hits(const Cells& cells);

// Algorithm 1 of the paper, Greedy Group Recursion: the group with the most hits goes first,
// counted as squares of lengths; and where `stops`, its limits: four groups deep by rows, two by
// columns, and columns in the order of their statistics from there on.
Order greedy_group_recursion(const Cells& cells, bool stops);

// Tables with the rows, columns, repeated values and dependences of those of the paper: Movies,
// Products, BIRD, PDMX, Beer, FEVER and SQuAD. share: of their rows.
std::vector<Cells> paper_shapes(double share);

// Values drawn in [0, most), their lengths in [1, longest].
Cells random_cells(std::mt19937& random, size_t rows, int32_t columns, int64_t most,
                   int32_t longest);

}  // namespace prefix::table_model
