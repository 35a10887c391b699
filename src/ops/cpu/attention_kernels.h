// The softmax kernels of one CPU level that attention needs besides the tile product.
//
// The state of a packed row over the keys seen so far, in base 2 (with a soft cap,
// of capped scores):
//
//   m    score * scale * log2 e that the others are counted from    (-infinity: no key yet)
//   l    sum of 2^(score - m), at least 1
//   o[d] sum of 2^(score - m) * value
#pragma once

#include <cstddef>
#include <cstdint>

namespace prefix::ops {

// One key block for rows [0, rows): scores become weights 2^(score - m), and l their sum with what
// it was. m is the largest of a row's first scores, and moves, l and o with it, where later ones
// are so large that f32 would not hold their weights.
//
// The scores of the keys that a row sees are real; the others are never looked at, and their
// weights are exactly 0. Rows without visible keys get all-zero weights and keep their state. l is
// summed before the weights are rounded to bf16.
struct SoftmaxArgs {
  float* s = nullptr;  // [rows, lds] scores; scratch afterwards
  int64_t lds = 0;     // >= kKeyBlock + 16: masked ones are written in whole vectors
  void* p = nullptr;   // [rows, ldp] weights, all kKeyBlock of them are written
  int64_t ldp = 0;
  // Positions of the first and the last key that each packed row sees.
  const int32_t* first = nullptr;
  const int32_t* last = nullptr;
  int32_t block_position = 0;  // of the block's first key
  float scale = 0;             // times log2 e, positive
  // Not 0: scores become tanh(score * this) before they are scaled.
  float cap_scale = 0;
  float* m = nullptr;
  float* l = nullptr;
  float* o = nullptr;  // [rows, ldo]
  int64_t ldo = 0;
  int64_t d = 0;  // columns of o, a multiple of 32
  int64_t rows = 0;
};

// Pages of a key block; of a span, whose weights have a scale in common; spans of a block. Of more
// than four pages weights would be coarser than docs/quantisation.md says,
// of fewer their sums dearer.
inline constexpr int64_t kBlockPages = 8;
inline constexpr int64_t kSpanPages = 4;
inline constexpr int64_t kBlockSpans = kBlockPages / kSpanPages;

// The same of int8 keys and values: scores are whole numbers, and weights become them.
//
//   s     sums of q k of 32 bits: exact, less `correction`, in units of q_scale * (scale of the key)
//   p     weight * (scale of the value) in bytes, of each row and span of pages in units of `p_scale`
//
// l is summed before the weights are rounded. Pages of which a row sees no key are all zero.
struct WholeSoftmaxArgs {
  SoftmaxArgs rows;  // without p
  const int32_t* corrections = nullptr;
  const float* q_scales = nullptr;
  // Of each row the scales of each page's 32 keys, and of its values; finite where a row sees none.
  const float* const* key_scales = nullptr;  // [rows, scales_stride], kBlockPages of each
  const float* const* value_scales = nullptr;
  int64_t scales_stride = kBlockPages;  // or 0: all rows have the same
  uint8_t* p = nullptr;                 // [rows, ldp]
  int64_t ldp = 0;
  float* p_scales = nullptr;  // [rows, kBlockSpans]
};

// Bytes of 32 columns of int8 values of a page (KvLayout).
inline constexpr int64_t kValuePanel = 32 * 32;

// o += scale * (P V), with P V exact: a sum of whole numbers.
struct ValueTileArgs {
  // [rows, ldp], 32 of each page. Of an odd number of pages what lies behind the last one's is read
  // as well, and counts for nothing.
  const uint8_t* p = nullptr;
  int64_t ldp = 0;
  const float* p_scales = nullptr;           // of row r at r * kBlockSpans
  const std::byte* const* blocks = nullptr;  // of values, of each page (KvLayout)
  int64_t pages = 0;                         // kSpanPages at most
  float* o = nullptr;                        // [rows, ldo]
  int64_t ldo = 0;
  int64_t d = 0;  // columns, a multiple of 32
  int64_t rows = 0;
};

// Merges state `from` into state `into`, row by row; empty states (m = -infinity, l = 0) are
// neutral.
struct MergeArgs {
  float* m = nullptr;
  float* l = nullptr;
  float* o = nullptr;
  const float* from_m = nullptr;
  const float* from_l = nullptr;
  const float* from_o = nullptr;
  int64_t ldo = 0;  // of both
  int64_t d = 0;
  int64_t rows = 0;
};

struct AttentionKernels {
  void (*softmax_bf16)(const SoftmaxArgs& args) = nullptr;  // p is bf16
  void (*softmax_f32)(const SoftmaxArgs& args) = nullptr;
  void (*merge)(const MergeArgs& args) = nullptr;
  void (*softmax_int8)(const WholeSoftmaxArgs& args) = nullptr;
  // out = o / l, 0 for an empty state; one row of `d` elements.
  void (*finish_bf16)(const float* o, float l, int64_t d, uint16_t* out) = nullptr;
  void (*finish_f32)(const float* o, float l, int64_t d, float* out) = nullptr;
};

}  // namespace prefix::ops
