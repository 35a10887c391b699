#include "engine_args.h"

#include <limits>

#include "common.h"

namespace prefix_cli {

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
  for (const std::string& option : args.all("--option")) {
    const size_t equals = option.find('=');
    if (equals == 0 || equals == std::string::npos)
      fail("--option ", shown(option), " is not KEY=VALUE");
    options.emplace_back(option.substr(0, equals), option.substr(equals + 1));
  }
  return options;
}

}  // namespace prefix_cli
