// When the results of a CPU have the same bits at every level.
#pragma once

#include "ops/device_sizes.h"

namespace prefix::ops {

// With whole numbers throughout: those that stay bf16 or f32 are computed in one order, then.
constexpr bool same_bits(const NumericTypes& types) {
  return (types.int8 != 0 || types.blocks) && types.kv == KvType::kInt8;
}

}  // namespace prefix::ops
