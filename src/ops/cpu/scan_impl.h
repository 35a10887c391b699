// The kernels of scan_kernels.h over the Simd of the including translation unit.
//
// Lanes lie along the columns of S, which never meet: no sum goes over lanes.
//
//   Mamba-2: some lines of two vectors stay in registers over all tokens; u = dt x and the unfinished
//   y of the tokens are in the L1 cache:
//
//     S line 0  [ v0 | v1 ]   token t:  S <- decay S + u B[line]
//     S line 1  [ v0 | v1 ]             y <- y + S C[line]
//     ..
//
//   Gated delta rule: S lies in the L1 cache and is passed once a token: a pass brings in this
//   token's change, and adds up this token's q S and the next one's k S.
#pragma once

#include "ops/cpu/scan_kernels.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/unroll.h"
#include "ops/cpu/vecmath.h"

namespace prefix::ops {
namespace {

inline Simd::F load_part(const float* p, int64_t n) {
  return n >= Simd::kLanes ? Simd::load(p) : load_first(p, n);
}
inline void store_part(float* p, int64_t n, Simd::F x) {
  if (n >= Simd::kLanes) {
    Simd::store(p, x);
  } else {
    store_first(p, n, x);
  }
}

// Whether what was added up as 0 * x had finite x only.
inline bool all_zero(Simd::F zeros) { return vec_sum(zeros) == 0; }

// Lines of S that stay in registers over all tokens, for two vectors of columns.
constexpr int kMamba2Lines = Simd::kLanes == 16 ? 8 : 4;

// dt x and y of the tokens of a call, for V vectors of columns.
template <int V>
struct Mamba2Columns {
  alignas(64) float u[kMamba2Tokens][V * Simd::kLanes];
  alignas(64) float y[kMamba2Tokens][V * Simd::kLanes];
};

// L lines from `line` on, over all tokens. The sum of y goes from line to line,
// the first to the last, whatever L and V are.
template <int V, int L>
inline void mamba2_lines(const Mamba2Kernel& args, float* at, int64_t line,
                         Mamba2Columns<V>& columns) {
  constexpr int64_t kLanes = Simd::kLanes;
  // Loops over s are unrolled by name: g++ 12 would keep it in memory around the loop of tokens.
  Simd::F s[L][V];
  PREFIX_UNROLL
  for (int i = 0; i < L; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < V; ++j) s[i][j] = Simd::load(at + i * args.lds + j * kLanes);
  }
  const float* decays = args.decay;
  const float* b = args.b + line;
  const float* c = args.c + line;
  for (int64_t t = 0; t < args.tokens; ++t) {
    const Simd::F decay = Simd::set1(*decays);
    Simd::F u[V], y[V];
    PREFIX_UNROLL
    for (int j = 0; j < V; ++j) {
      u[j] = Simd::load(columns.u[t] + j * kLanes);
      y[j] = Simd::load(columns.y[t] + j * kLanes);
    }
    PREFIX_UNROLL
    for (int i = 0; i < L; ++i) {
      const Simd::F bi = Simd::set1(b[i]), ci = Simd::set1(c[i]);
      PREFIX_UNROLL
      for (int j = 0; j < V; ++j) {
        s[i][j] = Simd::fma(u[j], bi, Simd::mul(decay, s[i][j]));
        y[j] = Simd::fma(s[i][j], ci, y[j]);
      }
    }
    PREFIX_UNROLL
    for (int j = 0; j < V; ++j) Simd::store(columns.y[t] + j * kLanes, y[j]);
    decays += args.ld_gates;
    b += args.ld_bc;
    c += args.ld_bc;
  }
  PREFIX_UNROLL
  for (int i = 0; i < L; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < V; ++j) Simd::store(at + i * args.lds + j * kLanes, s[i][j]);
  }
}

// V vectors of columns from `column` on; of the last of them there may be fewer than kLanes.
template <int V>
inline Simd::F mamba2_columns(const Mamba2Kernel& args, int64_t column, Simd::F zeros) {
  constexpr int64_t kLanes = Simd::kLanes;
  Mamba2Columns<V> columns;
  const Simd::F d = Simd::set1(args.d);
  const auto each = [&](const auto& work) {
    for (int64_t t = 0; t < args.tokens; ++t)
      for (int j = 0; j < V; ++j) work(t, j * kLanes, args.columns - column - j * kLanes);
  };
  each([&](int64_t t, int64_t j, int64_t n) {
    const Simd::F x = load_part(args.x + t * args.ldx + column + j, n);
    Simd::store(columns.u[t] + j, Simd::mul(x, Simd::set1(args.dt[t * args.ld_gates])));
    Simd::store(columns.y[t] + j, Simd::mul(d, x));
  });
  int64_t line = 0;
  float* const s = args.s + column;
  for (; line + kMamba2Lines <= args.state; line += kMamba2Lines)
    mamba2_lines<V, kMamba2Lines>(args, s + line * args.lds, line, columns);
  for (; line < args.state; ++line) mamba2_lines<V, 1>(args, s + line * args.lds, line, columns);
  each([&](int64_t t, int64_t j, int64_t n) {
    const Simd::F y = Simd::load(columns.y[t] + j);
    store_part(args.y + t * args.ldy + column + j, n, y);
    zeros = Simd::fma(y, Simd::zero(), zeros);
  });
  return zeros;
}

