#include "model/config/config_json_recurrent.h"

#include <limits>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

bool is_text(const Json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

// transformers v4 names the kinds of Granite and Nemotron-H "mamba" and "attention".
LayerKind layer_kind(const Json& type, const Architecture& architecture) {
  if (is_text(type, "full_attention")) return LayerKind::kAttention;
  if (architecture.recurrent == Mixer::kShortConv) {
    if (is_text(type, "conv")) return LayerKind::kRecurrent;
    fail(Code::kUnsupportedModel, "layer type ", json_shown(type),
         " is not supported (supported: \"full_attention\", \"conv\")");
  }
  if (is_text(type, "linear_attention") || is_text(type, "mamba")) return LayerKind::kRecurrent;
  if (is_text(type, "attention")) return LayerKind::kAttention;
  const bool single = architecture.single_blocks;
  if (single && is_text(type, "mlp")) return LayerKind::kFeedForward;
  fail(Code::kUnsupportedModel, "layer type ", json_shown(type),
       " is not supported (supported: \"full_attention\", \"linear_attention\", \"attention\", "
       "\"mamba\"",
       single ? ", \"mlp\")" : ")");
}

// The list of types under either of its names; null where the file has none.
const Json* layer_types(const Json& json) {
  const Json* list = nullptr;
  const char* from = nullptr;
  for (const char* key : {"layer_types", "layers_block_type"}) {
    if (!json_has(json, key)) continue;
    const Json& value = json.at(key);
    if (!value.is_array() || value.empty())
      fail(Code::kFormat, "\"", key, "\" is ", json_shown(value), ", not a list of names");
    if (list && *list != value)
      fail(Code::kFormat, "\"", from, "\" and \"", key, "\" differ; one of them must go");
    list = &value;
    from = key;
  }
  return list;
}

constexpr const char* kPattern = "hybrid_override_pattern";

// Layers of attention by their number; all where the file has no such list.
std::vector<LayerKind> indexed_kinds(const Json& json, int32_t layers) {
  constexpr const char* kKey = "full_attn_idxs";
  const bool listed = json_has(json, kKey);
  std::vector<LayerKind> kinds(static_cast<size_t>(layers),
                               listed ? LayerKind::kRecurrent : LayerKind::kAttention);
  if (!listed) return kinds;
  const Json& list = json.at(kKey);
  if (!list.is_array())
    fail(Code::kFormat, "\"", kKey, "\" is ", json_shown(list), ", not a list of layers");
  for (const Json& layer : list)
    kinds[static_cast<size_t>(json_int_value(layer, kKey, 0, layers - 1))] = LayerKind::kAttention;
  return kinds;
}

// The kinds of all layers that the file lists; empty where it lists none.
std::vector<LayerKind> listed_kinds(const Json& json, const Architecture& architecture) {
  std::vector<LayerKind> kinds;
  if (const Json* types = layer_types(json))
    for (const Json& type : *types) kinds.push_back(layer_kind(type, architecture));
  if (!architecture.config.layer_pattern || !json_has(json, kPattern)) return kinds;
  std::vector<LayerKind> spelled;
  for (const char letter : json_string(json, kPattern, "")) {
    if (letter != 'M' && letter != '*' && letter != '-')
      fail(Code::kUnsupportedModel, "\"", kPattern, "\" has a layer ",
           quote(std::string_view(&letter, 1)), R"(; supported are "M", "*" and "-")");
    spelled.push_back(letter == 'M'   ? LayerKind::kRecurrent
                      : letter == '*' ? LayerKind::kAttention
                                      : LayerKind::kFeedForward);
  }
  if (!kinds.empty() && kinds != spelled)
    fail(Code::kFormat, "\"", kPattern,
         "\" and the list of layer types differ; one of them must go");
  return spelled;
}

// The newer transformers write a number that JSON has no digits for as {"__float__": "Infinity"}.
double time_step(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (is_text(value, "+inf")) return std::numeric_limits<double>::infinity();  // model_files.cc
  if (value.is_object() && value.size() == 1 && value.contains("__float__") &&
      is_text(value.at("__float__"), "Infinity"))
    return std::numeric_limits<double>::infinity();
  fail(Code::kFormat, "\"time_step_limit\" holds ", json_shown(value), ", not a number");
}

void read_time_step_limit(const Json& json, RecurrentConfig& r) {
  constexpr const char* kKey = "time_step_limit";
  if (!json_has(json, kKey)) return;
  const Json& limits = json.at(kKey);
  if (!limits.is_array() || limits.size() != 2)
    fail(Code::kFormat, "\"", kKey, "\" is ", json_shown(limits), ", not a list of two numbers");
  const double low = time_step(limits[0]), high = time_step(limits[1]);
  if (!(low >= 0 && high > low && high > 0))
    fail(Code::kFormat, "\"", kKey, "\" is [", low, ", ", high,
         "]; it must rise, and not begin below 0");
  if (low == 0 && high == std::numeric_limits<double>::infinity()) return;  // clamps nothing
  r.dt_min = static_cast<float>(low);
  r.dt_max = static_cast<float>(high);
}

int32_t size(const Json& json, const SizeKey& key, int64_t most) {
  return static_cast<int32_t>(json_int(json, key.name, 1, most, key.absent));
}

// What one head of mamba_expand x hidden_size has; a file that says so as well must agree.
void check_expanded(const Json& json, const ModelConfig& c, const SizeKey& key,
                    RecurrentConfig& r) {
  const int64_t inner = json_int(json, "mamba_expand", 1, 64, 2) * int64_t{c.hidden};
  const bool absent = !json_has(json, key.name) || is_text(json.at(key.name), "auto");
  if (!absent) {
    r.head_dim = static_cast<int32_t>(json_int(json, key.name, 1, ConfigLimits::kHeadDim));
  } else if (inner % r.heads == 0 && inner / r.heads <= ConfigLimits::kHeadDim) {
    r.head_dim = static_cast<int32_t>(inner / r.heads);
  } else {
    fail(Code::kFormat, "mamba_expand x hidden_size (", inner, ") does not give mamba_n_heads (",
         r.heads, ") heads of at most ", ConfigLimits::kHeadDim);
  }
  if (r.inner() != inner)
    fail(Code::kFormat, "mamba_n_heads x mamba_d_head (", r.heads, " x ", r.head_dim,
         ") is not mamba_expand x hidden_size (", inner, ")");
}

void read_sizes(const Json& json, const RecurrentKeys& keys, const ModelConfig& c,
                RecurrentConfig& r) {
  r.conv_width = static_cast<int32_t>(
      json_int(json, keys.conv_width.name, 2, ConfigLimits::kConvWidth, keys.conv_width.absent));
  r.conv_bias = keys.conv_bias && json_bool(json, keys.conv_bias, keys.conv_biased);
  r.projection_bias = keys.projection_bias && json_bool(json, keys.projection_bias, false);
  if (!keys.heads.name) {
    r.heads = r.groups = 1;
    r.head_dim = c.hidden;
    return;
  }
  r.heads = size(json, keys.heads, ConfigLimits::kHeads);
  r.groups = size(json, keys.groups, ConfigLimits::kHeads);
  r.state = size(json, keys.state, ConfigLimits::kHeadDim);
  if (keys.head_dim.absent == 0)
    check_expanded(json, c, keys.head_dim, r);
  else
    r.head_dim = size(json, keys.head_dim, ConfigLimits::kHeadDim);
}

}  // namespace

