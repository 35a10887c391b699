// What config.json says about sliding windows.
#pragma once

#include "base/json_fwd.h"
#include "model/config/config.h"

namespace prefix {

// The window of each layer of attention. Throws as config_from_json().
void read_windows(const Json& json, const Architecture& architecture, ModelConfig& config);

}  // namespace prefix
