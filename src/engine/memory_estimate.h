// What an engine will take, and how its options turn into sizes.
#pragma once

#include <cstdint>

#include "engine/engine_reports.h"
#include "engine/options.h"
#include "model/files/model_files.h"
#include "ops/devices.h"

namespace prefix {

// All but the threads, which an engine starts and an estimate does not.
ops::DeviceOptions device_options_of(const Options& options);
// What options `attention` and `max_positions` make of the configuration of a model's files.
void apply_attention(const Options& options, ModelConfig& config);
// Positions of the longest sequence. Throws kOutOfRange when option
// max_positions is above those of the model.
int32_t context_length(const Options& options, const ModelConfig& config);
// Most tokens of a step.
int64_t row_budget(const Options& options);
// Bytes for keys and values on a device with so many free. The host's memory is shared with others,
// a quarter of it is taken; that of a GPU is there for the engine, which takes nine tenths of what
// weights and activations leave. Throws kOutOfRange when option cache_bytes is not even one page,
// and one state of the recurrent layers (0: there are none).
int64_t kv_budget(const Options& options, int64_t page_bytes, int64_t state_bytes,
                  int64_t free_bytes, bool of_host);
// Refuses of a model's files what an engine would refuse, and logs what it would warn of, without
// reading a tensor.
MemoryEstimate estimate_of(const ModelFiles& files, const Options& options);

}  // namespace prefix
