#include "engine_args.h"

#include <limits>
#include <map>

#include "common.h"

namespace prefix_cli {
namespace {

// The two sides of KEY=VALUE.
std::pair<std::string, std::string> sides_of(const char* flag, const std::string& text,
                                             const char* form) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) fail(flag, " ", shown(text), " is not ", form);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

OptionList engine_options(const Args& args) {
  OptionList options;
  const auto pass = [&](const char* flag, const char* key) {
    if (args.has(flag)) options.emplace_back(key, args.get(flag));
  };
  pass("--threads", "threads");
  pass("--device", "device");
  pass("--dtype", "dtype");
  pass("--isa", "isa");
  pass("--rows", "rows");
  if (args.has("--sharing"))
    options.emplace_back("sharing",
                         args.choice("--sharing", "on", "on|off") == "on" ? "true" : "false");
  if (args.has("--cache")) {
    // 0 bytes cannot hold a request, so it can only mean that nothing shall be kept.
    const std::string text = args.get("--cache");
    const int64_t bytes = text == "off" ? 0 : parse_size("--cache", text);
    if (bytes == 0)
      options.emplace_back("cache", "false");
    else
      options.emplace_back("cache_bytes", std::to_string(bytes));
  }
  for (const std::string& option : args.all("--option"))
    options.push_back(sides_of("--option", option, "KEY=VALUE"));
  refuse_contradictions(options);
  return options;
}

void refuse_contradictions(const OptionList& options) {
  std::map<std::string, std::string> seen;
  for (const auto& [key, value] : options)
    if (const auto [at, is_new] = seen.emplace(key, value); !is_new && at->second != value)
      fail("option ", key, " is given twice, as ", shown(at->second), " and as ", shown(value));
}

std::vector<std::pair<std::string, std::string>> adapters_of(const Args& args) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const std::string& adapter : args.all("--adapter")) {
    list.push_back(sides_of("--adapter", adapter, "NAME=DIR"));
    if (list.back().second.empty()) fail("--adapter ", shown(adapter), " is not NAME=DIR");
  }
  return list;
}

}  // namespace prefix_cli
