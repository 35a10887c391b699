// Whole numbers in multiples of others.
#pragma once

#include <cstdint>

namespace prefix::ops {

// a / b and a, up to the next whole number and multiple of b; neither is negative.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace prefix::ops
