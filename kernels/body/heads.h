// What heads read of rows of logits (contracts in src/ops/step.h): statistics, single logits, the
// most likely tokens. A block reads a part of a row (launch.h draws it), so that a few rows fill
// the GPU; a second launch puts the parts together. Parts depend on the length of a row alone, and
// all orders are fixed: a row gives the same bits in any company.
#pragma once

#include "body/portable.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// A value and its place as one number: larger values first, among equals the first place. No key is
// 0; NaN comes below all values.
//
//   63 .. 32  the bits of the value, turned so that they grow with it; zeros are equal
//   31 ..  0  ~place
PREFIX_BODY uint64_t key_of(float x, int64_t place) {
  uint32_t bits = float_bits(x == 0 ? 0.0f : x);
  bits = bits >> 31 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(x != x ? 0 : bits) << 32 | ~static_cast<uint32_t>(place);
}
PREFIX_BODY float value_of(uint64_t key) {
  const auto bits = static_cast<uint32_t>(key >> 32);
  return bits_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}
PREFIX_BODY int32_t place_of(uint64_t key) {
  return static_cast<int32_t>(~static_cast<uint32_t>(key));
}
// Below every key of a number: what a row without one has.
PREFIX_BODY uint64_t no_key() { return key_of(minus_infinity(), 0xffffffffu); }

// Four values of a row from 16-byte aligned memory, of which those before `end` count.
template <class F>
PREFIX_BODY void each_of_four(const float* x, int64_t i, int64_t end, const F& f) {
  const auto four = load_whole<Floats4>(x + i);
  unrolled<4>([&](int c) {
    if (i + c < end) f(four.x[c], i + c);
  });
}

PREFIX_BODY float exp_of(float x) { return exp2_of(x * 1.44269504088896340736f); }

// Thread 0 gets what all have: fold(t, other), `half` times, then half as often ...
template <class Block, class F>
PREFIX_BODY void fold_threads(Block& block, const F& fold) {
  for (int half = kRowThreads / 2; half > 0; half /= 2) {
    block.sync();
    block.each([&](int t) {
      if (t < half) fold(t, t + half);
    });
  }
}

template <class Block>
PREFIX_BODY void row_stats_parts(Block& block, const RowStatsArgs& a) {
  constexpr int kSums = 8 * kRowThreads, kFlags = 16 * kRowThreads;
  const int64_t row = block.x();
  const int64_t begin = block.y() * logit_part(a.n);
  const int64_t end = begin + logit_part(a.n) < a.n ? begin + logit_part(a.n) : a.n;
  const float* const x = a.x + row * a.ld;
  block.each([&](int t) {
    uint64_t best = no_key();
    int nan = 0;
    PREFIX_UNROLL_BY(4)
    for (int64_t i = begin + 4 * t; i < end; i += 4 * kRowThreads)
      each_of_four(x, i, end, [&](float value, int64_t at) {
        const uint64_t key = key_of(value, at);
        best = key > best ? key : best;
        nan |= value != value;
      });
    block.set(t, 8 * t, best);
    block.set(t, kFlags + 4 * t, nan);
  });
  fold_threads(block, [&](int t, int other) {
    const auto own = block.template get<uint64_t>(t, 8 * t);
    const auto its = block.template get<uint64_t>(t, 8 * other);
    block.set(t, 8 * t, own > its ? own : its);
    const int nan =
        block.template get<int>(t, kFlags + 4 * t) | block.template get<int>(t, kFlags + 4 * other);
    block.set(t, kFlags + 4 * t, nan);
  });
  block.sync();
  block.each([&](int t) {
    const float top = value_of(block.template get<uint64_t>(t, 0));
    const float shift = top == minus_infinity() ? 0.0f : top;
    double sum = 0;
    PREFIX_UNROLL_BY(4)
    for (int64_t i = begin + 4 * t; i < end; i += 4 * kRowThreads) {
      float e[4] = {0, 0, 0, 0};
      each_of_four(x, i, end, [&](float value, int64_t at) { e[at - i] = exp_of(value - shift); });
      sum +=
          (e[0] + e[1]) + (e[2] + e[3]);  // in double once in four: some GPUs have few such units
    }
    block.set(t, kSums + 8 * t, sum);
  });
  fold_threads(block, [&](int t, int other) {
    block.set(t, kSums + 8 * t,
              block.template get<double>(t, kSums + 8 * t) +
                  block.template get<double>(t, kSums + 8 * other));
  });
  block.each([&](int t) {
    if (t > 0) return;
    LogitPart& out = a.parts[row * kMaxLogitParts + block.y()];
    out.key = block.template get<uint64_t>(t, 0);
    out.sum = block.template get<double>(t, kSums);
    out.nan = block.template get<int>(t, kFlags);
  });
}

