// What config.json says about routed experts.
#pragma once

#include "base/json_fwd.h"
#include "model/config/config.h"

namespace prefix {

// Which layers have experts, and what they look like. Throws as config_from_json().
void read_experts(const Json& json, const Architecture& architecture, ModelConfig& config);

}  // namespace prefix
