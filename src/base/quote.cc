#include "base/quote.h"

#include <cstdint>

namespace prefix {
namespace {

// Length of the UTF-8 sequence that `text` begins with; 0 when there is no valid one. Overlong
// forms, surrogates and code points beyond U+10FFFF are not valid.
size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f)) return 0;
  if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) return 0;
  return length;
}

}  // namespace

std::string quote(std::string_view text, size_t most) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_sequence(text.substr(at));
    if (at + (length ? length : 1) > most) break;
    const auto byte = static_cast<uint8_t>(text[at]);
    // U+0080 to U+009F are control characters too.
    const bool control = byte < 0x20 || byte == 0x7f ||
                         (length == 2 && byte == 0xc2 && static_cast<uint8_t>(text[at + 1]) < 0xa0);
    if (length == 0 || control) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
      at += 1;
    } else {
      out.append(text.substr(at, length));
      at += length;
    }
  }
  out += at < text.size() ? "...\"" : "\"";
  return out;
}

}  // namespace prefix
