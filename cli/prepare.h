// From a request to token ids.
#pragma once

#include "api.h"
#include "requests.h"
#include "text.h"

namespace prefix_cli {

// Throws Failure, or prefix::Error of the text library.
Prepared prepare(const Request& request, LazyText& text);

}  // namespace prefix_cli
