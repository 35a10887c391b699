// Rows in the blocks of a file, and panels that keep their codes and scales (block_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/block_layout.h"
#include "ops/tensor_type.h"

namespace prefix::ops {

// None where no kernel multiplies such blocks.
std::optional<BlockType> block_type(TensorType type);

// Fills a panel, whose memory is zero, with `count` rows of k numbers each;
// rows are row_bytes apart.
void fill_block_panel(BlockType type, const std::byte* rows, size_t row_bytes, int64_t count,
                      int64_t k, std::byte* panel);

// out[0..k) = row `row` of a panel, times scale. The numbers are those of dequantise().
void read_block_row(BlockType type, const std::byte* panel, int64_t row, int64_t k, float scale,
                    float* out);

}  // namespace prefix::ops
