#include "base/quote.h"

#include <cstdint>

#include "base/hex.h"
#include "base/utf8.h"

namespace prefix {

std::string quote(std::string_view text, size_t most) {
  std::string out = "\"";
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_length(text.substr(at));
    if (at + (length ? length : 1) > most) break;
    const auto byte = static_cast<uint8_t>(text[at]);
    // U+0080 to U+009F are control characters too.
    const bool control = byte < 0x20 || byte == 0x7f ||
                         (length == 2 && byte == 0xc2 && static_cast<uint8_t>(text[at + 1]) < 0xa0);
    if (length == 0 || control) {
      out += "\\x";
      append_hex(out, byte);
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
