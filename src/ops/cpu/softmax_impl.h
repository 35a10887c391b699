// What softmax over scores and over sums of whole numbers have in common: the keys that a row sees,
// the largest score that its weights are counted from, and when that moves.
#pragma once

#include <cstdint>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/vecmath.h"

namespace prefix::ops {
namespace {

constexpr int64_t kSoftmaxBlock = 256;  // kKeyBlock (asserted in attention.cc)

inline float exp2_of(float x) {
  float lanes[Simd::kLanes];
  Simd::store(lanes, vec_exp2(Simd::set1(x)));
  return lanes[0];
}

inline void scale_row(float* o, int64_t d, float factor) {
  const Simd::F f = Simd::set1(factor);
  for (int64_t i = 0; i < d; i += Simd::kLanes) Simd::store(o + i, Simd::mul(Simd::load(o + i), f));
}

// Moves m of a row to the largest of `scores` times scale, which is positive, if that is larger;
// scales l and o to it.
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

// Weights are counted from the largest of the first scores that a row sees, and then from another
// one only where those of a key block add up to more than this: f32 is as precise around 2^32 as
// around 1, so most blocks need no look for their largest score before their weights.
constexpr float kLargestSum = 0x1p32f;

// What weights are counted from weighs 1, but for what rounding it to f32 makes of that: of scores
// around 2^31 any factor, so that a row could lose all its weights and pass for one that sees
// nothing, or have infinite ones. Such a row is not finite.
constexpr float kLeastSum = 0x1p-64f;

enum class Scores { kFirst, kAll };  // that a row sees of a block

// raise(which) is raise_maximum() for these scores,
// weigh() makes the weights and returns their sum.
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
  if (raised && !(sum >= kLeastSum && sum < __builtin_inff())) sum = __builtin_nanf("");
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

}  // namespace
}  // namespace prefix::ops
