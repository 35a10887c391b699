// How requests are distributed by time and size. Where the meaning is vLLM's, so are its bounds;
// below them there are some more for models and tasks that are done in milliseconds.
#pragma once

#include <vector>

#include "engine/histogram.h"
#include "engine/request.h"

namespace prefix {

struct RequestHistograms {
  explicit RequestHistograms(int32_t max_positions);

  // Seconds.
  Histogram first_token, between_tokens;  // of generations; each token but the first
  Histogram queue, total;                 // of requests that succeeded
  // Tokens, of requests that succeeded.
  Histogram prompt, generated;  // the latter of generations

  // A request that succeeded.
  void add(Task task, const RequestResult& result) noexcept;
};

}  // namespace prefix
