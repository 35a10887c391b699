// Command lines as data: a command lists its options once, and parsing, checking and --help all
// come from that list.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace prefix_cli {

struct Flag {
  std::string_view name;   // "--model"
  std::string_view value;  // name of its value in --help; empty = a switch without value
  std::string_view help;
  bool repeats = false;
};

struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view positional;  // its name in --help, or empty when none is taken
  std::span<const Flag> flags;
  std::string_view notes;    // printed below the options
  std::string_view example;  // works as it stands in the build directory
};

// The value of a size with an optional suffix K, M, G or T (powers of 1024).
int64_t parse_size(std::string_view what, std::string_view text);
int64_t parse_int(std::string_view what, std::string_view text, int64_t minimum, int64_t maximum);

class Args {
 public:
  // Throws Failure for unknown flags, missing values and a value given twice.
  Args(const Command& command, int argc, const char* const* argv);

  bool help() const { return help_; }
  bool has(std::string_view name) const { return values_.contains(name); }
  std::string get(std::string_view name, std::string_view fallback = "") const;
  std::vector<std::string> all(std::string_view name) const;
  int64_t get_int(std::string_view name, int64_t fallback, int64_t minimum, int64_t maximum) const;
  // Throws when it is missing.
  std::string need(std::string_view name) const;
  // One of "a|b|c".
  std::string choice(std::string_view name, std::string_view fallback,
                     std::string_view values) const;
  const std::vector<std::string>& positionals() const { return positionals_; }

 private:
  std::string_view command_;
  bool help_ = false;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positionals_;
};

// The text of --help.
std::string help_text(const Command& command);

}  // namespace prefix_cli
