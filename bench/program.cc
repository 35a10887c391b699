#include "program.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <new>
#include <utility>

#include "base/quote.h"
#include "base/status.h"
#include "line.h"

namespace prefix::bench {
namespace {

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(Code::kInvalidArgument, parts...);
}

}  // namespace

int64_t read_number(std::string_view what, std::string_view text, int64_t minimum,
                    int64_t maximum) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stopped != end)
    refuse(what, " = ", quote(text), " is not a whole number");
  if (error != std::errc() || value < minimum || value > maximum)
    refuse(what, " = ", quote(text), " is outside [", minimum, ", ", maximum, "]");
  return value;
}

std::string read_choice(std::string_view what, std::string_view text, std::string_view values) {
  if (text.empty() || text.find('|') != text.npos ||
      cat("|", values, "|").find(cat("|", text, "|")) == std::string::npos)
    refuse(what, " = ", quote(text), " is not one of ", values);
  return std::string(text);
}

Program::Program(std::string_view name, std::string_view measures, std::string_view example)
    : name_(name), measures_(measures), example_(example) {}

Program& Program::argument(std::string_view name, std::string_view help, std::string& into) {
  options_.push_back({std::string(name), "", std::string(help), true, false,
                      [&into](const std::string& value) { into = value; }});
  return *this;
}

Program& Program::arguments(std::string_view name, std::string_view help, const Read& read) {
  options_.push_back({std::string(name), "", std::string(help), false, true, read});
  return *this;
}

Program& Program::option(std::string_view name, std::string_view value, std::string_view help,
                         std::string& into) {
  options_.push_back({std::string(name), std::string(value),
                      into.empty() ? std::string(help) : cat(help, " (default ", into, ")"), false,
                      false, [&into](const std::string& text) { into = text; }});
  return *this;
}

Program& Program::option(std::string_view name, std::string_view value, std::string_view help,
                         int& into, int minimum, int maximum) {
  options_.push_back({std::string(name), std::string(value),
                      cat(help, " (", minimum, " to ", maximum, ", default ", into, ")"), false,
                      false, [=, what = std::string(name), &into](const std::string& text) {
                        into = static_cast<int>(read_number(what, text, minimum, maximum));
                      }});
  return *this;
}

Program& Program::option(std::string_view name, std::string_view value, std::string_view help,
                         const Read& read) {
  options_.push_back({std::string(name), std::string(value), std::string(help), false, true, read});
  return *this;
}

Program& Program::list(std::string_view name, std::string_view value, std::string_view help,
                       std::vector<int>& into, int minimum, int maximum) {
  std::string defaults;
  for (const int number : into) defaults += cat(defaults.empty() ? "" : ", ", number);
  return option(
      name, value, cat(help, " (", minimum, " to ", maximum, ", default ", defaults, ")"),
      [=, what = std::string(name), &into, first = true](const std::string& text) mutable {
        if (std::exchange(first, false)) into.clear();
        into.push_back(static_cast<int>(read_number(what, text, minimum, maximum)));
      });
}

Program& Program::choice(std::string_view name, std::string_view values, std::string_view help,
                         std::string& into) {
  options_.push_back({std::string(name), std::string(values),
                      into.empty() ? std::string(help) : cat(help, " (default ", into, ")"), false,
                      false,
                      [what = std::string(name), all = std::string(values),
                       &into](const std::string& text) { into = read_choice(what, text, all); }});
  return *this;
}

Program& Program::flag(std::string_view name, std::string_view help, bool& into) {
  options_.push_back({std::string(name), "", std::string(help), false, false,
                      [&into](const std::string&) { into = true; }});
  return *this;
}

const Program::Option& Program::find(std::string_view word, const std::vector<int>& times) const {
  const bool named = word.size() > 1 && word[0] == '-';
  for (size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    if (named ? option.name == word : option.is_argument() && (option.repeats || times[i] == 0))
      return option;
  }
  refuse(named ? "unknown option " : "unexpected argument ", quote(word), "; see ", name_,
         " --help");
}

bool Program::read(int argc, const char* const* argv) const {
  for (int i = 1; i < argc; ++i)
    if (const std::string_view word = argv[i]; word == "--help" || word == "-h") return false;
  std::vector<int> times(options_.size());
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const Option& option = find(word, times);
    int& count = times[static_cast<size_t>(&option - options_.data())];
    if (count++ > 0 && !option.repeats) refuse(option.name, " is given twice");
    if (option.is_argument() || option.value.empty()) {
      option.read(word);
      continue;
    }
    if (++i == argc) refuse(option.name, " needs a value: ", option.value);
    option.read(argv[i]);
  }
  for (size_t i = 0; i < options_.size(); ++i)
    if (options_[i].needed && times[i] == 0)
      refuse(options_[i].name, " is missing; see ", name_, " --help");
  return true;
}

std::string Program::help() const {
  std::string text = cat(name_, " - ", measures_, "\n\nusage: ", name_);
  for (const Option& option : options_)
    if (option.is_argument())
      text += option.needed ? cat(" ", option.name) : cat(" [", option.name, "]...");
  text += " [options]\n\n";
  const auto left = [](const Option& option) {
    return option.value.empty() ? option.name : cat(option.name, " ", option.value);
  };
  size_t width = 6;
  for (const Option& option : options_) width = std::max(width, left(option).size());
  const auto add = [&](const std::string& what, std::string_view help) {
    text += cat("  ", what, std::string(width - what.size() + 2, ' '), help, "\n");
  };
  for (const Option& option : options_)
    add(left(option), option.repeats ? cat(option.help, "; may be repeated") : option.help);
  add("--help", "this text");
  return text + cat("\nPrints JSON, an object a line. For example:\nbuild/bin/bench/", name_,
                    example_.empty() ? "" : " ", example_, "\n");
}

int Program::run(int argc, const char* const* argv, const std::function<void()>& work) const {
  std::string why;
  try {
    // The next file that is opened would take the place of a standard output that is closed, and lines go into it.
    if (fcntl(STDOUT_FILENO, F_GETFD) == -1) fail(Code::kIo, "standard output is closed");
    if (read(argc, argv)) {
      work();
    } else {
      std::fputs(help().c_str(), stdout);
    }
    flush_stdout();
    return 0;
  } catch (const std::bad_alloc&) {
    why = "there is not enough memory";
  } catch (const std::exception& e) {
    why = e.what();
  }
  std::fprintf(stderr, "%s: %s\n", name_.c_str(), why.c_str());
  return 2;
}

}  // namespace prefix::bench
