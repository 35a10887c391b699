// The library as this program uses it: prefix.hpp, with requests and results in the command's own
// types. No logic lives here.
#pragma once

#include <cstdint>
#include <functional>
#include <prefix.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "requests.h"
#include "results.h"

namespace prefix_cli {

using prefix::Batch;
using prefix::check;
using prefix::Engine;
using prefix::Job;
using prefix::read;
using prefix::Simulation;

using OptionList = std::vector<std::pair<std::string, std::string>>;

// A request whose prompt and choices are token ids.
struct Prepared {
  std::vector<int32_t> tokens;
  std::vector<std::vector<int32_t>> choices;
  int32_t from = 1;
  OptionList options;  // in force over those of the request
};

prefix::Options make_options(const OptionList& options);
// Of an option that there is.
prefix_option_details option_details(std::string_view key);

// progress is called with a fraction in [0, 1] while the model loads, several times a second and at
// the end.
Engine open_engine(const std::string& model, const OptionList& options,
                   const std::function<void(double)>& progress);
// Warnings and errors that the library has logged since the last call, each once.
std::vector<std::string> logged_warnings();

// Tells on standard error what the library warns of, under a title such as "prefix run".
class Warnings {
 public:
  explicit Warnings(std::string title) : title_(std::move(title)) {}
  // Of an engine that was opened just now: its files, which the log tells of, and its options. What
  // was told of another one is not told again.
  void tell(const Engine& engine);

 private:
  std::string title_;
  std::set<std::string> told_;
};

// While it lives, warnings and errors in the library's log are told on standard error.
struct LogOnStandardError {
  LogOnStandardError();
  LogOnStandardError(const LogOnStandardError&) = delete;
  LogOnStandardError& operator=(const LogOnStandardError&) = delete;
  ~LogOnStandardError();
};

// "stop", "length", ... for PREFIX_FINISH_*.
const char* finish_name(int32_t finish);

// Throws prefix::Error when the request is refused.
void add(Batch& batch, const Request& request, const Prepared& prepared);
// choices: tokens of each choice, which the library returns in a row. top: how many of the likeliest
// tokens each place has.
Result result_of(const Job& job, size_t index, const std::vector<size_t>& choices, size_t top = 0);

}  // namespace prefix_cli
