// The kernels of attention_kernels.h over the Simd of the including translation unit.
//
// Every loop runs over whole vectors at fixed places of the key block, and a masked key weighs
// exactly nothing, so the order of the additions does not depend on how many keys are visible.
#pragma once

#include <cstddef>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/softmax_impl.h"
#include "ops/cpu/vecmath.h"
#include "ops/cpu/whole_softmax_impl.h"

namespace prefix::ops {
namespace {

inline void store_weight(float* p, Simd::F x) { Simd::store(p, x); }
inline void store_weight(uint16_t* p, Simd::F x) { Simd::store_bf16(p, x); }

// s <- tanh(s * scale). Masked scores may be anything, so only those between the masked ends count.
inline void cap_scores(float* s, const VisibleKeys& keys, float scale) {
  for (int64_t i = keys.begin; i < keys.end; i += Simd::kLanes)
    Simd::store(s + i, vec_tanh(Simd::mul(Simd::load(s + i), Simd::set1(scale))));
}

// -infinity, which weighs exactly nothing, for the keys at both ends that the row does not see; the
// last store may reach past `end`, into the spare columns.
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

// A state is empty iff its l is 0 (the largest of a row's first scores has weight 1, see
// kLeastSum); NaN is not empty and spreads.
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
