// Bytes as hexadecimal digits, two for each, in lower case.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace prefix {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

inline void append_hex(std::string& text, uint8_t byte) {
  text += kHexDigits[byte >> 4];
  text += kHexDigits[byte & 15];
}

inline std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) append_hex(text, byte);
  return text;
}

}  // namespace prefix
