// `prefix pack`: loads a model with option pack_to.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api.h"
#include "commands.h"
#include "common.h"
#include "engine_args.h"
#include "progress.h"

namespace prefix_cli {
namespace {

namespace fs = std::filesystem;

int64_t bytes_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return static_cast<int64_t>(fs::file_size(path, error));
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path, error))
    if (entry.is_regular_file(error)) bytes += static_cast<int64_t>(entry.file_size(error));
  return bytes;
}

}  // namespace

int pack_command(const Args& args) {
  const std::string model = args.need("--model"), out = args.need("--out");
  OptionList options = engine_options(args);
  options.emplace_back("compute", "int8");
  if (args.has("--keep")) options.emplace_back("compute_keep", args.get("--keep"));
  options.emplace_back("pack_to", out);
  const auto start = std::chrono::steady_clock::now();
  {
    Progress progress("prefix pack", args.choice("--progress", "auto", "auto|on|off"));
    const Engine engine = open_engine(
        model, options, [&](double fraction) { progress.show_share("packing", fraction); });
    progress.clear();
    Warnings("prefix pack").tell(engine);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const nlohmann::ordered_json report = {
      {"out", out}, {"bytes", bytes_of(out)}, {"seconds", seconds.count()}};
  std::cout << report.dump() << std::endl;
  return kExitOk;
}

}  // namespace prefix_cli
