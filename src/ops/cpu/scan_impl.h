// The kernels of scan_kernels.h over the Simd of the including translation unit.
//
//   Mamba-2: lanes along the columns of S. Two rows stay in registers over all tokens; the sums over
//   columns are left as one vector a row and token, and finished for many rows at a time:
//
//     S row 0  [ v0 | v1 | .. | v7 ]  -> sums[token][row 0][lanes] ┐
//     S row 1  [ v0 | v1 | .. | v7 ]  -> sums[token][row 1][lanes] ┴> y[token][rows]
//
//   Gated delta rule: lanes along the columns of S, which never meet. S lies in the L1 cache and is
//   passed once a token: a pass brings in this token's change, and adds up this token's q S and the
//   next one's k S.
#pragma once

#include "ops/cpu/scan_kernels.h"
#include "ops/cpu/simd.h"
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

// Lane i: vec_sum of the vector at p + i * kLanes, with the same bits. Each step folds the upper
// half of the lanes onto the lower, of two vectors at a time.
#if defined(__AVX512DQ__)
inline Simd::F sums_of_vectors(const float* p) {
  __m512 fours[4];
  for (int i = 0; i < 4; ++i) {
    const auto eights = [&](int a, int b) {
      const __m512 x = Simd::load(p + a * 16), y = Simd::load(p + b * 16);
      return Simd::add(_mm512_maskz_shuffle_f32x4(0xffff, x, y, 0x44),
                       _mm512_maskz_shuffle_f32x4(0xffff, x, y, 0xee));
    };
    const __m512 x = eights(i, 4 + i), y = eights(8 + i, 12 + i);
    fours[i] = Simd::add(_mm512_maskz_shuffle_f32x4(0xffff, x, y, 0x88),
                         _mm512_maskz_shuffle_f32x4(0xffff, x, y, 0xdd));
  }
  const auto twos = [](__m512 x, __m512 y) {
    const __m512d a = _mm512_castps_pd(x), b = _mm512_castps_pd(y);
    return Simd::add(_mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xff, a, b)),
                     _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xff, a, b)));
  };
  const __m512 x = twos(fours[0], fours[1]), y = twos(fours[2], fours[3]);
  return Simd::add(_mm512_maskz_shuffle_ps(0xffff, x, y, 0x88),
                   _mm512_maskz_shuffle_ps(0xffff, x, y, 0xdd));
}
#elif defined(__AVX2__)
inline Simd::F sums_of_vectors(const float* p) {
  __m256 fours[4];
  for (int i = 0; i < 4; ++i) {
    const __m256 x = Simd::load(p + i * 8), y = Simd::load(p + (4 + i) * 8);
    fours[i] = Simd::add(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
  }
  const auto twos = [](__m256 x, __m256 y) {
    const __m256d a = _mm256_castps_pd(x), b = _mm256_castps_pd(y);
    return Simd::add(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                     _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  };
  const __m256 x = twos(fours[0], fours[1]), y = twos(fours[2], fours[3]);
  return Simd::add(_mm256_shuffle_ps(x, y, 0x88), _mm256_shuffle_ps(x, y, 0xdd));
}
#else
inline Simd::F sums_of_vectors(const float* p) {
  float sums[Simd::kLanes];
  for (int i = 0; i < Simd::kLanes; ++i) sums[i] = vec_sum(Simd::load(p + i * Simd::kLanes));
  return Simd::load(sums);
}
#endif

// Vectors of a row that stay in registers, for two rows.
constexpr int64_t kRowVectors = Simd::kLanes == 16 ? 8 : 4;

// V vectors of R rows, from row `row` and column `column` on, over all tokens. `sums` are those of
// the first of the rows.
template <int R, int V>
inline void mamba2_block(const Mamba2Kernel& args, int64_t row, int64_t column, float* sums) {
  constexpr int64_t kLanes = Simd::kLanes;
  float* const at = args.s + row * args.columns + column;
  // Loops over s are unrolled by name: g++ 12 would keep it in memory around the loop of tokens.
  Simd::F s[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) s[r][j] = Simd::load(at + r * args.columns + j * kLanes);
  for (int64_t t = 0; t < args.tokens; ++t) {
    const Simd::F decay = Simd::set1(args.decay[t * args.ld_gates]);
    const float dt = args.dt[t * args.ld_gates];
    const float* const x = args.x + t * args.ldx + row;
    const float* const b = args.b + t * args.ld_bc + column;
    const float* const c = args.c + t * args.ld_bc + column;
    float* const sum = sums + t * kScanRows * kLanes;
    // Two sums a row, of even and of odd vectors: one would be a long chain of dependent additions.
    Simd::F u[R], y[R][2];
    for (int r = 0; r < R; ++r) {
      u[r] = Simd::set1(x[r] * dt);
      y[r][0] = column == 0 ? Simd::zero() : Simd::load(sum + r * kLanes);
      y[r][1] = Simd::zero();
    }
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      const Simd::F bj = Simd::load(b + j * kLanes), cj = Simd::load(c + j * kLanes);
      for (int r = 0; r < R; ++r) {
        s[r][j] = Simd::fma(u[r], bj, Simd::mul(decay, s[r][j]));
        y[r][j % 2] = Simd::fma(s[r][j], cj, y[r][j % 2]);
      }
    }
    for (int r = 0; r < R; ++r) Simd::store(sum + r * kLanes, Simd::add(y[r][0], y[r][1]));
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) Simd::store(at + r * args.columns + j * kLanes, s[r][j]);
}

template <int V>
inline void mamba2_columns(const Mamba2Kernel& args, int64_t row, int64_t rows, int64_t column) {
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2)
    mamba2_block<2, V>(args, row + r, column, args.sums + r * Simd::kLanes);
  if (r < rows) mamba2_block<1, V>(args, row + r, column, args.sums + r * Simd::kLanes);
}

