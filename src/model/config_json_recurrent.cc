#include "model/config_json_recurrent.h"

#include <limits>
#include <string>
#include <string_view>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

bool is_text(const Json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

// transformers v4 names the kinds of Granite "mamba" and "attention".
bool is_recurrent_type(const Json& type) {
  if (is_text(type, "linear_attention") || is_text(type, "mamba")) return true;
  if (is_text(type, "full_attention") || is_text(type, "attention")) return false;
  fail(Code::kUnsupportedModel, "layer type ", json_shown(type),
       " is not supported (supported: \"full_attention\", \"linear_attention\", \"attention\", "
       "\"mamba\")");
}

// The list of types under either of its names; null where the file has none.
const Json* layer_types(const Json& json, int32_t layers) {
  const Json* list = nullptr;
  const char* from = nullptr;
  for (const char* key : {"layer_types", "layers_block_type"}) {
    if (!json_has(json, key)) continue;
    const Json& value = json.at(key);
    if (!value.is_array() || value.size() != static_cast<size_t>(layers))
      fail(Code::kFormat, "\"", key, "\" is ", json_shown(value), ", not a list of ", layers,
           " names");
    if (list && *list != value)
      fail(Code::kFormat, "\"", from, "\" and \"", key, "\" differ; one of them must go");
    list = &value;
    from = key;
  }
  return list;
}

int32_t count(const Json& json, const char* key, int64_t max, int64_t absent) {
  return static_cast<int32_t>(json_int(json, key, 1, max, absent));
}

int32_t conv_width(const Json& json, const char* key) {
  return static_cast<int32_t>(json_int(json, key, 2, ConfigLimits::kConvWidth, 4));
}

// The newer transformers write a number that JSON has no digits for as {"__float__": "Infinity"}.
double time_step(const Json& value) {
  if (value.is_number()) return value.get<double>();
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

void read_mamba2(const Json& json, const ModelConfig& c, RecurrentConfig& r) {
  r.heads = count(json, "mamba_n_heads", ConfigLimits::kHeads, 128);
  r.groups = count(json, "mamba_n_groups", ConfigLimits::kHeads, 1);
  r.state = count(json, "mamba_d_state", ConfigLimits::kHeadDim, 256);
  r.conv_width = conv_width(json, "mamba_d_conv");
  r.conv_bias = json_bool(json, "mamba_conv_bias", true);
  if (json_bool(json, "mamba_proj_bias", false))
    fail(Code::kUnsupportedModel, "\"mamba_proj_bias\" is true; biases of the projections of ",
         "recurrent layers are not supported");
  const int64_t inner = json_int(json, "mamba_expand", 1, 64, 2) * int64_t{c.hidden};
  const bool automatic = json_has(json, "mamba_d_head") && is_text(json.at("mamba_d_head"), "auto");
  if ((automatic || !json_has(json, "mamba_d_head")) && inner % r.heads == 0 &&
      inner / r.heads <= ConfigLimits::kHeadDim) {
    r.head_dim = static_cast<int32_t>(inner / r.heads);
  } else if (automatic || !json_has(json, "mamba_d_head")) {
    fail(Code::kFormat, "mamba_expand x hidden_size (", inner, ") does not give mamba_n_heads (",
         r.heads, ") heads of at most ", ConfigLimits::kHeadDim);
  } else {
    r.head_dim = static_cast<int32_t>(json_int(json, "mamba_d_head", 1, ConfigLimits::kHeadDim));
  }
  if (r.inner() != inner)
    fail(Code::kFormat, "mamba_n_heads x mamba_d_head (", r.heads, " x ", r.head_dim,
         ") is not mamba_expand x hidden_size (", inner, ")");
  read_time_step_limit(json, r);
}

void read_gated_delta(const Json& json, RecurrentConfig& r) {
  r.heads = count(json, "linear_num_value_heads", ConfigLimits::kHeads, 32);
  r.head_dim = count(json, "linear_value_head_dim", ConfigLimits::kHeadDim, 128);
  r.groups = count(json, "linear_num_key_heads", ConfigLimits::kHeads, 16);
  r.state = count(json, "linear_key_head_dim", ConfigLimits::kHeadDim, 128);
  r.conv_width = conv_width(json, "linear_conv_kernel_dim");
}

}  // namespace

void read_recurrent(const Json& json, const Architecture& architecture, ModelConfig& c) {
  const int32_t interval = architecture.config.attention_interval;
  c.recurrent_layers.assign(static_cast<size_t>(c.layers), true);
  if (const Json* types = layer_types(json, c.layers)) {
    for (size_t i = 0; i < types->size(); ++i)
      c.recurrent_layers[i] = is_recurrent_type((*types)[i]);
  } else if (interval > 0) {
    const int32_t every = count(json, "full_attention_interval", ConfigLimits::kLayers, interval);
    for (int32_t i = 0; i < c.layers; ++i)
      c.recurrent_layers[static_cast<size_t>(i)] = (i + 1) % every != 0;
  }
  if (c.recurrent_count() == 0) return;
  c.recurrent.mixer = architecture.recurrent;
  if (architecture.recurrent == Mixer::kMamba2)
    read_mamba2(json, c, c.recurrent);
  else
    read_gated_delta(json, c.recurrent);
}

}  // namespace prefix
