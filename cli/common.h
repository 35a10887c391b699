// What every command of the program needs: its one error type and its exit codes.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace prefix_cli {

// Part of the contract with scripts that call the program.
constexpr int kExitOk = 0;
constexpr int kExitSomeFailed = 1;
constexpr int kExitUsage = 2;

// No reader of JSON takes one: the library's does not, and what one program reads all should.
// CSV may begin with one.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Ends the program with kExitUsage and this one line, behind the name of the command. It names the
// value and the limit.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Text of the user in a message: quoted, without control characters, cut after `max_bytes`.
std::string shown(std::string_view text, size_t max_bytes = 200);

// Text of the user in a picture: a space for each control character,
// which could move a cursor or end a line.
std::string without_controls(std::string text);

// 12345678 -> "12,345,678"
std::string grouped(int64_t number);

template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Failure(cat(parts...));
}

}  // namespace prefix_cli
