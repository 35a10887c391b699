#include "common.h"

#include <nlohmann/json.hpp>

namespace prefix_cli {

std::string shown(std::string_view text, size_t max_bytes) {
  const bool whole = text.size() <= max_bytes;
  if (!whole) {
    text = text.substr(0, max_bytes);
    // Not in the middle of a character.
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80)
      text.remove_suffix(1);
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0) text.remove_suffix(1);
  }
  // JSON escapes the first 32 control characters; the rest of them move a cursor, too.
  const std::string json = nlohmann::json(std::string(text))
                               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string out;
  for (size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = i + 1 < json.size() ? static_cast<unsigned char>(json[i + 1]) : 0;
    const bool second_block = byte == 0xc2 && next < 0xa0;
    if (byte == 0x7f || second_block) {
      const char* const digits = "0123456789abcdef";
      const unsigned value = second_block ? next : byte;
      out += "\\u00";
      out += digits[value >> 4];
      out += digits[value & 15];
      i += second_block ? 1 : 0;
    } else {
      out += json[i];
    }
  }
  if (!whole) out.insert(out.size() - 1, "...");
  return out;
}

std::string without_controls(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0)  // the second block of them, in UTF-8
      text.replace(i, 2, " ");
    else if (byte < 0x20 || byte == 0x7f)
      text[i] = ' ';
  }
  return text;
}

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) digits.insert(i -= 3, ",");
  return digits;
}

}  // namespace prefix_cli
