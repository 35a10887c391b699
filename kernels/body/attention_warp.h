// What one warp does in segment attention, on tensor cores (mma.m16n8k16, bf16, sums in f32): 16
// packed rows against a page of 32 keys that lies in shared memory as it does in the pool (Pages in
// ops/gpu/launch.h). Shared by body/attention.h and body/attention_decode.h.
//
//   S[16 x 32] = Q K^T          Q in registers (D <= 128), K by ldmatrix
//   mask, m, l, P = 2^(S - m)   online softmax, base 2, a page at a time
//   O[16 x D] += P V            P stays in registers, V by ldmatrix.trans
//
// Rows of 16-byte pieces in shared memory are swizzled (piece ^ row & 7), queries as pages, so that
// the eight rows of an 8x8 matrix lie in different banks.
//
// Masked scores are set to -infinity by selection, whatever the key is. The value of a masked key
// is multiplied by 0, which adds nothing: pages hold finite values only (Step::qkv, ops/finite.h).
#pragma once

#include "body/portable.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// Where a piece of 16 bytes lies in a matrix of strips of 64 columns; a strip has so many bytes.
template <int strip>
PREFIX_BODY int strip_at(int row, int piece) {
  return piece / 8 * strip + row * 128 + ((piece % 8) ^ (row & 7)) * 16;
}
// strip_at(row, 2 * pair + half), with what depends on the pair apart from what depends on the
// thread: then a few registers serve all columns.
template <int strip>
PREFIX_BODY int strip_at(int row, int pair, int half) {
  const int thread = row * 128 + ((half ^ (row & 1)) * 16);
  const int swizzle = (row & 6) * 16;
  return thread + pair / 4 * strip + ((pair % 4 * 32) ^ swizzle);
}

// Partial states of a warp in shared memory: O [16][kRow], then m and l [16][2], all f32. Eight
// more than D: then the rows that a warp stores at once lie in different banks.
template <int D>
struct WarpSoftmaxState {
  static constexpr int kRow = D + 8;
  static constexpr int kMaxima = 16 * kRow;
  static constexpr int kBytes = (kMaxima + 32) * 4;
};

struct WarpPage {
  int slot;       // where it lies: K, then V
  int block;      // its position / 32
  int low, high;  // rows that it belongs to
};

template <int D, class Warp>
class WarpRows {
  template <class T>
  using Local = typename Warp::template Local<T>;

  static constexpr int kSteps = D / 16;  // of Q K^T

 public:
  static constexpr int kColumns = D / 8;           // 8-column tiles of O
  static constexpr int kStrip = 32 * 128;          // of a page
  static constexpr int kValues = D / 64 * kStrip;  // V of a page, behind K
  static constexpr bool kHoldQueries = D <= 128;

  struct Sums {
    FragmentC o[kColumns];
    float m[2], l[2];  // of rows g and g + 8; l of this lane's keys only
    int position[2];   // -1: there is no such row
  };
  // Positions of the warp's rows, the same in all lanes.
  struct Range {
    int lowest, highest;
  };

  // Rows [first, first + 16); position_of(row) is -1 where there is none.
  template <class F>
  static PREFIX_BODY Range begin(Warp& warp, Local<Sums>& sums, int first, const F& position_of) {
    warp.each([&](int lane) {
      Sums& s = sums[lane];
      unrolled<kColumns>([&](int c) { unrolled<4>([&](int j) { s.o[c].x[j] = 0; }); });
      unrolled<2>([&](int j) {
        s.m[j] = minus_infinity();
        s.l[j] = 0;
        s.position[j] = position_of(first + lane / 4 + 8 * j);
      });
    });
    Local<int> low, high;
    warp.each([&](int lane) {
      const int a = sums[lane].position[0];
      const int b = sums[lane].position[1];
      high[lane] = larger(a, b);
      low[lane] = smaller(a < 0 ? INT32_MAX : a, b < 0 ? INT32_MAX : b);
    });
    warp.min(low);
    warp.max(high);
    return {low[0], high[0]};
  }

  // Whether some row of the warp sees a key of the page.
  static PREFIX_BODY bool sees(const Range& range, int first, const WarpPage& page) {
    return page.high > first && page.low < first + 16 && page.block * 32 <= range.highest;
  }

