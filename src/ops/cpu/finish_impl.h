// How the sums of a tile become results (GemmKernels::store, gated_bf16, gated_f32),
// over the vectors of a level.
#pragma once

#include <cstdint>

#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/vecmath.h"

namespace prefix::ops {
namespace {

// The sums of a row as f32: c as it is, or what WholeSums says.
template <class S, bool kWhole>
struct TileSums {
  TileSums(const WholeSums* whole, const float* c, int64_t row) : c(c) {
    if constexpr (kWhole) {
      correction = whole->corrections[row];
      row_scale = S::set1(whole->row_scales[row]);
      column_scales = whole->column_scales;
    }
  }
  typename S::F at(int64_t j) const {
    if constexpr (!kWhole) return S::load(c + j);
    return S::mul(S::load_i32(c + j, correction), S::mul(row_scale, S::load(column_scales + j)));
  }
  const float* c;
  int32_t correction = 0;
  typename S::F row_scale = S::zero();
  const float* column_scales = nullptr;
};

template <class S, bool kWhole>
void store_sums(const StoreArgs& args) {
  using F = typename S::F;
  constexpr int kLanes = S::kLanes;
  const StoreArgs a = args;  // as far as the compiler knows a store may change `args`
  for (int64_t r = 0; r < a.rows; ++r) {
    const TileSums<S, kWhole> sums(a.whole, a.c + r * a.ldc, r);
    float* const y = a.y + r * a.ldy;
    int64_t j = 0;
    for (; j + kLanes <= a.columns; j += kLanes) {
      F v = sums.at(j);
      if (a.bias != nullptr) v = S::add(v, S::load(a.bias + j));
      if (a.add) v = S::add(S::load(y + j), v);
      S::store(y + j, v);
    }
    if (j == a.columns) continue;
    float last[kLanes];
    S::store(last, sums.at(j));
    for (int64_t i = 0; j < a.columns; ++i, ++j) {  // single additions: the same in any lane
      float v = last[i];
      if (a.bias != nullptr) v += a.bias[j];
      y[j] = a.add ? y[j] + v : v;
    }
  }
}

template <class S>
void store_rows(const StoreArgs& args) {
  args.whole == nullptr ? store_sums<S, false>(args) : store_sums<S, true>(args);
}

template <bool kBf16>
struct ElementType {
  using Type = float;
};
template <>
struct ElementType<true> {
  using Type = uint16_t;
};

template <class S, bool kBf16, bool kWhole, class Fn>
void gated_sums(const GatedArgs& args, const Fn& fn) {
  using F = typename S::F;
  using Out = typename ElementType<kBf16>::Type;
  constexpr int kLanes = S::kLanes;
  alignas(64) float gate_bias[kPanelColumns] = {};
  alignas(64) float up_bias[kPanelColumns] = {};
  for (int64_t j = 0; j < args.columns; ++j) {
    if (args.bias_gate != nullptr) gate_bias[j] = args.bias_gate[j];
    if (args.bias_up != nullptr) up_bias[j] = args.bias_up[j];
  }
  alignas(64) Out tail[kPanelColumns];
  for (int64_t r = 0; r < args.rows; ++r) {
    const TileSums<S, kWhole> sums(args.whole, args.c + r * args.ldc, r);
    Out* const out = static_cast<Out*>(args.out) + r * args.ldo;
    Out* const to = args.columns == kPanelColumns ? out : tail;
    for (int j = 0; j < kPanelColumns; j += kLanes) {
      const F gate = S::add(sums.at(j), S::load(gate_bias + j));
      const F up = S::add(sums.at(kPanelColumns + j), S::load(up_bias + j));
      const F v = fn(gate, up);
      if constexpr (kBf16) {
        S::store_bf16(to + j, v);
      } else {
        S::store(to + j, v);
      }
    }
    if (to == tail) {
      for (int64_t j = 0; j < args.columns; ++j) out[j] = tail[j];
    }
  }
}

template <class S, bool kBf16, class Fn>
void gated_rows_by(const GatedArgs& args, const Fn& fn) {
  args.whole == nullptr ? gated_sums<S, kBf16, false>(args, fn)
                        : gated_sums<S, kBf16, true>(args, fn);
}

template <class S, bool kBf16>
void gated_rows(const GatedArgs& args) {
  using F = typename S::F;
  switch (args.fn) {
    case ActivationFn::kSilu:
      return gated_rows_by<S, kBf16>(args, [](F g, F u) { return S::mul(vec_silu(g), u); });
    case ActivationFn::kGeluTanh:
      return gated_rows_by<S, kBf16>(args, [](F g, F u) { return S::mul(vec_gelu_tanh(g), u); });
    case ActivationFn::kClampedSwiglu:
      return gated_rows_by<S, kBf16>(args, [](F g, F u) { return vec_clamped_swiglu(g, u); });
  }
}

}  // namespace
}  // namespace prefix::ops