// A thread a row: there are few parts.
template <class Block>
PREFIX_BODY void row_stats(Block& block, const RowStatsArgs& a) {
  const int parts = logit_parts(a.n);
  block.each([&](int t) {
    const int64_t row = static_cast<int64_t>(block.x()) * kRowThreads + t;
    if (row >= a.rows) return;
    const LogitPart* const part = a.parts + row * kMaxLogitParts;
    uint64_t best = no_key();
    int nan = 0;
    for (int p = 0; p < parts; ++p) {
      best = part[p].key > best ? part[p].key : best;
      nan |= part[p].nan;
    }
    const float top = value_of(best);
    const bool finite = top - top == 0;
    double sum = 0;
    for (int p = 0; finite && p < parts; ++p)
      sum += part[p].sum * exp_of(value_of(part[p].key) - top);
    RowStats& out = a.out[row];
    out.sum = sum;
    out.top = top;
    out.first = nan ? -1 : place_of(best);
  });
}

template <class Block>
PREFIX_BODY void gather_logits(Block& block, const GatherLogitsArgs& a) {
  block.each([&](int t) {
    const int64_t i = static_cast<int64_t>(block.x()) * kRowThreads + t;
    if (i >= a.count) return;
    const LogitAt at = a.targets[i];
    const int32_t row = at.row - a.first;
    if (row >= 0 && row < a.rows) a.out[i] = a.x[row * a.ld + at.id];
  });
}

// --- the most likely tokens ----------------------------------------------------------------------
//
//   [ part 0 | part 1 | ... ]    k keys of each part, in no order of size    kTopCandidatesParts
//       └────────┴─ ... ──>      k keys of all, sorted                       kTopCandidatesMerge
//
// The k largest of m keys, which differ from one another: bit by bit from the highest one, the
// largest number that k keys still reach. Most rows are done long before the lowest bit.

// key(thread, i) of [0, m) are looked at by thread i % kRowThreads. Shared memory from 0 on.
template <class Block, class Key>
PREFIX_BODY uint64_t reached_by(Block& block, int m, int k, const Key& key) {
  constexpr int kWarps = kRowThreads / 32;
  if (m <= k) return 1;
  uint64_t reached = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const uint64_t tried = reached | uint64_t{1} << bit;
    const int counts = bit % 2 * kWarps * 4;  // the pass before may still be read
    typename Block::template PerThread<float> count(block);
    block.each([&](int t) {
      int c = 0;
      PREFIX_UNROLL_BY(4)
      for (int i = t; i < m; i += kRowThreads) c += key(t, i) >= tried;
      count[t] = static_cast<float>(c);
    });
    block.each_warp([&](auto& warp) {
      const float sum = warp.sum(count.of(warp));
      warp.each([&](int lane) {
        if (lane == 0) warp.set(lane, counts + 4 * warp.index(), sum);
      });
    });
    block.sync();
    float total = 0;
    block.each([&](int t) {
      total = 0;
      for (int w = 0; w < kWarps; ++w) total += block.template get<float>(t, counts + 4 * w);
    });
    const int reaching = static_cast<int>(total);
    if (reaching >= k) reached = tried;
    if (reaching == k) break;
  }
  return reached;
}

