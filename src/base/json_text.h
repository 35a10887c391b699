// Writes JSON as text, piece by piece:
//
//   JsonText j;
//   j.open('{').field("rows", 3).key("list").open('[').value(1).value(2).close(']').close('}');
//
// No tree of values in between: it is fast for long lists, takes memory for the text only, and what
// it takes can be refused (the destructor of a nlohmann tree allocates, and ends the process when
// it cannot).
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "base/hex.h"

namespace prefix {

class JsonText {
 public:
  JsonText& open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  JsonText& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  JsonText& key(std::string_view name) {
    value(name);
    text_ += ':';
    first_ = true;  // no comma before its value
    return *this;
  }
  template <std::integral T>
  JsonText& value(T number) {
    separate();
    if constexpr (std::same_as<T, bool>)
      text_ += number ? "true" : "false";
    else
      text_ += std::to_string(number);
    return *this;
  }
  JsonText& value(std::string_view text) {  // UTF-8
    separate();
    text_ += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (byte < 0x20) {
        text_ += "\\u00";
        append_hex(text_, byte);
      } else {
        text_ += c;
      }
    }
    text_ += '"';
    return *this;
  }
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  template <typename T>
  JsonText& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  template <typename List>
  JsonText& list(std::string_view name, const List& values) {
    key(name).open('[');
    for (const auto& v : values) value(v);
    return close(']');
  }
  // Fields or values that another one wrote.
  JsonText& raw(std::string_view text) {
    separate();
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }
  std::string take() && { return std::move(text_); }

 private:
  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }

  std::string text_;
  bool first_ = true;
};

}  // namespace prefix
