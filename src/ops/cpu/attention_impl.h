// The kernels of attention_kernels.h over the Simd of the including translation unit.
//
// Every loop runs over whole vectors at fixed places of the key block, and a masked key adds an
// exact zero, so the order of the additions does not depend on how many keys are visible.
#pragma once

#include <cstddef>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/simd.h"
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

// Keys per round of the four accumulators; whole pages at every level.
constexpr int64_t kSoftmaxStep = 4 * Simd::kLanes < 32 ? 32 : 4 * Simd::kLanes;
// Rows whose maxima are found before their weights: their scores stay in L1, and the latencies of
// the horizontal reductions of different rows overlap.
constexpr int64_t kSoftmaxRows = 8;

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

// Masks the scores of a row, moves its m to the new maximum and scales l and o to it.
inline void softmax_maximum(const SoftmaxArgs& args, int64_t row, const VisibleKeys& keys) {
  constexpr int64_t kLanes = Simd::kLanes;
  float* const s = args.s + row * args.lds;
  const float minus_infinity = -__builtin_inff();
  if (args.cap_scale != 0) cap_scores(s, keys, args.cap_scale);
  // -infinity weighs exactly nothing; the last store may reach past `end`, into the spare columns.
  for (int64_t i = keys.begin; i < keys.first; ++i) s[i] = minus_infinity;
  for (int64_t i = keys.last; i < keys.end; i += kLanes)
    Simd::store(s + i, Simd::set1(minus_infinity));
  Simd::F top[4];
  for (int j = 0; j < 4; ++j) top[j] = Simd::set1(minus_infinity);
  for (int64_t i = keys.begin; i < keys.end; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) top[j] = Simd::max(top[j], Simd::load(s + i + j * kLanes));
  const float highest =
      vec_max(Simd::max(Simd::max(top[0], top[1]), Simd::max(top[2], top[3]))) * args.scale;
  const float before = args.m[row];
  if (!(highest > before)) return;
  args.m[row] = highest;
  if (before == minus_infinity) return;
  const float factor = exp2_of(before - highest);
  args.l[row] *= factor;
  scale_row(args.o + row * args.ldo, args.d, factor);
}

template <class P>
inline void softmax_weights(const SoftmaxArgs& args, int64_t row, const VisibleKeys& keys) {
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
  args.l[row] += vec_sum(Simd::add(Simd::add(sum[0], sum[1]), Simd::add(sum[2], sum[3])));
}

template <class P>
void attention_softmax(const SoftmaxArgs& args) {
  for (int64_t begin = 0; begin < args.rows; begin += kSoftmaxRows) {
    const int64_t after = begin + kSoftmaxRows < args.rows ? begin + kSoftmaxRows : args.rows;
    for (int64_t r = begin; r < after; ++r) {
      const VisibleKeys keys = visible_keys(args, r);
      if (keys.end > 0) softmax_maximum(args, r, keys);
    }
    for (int64_t r = begin; r < after; ++r) {
      const VisibleKeys keys = visible_keys(args, r);
      if (keys.end > 0) softmax_weights<P>(args, r, keys);
      P* const p = static_cast<P*>(args.p) + r * args.ldp;
      __builtin_memset(p, 0, static_cast<size_t>(keys.begin) * sizeof(P));
      __builtin_memset(p + keys.end, 0, static_cast<size_t>(kSoftmaxBlock - keys.end) * sizeof(P));
    }
  }
}

// A state is empty iff its l is 0 (its largest score has weight 1); NaN is not empty and spreads.
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

// Number `key` of a quad of bytes, as the bits of an f32.
inline uint32_t byte_as_float(uint32_t quad, int key) {
  const float x = static_cast<float>(static_cast<int32_t>(quad << (24 - 8 * key)) >> 24);
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

// Whole numbers of 8 bits are exact in bf16: the upper half of the f32 is all there is.
inline void widen_bf16(const std::byte* block, int64_t d, std::byte* out) {
  for (int64_t quad_row = 0; quad_row < d / 4; ++quad_row) {
    uint32_t quads[32], pairs[64];
    __builtin_memcpy(quads, block + quad_row * 128, sizeof quads);
    for (int j = 0; j < 32; ++j) {
      pairs[j] = byte_as_float(quads[j], 0) >> 16 | byte_as_float(quads[j], 1);
      pairs[32 + j] = byte_as_float(quads[j], 2) >> 16 | byte_as_float(quads[j], 3);
    }
    __builtin_memcpy(out + quad_row * 256, pairs, sizeof pairs);
  }
}

inline void widen_f32(const std::byte* block, int64_t d, std::byte* out) {
  for (int64_t quad_row = 0; quad_row < d / 4; ++quad_row) {
    uint32_t quads[32], numbers[128];
    __builtin_memcpy(quads, block + quad_row * 128, sizeof quads);
    for (int key = 0; key < 4; ++key)
      for (int j = 0; j < 32; ++j) numbers[32 * key + j] = byte_as_float(quads[j], key);
    __builtin_memcpy(out + quad_row * 512, numbers, sizeof numbers);
  }
}

inline AttentionKernels attention_kernels() {
  AttentionKernels a;
  a.softmax_bf16 = attention_softmax<uint16_t>;
  a.softmax_f32 = attention_softmax<float>;
  a.merge = attention_merge;
  a.widen_bf16 = widen_bf16;
  a.widen_f32 = widen_f32;
  a.finish_bf16 = attention_finish<uint16_t>;
  a.finish_f32 = attention_finish<float>;
  return a;
}

}  // namespace
}  // namespace prefix::ops
