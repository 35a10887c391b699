// How far numbers are from others, in the L2 norm.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace prefix::testing_support {

inline double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / std::max(norm, 1e-30));
}

}  // namespace prefix::testing_support
