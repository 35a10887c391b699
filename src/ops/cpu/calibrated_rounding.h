// Rounds rows of W so that little is lost in products with inputs like those that were seen.
//
//   X [tokens][k]                inputs of W, a few rows
//   error[t] = sum over j < k of X[t][j] (q[j] - w[j])
//                                what rounding a row of W has erred so far in its product with token t
//   q[k] = round(w[k] - g[k] error),   g[k] = (v + sum over i >= k of x[i] x[i]^T)^-1 x[k]
//
// x[k] is column k of X. So a number makes up for what those before it have erred, by the share
// that is best while those behind are not rounded: GPTQ (Frantar et al. 2022) for inputs of the
// covariance X^T X + v, with the errors of tokens in place of a matrix [k][k]. Rounded to the
// nearest instead, errors add up by chance, most of all along the few large channels that all
// tokens share. No product knows of it: only the numbers of W are others.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/calibration_rows.h"
#include "ops/cpu/rows_kernels.h"

namespace prefix::ops {

class CalibratedRounding {
 public:
  // Of the first kCalibrationRows of them; null, without rows or all zero: to the nearest.
  CalibratedRounding(const CalibrationRows* rows, int64_t k);

  bool nearest() const { return tokens_ == 0; }
  // Rows of k numbers, as whole ones that were rounded to the nearest and what that left;
  // whole[count][ld] become others, from -127 to 127. The same bits everywhere: sums and products
  // of f32, in one order.
  void round(const RowKernels& kernels, int64_t count, int8_t* whole, int64_t ld,
             const float* rest) const;

 private:
  int64_t tokens_ = 0, k_ = 0;
  std::vector<float> inputs_, shares_;  // [k][tokens]: x, g
};

}  // namespace prefix::ops
