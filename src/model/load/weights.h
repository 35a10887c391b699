// Loading: every tensor of the architecture is found by name, checked, and packed for the device.
#pragma once

#include <functional>
#include <string_view>

#include "model/load/load_extras.h"
#include "model/model.h"

namespace prefix {

// Throws kFormat naming a tensor that is missing, has the wrong shape, or is not part of the
// architecture; kCancelled when progress returns false.
Weights load_weights(const ModelFiles& files, const Architecture& architecture, ops::Device& device,
                     const Model::Progress& progress, const LoadExtras& extras = {});
// Gives the memory of all matrices back.
void release_weights(const Weights& weights, ops::Device& device);

// The same without a device: shapes without data. No tensor is read; what load_weights() refuses of
// names and shapes is refused.
Weights weight_shapes(const ModelFiles& files, const Architecture& architecture,
                      const ops::NumericTypes& types, LoadObserver* observer = nullptr);

// Whether a tensor belongs to a part of the model that is not run: the heads that predict several
// tokens, the part that sees.
bool is_left_out(std::string_view name, const ModelConfig& config,
                 const Architecture& architecture);

// Bytes of all matrices, on a device or without one, Dense layers among them.
int64_t packed_bytes(const Weights& weights);

}  // namespace prefix
