// How a batch would share, found without a model: prefix_batch_plan_json. `prefix tree` paints it.
#pragma once

#include <string>
#include <vector>

#include "engine/request.h"

namespace prefix {

// JSON as documented at prefix_batch_plan_json. `namespaces` holds the name of each request's.
std::string plan_preview(const std::vector<RequestSpec>& requests,
                         const std::vector<std::string>& namespaces);

}  // namespace prefix
