// Loading: every tensor of the architecture is found by name, checked, and packed for the device.
#pragma once

#include <functional>

#include "model/model.h"

namespace prefix {

// Throws kFormat naming a tensor that is missing, has the wrong shape, or is not part of the
// architecture; kCancelled when progress returns false.
Weights load_weights(const ModelFiles& files, const Architecture& architecture, ops::Device& device,
                     const Model::Progress& progress);

// What load_weights() would refuse of names and shapes, without reading a tensor.
void check_weights(const ModelFiles& files, const Architecture& architecture);

}  // namespace prefix
