// What an engine will take, and how its options turn into sizes.
#pragma once

#include <cstdint>

#include "engine/engine_reports.h"
#include "engine/options.h"
#include "model/config.h"
#include "ops/op.h"

namespace prefix {

ops::DType dtype_of(const Options& options);
// Positions of the longest sequence.
int32_t context_length(const Options& options, const ModelConfig& config);
// Most tokens of a step.
int64_t row_budget(const Options& options);
// Bytes for keys and values on a device with so many free. The host's memory is shared with others,
// a quarter of it is taken; that of a GPU is there for the engine, which takes nine tenths of what
// weights and activations leave. Throws kOutOfRange when option cache_bytes is not even one page.
int64_t kv_budget(const Options& options, int64_t page_bytes, int64_t free_bytes, bool of_host);
MemoryEstimate estimate_of(const ModelConfig& config, const Options& options);

}  // namespace prefix
