// Rounds rows of W so that little is lost in products with the inputs that are usual.
//
//   inputs have a part in common:        x = m + what varies, its variance v the same in every k
//   rounding errs by e, a product by     e x
//   whose square is to be small:         (e m)^2 + v |e|^2
//
// Rounded one by one, each to the nearest, errors along m add up by chance. Here what a number errs is
// made up for by those behind it in its row, each by the share that is best while they are not rounded:
//
//   w[j] -= m[j] * e[k] m[k] / (v + m[k+1]^2 + m[k+2]^2 + ...)      j > k
//
// That is the step of GPTQ (Frantar et al. 2022) for inputs of the covariance m m^T + v, where one
// number a row says all about the k before. No product knows of it: only the numbers of W are others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/cpu/rows_kernels.h"

namespace prefix::ops {

class ShapedRounding {
 public:
  // mean: m of [k] rotated inputs, in any unit; nothing, or all zero: numbers are rounded as they are.
  explicit ShapedRounding(std::span<const float> mean);

  bool plain() const { return mean_.empty(); }
  // Rows of k numbers, as whole ones that were rounded to the nearest and what that left; whole[count][ld] become
  // others, from -127 to 127. The same bits everywhere: sums and products of f32, in one order.
  void round(const RowKernels& kernels, int64_t count, int8_t* whole, int64_t ld,
             const float* rest) const;

 private:
  std::vector<float> mean_;    // [k], of about 1
  std::vector<float> shares_;  // [k]: m[k] / (v + m[k+1]^2 + ...)
};

}  // namespace prefix::ops