// Calls take(thread, place, key) for each key that reaches `least`; places are 0, 1, ...
template <class Block, class Key, class Take>
PREFIX_BODY void take_reaching(Block& block, int m, uint64_t least, const Key& key,
                               const Take& take) {
  block.each([&](int t) {
    int c = 0;
    for (int i = t; i < m; i += kRowThreads) c += key(t, i) >= least;
    block.set(t, kTopCountsBytes + 4 * t, c);
  });
  block.sync();
  block.each([&](int t) {
    int place = 0;
    for (int before = 0; before < t; ++before)
      place += block.template get<int>(t, kTopCountsBytes + 4 * before);
    for (int i = t; i < m; i += kRowThreads) {
      const uint64_t found = key(t, i);
      if (found >= least) take(t, place++, found);
    }
  });
}

template <class Block>
PREFIX_BODY void top_candidates_parts(Block& block, const TopCandidatesArgs& a) {
  const int32_t row = a.listed[block.x()] - a.first;
  if (row < 0 || row >= a.rows) return;
  const int64_t begin = block.y() * logit_part(a.n);
  const int m = static_cast<int>(begin + logit_part(a.n) < a.n ? logit_part(a.n) : a.n - begin);
  const float* const x = a.x + row * a.ld + begin;
  const auto key = [&](int, int i) { return key_of(x[i], begin + i); };
  uint64_t* const out =
      a.keys + (static_cast<int64_t>(block.x()) * logit_parts(a.n) + block.y()) * a.k;
  take_reaching(block, m, reached_by(block, m, a.k, key), key,
                [&](int, int place, uint64_t found) { out[place] = found; });
  block.each([&](int t) {
    for (int i = m + t; i < a.k; i += kRowThreads) out[i] = 0;
  });
}

template <class Block>
PREFIX_BODY void top_candidates_merge(Block& block, const TopCandidatesArgs& a) {
  const int32_t row = a.listed[block.x()] - a.first;
  if (row < 0 || row >= a.rows) return;
  constexpr int kList = kTopPartsSharedBytes, kKeys = kList + 8 * kMaxCandidates;
  const int m = logit_parts(a.n) * a.k;
  const uint64_t* const from = a.keys + static_cast<int64_t>(block.x()) * m;
  int length = 1;  // of the list, a power of two; what is behind k stays 0
  while (length < a.k) length *= 2;
  block.each([&](int t) {
    for (int i = t; i < m; i += kRowThreads) block.set(t, kKeys + 8 * i, from[i]);
    for (int i = t; i < length; i += kRowThreads) block.set(t, kList + 8 * i, uint64_t{0});
  });
  block.sync();
  const auto key = [&](int t, int i) { return block.template get<uint64_t>(t, kKeys + 8 * i); };
  take_reaching(block, m, reached_by(block, m, a.k, key), key,
                [&](int t, int place, uint64_t f) { block.set(t, kList + 8 * place, f); });
  // Bitonic, descending.
  for (int run = 2; run <= length; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      block.sync();
      block.each([&](int t) {
        for (int i = t; i < length / 2; i += kRowThreads) {
          const int low = 2 * i - (i & (step - 1)), high = low + step;
          const auto x = block.template get<uint64_t>(t, kList + 8 * low);
          const auto y = block.template get<uint64_t>(t, kList + 8 * high);
          if ((x < y) != ((low & run) == 0)) continue;
          block.set(t, kList + 8 * low, y);
          block.set(t, kList + 8 * high, x);
        }
      });
    }
  }
  block.sync();
  block.each([&](int t) {
    for (int i = t; i < a.k; i += kRowThreads) {
      const auto found = block.template get<uint64_t>(t, kList + 8 * i);
      a.out[static_cast<int64_t>(block.x()) * a.k + i] = {place_of(found), value_of(found)};
    }
  });
}

// The kernels of this file: X(number, body, arguments).
#define PREFIX_HEAD_KERNELS(X)                                    \
  X(kRowStatsParts, row_stats_parts, RowStatsArgs)                \
  X(kRowStats, row_stats, RowStatsArgs)                           \
  X(kGatherLogits, gather_logits, GatherLogitsArgs)               \
  X(kTopCandidatesParts, top_candidates_parts, TopCandidatesArgs) \
  X(kTopCandidatesMerge, top_candidates_merge, TopCandidatesArgs)

}  // namespace prefix::ops::gpu