  // `rows`: there are in all; query(k, q) gives 16 columns of the warp's queries.
  template <class Query>
  static PREFIX_BODY void take(Warp& warp, Local<Sums>& sums, const Range& range, int first,
                               int rows, const WarpPage& page, float scale_log2,
                               const Query& query) {
    if (!sees(range, first, page)) return;
    FragmentC zero{{0, 0, 0, 0}};
    Local<FragmentC> s[4];  // 16 rows x 8 keys each
    unrolled<4>([&](int j) { warp.each([&](int lane) { s[j][lane] = zero; }); });
    // Not unrolled where queries come from shared memory: registers are short there.
    PREFIX_UNROLL_BY(kHoldQueries ? kSteps : 1)
    for (int k = 0; k < kSteps; ++k) {
      Local<FragmentA> q;
      query(k, q);
      unrolled<2>([&](int pair) {
        Local<int> at;
        Local<FragmentA> keys;
        warp.each([&](int lane) {
          const int key = 16 * pair + lane / 16 * 8 + lane % 8;
          at[lane] = page.slot + strip_at<kStrip>(key, k, lane / 8 % 2);
        });
        warp.template load_matrices<false>(at, keys);
        multiply_pair(warp, s[2 * pair], s[2 * pair + 1], q, keys);
      });
    }
    Local<FragmentA> p[2];
    weigh(warp, sums, range, first, rows, page, scale_log2, s, p);
    unrolled<2>([&](int k) {
      unrolled<kColumns / 2>([&](int c) {
        Local<int> at;
        Local<FragmentA> values;
        warp.each([&](int lane) {
          const int key = 16 * k + lane / 8 % 2 * 8 + lane % 8;
          at[lane] = page.slot + kValues + strip_at<kStrip>(key, c, lane / 16);
        });
        warp.template load_matrices<true>(at, values);
        Local<FragmentC> left, right;
        warp.each([&](int lane) {
          left[lane] = sums[lane].o[2 * c];
          right[lane] = sums[lane].o[2 * c + 1];
        });
        multiply_pair(warp, left, right, p[k], values);
        warp.each([&](int lane) {
          sums[lane].o[2 * c] = left[lane];
          sums[lane].o[2 * c + 1] = right[lane];
        });
      });
    });
  }

  // Scores of a page become weights, packed as operands: mask, maximum, P = 2^(S - m). Moves m, and
  // l and O with it.
  static PREFIX_BODY void weigh(Warp& warp, Local<Sums>& sums, const Range& range, int first,
                                int rows, const WarpPage& page, float scale_log2,
                                Local<FragmentC> (&s)[4], Local<FragmentA> (&p)[2]) {
    // Some rows must not notice anything of this page, or not of all its keys. The same for all
    // lanes: most pages are seen whole by all rows.
    if (page.low > first || page.high < smaller(first + 16, rows) ||
        page.block * 32 + 31 > range.lowest)
      mask(warp, sums, s, first, page);
    softmax(warp, sums, s, scale_log2);
    unrolled<2>([&](int k) {
      warp.each([&](int lane) {
        const FragmentC& left = s[2 * k][lane];
        const FragmentC& right = s[2 * k + 1][lane];
        p[k][lane].x[0] = pack_bf16(left.x[0], left.x[1]);
        p[k][lane].x[1] = pack_bf16(left.x[2], left.x[3]);
        p[k][lane].x[2] = pack_bf16(right.x[0], right.x[1]);
        p[k][lane].x[3] = pack_bf16(right.x[2], right.x[3]);
      });
    });
  }

  // l of rows g and g + 8 over the keys of all lanes.
  static PREFIX_BODY void sum_weights(Warp& warp, Local<Sums>& sums, Local<float> (&l)[2]) {
    unrolled<2>([&](int j) {
      warp.each([&](int lane) { l[j][lane] = sums[lane].l[j]; });
      warp.quad_sum(l[j]);
    });
  }

