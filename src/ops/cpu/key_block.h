// The runs of an attention tile inside one key block, cut into pieces:
// which packed rows read which pages.
//
//               256 positions, 8 pages
//   rows 0..11  [ a a a a a - - - ]   piece a: 5 pages of a run that all rows read
//   rows 0..5   [ - - - - - b b - ]   piece b
//   rows 6..11  [ - - - - - c - - ]   piece c
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/page.h"
#include "ops/cpu/attention_kernels.h"

namespace prefix::ops {

struct KeyBlock {
  // The part of a run, and the packed rows that see some of it.
  struct Piece {
    size_t first;    // of its pages in `pages`
    int32_t count;   // pages
    int32_t column;  // of its first key inside the block
    int64_t row_begin;
    int64_t row_end;
  };

  // Pages of a span that some rows read, whichever pieces these are of.
  struct Span {
    int32_t pages[kSpanPages];
    int32_t first = kSpanPages, end = 0;  // inside the span; end <= first: none
  };

  int32_t position = 0;  // of its first key
  std::vector<Piece> pieces;
  std::vector<int32_t> pages;  // of all pieces

  void clear() {
    pieces.clear();
    pages.clear();
  }
  const int32_t* pages_of(const Piece& piece) const { return pages.data() + piece.first; }

  // task(piece) with the parts of pieces that are of rows [row_begin, row_end).
  template <class Task>
  void over_pieces(int64_t row_begin, int64_t row_end, const Task& task) const {
    for (Piece piece : pieces) {
      piece.row_begin = std::max(piece.row_begin, row_begin);
      piece.row_end = std::min(piece.row_end, row_end);
      if (piece.row_begin < piece.row_end) task(piece);
    }
  }

  // The span whose first page is number `first` of the block, for row `begin` and the rows behind
  // it up to `end`, which is moved to where others begin. (Of the drawing, span 4: pages a b b for
  // rows 0..5, then a c for rows 6..11.)
  Span span(int32_t first, int64_t begin, int64_t& end) const {
    Span span;
    bool has[kSpanPages] = {};
    for (const Piece& piece : pieces) {
      const int32_t at = piece.column / kPageTokens - first;  // of its first page in the span
      const int32_t from = std::max(at, 0);
      const int32_t to = std::min(at + piece.count, static_cast<int32_t>(kSpanPages));
      if (from >= to || piece.row_end <= begin) continue;
      end = std::min(end, piece.row_begin > begin ? piece.row_begin : piece.row_end);
      if (piece.row_begin > begin) continue;
      for (int32_t i = from; i < to; ++i) {
        span.pages[i] = pages_of(piece)[i - at];
        has[i] = true;
      }
      span.first = std::min(span.first, from);
      span.end = std::max(span.end, to);
    }
    // The rows see nothing of one between those: whatever page it is, its weights are zero.
    for (int32_t i = span.first; i < span.end; ++i)
      if (!has[i]) span.pages[i] = span.pages[span.first];
    return span;
  }
};

}  // namespace prefix::ops
