// Compiled once per optimisation level by tests/ops/CMakeLists.txt: the two cases in which g++ 12
// miscompiles its own AMX intrinsics, written with the project's wrappers. Local configuration and
// local operands, no other memory barrier in sight.
#include <cstdint>

#include "ops/cpu/amx_tiles.h"

namespace prefix::ops::testing {

// c[0] of a 1 x 1 product of `pairs` pairs of a and b, all operands built on the stack.
template <int kOptimisation>
float product_of_locals(uint16_t a, uint16_t b, int pairs);

template <>
float product_of_locals<PREFIX_TEST_OPTIMISATION>(uint16_t a, uint16_t b, int pairs) {
  TileConfig config;
  config.rows[0] = 1;
  config.bytes_per_row[0] = 4;
  config.rows[1] = 1;
  config.bytes_per_row[1] = static_cast<uint16_t>(4 * pairs);
  config.rows[2] = static_cast<uint8_t>(pairs);
  config.bytes_per_row[2] = 4;
  HardwareTiles::configure(config);
  uint16_t left[32];
  uint16_t right[32];
  for (int i = 0; i < 2 * pairs; ++i) {
    left[i] = a;
    right[i] = b;
  }
  HardwareTiles::zero<0>();
  HardwareTiles::load<1>(left, 64);
  HardwareTiles::load<2>(right, 4);
  HardwareTiles::multiply<0, 1, 2>();
  float c = -1;
  HardwareTiles::store<0>(&c, 4);
  HardwareTiles::release();
  return c;
}

}  // namespace prefix::ops::testing
