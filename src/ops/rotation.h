// The rotation before a product in whole numbers.
//
//   x  [ ......... k ......... ]    x D: each number times a sign that k alone decides
//      [ H ][ H ][ H ] ... [ H ]    then a Hadamard matrix on every block
//
// One large number of a row becomes many of middle size, so that one scale fits the whole row. The
// rows of W are rotated alike, and (x D H) (w D H)^T = block * x w^T: nothing else of a model knows
// of it. Blocks of the largest power of two that divides k, 128 at most, as QuaRot (Ashkboos et al.
// 2024) and others use. A block goes through strides block / 2, ..., 2, 1 of
// (a, b) -> (a + b, a - b), in this order at every level of the CPU,
// so that all have the same bits.
#pragma once

#include <cstdint>

namespace prefix::ops {

inline constexpr int64_t kMaxRotation = 128;

constexpr int64_t rotation_block(int64_t k) {
  int64_t block = 1;
  while (block < kMaxRotation && k % (2 * block) == 0) block *= 2;
  return block;
}

// The longest head of keys in whole numbers, which are rotated without signs.
inline constexpr int64_t kMaxHeadRotation = 1024;
const float* no_signs();  // [kMaxHeadRotation], all +1

// signs: [k], +1 or -1.
void fill_rotation_signs(int64_t k, float* signs);

// A rotated row as it was, times scale: H is its own inverse but for its size.
void turn_back(int64_t k, const float* signs, float scale, float* row);

}  // namespace prefix::ops
