// The checks every request passes before it is queued; a bad one fails alone.
#pragma once

#include "engine/request.h"
#include "model/config/config.h"

namespace prefix {

// Of the engine.
struct RequestLimits {
  int32_t max_positions = 0;  // the context length
  int32_t pages = 0;          // of keys, values and states
  int32_t state_pages = 0;    // of a state; 0: the model has no recurrent layers
  int64_t page_bytes = 0;
};

// All but its namespace. Throws Error with the value and the limit.
void check_request(const RequestSpec& spec, const ModelConfig& config, const RequestLimits& limits);

}  // namespace prefix
