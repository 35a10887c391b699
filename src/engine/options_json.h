// Options as a JSON object {"key": value, ...}, read without building it: texts from outside may be
// nested as deep as they like, and a refusal takes no memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace prefix {

struct JsonSetting {
  std::string key;
  std::string value;  // as Options::set takes it: whole numbers with commas between them, a JSON
                      // array of texts
  enum class List { kNone, kEmpty, kInts, kTexts } list = List::kNone;
  bool is_text = false;  // of kNone: it stood in quotes
};

// In the order of the text. Throws kInvalidArgument for anything but an object of scalars and lists
// of whole numbers or of texts, and for a key that occurs twice.
std::vector<JsonSetting> parse_options_json(std::string_view text);

// In digits alone, as Options::set takes a whole number; empty for another number, and for one that
// 64 bits do not hold.
std::string whole_text(double number);

// The texts of a JSON array of texts; nothing for anything else.
std::optional<std::vector<std::string>> text_list(std::string_view text);

}  // namespace prefix