  // The warp's states as WarpSoftmaxState says, from `base` on.
  static PREFIX_BODY void store(Warp& warp, Local<Sums>& sums, int base) {
    using SoftmaxState = WarpSoftmaxState<D>;
    Local<float> l[2];
    sum_weights(warp, sums, l);
    warp.each([&](int lane) {
      unrolled<2>([&](int j) {
        const int row = lane / 4 + 8 * j;
        if (lane % 4 == 0)
          warp.set(lane, base + (SoftmaxState::kMaxima + 2 * row) * 4,
                   Floats2{{sums[lane].m[j], l[j][lane]}});
        unrolled<kColumns>([&](int c) {
          const float* const x = sums[lane].o[c].x + 2 * j;
          warp.set(lane, base + (row * SoftmaxState::kRow + 8 * c + 2 * (lane % 4)) * 4,
                   Floats2{{x[0], x[1]}});
        });
      });
    });
  }

 private:
  // Two products that share A; `b` holds the operands of both.
  static PREFIX_BODY void multiply_pair(Warp& warp, Local<FragmentC>& left, Local<FragmentC>& right,
                                        Local<FragmentA>& a, Local<FragmentA>& b) {
    Local<FragmentB> half;
    warp.each([&](int lane) { half[lane] = {{b[lane].x[0], b[lane].x[1]}}; });
    warp.mma(left, a, half);
    warp.each([&](int lane) { half[lane] = {{b[lane].x[2], b[lane].x[3]}}; });
    warp.mma(right, a, half);
  }

  // Keys that a row must not see become -infinity.
  static PREFIX_BODY void mask(Warp& warp, const Local<Sums>& sums, Local<FragmentC> (&s)[4],
                               int first, const WarpPage& page) {
    warp.each([&](int lane) {
      unrolled<2>([&](int j) {
        const int row = first + lane / 4 + 8 * j;
        const int last = row < page.low || row >= page.high ? -1 : sums[lane].position[j];
        unrolled<4>([&](int n) {
          unrolled<2>([&](int i) {
            if (page.block * 32 + 8 * n + 2 * (lane % 4) + i > last)
              s[n][lane].x[2 * j + i] = minus_infinity();
          });
        });
      });
    });
  }

  // S -> P in place; moves m, and l and O with it.
  static PREFIX_BODY void softmax(Warp& warp, Local<Sums>& sums, Local<FragmentC> (&s)[4],
                                  float scale_log2) {
    Local<float> top[2];
    warp.each([&](int lane) {
      unrolled<2>([&](int j) {
        float highest = minus_infinity();
        unrolled<4>([&](int n) {
          unrolled<2>([&](int i) {
            float& x = s[n][lane].x[2 * j + i];
            x *= scale_log2;
            highest = larger(x, highest);
          });
        });
        top[j][lane] = highest;
      });
    });
    Local<int> moved;
    Local<float> keep[2];
    warp.quad_max(top[0]);
    warp.quad_max(top[1]);
    warp.each([&](int lane) {
      moved[lane] = 0;
      unrolled<2>([&](int j) {
        Sums& sum = sums[lane];
        const float m = larger(top[j][lane], sum.m[j]);
        const float shift = m == minus_infinity() ? 0.0f : m;
        keep[j][lane] = exp2_of(sum.m[j] - shift);
        if (m > sum.m[j]) moved[lane] = 1;
        float l = 0;
        unrolled<4>([&](int n) {
          unrolled<2>([&](int i) {
            float& x = s[n][lane].x[2 * j + i];
            x = exp2_of(x - shift);
            l += x;
          });
        });
        // A maximum that stays keeps everything: its factor is 1, or there is nothing yet.
        if (m > sum.m[j]) sum.l[j] *= keep[j][lane];
        sum.l[j] += l;
        sum.m[j] = m;
      });
    });
    if (!warp.any(moved)) return;
    warp.each([&](int lane) {
      unrolled<2>([&](int j) {
        // Rows whose maximum stayed: exactly 1, also before their first key.
        const float factor = sums[lane].m[j] == minus_infinity() ? 1.0f : keep[j][lane];
        unrolled<kColumns>([&](int c) {
          sums[lane].o[c].x[2 * j] *= factor;
          sums[lane].o[c].x[2 * j + 1] *= factor;
        });
      });
    });
  }
};

}  // namespace prefix::ops::gpu
