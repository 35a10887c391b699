// How a batch shares, as a tree that can be drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace prefix_cli {

// One edge of the prefix tree: tokens that the same set of requests have in common.
//
//   root ── 1900 tokens, 300 requests ─┬─ 20 tokens, 1 request
//                                      ├─ 18 tokens, 1 request
//                                      └─ 31 tokens, 2 requests ── ...
struct Bar {
  int32_t parent = -1;
  std::vector<int32_t> children;
  int64_t tokens = 0;
  int64_t requests = 0;  // sequences whose path goes through it
  int64_t ends = 0;      // of those, how many end here
  std::string label;     // first tokens or text
  // A folded bar stands for branches that are too many to draw.
  int64_t folded = 0;
  int64_t folded_saved = 0;
  int32_t row = 0;  // layout: first row and number of rows
  int32_t rows = 1;

  // Tokens that need not be computed because an earlier request computes them.
  int64_t saved() const { return folded ? folded_saved : tokens * (requests - 1); }
};

struct SharedTree {
  std::vector<Bar> bars;       // a parent stands before its children
  std::vector<int32_t> roots;  // one per namespace and first token
  int64_t requests = 0;
  int64_t sequences = 0;  // more than requests when there are choices
  int64_t given = 0;
  int64_t computed = 0;
  int32_t rows = 0;  // layout: rows of the picture
};

// A copy in which at most max_rows bars stand below each other: of each fork the largest branches
// stay, the rest becomes one folded bar that counts them. Lays out row and rows of every bar.
SharedTree fold(const SharedTree& tree, int32_t max_rows);

// 12345678 -> "12,345,678"
std::string grouped(int64_t number);

std::string svg_picture(const SharedTree& tree);
std::string dot_picture(const SharedTree& tree);
std::string text_picture(const SharedTree& tree);
// "3 requests, 30 tokens given, 20 computed, 10 saved (33.3 %)"
std::string totals_line(const SharedTree& tree);

}  // namespace prefix_cli
