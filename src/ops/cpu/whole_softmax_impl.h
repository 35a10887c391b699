// Softmax over sums of whole numbers (WholeSoftmaxArgs): a page is what its keys and values have
// scales for, and weights become bytes, of each row and span of pages with a scale of their own.
#pragma once

#include <cstdint>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/softmax_impl.h"
#include "ops/cpu/unroll.h"
#include "ops/cpu/vecmath.h"

namespace prefix::ops {
namespace {

// Vectors of a page's keys.
constexpr int kPageVecs = 32 / Simd::kLanes;
alignas(64) constexpr float kPageKeys[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                             11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                             22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
// Rows whose weights become bytes together: what is divided and reduced for
// each is done in whole vectors.
constexpr int64_t kSoftmaxRows = 8;
// The largest weights of 8 rows, of each span: in vectors, then one number each.
constexpr int kMaxima = kSoftmaxRows * kBlockSpans;
static_assert(kMaxima % Simd::kLanes == 0 && kMaxima % 8 == 0);
// Less than this in the largest weight of a span counts as nothing: 255 / it would not be finite.
constexpr float kSmallestWeight = 0x1p-100f;

// Of a row with whole numbers: what it sees, and what its scores are multiplied by.
struct WholeRow {
  int64_t first, last;           // keys
  int64_t first_page, end_page;  // equal: none
  float scale;
};

inline WholeRow whole_row(const WholeSoftmaxArgs& args, int64_t r) {
  const VisibleKeys keys = visible_keys(args.rows, r);
  WholeRow row{keys.first, keys.last, keys.first / 32, (keys.last + 31) / 32, args.rows.scale};
  // With a cap the scale of q goes into the tanh. Not 0: -infinity times 0 is NaN.
  if (args.rows.cap_scale == 0) {
    row.scale *= args.q_scales[r];
    if (row.scale == 0) row.scale = 0x1p-126f;
  }
  return row;
}

// Of a page, what the row sees, and `unseen` for the other keys.
[[gnu::always_inline]] inline void mask_page(const WholeRow& row, int64_t page, float unseen,
                                             Simd::F (&x)[kPageVecs]) {
  const int64_t first = row.first - page * 32, last = row.last - page * 32;
  if (first <= 0 && last >= 32) return;
  const Simd::F begin = Simd::set1(static_cast<float>(first));
  const Simd::F end = Simd::set1(static_cast<float>(last));
  PREFIX_UNROLL
  for (int j = 0; j < kPageVecs; ++j) {
    const Simd::F key = Simd::load(kPageKeys + j * Simd::kLanes);
    const Simd::F before_end = Simd::below(key, end, x[j], Simd::set1(unseen));
    x[j] = Simd::below(key, begin, Simd::set1(unseen), before_end);
  }
}

// The sums of a row as scores, page by page; anything where it does not see a key.
struct WholeScores {
  WholeScores(const WholeSoftmaxArgs& args, int64_t r, const WholeRow& row)
      : row(row),
        sums(args.rows.s + r * args.rows.lds),
        scales(args.key_scales + r * args.scales_stride),
        correction(args.corrections[r]),
        capped(args.rows.cap_scale != 0),
        cap_scale(Simd::set1(args.rows.cap_scale * args.q_scales[r])) {}

  [[gnu::always_inline]] void of_page(int64_t page, Simd::F (&x)[kPageVecs]) const {
    constexpr int kLanes = Simd::kLanes;
    const float* const at = sums + page * 32;
    PREFIX_UNROLL
    for (int j = 0; j < kPageVecs; ++j) {
      const Simd::F sum = Simd::load_i32(at + j * kLanes, correction);
      x[j] = Simd::mul(sum, Simd::load(scales[page] + j * kLanes));
      if (capped) x[j] = vec_tanh(Simd::mul(x[j], cap_scale));
    }
  }

  const WholeRow& row;
  const float* const sums;
  const float* const* const scales;
  const int32_t correction;
  const bool capped;
  const Simd::F cap_scale;
};

inline void raise_to_whole(const WholeSoftmaxArgs& args, int64_t r, const WholeRow& row,
                           int64_t end_page) {
  const WholeScores scores(args, r, row);
  Simd::F top = Simd::set1(-__builtin_inff());
  for (int64_t page = row.first_page; page < end_page; ++page) {
    Simd::F x[kPageVecs];
    scores.of_page(page, x);
    mask_page(row, page, -__builtin_inff(), x);
    PREFIX_UNROLL
    for (int j = 0; j < kPageVecs; ++j) top = Simd::max(top, x[j]);
  }
  raise_maximum(args.rows, r, row.scale, top);
}

// Weights times the scales of their values; returns the sum of the weights. top[span]: lane by lane
// the largest of a span, 0 of one of which the row sees nothing.
inline float whole_weights(const WholeSoftmaxArgs& args, int64_t r, const WholeRow& row,
                           float* weights, Simd::F* top) {
  constexpr int kLanes = Simd::kLanes;
  const WholeScores scores(args, r, row);
  const float* const* const scales = args.value_scales + r * args.scales_stride;
  const Simd::F scale = Simd::set1(row.scale);
  const Simd::F shift = Simd::set1(-args.rows.m[r]);
  Simd::F sum[kPageVecs];
  PREFIX_UNROLL
  for (int j = 0; j < kPageVecs; ++j) sum[j] = Simd::zero();
  for (int span = 0; span < kBlockSpans; ++span) top[span] = Simd::zero();
  for (int64_t page = row.first_page; page < row.end_page; ++page) {
    Simd::F weight[kPageVecs];
    scores.of_page(page, weight);
    PREFIX_UNROLL
    for (int j = 0; j < kPageVecs; ++j)
      weight[j] = vec_coarse_weight(Simd::fma(weight[j], scale, shift));
    mask_page(row, page, 0, weight);
    Simd::F largest = top[page / kSpanPages];
    PREFIX_UNROLL
    for (int j = 0; j < kPageVecs; ++j) {
      sum[j] = Simd::add(sum[j], weight[j]);
      const Simd::F scaled = Simd::mul(weight[j], Simd::load(scales[page] + j * kLanes));
      Simd::store(weights + page * 32 + j * kLanes, scaled);
      largest = Simd::max_positive(largest, scaled);
    }
    top[page / kSpanPages] = largest;
  }
  PREFIX_UNROLL
  for (int j = 1; j < kPageVecs; ++j) sum[0] = Simd::add(sum[0], sum[j]);
  return vec_sum(sum[0]);
}

inline void whole_row_weights(const WholeSoftmaxArgs& args, int64_t r, const WholeRow& row,
                              float* weights, Simd::F* top) {
  weigh_row(
      args.rows, r,
      [&](Scores which) {
        const int64_t end = which == Scores::kFirst ? row.first_page + 1 : row.end_page;
        raise_to_whole(args, r, row, end);
      },
      [&] { return whole_weights(args, r, row, weights, top); });
}

// What the weights of each span are multiplied by, so that its largest becomes 255,
// and what they are in units of then.
inline void weight_scales(const Simd::F* top, float* factors, float* units) {
  float highest[kMaxima];
  for (int i = 0; i < kMaxima; i += 8) vec_maxima(top + i, highest + i);
  for (int i = 0; i < kMaxima; i += Simd::kLanes) {
    const Simd::F smallest = Simd::set1(kSmallestWeight), none = Simd::zero();
    const Simd::F largest = Simd::load(highest + i);
    const Simd::F factor = Simd::div(Simd::set1(255.0f), largest);
    const Simd::F unit = Simd::mul(largest, Simd::set1(1.0f / 255.0f));
    Simd::store(factors + i, Simd::below(smallest, largest, factor, none));
    Simd::store(units + i, Simd::below(smallest, largest, unit, none));
  }
}

// Pages [first, end). Not a memset, of which g++ makes `rep stos`:
// that takes longer to begin than a few pages take.
inline void clear_pages(uint8_t* p, int64_t first, int64_t end) {
  uint64_t zero = 0;
  asm("" : "+r"(zero));
  for (uint8_t* at = p + first * 32; at < p + end * 32; at += sizeof zero)
    __builtin_memcpy(at, &zero, sizeof zero);
}

// Weights to bytes; factors[span]. Four vectors at a time, also where the row sees only some of
// their pages: what they make of the others is overwritten.
inline void round_weights(const WholeSoftmaxArgs& args, int64_t r, const WholeRow& row,
                          const float* weights, const float* factors) {
  constexpr int kLanes = Simd::kLanes;
  uint8_t* const p = args.p + r * args.ldp;
  constexpr int64_t kFour = 4 * kLanes, kSpan = 32 * kSpanPages;
  static_assert(kSpan % kFour == 0);
  for (int64_t key = row.first_page * 32 / kFour * kFour; key < row.end_page * 32; key += kFour) {
    const Simd::F factor = Simd::set1(factors[key / kSpan]);
    const auto weight = [&](int64_t i) {
      return Simd::mul(Simd::load(weights + key + i * kLanes), factor);
    };
    Simd::store_u8(p + key, weight(0), weight(1), weight(2), weight(3));
  }
  clear_pages(p, 0, row.first_page);
  clear_pages(p, row.end_page, kBlockPages);
}

void attention_softmax_int8(const WholeSoftmaxArgs& args) {
  alignas(64) float weights[kSoftmaxRows][kSoftmaxBlock];  // of the pages that a row sees
  for (int64_t begin = 0; begin < args.rows.rows; begin += kSoftmaxRows) {
    const int64_t end = begin + kSoftmaxRows;
    const int64_t after = end < args.rows.rows ? end : args.rows.rows;
    WholeRow rows[kSoftmaxRows];
    Simd::F top[kMaxima];
    float factors[kMaxima], units[kMaxima];
    for (Simd::F& largest : top) largest = Simd::zero();
    for (int64_t r = begin; r < after; ++r) {
      const WholeRow& row = rows[r - begin] = whole_row(args, r);
      if (row.first_page < row.end_page)
        whole_row_weights(args, r, row, weights[r - begin], top + (r - begin) * kBlockSpans);
    }
    weight_scales(top, factors, units);
    __builtin_memcpy(args.p_scales + begin * kBlockSpans, units,
                     static_cast<size_t>((after - begin) * kBlockSpans) * sizeof(float));
    for (int64_t r = begin; r < after; ++r)
      round_weights(args, r, rows[r - begin], weights[r - begin],
                    factors + (r - begin) * kBlockSpans);
  }
}

}  // namespace
}  // namespace prefix::ops
