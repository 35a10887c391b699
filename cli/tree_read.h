// The JSON that the library gives about a tree, as a tree that can be drawn.
#pragma once

#include <string>

#include "text.h"
#include "tree_model.h"

namespace prefix_cli {

// What prefix_batch_plan_json gives. text: shows the first tokens of a bar as text; may be null.
Tree read_plan(const std::string& json, LazyText* text);

// What prefix_cache_tree_json gives. Throws Failure for anything else: it comes from a file.
Tree read_cache(const std::string& json);

}  // namespace prefix_cli
