// The fields of a JSON object with their values as text: without white space between words, and
// with numbers as they are written, since a double does not hold every id and every decimal.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace prefix_cli {

// In the order of the text. Throws Failure for what json_in() refuses, and for what is no object.
std::vector<std::pair<std::string, std::string>> json_members(std::string_view text,
                                                              std::string_view what);

}  // namespace prefix_cli
