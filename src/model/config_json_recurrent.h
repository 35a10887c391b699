// What config.json says about recurrent layers.
#pragma once

#include "base/json.h"
#include "model/config.h"

namespace prefix {

// Which layers are recurrent, and what such a layer looks like. Throws as config_from_json().
void read_recurrent(const Json& json, const Architecture& architecture, ModelConfig& config);

}  // namespace prefix
