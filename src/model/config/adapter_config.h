// adapter_config.json of a PEFT directory: what its matrices are multiplied by, and which they are.
//
//   W + scale B A        scale = lora_alpha / r, or with use_rslora lora_alpha / sqrt(r)
//
// What would make of an adapter anything else is refused by its name, and so is a key that is not
// known and is switched on: a later version of PEFT may mean something by it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/input_file.h"
#include "model/config/module_pattern.h"

namespace prefix {

inline constexpr int64_t kMaxAdapterRank = 1024;

struct AdapterConfig {
  int64_t rank = 0;
  double alpha = 0;
  bool root_scaled = false;  // use_rslora
  // For modules that they fit, in the order of the file: the first that fits counts.
  std::vector<std::pair<ModulePattern, int64_t>> ranks;
  std::vector<std::pair<ModulePattern, double>> alphas;
  // target_modules, where that is a list: modules that are called so, or that end with "." and
  // this; empty: the tensors alone say which there are.
  std::vector<std::string> targets;

  // Of a module, as "model.layers.3.self_attn.q_proj".
  int64_t rank_of(std::string_view module) const;
  double scale_of(std::string_view module) const;
  bool is_target(std::string_view module) const;
};

// Throws kFormat and kUnsupportedModel, naming the file, the key and its value.
AdapterConfig read_adapter_config(const InputFile& file);

}  // namespace prefix
