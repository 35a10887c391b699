#include "model/config/config_json_windows.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr const char* kWindow = "sliding_window";
constexpr const char* kTypes = "layer_types";

// For architectures without windows. One at least as long as the context never cuts anything.
void refuse_windows(const Json& json, const ModelConfig& c) {
  const bool used = json_bool(json, "use_sliding_window", !json.contains("use_sliding_window"));
  if (!used || !json_has(json, kWindow)) return;
  const int64_t window = json_int(json, kWindow, 1, INT32_MAX);
  if (window < c.max_positions)
    fail(Code::kUnsupportedModel, "sliding_window is ", window, ", shorter than the context of ",
         c.max_positions, "; architecture \"", c.architecture, "\" has no windows");
}

// Which layers have a window as the file lists them; empty where it has no list.
std::vector<bool> listed_layers(const Json& json, bool windows, const ModelConfig& c) {
  std::vector<bool> listed;
  if (!json_has(json, kTypes)) return listed;
  const Json& types = json.at(kTypes);
  if (!types.is_array() || types.size() != static_cast<size_t>(c.layers))
    fail(Code::kFormat, "\"layer_types\" is ", json_shown(types), ", not a list of ", c.layers,
         " names");
  for (const Json& type : types) {
    const bool sliding = windows && type == "sliding_attention";
    if (!sliding && type != "full_attention")
      fail(Code::kUnsupportedModel, "layer type ", json_shown(type),
           " is not supported (supported: \"full_attention\"",
           windows ? ", \"sliding_attention\")" : ")");
    listed.push_back(sliding);
  }
  return listed;
}

std::vector<bool> layers_by_rule(const Json& json, const WindowTraits& traits, int32_t window,
                                 const ModelConfig& c) {
  std::vector<bool> has(static_cast<size_t>(c.layers), window > 0);
  if (traits.layers == WindowLayers::kFromLayer) {
    const int64_t first = json_int(json, "max_window_layers", 0, INT32_MAX, 28);
    std::fill_n(has.begin(), std::min<int64_t>(first, c.layers), false);
  }
  if (traits.layers == WindowLayers::kPattern) {
    const int64_t every =
        json_int(json, "sliding_window_pattern", 1, ConfigLimits::kLayers, traits.pattern);
    for (size_t i = 0; i < has.size(); ++i) has[i] = (i + 1) % static_cast<size_t>(every) != 0;
  }
  return has;
}

}  // namespace

void read_windows(const Json& json, const Architecture& architecture, ModelConfig& c) {
  const WindowTraits& traits = architecture.config.window;
  if (traits.layers == WindowLayers::kNone) {
    refuse_windows(json, c);
    if (architecture.recurrent == Mixer::kNone) listed_layers(json, false, c);
    return;
  }
  const bool switched =
      traits.layers == WindowLayers::kFromLayer || traits.layers == WindowLayers::kAllIfUsed;
  const bool used = !switched || json_bool(json, "use_sliding_window", false);
  const int64_t absent = json.contains(kWindow) ? 0 : traits.absent;  // null: none
  const auto window = static_cast<int32_t>(
      used ? json_has(json, kWindow) ? json_int(json, kWindow, 1, INT32_MAX) : absent : 0);
  std::vector<bool> has = listed_layers(json, true, c);
  const std::vector<bool> by_rule = layers_by_rule(json, traits, window, c);
  if (has.empty()) has = by_rule;
  const bool alike =
      traits.layers == WindowLayers::kAll || traits.layers == WindowLayers::kAllIfUsed;
  if (alike && has != by_rule)
    fail(Code::kUnsupportedModel, "\"layer_types\" lists layers ", window > 0 ? "without" : "with",
         " a window; all layers of architecture \"", c.architecture, "\" are of one kind");
  if (std::ranges::find(has, true) == has.end()) return;
  if (window == 0)
    fail(Code::kFormat, "some layers are of \"sliding_attention\", and ",
         used ? "\"sliding_window\" is missing" : "\"use_sliding_window\" is not true");
  for (const bool windowed : has) c.windows.push_back(windowed ? window : 0);
}

}  // namespace prefix
