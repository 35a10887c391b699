// A prefix tree that can be drawn: that of a batch, or that of an engine's cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace prefix_cli {

// One edge of the tree: tokens that the same set of requests have in common.
//
//   1900 tokens, 300 requests ─┬─ 20 tokens, 1 request
//                              ├─ 18 tokens, 1 request
//                              └─ 31 tokens, 2 requests ── ...
struct Bar {
  int32_t parent = -1;
  std::vector<int32_t> children;
  int64_t tokens = 0;
  std::string label;     // first tokens or text; of a heading: the namespace
  bool heading = false;  // stands for a namespace of a cache and has no tokens of its own
  int64_t inside = 0;    // of a heading: tokens below it

  // Of a batch.
  int64_t requests = 1;  // sequences whose path goes through it
  int64_t ends = 0;      // of those, how many end here
  // Of a cache.
  int64_t start = 0;    // position of its first token
  int64_t pending = 0;  // tokens that are not computed yet
  int64_t held = 0;     // pins and requests that keep it
  int64_t uses = 0;

  // A folded bar stands for branches that are too many or too deep to draw.
  int64_t folded = 0;
  int64_t folded_saved = 0;
  int32_t row = 0;  // layout: first row and number of rows
  int32_t rows = 1;

  // Tokens that need not be computed because an earlier request computes them.
  int64_t saved() const { return folded ? folded_saved : tokens * (requests - 1); }
};

struct Tree {
  std::vector<Bar> bars;  // a parent stands before its children
  std::vector<int32_t>
      roots;         // of a batch: one per namespace and first token; of a cache: headings
  int32_t rows = 0;  // layout: rows of the picture

  // Of a batch.
  int64_t requests = 0;
  int64_t sequences = 0;  // more than requests when there are choices
  int64_t given = 0;
  int64_t computed = 0;
  int64_t scored = 0;  // last tokens that are only scored: they take no row, and are in no bar
  // Of a cache.
  int64_t tokens = 0;
  int64_t nodes = 0;
  int64_t namespaces = 0;
};

// A copy in which at most max_rows bars stand below each other and at most 256 beside each other:
// of each fork the largest branches stay, the rest becomes one folded bar that counts them. Lays
// out row and rows of every bar.
Tree fold(const Tree& tree, int32_t max_rows);

}  // namespace prefix_cli