int32_t listed_layers(const Json& json, const Architecture& architecture) {
  if (architecture.config.layer_pattern && json_has(json, kPattern))
    return static_cast<int32_t>(json_string(json, kPattern, "").size());
  const Json* types = layer_types(json);
  return types ? static_cast<int32_t>(types->size()) : 0;
}

void read_recurrent(const Json& json, const Architecture& architecture, ModelConfig& c) {
  const int32_t interval = architecture.config.attention_interval;
  const auto layers = static_cast<size_t>(c.layers);
  c.layer_kinds = listed_kinds(json, architecture);
  const bool indexed = architecture.config.lfm2_keys;
  if (indexed && c.layer_kinds.empty()) c.layer_kinds = indexed_kinds(json, c.layers);
  if (indexed && json_has(json, "full_attn_idxs") && c.layer_kinds != indexed_kinds(json, c.layers))
    fail(Code::kFormat,
         "\"full_attn_idxs\" and the list of layer types differ; one of them must go");
  if (c.layer_kinds.empty()) {
    c.layer_kinds.assign(layers, LayerKind::kRecurrent);
    if (interval > 0) {
      const auto every = static_cast<size_t>(
          json_int(json, "full_attention_interval", 1, ConfigLimits::kLayers, interval));
      for (size_t i = every - 1; i < layers; i += every) c.layer_kinds[i] = LayerKind::kAttention;
    }
  }
  if (c.layer_kinds.size() != layers)
    fail(Code::kFormat, "the list of layer types (layer_types, layers_block_type",
         architecture.config.layer_pattern ? ", hybrid_override_pattern) has " : ") has ",
         c.layer_kinds.size(), " of them; num_hidden_layers is ", c.layers);
  if (c.recurrent_count() == 0) return;
  c.recurrent.mixer = architecture.recurrent;
  read_sizes(json, architecture.config.recurrent, c, c.recurrent);
  if (architecture.recurrent == Mixer::kMamba2) read_time_step_limit(json, c.recurrent);
}

}  // namespace prefix
