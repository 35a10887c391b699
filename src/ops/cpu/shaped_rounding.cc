#include "ops/cpu/shaped_rounding.h"

#include <algorithm>
#include <cmath>

#include "ops/panel.h"

namespace prefix::ops {
namespace {

// Columns of rows that are turned at a time, so that the rows of a panel stand side by side.
constexpr int64_t kTurned = 64;

}  // namespace

ShapedRounding::ShapedRounding(std::span<const float> mean) {
  double square = 0;
  for (const float m : mean) square += double{m} * m;
  if (!(square > 0) || !std::isfinite(square)) return;
  const auto k = static_cast<int64_t>(mean.size());
  // Of what m has; by measurement anything from a tenth of that to ten times as much does as well.
  constexpr double kVariance = 0.3;
  const double unit = std::sqrt(square / static_cast<double>(k));
  mean_.resize(mean.size());
  shares_.resize(mean.size());
  double behind = kVariance;
  for (int64_t i = k - 1; i >= 0; --i) {
    const double m = mean[static_cast<size_t>(i)] / unit;
    mean_[static_cast<size_t>(i)] = static_cast<float>(m);
    shares_[static_cast<size_t>(i)] = static_cast<float>(m / behind);
    behind += m * m;
  }
}

void ShapedRounding::round(const RowKernels& kernels, int64_t count, int8_t* whole, int64_t ld,
                           const float* rest) const {
  const auto k = static_cast<int64_t>(mean_.size());
  alignas(64) float owed[kPanelColumns] = {};  // of each row, what those behind make up for, over m
  alignas(64) float turned[kTurned][kPanelColumns] = {};
  ShapeArgs args;
  args.owed = owed;
  args.numbers = turned[0];
  for (int64_t first = 0; first < k; first += kTurned) {
    args.columns = std::min(kTurned, k - first);
    args.mean = mean_.data() + first;
    args.shares = shares_.data() + first;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < args.columns; ++i)
        turned[i][r] = static_cast<float>(whole[r * ld + first + i]) + rest[r * k + first + i];
    kernels.shape(args);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < args.columns; ++i)
        whole[r * ld + first + i] = static_cast<int8_t>(turned[i][r]);
  }
}

}  // namespace prefix::ops
