// What the recurrent layers of one step do, the same for every layer.
//
// Rows are the tokens of the step in depth-first order. A *segment* is a range of consecutive rows
// whose positions follow one another on one path. It begins with the state of the segment that ends
// before it on its path, with a stored state, or at the beginning of a text with zeros:
//
//   tree                                  segments       rows    begins with
//   root ─ [ 100 known, state 0 ] ─┬─ a   0              0..2    stored state 0
//                                  │  └─┬─ b   1         3..4    what segment 0 leaves
//                                  │    └─ c   2         5..5    what segment 0 leaves
//                                  └─ d   3              6..9    stored state 0
//
// Depth first means that the states which are needed at a time are a stack: of each segment that
// still has a child to come. A segment without children that writes nothing leaves no state at all.
//
// A *write* stores the state after a row: the row may be any of a segment, so states can be taken
// at every token.
//
// Invariance: a state is one function of the tokens before it, computed token by token in an order
// fixed by the model's shapes. Where segments begin and end, and where states are written, changes
// no bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace prefix {

struct ScanSegment {
  int32_t row_begin;
  int32_t row_end;
  int32_t parent;  // the segment it follows, an earlier one; -1: none
  int32_t from;    // with parent < 0: the stored state it begins with; -1: zeros
};

// Of one row there may be several. Of several of one state the last one counts.
struct ScanWrite {
  int32_t row;
  int32_t state;
};

struct ScanPlan {
  std::vector<ScanSegment> segments;  // they cover all rows of the step, in order
  std::vector<ScanWrite> writes;      // ascending by row
  // Stored state i lies in these pages of the pool: pages[i * state_pages, (i + 1) * state_pages).
  // One that is written may be one that is read: it is read first.
  std::vector<int32_t> pages;
  int32_t state_pages = 0;
};

// How a state lies in its pages: the bytes of a state are f32 numbers in a row,
//
//   [ layer 0 | layer 1 | ... ]            recurrent layers only
//   layer   [ convolution | scan ]
//           convolution [width - 1][channels]   inputs of the last tokens, the oldest first
//           scan        as the kind of layer has it
//
// cut into pages: byte b is byte b % page_bytes of the state's page b / page_bytes.
struct StateLayout {
  int32_t layers = 0;
  int32_t conv_channels = 0;
  int32_t conv_width = 0;   // taps of the convolution, the current token among them
  int64_t scan_floats = 0;  // of one layer

  int64_t conv_floats() const {
    return layers > 0 ? static_cast<int64_t>(conv_width - 1) * conv_channels : 0;
  }
  size_t layer_bytes() const {
    return static_cast<size_t>(conv_floats() + scan_floats) * sizeof(float);
  }
  size_t bytes() const { return layer_bytes() * static_cast<size_t>(layers); }
  // Pages that a state takes; of what no pool holds the greatest number there is.
  int32_t pages(size_t page_bytes) const {
    return static_cast<int32_t>(
        std::min<size_t>((bytes() + page_bytes - 1) / page_bytes, INT32_MAX));
  }
  // Bytes that it takes of the cache: whole pages.
  int64_t stored_bytes(size_t page_bytes) const {
    return static_cast<int64_t>(page_bytes) * pages(page_bytes);
  }
  // Of the first float of a layer's part.
  size_t conv_offset(int32_t layer) const { return static_cast<size_t>(layer) * layer_bytes(); }
  size_t scan_offset(int32_t layer) const {
    return conv_offset(layer) + static_cast<size_t>(conv_floats()) * sizeof(float);
  }
};

}  // namespace prefix
