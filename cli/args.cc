#include "args.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "common.h"

namespace prefix_cli {
namespace {

const Flag* find(const Command& command, std::string_view name) {
  for (const Flag& flag : command.flags)
    if (flag.name == name) return &flag;
  return nullptr;
}

// Letters that the two names have in common at the start, as a cheap measure of "did you mean".
size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

[[noreturn]] void fail_unknown(const Command& command, std::string_view name) {
  const Flag* nearest = nullptr;
  size_t best = 2;  // the dashes alone say nothing
  for (const Flag& flag : command.flags) {
    const size_t n = common_prefix(flag.name, name);
    if (n > best) {
      best = n;
      nearest = &flag;
    }
  }
  fail("unknown option ", shown(name),
       nearest ? cat("; did you mean ", nearest->name, "?")
               : cat("; see prefix ", command.name, " --help"));
}

}  // namespace

int64_t parse_int(std::string_view what, std::string_view text, int64_t minimum, int64_t maximum) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    fail(what, " = ", shown(text), " is not a whole number");
  if (error == std::errc::result_out_of_range || value < minimum || value > maximum)
    fail(what, " = ", shown(text, 40), " is outside [", minimum, ", ", maximum, "]");
  return value;
}

int64_t parse_size(std::string_view what, std::string_view text) {
  int shift = 0;
  std::string_view digits = text;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'K':
      case 'k':
        shift = 10;
        break;
      case 'M':
      case 'm':
        shift = 20;
        break;
      case 'G':
      case 'g':
        shift = 30;
        break;
      case 'T':
      case 't':
        shift = 40;
        break;
      default:
        break;
    }
    if (shift) digits.remove_suffix(1);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool too_large = error == std::errc::result_out_of_range && !digits.starts_with('-');
  if ((error != std::errc() && !too_large) || end != digits.data() + digits.size() || value < 0)
    fail(what, " = ", shown(text), " is not a size: a whole number with an optional K, M, G or T");
  if (too_large || value > (std::numeric_limits<int64_t>::max() >> shift))
    fail(what, " = ", shown(text, 40), " is above the limit of ",
         std::numeric_limits<int64_t>::max(), " bytes");
  return value << shift;
}

Args::Args(const Command& command, int argc, const char* const* argv) : command_(command.name) {
  for (int i = 0; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      help_ = true;
      continue;
    }
    if (word.size() < 2 || word[0] != '-') {
      if (command.positional.empty()) fail("unexpected argument ", shown(word));
      positionals_.emplace_back(word);
      continue;
    }
    // --name=value and --name value are the same.
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const Flag* flag = find(command, name);
    if (!flag) fail_unknown(command, name);
    std::string value;
    if (!flag->value.empty()) {
      if (equals != std::string_view::npos) {
        value = word.substr(equals + 1);
      } else if (i + 1 < argc) {
        value = argv[++i];
      } else {
        fail(name, " needs a value: ", flag->value);
      }
    } else if (equals != std::string_view::npos) {
      fail(name, " takes no value");
    }
    std::vector<std::string>& values = values_[std::string(name)];
    if (!values.empty() && !flag->repeats) fail(name, " is given twice");
    values.push_back(std::move(value));
  }
}

std::string Args::get(std::string_view name, std::string_view fallback) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::string(fallback) : it->second.back();
}

std::vector<std::string> Args::all(std::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

int64_t Args::get_int(std::string_view name, int64_t fallback, int64_t minimum,
                      int64_t maximum) const {
  const auto it = values_.find(name);
  return it == values_.end() ? fallback : parse_int(name, it->second.back(), minimum, maximum);
}

std::string Args::need(std::string_view name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) fail(name, " is missing; see prefix ", command_, " --help");
  if (it->second.back().empty()) fail(name, " is empty; see prefix ", command_, " --help");
  return it->second.back();
}

std::string Args::choice(std::string_view name, std::string_view fallback,
                         std::string_view values) const {
  const std::string value = get(name, fallback);
  if (value.find('|') != std::string::npos || value.empty() ||
      cat("|", values, "|").find("|" + value + "|") == std::string::npos)
    fail(name, " = ", shown(value), " is not one of ", values);
  return value;
}

std::string help_text(const Command& command) {
  std::string text =
      cat("prefix ", command.name, " - ", command.summary, "\n\nusage: prefix ", command.name);
  if (!command.positional.empty()) text += cat(" ", command.positional);
  text += " [options]\n\n";
  size_t width = 6;
  for (const Flag& flag : command.flags)
    width = std::max(width, flag.name.size() + 1 + flag.value.size());
  const auto line = [&](std::string_view left, std::string_view help) {
    text += cat("  ", left, std::string(width - left.size() + 2, ' '));
    // A help text may have several lines; the later ones are indented to the first.
    for (const char c : help) {
      text += c;
      if (c == '\n') text += std::string(width + 4, ' ');
    }
    text += '\n';
  };
  for (const Flag& flag : command.flags)
    line(flag.value.empty() ? std::string(flag.name) : cat(flag.name, " ", flag.value), flag.help);
  line("--help", "this text");
  if (!command.notes.empty()) text += cat("\n", command.notes, "\n");
  text += cat("\nexample, in the build folder:\n", command.example, "\n");
  return text;
}

}  // namespace prefix_cli
