// The options and the statistics of a simulated cache of a hybrid model, as JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "tree/hybrid_simulator.h"

namespace prefix::abi {

// `options` has the key "hybrid".
HybridOptions hybrid_options_in(const Json& options);
// The fields of the operation "stats", without brackets.
std::string hybrid_stats(const HybridSimulator& simulator);

}  // namespace prefix::abi
