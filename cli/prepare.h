// From a request to token ids.
#pragma once

#include <cstdint>
#include <limits>

#include "api.h"
#include "requests.h"
#include "text.h"

namespace prefix_cli {

// For a model with so many token ids. Throws Failure, or prefix::Error of the text library.
Prepared prepare(const Request& request, LazyText& text,
                 int32_t vocabulary = std::numeric_limits<int32_t>::max());

}  // namespace prefix_cli
