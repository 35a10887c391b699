#include "ops/cpu/calibrated_rounding.h"

#include <algorithm>
#include <cmath>

namespace prefix::ops {
namespace {

// Columns of rows that are turned at a time, so that the rows of a panel stand side by side.
constexpr int64_t kTurned = 64;
// v, of the mean square of a column. By measurement a third or three times of it does as well.
constexpr double kVariance = 0.3;

}  // namespace

CalibratedRounding::CalibratedRounding(const CalibrationRows* rows, int64_t k) : k_(k) {
  if (rows == nullptr) return;
  const size_t tokens = std::min(rows->scales.size(), size_t{kCalibrationRows});
  const auto width = static_cast<size_t>(k);
  double square = 0;
  std::vector<double> x(width * tokens);  // [k][tokens]
  for (size_t t = 0; t < tokens; ++t)
    for (size_t i = 0; i < width; ++i) {
      const double value = double{rows->scales[t]} * rows->numbers[t * width + i];
      x[i * tokens + t] = value;
      square += value * value;
    }
  if (!(square > 0) || !std::isfinite(square)) return;
  // In units in which a column has the mean square 1.
  const double unit = std::sqrt(static_cast<double>(k) / square);
  inputs_.resize(x.size());
  shares_.resize(x.size());
  // (v + sum of x x^T)^-1, which each column makes smaller (Sherman and Morrison).
  std::vector<double> inverse(tokens * tokens), product(tokens);
  for (size_t t = 0; t < tokens; ++t) inverse[t * tokens + t] = 1 / kVariance;
  for (size_t i = width; i-- > 0;) {
    double* const column = &x[i * tokens];
    for (size_t t = 0; t < tokens; ++t) column[t] *= unit;
    double along = 1;
    for (size_t t = 0; t < tokens; ++t) {
      double sum = 0;
      for (size_t u = 0; u < tokens; ++u) sum += inverse[t * tokens + u] * column[u];
      product[t] = sum;
      along += column[t] * sum;
    }
    for (size_t t = 0; t < tokens; ++t) {
      inputs_[i * tokens + t] = static_cast<float>(column[t]);
      shares_[i * tokens + t] = static_cast<float>(product[t] / along);
      for (size_t u = 0; u < tokens; ++u)
        inverse[t * tokens + u] -= product[t] * product[u] / along;
    }
  }
  tokens_ = static_cast<int64_t>(tokens);
}

void CalibratedRounding::round(const RowKernels& kernels, int64_t count, int8_t* whole, int64_t ld,
                               const float* rest) const {
  alignas(64) float errors[kCalibrationRows][kPanelColumns] = {};
  alignas(64) float turned[kTurned][kPanelColumns] = {};
  RoundColumnsArgs args;
  args.tokens = tokens_;
  args.errors = errors[0];
  args.numbers = turned[0];
  for (int64_t first = 0; first < k_; first += kTurned) {
    args.columns = std::min(kTurned, k_ - first);
    args.inputs = inputs_.data() + first * tokens_;
    args.shares = shares_.data() + first * tokens_;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < args.columns; ++i)
        turned[i][r] = static_cast<float>(whole[r * ld + first + i]) + rest[r * k_ + first + i];
    kernels.round_columns(args);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < args.columns; ++i)
        whole[r * ld + first + i] = static_cast<int8_t>(turned[i][r]);
  }
}

}  // namespace prefix::ops
