// Option logit_bias, which JSON has as an object: {"464": -100} is 464:-100 to the library.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace prefix_cli {

// The library checks tokens and numbers. Throws Failure for another form.
std::string logit_bias_text(const nlohmann::ordered_json& value);

}  // namespace prefix_cli
