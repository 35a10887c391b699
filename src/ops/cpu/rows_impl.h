// The kernels of rows_kernels.h over the Simd of the including translation unit.
#pragma once

#include "ops/cpu/quantise_impl.h"
#include "ops/cpu/rows_kernels.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/vecmath.h"

namespace prefix::ops {
namespace {

float element_sum_squares(const float* x, int64_t n) {
  constexpr int64_t kLanes = Simd::kLanes;
  Simd::F sum[4] = {Simd::zero(), Simd::zero(), Simd::zero(), Simd::zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      const Simd::F v = Simd::load(x + i + j * kLanes);
      sum[j] = Simd::fma(v, v, sum[j]);
    }
  }
  for (; i < n; i += kLanes) {
    const Simd::F v = i + kLanes <= n ? Simd::load(x + i) : load_first(x + i, n - i);
    sum[0] = Simd::fma(v, v, sum[0]);
  }
  return vec_sum(Simd::add(Simd::add(sum[0], sum[1]), Simd::add(sum[2], sum[3])));
}

inline Simd::F scaled(Simd::F x, Simd::F scale, Simd::F weight) {
  return Simd::mul(Simd::mul(x, scale), weight);
}

void element_scale_f32(const float* x, float scale, const float* weight, int64_t n, float* out) {
  constexpr int64_t kLanes = Simd::kLanes;
  const Simd::F s = Simd::set1(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Simd::store(out + i, scaled(Simd::load(x + i), s, Simd::load(weight + i)));
  if (i < n) {
    const int64_t rest = n - i;
    store_first(out + i, rest, scaled(load_first(x + i, rest), s, load_first(weight + i, rest)));
  }
}

inline void store_first_bf16(uint16_t* p, int64_t n, Simd::F x) {
  uint16_t lanes[Simd::kLanes];
  Simd::store_bf16(lanes, x);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

void element_scale_bf16(const float* x, float scale, const float* weight, int64_t n,
                        uint16_t* out) {
  constexpr int64_t kLanes = Simd::kLanes;
  const Simd::F s = Simd::set1(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Simd::store_bf16(out + i, scaled(Simd::load(x + i), s, Simd::load(weight + i)));
  if (i < n) {
    const int64_t rest = n - i;
    store_first_bf16(out + i, rest,
                     scaled(load_first(x + i, rest), s, load_first(weight + i, rest)));
  }
}

void element_scale_add(const float* x, float scale, const float* weight, int64_t n, float* out) {
  constexpr int64_t kLanes = Simd::kLanes;
  const Simd::F s = Simd::set1(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Simd::F v = scaled(Simd::load(x + i), s, Simd::load(weight + i));
    Simd::store(out + i, Simd::add(Simd::load(out + i), v));
  }
  if (i < n) {
    const int64_t rest = n - i;
    const Simd::F v = scaled(load_first(x + i, rest), s, load_first(weight + i, rest));
    store_first(out + i, rest, Simd::add(load_first(out + i, rest), v));
  }
}

void element_multiply_silu(const float* x, const float* z, int64_t n, float* out) {
  constexpr int64_t kLanes = Simd::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Simd::store(out + i, Simd::mul(Simd::load(x + i), vec_silu(Simd::load(z + i))));
  if (i < n) {
    const int64_t rest = n - i;
    store_first(out + i, rest,
                Simd::mul(load_first(x + i, rest), vec_silu(load_first(z + i, rest))));
  }
}

void element_multiply_sigmoid_f32(float* x, const float* gate, int64_t n) {
  constexpr int64_t kLanes = Simd::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Simd::store(x + i, Simd::mul(Simd::load(x + i), vec_sigmoid(Simd::load(gate + i))));
  if (i < n) {
    const int64_t rest = n - i;
    store_first(x + i, rest,
                Simd::mul(load_first(x + i, rest), vec_sigmoid(load_first(gate + i, rest))));
  }
}

void element_multiply_sigmoid_bf16(uint16_t* x, const float* gate, int64_t n) {
  constexpr int64_t kLanes = Simd::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Simd::F g = vec_sigmoid(Simd::load(gate + i));
    Simd::store_bf16(x + i, Simd::mul(Simd::load_bf16(x + i), g));
  }
  if (i < n) {
    const int64_t rest = n - i;
    uint16_t lanes[kLanes] = {};
    for (int64_t j = 0; j < rest; ++j) lanes[j] = x[i + j];
    const Simd::F g = vec_sigmoid(load_first(gate + i, rest));
    store_first_bf16(x + i, rest, Simd::mul(Simd::load_bf16(lanes), g));
  }
}

void element_multiply(const float* x, int64_t n, float* y) {
  constexpr int64_t kLanes = Simd::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Simd::store(y + i, Simd::mul(Simd::load(y + i), Simd::load(x + i)));
  if (i < n) {
    const int64_t rest = n - i;
    store_first(y + i, rest, Simd::mul(load_first(y + i, rest), load_first(x + i, rest)));
  }
}

void element_add_scaled(const float* x, float scale, int64_t n, float* y) {
  constexpr int64_t kLanes = Simd::kLanes;
  const Simd::F factor = Simd::set1(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Simd::store(y + i, Simd::fma(Simd::load(x + i), factor, Simd::load(y + i)));
  if (i < n) {
    const int64_t rest = n - i;
    store_first(y + i, rest, Simd::fma(load_first(x + i, rest), factor, load_first(y + i, rest)));
  }
}

// A NaN stays one: of two operands max() gives the second then.
inline Simd::F squared_relu(Simd::F x) {
  const Simd::F positive = Simd::max(Simd::zero(), x);
  return Simd::mul(positive, positive);
}

void element_soft_cap(float* x, int64_t n, float cap) {
  constexpr int64_t kLanes = Simd::kLanes;
  const Simd::F inside = Simd::set1(1.0f / cap), outside = Simd::set1(cap);
  const auto capped = [&](Simd::F v) { return Simd::mul(vec_tanh(Simd::mul(v, inside)), outside); };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Simd::store(x + i, capped(Simd::load(x + i)));
  if (i < n) store_first(x + i, n - i, capped(load_first(x + i, n - i)));
}

void element_squared_relu_f32(const float* x, int64_t n, float* out) {
  constexpr int64_t kLanes = Simd::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Simd::store(out + i, squared_relu(Simd::load(x + i)));
  if (i < n) store_first(out + i, n - i, squared_relu(load_first(x + i, n - i)));
}

void element_squared_relu_bf16(const float* x, int64_t n, uint16_t* out) {
  constexpr int64_t kLanes = Simd::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Simd::store_bf16(out + i, squared_relu(Simd::load(x + i)));
  if (i < n) store_first_bf16(out + i, n - i, squared_relu(load_first(x + i, n - i)));
}

void element_to_bf16(const float* x, int64_t n, uint16_t* out) {
  constexpr int64_t kLanes = Simd::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Simd::store_bf16(out + i, Simd::load(x + i));
  if (i < n) store_first_bf16(out + i, n - i, load_first(x + i, n - i));
}

// (a, b) -> (a cos - b sin, b cos + a sin)
inline void rotate(Simd::F& a, Simd::F& b, Simd::F cos, Simd::F sin) {
  const Simd::F left = Simd::sub(Simd::mul(a, cos), Simd::mul(b, sin));
  b = Simd::fma(b, cos, Simd::mul(a, sin));
  a = left;
}

void element_head(const HeadArgs& args) {
  constexpr int64_t kLanes = Simd::kLanes;
  const float* x = args.x;
  if (args.weight != nullptr) {
    element_scale_f32(x, args.scale, args.weight, args.head_dim, args.out);
    x = args.out;
  }
  const int64_t half = args.rotary_dim / 2;
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    Simd::F a = Simd::load(x + i);
    Simd::F b = Simd::load(x + half + i);
    rotate(a, b, Simd::load(args.cos + i), Simd::load(args.sin + i));
    Simd::store(args.out + i, a);
    Simd::store(args.out + half + i, b);
  }
  if (i < half) {
    const int64_t rest = half - i;
    Simd::F a = load_first(x + i, rest);
    Simd::F b = load_first(x + half + i, rest);
    rotate(a, b, load_first(args.cos + i, rest), load_first(args.sin + i, rest));
    store_first(args.out + i, rest, a);
    store_first(args.out + half + i, rest, b);
  }
  if (x != args.out) {
    for (int64_t j = args.rotary_dim; j < args.head_dim; ++j) args.out[j] = x[j];
  }
}

inline RowKernels row_kernels() {
  RowKernels e;
  e.sum_squares = element_sum_squares;
  e.scale_f32 = element_scale_f32;
  e.scale_bf16 = element_scale_bf16;
  e.scale_add = element_scale_add;
  e.head = element_head;
  e.multiply_silu = element_multiply_silu;
  e.multiply_sigmoid_f32 = element_multiply_sigmoid_f32;
  e.multiply_sigmoid_bf16 = element_multiply_sigmoid_bf16;
  e.multiply = element_multiply;
  e.add_scaled = element_add_scaled;
  e.soft_cap = element_soft_cap;
  e.squared_relu_f32 = element_squared_relu_f32;
  e.squared_relu_bf16 = element_squared_relu_bf16;
  e.to_bf16 = element_to_bf16;
  e.quantise = quantise_row;
  e.quantise_groups = quantise_groups;
  e.round_columns = round_columns;
  return e;
}

}  // namespace
}  // namespace prefix::ops
