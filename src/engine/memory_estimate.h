// What an engine will take, and how its options turn into sizes.
#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "model/config.h"
#include "ops/op.h"

namespace prefix {

ops::DType dtype_of(const Options& options);
// Positions of the longest sequence.
int32_t context_length(const Options& options, const ModelConfig& config);
// Bytes for keys and values on a device with so many free. Throws kOutOfRange when option
// cache_bytes is not even one page.
int64_t kv_budget(const Options& options, int64_t page_bytes, int64_t free_bytes);
MemoryEstimate estimate_of(const ModelConfig& config, const Options& options);

}  // namespace prefix