bool scan_mamba2(const Mamba2Kernel& args) {
  Simd::F zeros = Simd::zero();
  int64_t column = 0;
  for (; column + Simd::kLanes < args.columns; column += 2 * Simd::kLanes)
    zeros = mamba2_columns<2>(args, column, zeros);
  if (column < args.columns) zeros = mamba2_columns<1>(args, column, zeros);
  return all_zero(zeros);
}

// Sums over rows of S: those of even and of odd rows, which are added in the end.
template <int V>
struct RowSums {
  Simd::F even[V], odd[V];
  void clear() {
    for (int j = 0; j < V; ++j) even[j] = odd[j] = Simd::zero();
  }
  Simd::F total(int j) const { return Simd::add(even[j], odd[j]); }
};

template <int V>
inline void add_row(float factor, const Simd::F* s, Simd::F* sums) {
  const Simd::F f = Simd::set1(factor);
  for (int j = 0; j < V; ++j) sums[j] = Simd::fma(f, s[j], sums[j]);
}

// One row of S in a pass: S <- decay S + k change.
template <int V, bool kNext>
inline void delta_row(float* at, Simd::F decay, float k, const Simd::F* change, float q,
                      const float* next_k, Simd::F* y, Simd::F* next) {
  Simd::F s[V];
  const Simd::F factor = Simd::set1(k);
  for (int j = 0; j < V; ++j) {
    s[j] = Simd::load(at + j * Simd::kLanes);
    s[j] = Simd::fma(factor, change[j], Simd::mul(decay, s[j]));
    Simd::store(at + j * Simd::kLanes, s[j]);
  }
  add_row<V>(q, s, y);
  if constexpr (kNext) add_row<V>(*next_k, s, next);
}

template <int V, bool kNext>
inline void delta_pass(float* s, int64_t lds, int64_t rows, Simd::F decay, const float* k,
                       const Simd::F* change, const float* q, const float* next_k, RowSums<V>& y,
                       RowSums<V>& next) {
  int64_t i = 0;
  for (; i + 2 <= rows; i += 2) {
    delta_row<V, kNext>(s + i * lds, decay, k[i], change, q[i], next_k + i, y.even, next.even);
    delta_row<V, kNext>(s + (i + 1) * lds, decay, k[i + 1], change, q[i + 1], next_k + i + 1, y.odd,
                        next.odd);
  }
  if (i < rows)
    delta_row<V, kNext>(s + i * lds, decay, k[i], change, q[i], next_k + i, y.even, next.even);
}

// k S before the first token.
template <int V>
inline void delta_first(const float* s, int64_t lds, int64_t rows, const float* k,
                        RowSums<V>& sums) {
  for (int64_t i = 0; i < rows; ++i) {
    Simd::F row[V];
    for (int j = 0; j < V; ++j) row[j] = Simd::load(s + i * lds + j * Simd::kLanes);
    add_row<V>(k[i], row, i % 2 == 0 ? sums.even : sums.odd);
  }
}

