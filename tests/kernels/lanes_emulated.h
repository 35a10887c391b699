// What the warps of all emulators have: a value a lane, and what lanes tell each other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "body/portable.h"

namespace prefix::ops::gpu {

class EmulatedLanes {
 public:
  template <class T>
  struct Local {
    T& operator[](int lane) { return values[lane]; }
    const T& operator[](int lane) const { return values[lane]; }
    T values[32];
  };

  EmulatedLanes(int index, bool backwards) : index_(index), backwards_(backwards) {}

  int index() const { return index_; }
  template <class F>
  void each(const F& f) {
    for (int i = 0; i < 32; ++i) f(backwards_ ? 31 - i : i);
  }

  // The same order as the shuffles of the GPU: pairs 16 apart, then 8, ...
  float sum(const Local<float>& x) {
    float v[32];
    std::copy_n(x.values, 32, v);
    for (int step = 16; step > 0; step /= 2)
      for (int i = 0; i < step; ++i) v[i] = v[i] + v[i + step];
    return v[0];
  }
  float max(const Local<float>& x) {
    float v = minus_infinity();
    for (float y : x.values) v = larger(y, v);
    return v;
  }
  void min(Local<int>& x) { std::fill_n(x.values, 32, *std::min_element(x.values, x.values + 32)); }
  void max(Local<int>& x) { std::fill_n(x.values, 32, *std::max_element(x.values, x.values + 32)); }
  template <class T>
  T broadcast(const Local<T>& x, int lane) {
    return x[lane];
  }
  template <class T>
  void exchange(Local<T>& x, int mask) {
    const Local<T> before = x;
    for (int lane = 0; lane < 32; ++lane) x[lane] = before[lane ^ mask];
  }
  bool any(const Local<int>& x) {
    return std::any_of(x.values, x.values + 32, [](int v) { return v != 0; });
  }
  void quad_max(Local<float>& x) {
    for (int i = 0; i < 32; i += 4) {
      const float a = larger(x[i + 1], x[i]), b = larger(x[i + 3], x[i + 2]);
      std::fill_n(x.values + i, 4, larger(b, a));
    }
  }
  void quad_sum(Local<float>& x) {
    for (int i = 0; i < 32; i += 4)
      std::fill_n(x.values + i, 4, (x[i] + x[i + 1]) + (x[i + 2] + x[i + 3]));
  }

  // mma.m16n8k16 by its definition: fragments to matrices, product, back.
  static void mma(Local<FragmentC>& c, const Local<FragmentA>& a, const Local<FragmentB>& b) {
    float left[16][16], right[16][8];
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int r = 0; r < 4; ++r) {
        float* const to = &left[g + r % 2 * 8][2 * t + r / 2 * 8];
        to[0] = from_bf16(static_cast<uint16_t>(a[lane].x[r]));
        to[1] = from_bf16(static_cast<uint16_t>(a[lane].x[r] >> 16));
      }
      for (int r = 0; r < 2; ++r) {
        right[2 * t + 8 * r][g] = from_bf16(static_cast<uint16_t>(b[lane].x[r]));
        right[2 * t + 8 * r + 1][g] = from_bf16(static_cast<uint16_t>(b[lane].x[r] >> 16));
      }
    }
    float sum[16][8];
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 4; ++r) sum[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2] = c[lane].x[r];
    for (int i = 0; i < 16; ++i)
      for (int k = 0; k < 16; ++k)
        for (int j = 0; j < 8; ++j) sum[i][j] += left[i][k] * right[k][j];
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 4; ++r) c[lane].x[r] = sum[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
  }

 protected:
  // ldmatrix.x4: lane 8 m + r reads row r of matrix m; lane l gets elements 2 (l % 4) and the next
  // of row l / 4 of each matrix (transposed: of column l / 4).
  // row(lane, out) reads what a lane points to.
  template <bool transposed, class F>
  static void matrices(Local<FragmentA>& out, const F& row) {
    uint16_t matrix[4][8][8];
    for (int lane = 0; lane < 32; ++lane) row(lane, matrix[lane / 8][lane % 8]);
    for (int lane = 0; lane < 32; ++lane) {
      for (int m = 0; m < 4; ++m) {
        const int i = lane / 4, j = lane % 4 * 2;
        const uint32_t low = transposed ? matrix[m][j][i] : matrix[m][i][j];
        const uint32_t high = transposed ? matrix[m][j + 1][i] : matrix[m][i][j + 1];
        out[lane].x[m] = high << 16 | low;
      }
    }
  }

 private:
  int index_;
  bool backwards_;
};

}  // namespace prefix::ops::gpu