// y = what was summed + D x, of `rows` rows.
inline Simd::F mamba2_results(const Mamba2Kernel& args, int64_t row, int64_t rows, Simd::F zeros) {
  constexpr int64_t kLanes = Simd::kLanes;
  const Simd::F d = Simd::set1(args.d);
  for (int64_t t = 0; t < args.tokens; ++t) {
    for (int64_t r = 0; r < rows; r += kLanes) {
      const int64_t n = rows - r;
      const float* const sums = args.sums + (t * kScanRows + r) * kLanes;
      Simd::F sum;
      if (n >= kLanes) {
        sum = sums_of_vectors(sums);
      } else {
        float some[kLanes] = {};
        for (int64_t i = 0; i < n; ++i) some[i] = vec_sum(Simd::load(sums + i * kLanes));
        sum = Simd::load(some);
      }
      const Simd::F y = Simd::fma(d, load_part(args.x + t * args.ldx + row + r, n), sum);
      store_part(args.y + t * args.ldy + row + r, n, y);
      zeros = Simd::fma(y, Simd::zero(), zeros);
    }
  }
  return zeros;
}

bool scan_mamba2(const Mamba2Kernel& args) {
  Simd::F zeros = Simd::zero();
  for (int64_t row = 0; row < args.rows; row += kScanRows) {
    const int64_t rows = args.rows - row < kScanRows ? args.rows - row : kScanRows;
    for (int64_t column = 0; column < args.columns;) {
      const int64_t vectors = (args.columns - column) / Simd::kLanes;
      if (vectors >= kRowVectors) {
        mamba2_columns<kRowVectors>(args, row, rows, column);
        column += kRowVectors * Simd::kLanes;
      } else if (vectors >= 4) {
        mamba2_columns<4>(args, row, rows, column);
        column += 4 * Simd::kLanes;
      } else if (vectors >= 2) {
        mamba2_columns<2>(args, row, rows, column);
        column += 2 * Simd::kLanes;
      } else {
        mamba2_columns<1>(args, row, rows, column);
        column += Simd::kLanes;
      }
    }
    zeros = mamba2_results(args, row, rows, zeros);
  }
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

// log(1 + e^x) = max(x, 0) + log(1 + t), t = e^-|x|. With s = t / (2 + t), at most 1/3, the logarithm
// is 2 atanh(s): the first terms of its series, to 1e-9 of it.
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
