// The kernels of attention_kernels.h over the Simd of the including translation unit.
//
// Every loop runs over whole vectors at fixed places of the key block, and a masked key weighs exactly nothing, so the
// order of the additions does not depend on how many keys are visible.
#pragma once

#include <cstddef>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/unroll.h"
#include "ops/cpu/vecmath.h"

namespace prefix::ops {
namespace {

constexpr int64_t kSoftmaxBlock = 256;  // kKeyBlock (asserted in attention.cc)

inline void store_weight(float* p, Simd::F x) { Simd::store(p, x); }
inline void store_weight(uint16_t* p, Simd::F x) { Simd::store_bf16(p, x); }

inline float exp2_of(float x) {
  float lanes[Simd::kLanes];
  Simd::store(lanes, vec_exp2(Simd::set1(x)));
  return lanes[0];
}

inline void scale_row(float* o, int64_t d, float factor) {
  const Simd::F f = Simd::set1(factor);
  for (int64_t i = 0; i < d; i += Simd::kLanes) Simd::store(o + i, Simd::mul(Simd::load(o + i), f));
}

// Moves m of a row to the largest of `scores` times scale, which is positive, if that is larger; scales l and o to it.
inline void raise_maximum(const SoftmaxArgs& args, int64_t row, float scale, Simd::F scores) {
  const float before = args.m[row];
  const float highest = vec_max(scores) * scale;
  if (!(highest > before)) return;  // or NaN
  args.m[row] = highest;
  if (before == -__builtin_inff()) return;
  const float factor = exp2_of(before - highest);
  args.l[row] *= factor;
  scale_row(args.o + row * args.ldo, args.d, factor);
}

// Weights are counted from the largest of the first scores that a row sees, and then from another one only where those
// of a key block add up to more than this: f32 is as precise around 2^32 as around 1, so most blocks need no look for
// their largest score before their weights.
constexpr float kLargestSum = 0x1p32f;

// What weights are counted from weighs 1, but for what rounding it to f32 makes of that: of scores around 2^31 any factor, so
// that a row could lose all its weights and pass for one that sees nothing. Such a row is not finite.
constexpr float kLeastSum = 0x1p-64f;

enum class Scores { kFirst, kAll };  // that a row sees of a block

// raise(which) is raise_maximum() for these scores, weigh() makes the weights and returns their sum.
template <class Raise, class Weigh>
[[gnu::always_inline]] inline void weigh_row(const SoftmaxArgs& args, int64_t row,
                                             const Raise& raise, const Weigh& weigh) {
  bool raised = args.m[row] == -__builtin_inff();
  if (raised) raise(Scores::kFirst);
  float sum = weigh();
  if (!(sum <= kLargestSum)) {
    raise(Scores::kAll);
    sum = weigh();
    raised = true;
  }
  if (raised && sum < kLeastSum) sum = __builtin_nanf("");
  args.l[row] += sum;
}

// Keys per round of the four accumulators; whole pages at every level.
constexpr int64_t kSoftmaxStep = 4 * Simd::kLanes < 32 ? 32 : 4 * Simd::kLanes;

// The keys of the block that a row sees, [first, last), and the whole steps around them.
//
//   0     begin  first          last  end      256
//   |       |------xxxxxxxxxxxxxx------|         |     - masked, x real
struct VisibleKeys {
  int64_t first, last;
  int64_t begin, end;  // equal: none
};

inline VisibleKeys visible_keys(const SoftmaxArgs& args, int64_t row) {
  const auto inside = [](int64_t key) {
    return key < 0 ? 0 : key > kSoftmaxBlock ? kSoftmaxBlock : key;
  };
  const int64_t first = inside(int64_t{args.first[row]} - args.block_position);
  const int64_t last = inside(int64_t{args.last[row]} - args.block_position + 1);
  if (first >= last) return {};
  return {first, last, first / kSoftmaxStep * kSoftmaxStep,
          (last + kSoftmaxStep - 1) / kSoftmaxStep * kSoftmaxStep};
}

// s <- tanh(s * scale). Masked scores may be anything, so only those between the masked ends count.
inline void cap_scores(float* s, const VisibleKeys& keys, float scale) {
  for (int64_t i = keys.begin; i < keys.end; i += Simd::kLanes)
    Simd::store(s + i, vec_tanh(Simd::mul(Simd::load(s + i), Simd::set1(scale))));
}

// -infinity, which weighs exactly nothing, for the keys at both ends that the row does not see; the last store may reach
// past `end`, into the spare columns.
inline void mask_scores(float* s, const VisibleKeys& keys) {
  const float minus_infinity = -__builtin_inff();
  for (int64_t i = keys.begin; i < keys.first; ++i) s[i] = minus_infinity;
  for (int64_t i = keys.last; i < keys.end; i += Simd::kLanes)
    Simd::store(s + i, Simd::set1(minus_infinity));
}

inline void raise_to_scores(const SoftmaxArgs& args, int64_t row, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = Simd::kLanes;
  const float* const s = args.s + row * args.lds;
  Simd::F top = Simd::load(s + begin);
  for (int64_t i = begin + kLanes; i < end; i += kLanes) top = Simd::max(top, Simd::load(s + i));
  raise_maximum(args, row, args.scale, top);
}

// Scores into weights; returns their sum.
template <class P>
inline float softmax_weights(const SoftmaxArgs& args, int64_t row, const VisibleKeys& keys) {
  constexpr int64_t kLanes = Simd::kLanes;
  const float* const s = args.s + row * args.lds;
  P* const p = static_cast<P*>(args.p) + row * args.ldp;
  const Simd::F scale = Simd::set1(args.scale);
  const Simd::F shift = Simd::set1(-args.m[row]);
  Simd::F sum[4] = {Simd::zero(), Simd::zero(), Simd::zero(), Simd::zero()};
  for (int64_t i = keys.begin; i < keys.end; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      const Simd::F x = Simd::load(s + i + j * kLanes);
      const Simd::F weight = vec_weight(Simd::fma(x, scale, shift));
      sum[j] = Simd::add(sum[j], weight);
      store_weight(p + i + j * kLanes, weight);
    }
  }
  return vec_sum(Simd::add(Simd::add(sum[0], sum[1]), Simd::add(sum[2], sum[3])));
}

template <class P>
inline void softmax_row(const SoftmaxArgs& args, int64_t row, const VisibleKeys& keys) {
  float* const s = args.s + row * args.lds;
  if (args.cap_scale != 0) cap_scores(s, keys, args.cap_scale);
  mask_scores(s, keys);
  weigh_row(
      args, row,
      [&](Scores which) {
        const int64_t end = which == Scores::kFirst ? keys.begin + kSoftmaxStep : keys.end;
        raise_to_scores(args, row, keys.begin, end);
      },
      [&] { return softmax_weights<P>(args, row, keys); });
}

template <class P>
void attention_softmax(const SoftmaxArgs& args) {
  for (int64_t r = 0; r < args.rows; ++r) {
    const VisibleKeys keys = visible_keys(args, r);
    if (keys.end > 0) softmax_row<P>(args, r, keys);
    P* const p = static_cast<P*>(args.p) + r * args.ldp;
    __builtin_memset(p, 0, static_cast<size_t>(keys.begin) * sizeof(P));
    __builtin_memset(p + keys.end, 0, static_cast<size_t>(kSoftmaxBlock - keys.end) * sizeof(P));
  }
}

// A state is empty iff its l is 0 (the largest of a row's first scores has weight 1, see kLeastSum); NaN is not empty and
// spreads.
void attention_merge(const MergeArgs& args) {
  for (int64_t r = 0; r < args.rows; ++r) {
    if (args.from_l[r] == 0) continue;
    float* const o = args.o + r * args.ldo;
    const float* const from = args.from_o + r * args.ldo;
    if (args.l[r] == 0) {
      args.m[r] = args.from_m[r];
      args.l[r] = args.from_l[r];
      __builtin_memcpy(o, from, static_cast<size_t>(args.d) * sizeof(float));
      continue;
    }
    const float m = args.m[r] > args.from_m[r] ? args.m[r] : args.from_m[r];
    const float keep = exp2_of(args.m[r] - m);
    const float take = exp2_of(args.from_m[r] - m);
    args.m[r] = m;
    args.l[r] = args.l[r] * keep + args.from_l[r] * take;
    const Simd::F a = Simd::set1(keep);
    const Simd::F b = Simd::set1(take);
    for (int64_t i = 0; i < args.d; i += Simd::kLanes) {
      const Simd::F kept = Simd::mul(Simd::load(o + i), a);
      Simd::store(o + i, Simd::fma(Simd::load(from + i), b, kept));
    }
  }
}

// Adding +0 makes a -0 positive: its sign could tell how many masked keys were walked.
template <class Out>
void attention_finish(const float* o, float l, int64_t d, Out* out) {
  const Simd::F inverse = Simd::set1(l == 0 ? 0.0f : 1.0f / l);
  int64_t i = 0;
  for (; i + Simd::kLanes <= d; i += Simd::kLanes)
    store_weight(out + i, Simd::add(Simd::mul(Simd::load(o + i), inverse), Simd::zero()));
  if (i == d) return;
  Out lanes[Simd::kLanes];  // o is padded to whole vectors, out is not
  store_weight(lanes, Simd::add(Simd::mul(Simd::load(o + i), inverse), Simd::zero()));
  for (int j = 0; i < d; ++i, ++j) out[i] = lanes[j];
}

// Vectors of a page's keys.
constexpr int kPageVecs = 32 / Simd::kLanes;
alignas(64) constexpr float kPageKeys[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                             11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                             22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
// Rows whose weights become bytes together: what is divided and reduced for each is done in whole vectors.
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

// Weights times the scales of their values; returns the sum of the weights. top[span]: lane by lane the largest of a
// span, 0 of one of which the row sees nothing.
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

// What the weights of each span are multiplied by, so that its largest becomes 255, and what they are in
// units of then.
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

// Pages [first, end). Not a memset, of which g++ makes `rep stos`: that takes longer to begin than a few pages take.
inline void clear_pages(uint8_t* p, int64_t first, int64_t end) {
  uint64_t zero = 0;
  asm("" : "+r"(zero));
  for (uint8_t* at = p + first * 32; at < p + end * 32; at += sizeof zero)
    __builtin_memcpy(at, &zero, sizeof zero);
}

// Weights to bytes; factors[span]. Four vectors at a time, also where the row sees only some of their pages: what they
// make of the others is overwritten.
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

inline AttentionKernels attention_kernels() {
  AttentionKernels a;
  a.softmax_bf16 = attention_softmax<uint16_t>;
  a.softmax_f32 = attention_softmax<float>;
  a.merge = attention_merge;
  a.softmax_int8 = attention_softmax_int8;
  a.finish_bf16 = attention_finish<uint16_t>;
  a.finish_f32 = attention_finish<float>;
  return a;
}

}  // namespace
}  // namespace prefix::ops
