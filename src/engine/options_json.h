// Options as a JSON object {"key": value, ...}, read without building it: texts from outside may be
// nested as deep as they like, and a refusal takes no memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace prefix {

struct JsonSetting {
  std::string key;
  std::string value;     // as Options::set takes it; list items with commas between them
  bool is_list = false;  // of whole numbers
};

// In the order of the text. Throws kInvalidArgument for anything but an object of scalars and lists
// of whole numbers.
std::vector<JsonSetting> parse_options_json(std::string_view text);

}  // namespace prefix
