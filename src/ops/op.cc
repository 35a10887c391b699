// The few parts of the operation contract that are the same on every device.
#include "ops/op.h"

#include <algorithm>

namespace prefix::ops {

Matrix Matrix::panel_of(int64_t column) const {
  const int64_t panel = column / 32;
  Matrix one = *this;
  one.n = std::min<int64_t>(32, n - panel * 32);
  one.data = data + static_cast<size_t>(panel) * panel_bytes();
  return one;
}

}  // namespace prefix::ops