// V vectors of columns from `column` on; of the last of them there may be fewer than kLanes.
template <int V>
inline Simd::F delta_columns(const GatedDeltaKernel& args, int64_t column, Simd::F zeros) {
  constexpr int64_t kLanes = Simd::kLanes;
  float* const s = args.s + column;
  const float* const v = args.v + column;
  float* const y = args.y + column;
  const int64_t columns = args.columns - column;
  RowSums<V> sums, next, result;
  sums.clear();
  delta_first<V>(s, args.lds, args.key_dim, args.k, sums);
  for (int64_t t = 0; t < args.tokens; ++t) {
    const float decay = args.decay[t * args.ld_gates], b = args.b[t * args.ld_gates];
    const float k_scale = args.k_scale[t * args.ld_scales];
    const float* const k = args.k + t * args.ld;
    const float* const q = args.q + t * args.ld;
    // b (v - k S), and k's scale for the product with k.
    const Simd::F old = Simd::set1(decay * k_scale), part = Simd::set1(b * k_scale);
    Simd::F change[V];
    for (int j = 0; j < V; ++j) {
      const Simd::F x = load_part(v + t * args.ld + j * kLanes, columns - j * kLanes);
      change[j] = Simd::mul(part, Simd::sub(x, Simd::mul(old, sums.total(j))));
    }
    result.clear();
    next.clear();
    const Simd::F all_decay = Simd::set1(decay);
    if (t + 1 < args.tokens) {
      delta_pass<V, true>(s, args.lds, args.key_dim, all_decay, k, change, q, k + args.ld, result,
                          next);
    } else {
      delta_pass<V, false>(s, args.lds, args.key_dim, all_decay, k, change, q, k, result, next);
    }
    sums = next;
    const Simd::F q_scale = Simd::set1(args.q_scale[t * args.ld_scales]);
    for (int j = 0; j < V; ++j) {
      const Simd::F out = Simd::mul(q_scale, result.total(j));
      store_part(y + t * args.ldy + j * kLanes, columns - j * kLanes, out);
      zeros = Simd::fma(out, Simd::zero(), zeros);
    }
  }
  return zeros;
}

bool scan_gated_delta(const GatedDeltaKernel& args) {
  Simd::F zeros = Simd::zero();
  int64_t column = 0;
  for (; column + Simd::kLanes < args.columns; column += 2 * Simd::kLanes)
    zeros = delta_columns<2>(args, column, zeros);
  if (column < args.columns) zeros = delta_columns<1>(args, column, zeros);
  return all_zero(zeros);
}

// log(1 + e^x) = max(x, 0) + log(1 + t), t = e^-|x|. With s = t / (2 + t), at most 1/3, the
// logarithm is 2 atanh(s): the first terms of its series, to 1e-9 of it.
inline Simd::F vec_softplus(Simd::F x) {
  const Simd::F t = vec_exp(Simd::min(x, Simd::sub(Simd::zero(), x)));
  const Simd::F s = Simd::div(t, Simd::add(Simd::set1(2.0f), t));
  const Simd::F s2 = Simd::mul(s, s);
  Simd::F p = Simd::set1(2.0f / 15);
  for (int n = 13; n > 0; n -= 2) p = Simd::fma(p, s2, Simd::set1(2.0f / static_cast<float>(n)));
  return Simd::fma(p, s, Simd::max(Simd::zero(), x));
}

void mamba2_gates(const float* raw, const float* bias, const float* a, float low, float high,
                  int64_t n, float* dt, float* decay) {
  for (int64_t i = 0; i < n; i += Simd::kLanes) {
    Simd::F x = vec_softplus(Simd::add(load_part(raw + i, n - i), load_part(bias + i, n - i)));
    if (high != 0) x = Simd::max(Simd::set1(low), Simd::min(Simd::set1(high), x));
    store_part(dt + i, n - i, x);
    store_part(decay + i, n - i, vec_exp(Simd::mul(x, load_part(a + i, n - i))));
  }
}

void gated_delta_gates(const float* a, const float* bias, const float* scale, const float* b,
                       int64_t n, float* decay, float* gate) {
  for (int64_t i = 0; i < n; i += Simd::kLanes) {
    const Simd::F x = vec_softplus(Simd::add(load_part(a + i, n - i), load_part(bias + i, n - i)));
    store_part(decay + i, n - i, vec_exp(Simd::mul(load_part(scale + i, n - i), x)));
    store_part(gate + i, n - i, vec_sigmoid(load_part(b + i, n - i)));
  }
}

void convolve(const ConvKernel& args) {
  for (int64_t i = 0; i < args.n; i += Simd::kLanes) {
    const int64_t rest = args.n - i;
    Simd::F sum = Simd::zero();
    for (int64_t tap = 0; tap < args.width; ++tap) {
      sum = Simd::fma(load_part(args.weight + tap * args.ld_weight + i, rest),
                      load_part(args.x[tap] + i, rest), sum);
    }
    if (args.bias != nullptr) sum = Simd::add(sum, load_part(args.bias + i, rest));
    store_part(args.out + i, rest, args.silu ? vec_silu(sum) : sum);
  }
}

inline ScanKernels scan_kernels() {
  ScanKernels e;
  e.lanes = Simd::kLanes;
  e.mamba2 = scan_mamba2;
  e.gated_delta = scan_gated_delta;
  e.mamba2_gates = mamba2_gates;
  e.gated_delta_gates = gated_delta_gates;
  e.conv = convolve;
  return e;
}

}  // namespace
}  // namespace prefix::ops
