// Which pages of a span rows read, and which rows go together.
#include "ops/cpu/key_block.h"

#include <gtest/gtest.h>

#include <vector>

namespace prefix::ops::testing {
namespace {

struct Part {
  int64_t begin, end;          // rows
  int32_t first;               // page of the span
  std::vector<int32_t> pages;  // from there on
  bool operator==(const Part&) const = default;
};

// All parts of a span, for rows [0, rows).
std::vector<Part> parts(const KeyBlock& block, int32_t first, int64_t rows) {
  std::vector<Part> all;
  for (int64_t begin = 0, end = 0; begin < rows; begin = end) {
    end = rows;
    const KeyBlock::Span span = block.span(first, begin, end);
    Part part{begin, end, span.first, {}};
    for (int32_t i = span.first; i < span.end; ++i) part.pages.push_back(span.pages[i]);
    all.push_back(part);
  }
  return all;
}

// The drawing of key_block.h.
TEST(KeyBlock, RowsWithTheSamePagesGoTogether) {
  KeyBlock block;
  block.pages = {1, 2, 3, 4, 5, 6, 7, 8};
  block.pieces = {{0, 5, 0, 0, 12}, {5, 2, 5 * 32, 0, 6}, {7, 1, 5 * 32, 6, 12}};
  EXPECT_EQ(parts(block, 0, 12), (std::vector<Part>{{0, 12, 0, {1, 2, 3, 4}}}));
  EXPECT_EQ(parts(block, 4, 12), (std::vector<Part>{{0, 6, 0, {5, 6, 7}}, {6, 12, 0, {5, 8}}}));
}

TEST(KeyBlock, RowsWithoutPagesHaveNone) {
  KeyBlock block;
  block.pages = {1, 2};
  block.pieces = {{0, 2, 5 * 32, 3, 5}};
  EXPECT_EQ(parts(block, 0, 8), (std::vector<Part>{{0, 8, 4, {}}}));
  EXPECT_EQ(parts(block, 4, 8),
            (std::vector<Part>{{0, 3, 4, {}}, {3, 5, 1, {1, 2}}, {5, 8, 4, {}}}));
}

// One that the rows do not see is another that they have: its weights are zero, but it is read.
TEST(KeyBlock, PagesBetweenOthersAreThere) {
  KeyBlock block;
  block.pages = {7, 9};
  block.pieces = {{0, 1, 0, 0, 4}, {1, 1, 3 * 32, 0, 4}};
  EXPECT_EQ(parts(block, 0, 4), (std::vector<Part>{{0, 4, 0, {7, 7, 7, 9}}}));
}

TEST(KeyBlock, PiecesAreCutToRows) {
  KeyBlock block;
  block.pieces = {{0, 1, 0, 0, 4}, {1, 1, 32, 2, 9}, {2, 1, 64, 7, 9}};
  std::vector<std::pair<int64_t, int64_t>> rows;
  block.over_pieces(3, 7, [&](const KeyBlock::Piece& piece) {
    rows.emplace_back(piece.row_begin, piece.row_end);
  });
  EXPECT_EQ(rows, (std::vector<std::pair<int64_t, int64_t>>{{3, 4}, {3, 7}}));
}

}  // namespace
}  // namespace prefix::ops::testing
