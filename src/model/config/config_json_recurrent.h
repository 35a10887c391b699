// What config.json says about recurrent layers.
#pragma once

#include "base/json_fwd.h"
#include "model/config/config.h"

namespace prefix {

// How many layers the file lists; 0: it has no list.
int32_t listed_layers(const Json& json, const Architecture& architecture);
// Which layers are recurrent, and what such a layer looks like. Throws as config_from_json().
void read_recurrent(const Json& json, const Architecture& architecture, ModelConfig& config);

}  // namespace prefix
