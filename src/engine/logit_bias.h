// Option logit_bias as text: 464:-100,11:2.5
#pragma once

#include <string_view>
#include <vector>

#include "engine/request.h"

namespace prefix {

// Ascending by token. Throws kInvalidArgument for another form and a token that is there twice,
// kOutOfRange for a number beyond its limits.
std::vector<LogitBias> parse_logit_bias(std::string_view text);

}  // namespace prefix
