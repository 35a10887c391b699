// What config.json says about rotary positions.
#pragma once

#include "base/json_fwd.h"
#include "model/config/config.h"

namespace prefix {

struct ConfigTraits;

// Whether and how queries and keys are rotated, and the context that yarn stretches. Windows must
// have been read. Throws as config_from_json(); so does the one below.
void read_rotation(const Json& json, const ConfigTraits& traits, ModelConfig& config);

// Layers that do not rotate: listed with 0, or every n-th.
void read_unrotated(const Json& json, const ConfigTraits& traits, ModelConfig& config);

}  // namespace prefix
