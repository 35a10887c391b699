// The operand of ldtilecfg: shapes of the eight tile registers.
#pragma once

#include <cstdint>

namespace prefix::ops {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

}  // namespace prefix::ops
