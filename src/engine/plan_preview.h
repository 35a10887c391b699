// How a batch would share, found without a model: for prefix_batch_plan_json and the tree picture.
#pragma once

#include <string>
#include <vector>

#include "engine/request.h"

namespace prefix {

// JSON as documented at prefix_batch_plan_json. `namespaces` holds the name of each request's.
std::string plan_preview(const std::vector<RequestSpec>& requests,
                         const std::vector<std::string>& namespaces);

}  // namespace prefix
