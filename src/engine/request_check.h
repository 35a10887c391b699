// The checks every request passes before it is queued; a bad one fails alone.
#pragma once

#include "cache/namespaces.h"
#include "engine/request.h"
#include "model/config.h"

namespace prefix {

// Throws Error with the value and the limit. `max_positions` is the engine's context length.
void check_request(const RequestSpec& spec, const ModelConfig& config, int32_t max_positions,
                   const Namespaces& namespaces);

}  // namespace prefix
