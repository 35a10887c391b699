// The type of a JSON tree by its name alone, for headers that only hand one on: most files that
// read them never look into a tree, and the whole of nlohmann/json costs each a second to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace prefix {

using Json = nlohmann::json;

}  // namespace prefix
