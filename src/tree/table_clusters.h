// The order of a table's rows as a tree of pairs, improved piece by piece.
//
//            ┌───────── 5: A            rows 0, 1, 2, 3; beside a pair: the columns in which all of its
//        ┌───┤ 4: A B                   rows are alike, with which their prompts begin
//        │   └──── 0  1
//     6 ─┤                              hit tokens of the order = sum over the pairs of the lengths of
//        └──── 2  3                     what is common to all rows below
//
// That sum needs no order of columns: what is common below a pair contains what is common below the
// pair above it. So any tree of pairs is an order of the table, and the best one of a few clusters
// is found exactly, as the best halves of each set of them: improve() takes each pair with up to
// eight clusters below it and puts these together anew (as trees of bounding boxes are: Karras and
// Aila, Fast Parallel Construction of High-Quality Bounding Volume Hierarchies, 2013).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tree/numbered_table.h"
#include "tree/table_groups.h"

namespace prefix {

class TableClusters {
 public:
  // hits[k]: tokens that row k of the order shares with the one before; hits[0] is not read.
  TableClusters(const NumberedTable& table, std::span<const uint32_t> rows,
                std::span<const int64_t> hits);

  // Once over all pairs, from the leaves up; the tokens gained. Of the clusters below a pair those
  // that have the least in common are opened, or any.
  enum class Open { kLoosest, kAny };
  int64_t improve(Open open);
  RowOrder order() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kClusters = 8;
  static constexpr size_t kSets = size_t{1} << kClusters;
  struct Node {
    uint32_t left, right;  // kNone: one row
    uint32_t row;          // the first one below
    int64_t common;        // tokens of what all rows below have in common; 0 of one row
  };
  // The clusters below a pair, and the pairs between.
  struct Piece {
    size_t count;
    std::array<uint32_t, kClusters> clusters, pairs;
    int64_t common;  // of all its pairs
  };

  uint64_t* mask(uint32_t node) { return &masks_[node * words_]; }
  const uint64_t* mask(uint32_t node) const { return &masks_[node * words_]; }
  uint64_t* set_mask(uint32_t set) { return &set_masks_[set * words_]; }
  int64_t length(const uint64_t* mask, uint32_t row) const;
  void alike(uint32_t row, uint32_t other, uint64_t* mask) const;
  void join(uint32_t node, uint32_t left, uint32_t right);
  int64_t improve(uint32_t node, Open open);
  Piece piece(uint32_t node, Open open);
  void common_of_all(const Piece& piece);
  void common_of_set(const Piece& piece, uint32_t set);
  void best_halves(uint32_t set);
  uint32_t rebuild(const Piece& piece, uint32_t set, size_t& used);
  size_t random();

  const NumberedTable& t_;
  const size_t words_;           // of a mask: a bit for each column
  std::vector<Node> nodes_;      // the rows, then the pairs
  std::vector<uint64_t> masks_;  // [node]: columns in which all rows below are alike
  std::vector<uint32_t> pairs_;  // each behind those below it
  uint32_t root_ = 0;
  uint64_t seed_ = 1;
  // Of the sets of clusters of one piece: masks without the columns
  // that all of them have in common.
  std::vector<uint64_t> set_masks_, all_mask_;
  int64_t all_common_ = 0;  // tokens of these columns
  std::array<int64_t, kSets> common_, best_;
  std::array<uint32_t, kSets> half_;
};

}  // namespace prefix
