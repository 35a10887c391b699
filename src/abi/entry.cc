#include "abi/entry.h"

#include <charconv>

#include "base/utf8.h"

namespace prefix::abi {
namespace {

// Length of the longest prefix of at most `limit` bytes that does not cut a UTF-8 character.
size_t whole_characters(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return limit;
}

}  // namespace

std::string number_text(double number) {
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), number);
  return std::string(buffer, end);
}

void write_error(prefix_error* err, const char* function, Code code, std::string_view message) {
  // A caller that forgot struct_size gets nothing written beyond what it surely has: nothing.
  if (!err || err->struct_size < static_cast<int32_t>(sizeof(prefix_error))) return;
  err->code = static_cast<int32_t>(code);
  const auto copy = [](char* to, size_t room, std::string_view text) {
    const size_t n = whole_characters(text, room - 1);
    std::memcpy(to, text.data(), n);
    to[n] = 0;
  };
  copy(err->domain, sizeof(err->domain), function);
  copy(err->message, sizeof(err->message), message);
}

std::string_view text_in(const char* text, size_t length, const char* name) {
  if (length == 0) return {};
  require(text, name);
  if (length != PREFIX_NUL && length > kMaxInputBytes)
    fail(Code::kOutOfRange, name, " is said to have ", length, " bytes");
  const std::string_view view(text, length == PREFIX_NUL ? std::strlen(text) : length);
  const size_t bad = first_not_utf8(view);
  if (bad != view.size())
    fail(Code::kInvalidUtf8, name, " is not UTF-8: the byte at ", bad, " is not valid");
  return view;
}

std::string path_in(const char* path, size_t length) {
  const std::string_view text = text_in(path, length, "path");
  if (text.empty()) fail(Code::kInvalidArgument, "path is empty");
  if (text.find('\0') != std::string_view::npos)  // the system would stop reading it there
    fail(Code::kInvalidArgument, "path has a zero byte inside");
  return std::string(text);
}

}  // namespace prefix::abi
