// What a benchmark prints: one JSON object a line, which ends with the machine.
#pragma once

#include <cerrno>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/error_text.h"
#include "base/json_text.h"
#include "base/processors.h"
#include "base/status.h"

namespace prefix::bench {

// Throws when what was printed is lost.
inline void flush_stdout() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  fail(Code::kIo, "cannot write to standard output: ", error_text(errno));
}

class Line {
 public:
  // `machine`: what was measured.
  explicit Line(std::string_view bench, std::string machine = processor_name())
      : machine_(std::move(machine)) {
    json_.open('{').field("bench", bench);
  }

  template <typename T>
  Line& field(std::string_view name, const T& value) {
    if constexpr (std::floating_point<T>)
      json_.key(name).raw(number(value));
    else
      json_.field(name, value);
    return *this;
  }
  template <typename List>
  Line& list(std::string_view name, const List& values) {
    json_.list(name, values);
    return *this;
  }
  // An object inside, until close().
  Line& open(std::string_view name) {
    json_.key(name).open('{');
    return *this;
  }
  Line& close() {
    json_.close('}');
    return *this;
  }
  // JSON that another one wrote.
  Line& json(std::string_view name, std::string_view text) {
    json_.key(name).raw(text);
    return *this;
  }

  void print() {
    json_.field("machine", machine_).close('}');
    std::printf("%s\n", json_.text().c_str());
    flush_stdout();
  }

 private:
  // What could not be computed is null: JSON has no other word for it.
  static std::string number(double value) {
    if (!std::isfinite(value)) return "null";
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
  }

  std::string machine_;
  JsonText json_;
};

}  // namespace prefix::bench
