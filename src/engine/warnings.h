// What a user asks for and does not get, and what of a model is not run: sentences that an engine
// tells (Engine::info_json) and an estimate logs, from the headers of files.
#pragma once

#include <string>
#include <vector>

#include "engine/options.h"
#include "engine/request_check.h"
#include "model/config/config.h"
#include "model/config/declared.h"

namespace prefix {

// config, limits, host_memory (of the device): as they are in force with these options.
std::vector<std::string> warnings_of(const Options& options, const ModelConfig& config,
                                     const Declared& declared, const RequestLimits& limits,
                                     bool host_memory);

}  // namespace prefix
