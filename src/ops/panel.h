// How many rows of a weight matrix lie together. Kernels of one instruction set include it: plain
// types only.
#pragma once

#include <cstdint>

namespace prefix::ops {

// Rows of W in a panel (weights.h): so many columns of y = x W^T come out of one.
inline constexpr int64_t kPanelColumns = 32;

}  // namespace prefix::ops
