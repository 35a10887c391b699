// config.json of a Hugging Face model.
//
//   meaning   transformers v4                               transformers v5
//   rotary    rope_theta, rope_scaling {type|rope_type}     rope_parameters {rope_type, rope_theta}
//   type      torch_dtype                                   dtype
//
// Several engines broke on the change; both spellings are read. rope_scaling and rope_parameters
// must not contradict each other; what stands inside them goes before a rope_theta or a
// partial_rotary_factor beside them, as in transformers v5 (convert_rope_params_to_dict).
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/quote.h"
#include "base/status.h"
#include "model/architecture.h"
#include "model/config/config.h"
#include "model/config/config_json_experts.h"
#include "model/config/config_json_recurrent.h"
#include "model/config/config_json_windows.h"

namespace prefix {
namespace {

// Rope parameters are at most this far from 1 in either direction.
constexpr double kMaxFactor = 1e9;

// An empty object where the file has nothing under this key.
const Json& object_of(const Json& json, const char* key) {
  static const Json& kNone = *new Json(Json::object());
  if (!json_has(json, key)) return kNone;
  if (!json.at(key).is_object())
    fail(Code::kFormat, "\"", key, "\" is ", json_shown(json.at(key)), ", not an object");
  return json.at(key);
}

// One object, or that of either spelling: a key is taken from the one that has it.
class RopeParameters {
 public:
  explicit RopeParameters(const Json& only) : RopeParameters(only, only) {}
  RopeParameters(const Json& older, const Json& newer) : older_(older), newer_(newer) {}

  bool has(const char* key) const { return json_has(holder(key), key); }
  const Json& holder(const char* key) const { return json_has(newer_, key) ? newer_ : older_; }
  const Json& older() const { return older_; }
  const Json& newer() const { return newer_; }

 private:
  const Json& older_;
  const Json& newer_;
};

double positive(const RopeParameters& rope, const char* key) {
  const double value = json_float(rope.holder(key), key);
  if (!(value > 0 && value <= kMaxFactor))
    fail(Code::kFormat, "rope parameter \"", key, "\" is ", value, ", outside (0, ", kMaxFactor,
         "]");
  return value;
}

std::vector<double> factors(const RopeParameters& rope, const char* key) {
  if (!rope.has(key)) fail(Code::kFormat, "rope parameter \"", key, "\" is missing");
  const Json& value = rope.holder(key).at(key);
  if (!value.is_array() || value.size() > static_cast<size_t>(ConfigLimits::kHeadDim))
    fail(Code::kFormat, "rope parameter \"", key, "\" is ", json_shown(value),
         ", not a list of at most ", ConfigLimits::kHeadDim, " numbers");
  std::vector<double> list;
  for (const Json& v : value) {
    if (!v.is_number() || !(v.get<double>() > 0 && v.get<double>() <= kMaxFactor))
      fail(Code::kFormat, "rope parameter \"", key, "\" holds ", json_shown(v), ", outside (0, ",
           kMaxFactor, "]");
    list.push_back(v.get<double>());
  }
  return list;
}

// Empty where an object does not say it.
std::string stated_type(const Json& rope, const ConfigTraits& traits) {
  const std::string type = json_string(rope, "rope_type", "");
  const std::string older = json_string(rope, "type", "");
  if (!type.empty() && !older.empty() && type != older)
    fail(Code::kFormat, "rope type is both ", quote(type), " and ", quote(older));
  const std::string either = !type.empty() ? type : older;
  return traits.su_is_longrope && (either == "su" || either == "yarn") ? "longrope" : either;
}

// Tools that write one spelling leave the other as it was, with another set of keys.
RopeParameters agreeing(const Json& older, const Json& newer, const ConfigTraits& traits) {
  const auto compare = [](const char* key, const Json& a, const Json& b) {
    if (a != b)
      fail(Code::kFormat, "\"rope_scaling\" and \"rope_parameters\" differ: ", key, " is ",
           json_shown(a), " in one and ", json_shown(b), " in the other; one of them must go");
  };
  const std::string before = stated_type(older, traits), now = stated_type(newer, traits);
  if (!before.empty() && !now.empty()) compare("rope_type", before, now);
  for (const auto& [key, value] : older.items())
    if (key != "type" && key != "rope_type" && !value.is_null() && json_has(newer, key.c_str()))
      compare(key.c_str(), value, newer.at(key));
  return {older, newer};
}

// What the file says of all layers, or ConfigTraits::yarn.
RopeParameters rope_parameters(const Json& json, const ConfigTraits& traits) {
  static const Json& kYarn = *new Json({{"rope_type", "yarn"},
                                        {"factor", 32},
                                        {"original_max_position_embeddings", 4096},
                                        {"truncate", false}});
  if (traits.yarn && !json_has(json, "rope_scaling") && !json_has(json, "rope_parameters"))
    return RopeParameters(kYarn);
  return agreeing(object_of(json, "rope_scaling"), object_of(json, "rope_parameters"), traits);
}

void refuse_layer_types(const RopeParameters& rope) {
  for (const Json* object : {&rope.older(), &rope.newer()})
    for (const auto& [key, value] : object->items())
      if (value.is_object())
        fail(Code::kUnsupportedModel, "rope parameters per layer type (", quote(key),
             ") are not supported for this architecture");
}

std::string rope_type(const RopeParameters& rope, const ConfigTraits& traits) {
  const std::string newer = stated_type(rope.newer(), traits);
  const std::string type = newer.empty() ? stated_type(rope.older(), traits) : newer;
  // An empty object is how v5 writes "nothing special"; one that scales must say how.
  if (type.empty() && rope.has("factor"))
    fail(Code::kFormat, "the rope parameters have a factor and no rope_type");
  return type.empty() ? "default" : type;
}

int32_t original_positions(const Json& json, const RopeParameters& rope) {
  const char* key = "original_max_position_embeddings";
  const Json& holder = json_has(json, key) ? json : rope.holder(key);  // Phi-3 has it outside
  return static_cast<int32_t>(json_int(holder, key, 1, ConfigLimits::kPositions));
}

void read_longrope(const Json& json, const RopeParameters& rope, ModelConfig& c) {
  c.rope.short_factor = factors(rope, "short_factor");
  c.rope.long_factor = factors(rope, "long_factor");
  c.rope.original_max_positions = original_positions(json, rope);
  const double longer = static_cast<double>(c.max_positions) / c.rope.original_max_positions;
  const double factor = rope.has("factor") ? positive(rope, "factor") : longer;
  c.rope.attention_factor = rope.has("attention_factor")
                                ? positive(rope, "attention_factor")
                                : longrope_attention_factor(factor, c.rope.original_max_positions);
}

void read_yarn(const Json& json, const RopeParameters& rope, ModelConfig& c) {
  const auto number = [&](const char* key, double absent) {
    return rope.has(key) ? positive(rope, key) : absent;
  };
  const bool stated = rope.has("original_max_position_embeddings") ||
                      json_has(json, "original_max_position_embeddings");
  c.rope.original_max_positions = stated ? original_positions(json, rope) : c.max_positions;
  c.rope.factor =
      number("factor", static_cast<double>(c.max_positions) / c.rope.original_max_positions);
  c.rope.beta_fast = number("beta_fast", 32);
  c.rope.beta_slow = number("beta_slow", 1);
  if (!(c.rope.beta_fast > c.rope.beta_slow))
    fail(Code::kFormat, "beta_fast (", c.rope.beta_fast, ") must be above beta_slow (",
         c.rope.beta_slow, ")");
  c.rope.truncate = json_bool(rope.holder("truncate"), "truncate", true);
  double factor = yarn_attention_factor(c.rope.factor);
  // 0 is none, as in transformers: files of DeepSeek's kind have "mscale_all_dim": 0.
  const auto has_number = [&](const char* key) {
    return rope.has(key) && json_float(rope.holder(key), key) != 0;
  };
  if (has_number("mscale") && has_number("mscale_all_dim"))
    factor = yarn_attention_factor(c.rope.factor, positive(rope, "mscale")) /
             yarn_attention_factor(c.rope.factor, positive(rope, "mscale_all_dim"));
  c.rope.attention_factor = number("attention_factor", factor);
}

void read_llama3(const Json& json, const RopeParameters& rope, ModelConfig& c) {
  c.rope.factor = positive(rope, "factor");
  c.rope.low_freq_factor = positive(rope, "low_freq_factor");
  c.rope.high_freq_factor = positive(rope, "high_freq_factor");
  c.rope.original_max_positions = original_positions(json, rope);
  if (!(c.rope.high_freq_factor > c.rope.low_freq_factor))
    fail(Code::kFormat, "high_freq_factor (", c.rope.high_freq_factor,
         ") must be above low_freq_factor (", c.rope.low_freq_factor, ")");
}

// Into c.rope. What `rope` leaves out may stand beside it; what it has counts.
void read_rope(const Json& json, const RopeParameters& rope, const char* theta_key, double theta,
               const ConfigTraits& traits, ModelConfig& c) {
  refuse_layer_types(rope);
  const auto either = [&](const char* key, double absent) {
    return json_float(rope.holder(key), key, json_float(json, key, absent));
  };
  c.rope.theta =
      json_float(rope.holder("rope_theta"), "rope_theta", json_float(json, theta_key, theta));
  if (traits.lfm2_keys) c.rope.theta = json_float(json, "theta", c.rope.theta);
  c.rope.partial_rotary_factor = either("partial_rotary_factor", traits.partial_rotary_factor);
  const std::string type = rope_type(rope, traits);
  if (type == "default") {
    c.rope.type = RopeType::kDefault;
  } else if (type == "linear") {
    c.rope.type = RopeType::kLinear;
    c.rope.factor = positive(rope, "factor");
  } else if (type == "dynamic") {
    c.rope.type = RopeType::kDynamic;
    c.rope.factor = positive(rope, "factor");
  } else if (type == "yarn") {
    c.rope.type = RopeType::kYarn;
    read_yarn(json, rope, c);
  } else if (type == "llama3") {
    c.rope.type = RopeType::kLlama3;
    read_llama3(json, rope, c);
  } else if (type == "longrope") {
    c.rope.type = RopeType::kLongrope;
    read_longrope(json, rope, c);
  } else {
    fail(Code::kUnsupportedModel, "rope type ", quote(type),
         " is not supported (supported: default, linear, dynamic, yarn, llama3, longrope)");
  }
}

// Model cards tell their readers to add yarn to the file, and nothing else: then the context is
// what it stretches the original one to. A shorter one than the original is a model that was cut.
void lengthen_context(ModelConfig& c) {
  if (c.rope.type != RopeType::kYarn || c.rope.original_max_positions > c.max_positions) return;
  const double stretched = c.rope.factor * c.rope.original_max_positions;
  if (stretched > static_cast<double>(ConfigLimits::kPositions))
    fail(Code::kFormat, "yarn by ", c.rope.factor, " from ", c.rope.original_max_positions,
         " positions gives ", stretched, "; at most ", ConfigLimits::kPositions, " are allowed");
  c.max_positions = std::max(c.max_positions, static_cast<int32_t>(stretched));
}

// Layers with a window have a table of their own. v5 says so by type of layer; v4 has the
// parameters of the others and, of these, the base alone.
void read_two_ropes(const Json& json, const ConfigTraits& traits, ModelConfig& c) {
  constexpr const char* kBase = "rope_local_base_freq";
  const Json& newer = object_of(json, "rope_parameters");
  const Json& windowed = object_of(newer, "sliding_attention");
  const Json& full = object_of(newer, "full_attention");
  const bool by_type = windowed.size() + full.size() > 0;
  if (!by_type && !newer.empty())
    fail(Code::kFormat, "\"rope_parameters\" is ", json_shown(newer),
         "; this architecture has them by type of layer, \"full_attention\" and ",
         "\"sliding_attention\"");
  const bool local = traits.window.rope_theta > 0;
  read_rope(json, RopeParameters(windowed), local ? kBase : "rope_theta",
            local ? traits.window.rope_theta : traits.rope_theta, traits, c);
  c.window_rope = c.rope;
  c.rope = {};
  read_rope(json, agreeing(object_of(json, "rope_scaling"), full, traits), "rope_theta",
            traits.rope_theta, traits, c);
  if (c.windows.empty()) c.window_rope.reset();
}

// Written for all types of layers that the architecture knows, whether the model has them or not.
bool has_ropes_by_type(const Json& json) {
  if (!json_has(json, "rope_parameters") || !json.at("rope_parameters").is_object()) return false;
  const Json& rope = json.at("rope_parameters");
  return json_has(rope, "full_attention") || json_has(rope, "sliding_attention");
}

// As transformers knows it, which has two names for one of them.
std::string activation_name(const Json& json, const char* key, const char* absent) {
  const std::string name = json_string(json, key, absent);
  return name == "swish" ? "silu" : name;
}

void check_activation(const Json& json, const char* key, const char* supported) {
  const std::string activation = activation_name(json, key, supported);
  if (activation != supported)
    fail(Code::kUnsupportedModel, "activation ", quote(activation),
         " is not supported (supported: \"", supported, "\")");
}

// Of the one activation that has it.
void check_number(const Json& json, const char* key, float supported) {
  const double value = json_float(json, key, supported);
  if (static_cast<float>(value) != supported)
    fail(Code::kUnsupportedModel, key, " is ", value, "; ", supported, " is supported");
}

// Of the gated feed-forward part.
ops::ActivationFn read_activation(const Json& json, const Architecture& architecture) {
  const ConfigTraits& traits = architecture.config;
  const char* const key = traits.activation_key;
  if (traits.activation == ops::ActivationFn::kClampedSwiglu) {
    check_activation(json, key, "silu");
    check_number(json, "swiglu_alpha", ops::kSwigluAlpha);
    check_number(json, "swiglu_limit", ops::kSwigluLimit);
    return traits.activation;
  }
  if (!json_has(json, key)) return traits.activation;
  const std::string name = activation_name(json, key, "");
  if (name == "silu") return ops::ActivationFn::kSilu;
  // Recurrent layers have it as well, where it is silu.
  const bool gelu = architecture.recurrent == Mixer::kNone;
  if (gelu && (name == "gelu_pytorch_tanh" || (traits.gelu_is_tanh && name == "gelu")))
    return ops::ActivationFn::kGeluTanh;
  fail(Code::kUnsupportedModel, "activation ", quote(name),
       " is not supported (supported: ", gelu ? "\"silu\", \"gelu_pytorch_tanh\")" : "\"silu\")");
}

// Layers that do not rotate: listed with 0, or every n-th.
void read_unrotated(const Json& json, const ConfigTraits& traits, ModelConfig& c) {
  constexpr const char* kList = "no_rope_layers";
  const auto layers = static_cast<size_t>(c.layers);
  if (json_has(json, kList)) {
    const Json& list = json.at(kList);
    if (!list.is_array() || list.size() < layers)
      fail(Code::kFormat, "\"", kList, "\" is ", json_shown(list), ", not a list of ", c.layers,
           " numbers");
    for (size_t i = 0; i < layers; ++i)
      c.unrotated.push_back(json_int_value(list[i], kList, 0, 1) == 0);
    return;
  }
  const auto every = static_cast<size_t>(json_int(
      json, "no_rope_layer_interval", 1, ConfigLimits::kLayers, traits.unrotated_interval));
  for (size_t i = 0; i < layers; ++i) c.unrotated.push_back((i + 1) % every == 0);
}

void refuse_unsupported(const Json& json, const Architecture& architecture) {
  if (architecture.feed_forward == FeedForward::kSquaredRelu) {
    check_activation(json, "mlp_hidden_act", "relu2");
    check_activation(json, "mamba_hidden_act", "silu");
  }
  if (json_bool(json, "is_encoder_decoder", false) || json_bool(json, "add_cross_attention", false))
    fail(Code::kUnsupportedModel, "encoder-decoder models are not supported");
}

// Their head has the tensors of one that labels whole texts, and reads each token.
void refuse_token_labels(const Json& json) {
  const auto list = json.find("architectures");
  if (list == json.end() || !list->is_array()) return;
  for (const Json& name : *list)
    if (name.is_string() && name.get_ref<const std::string&>().ends_with("ForTokenClassification"))
      fail(Code::kUnsupportedModel, "architecture ", json_shown(name),
           ": models that label single tokens are not supported");
}

// One id or a list of them; null and -1 mean none.
std::vector<int32_t> token_ids(const Json& json, const char* key, int32_t vocab) {
  std::vector<int32_t> ids;
  if (!json_has(json, key)) return ids;
  const Json& value = json.at(key);
  if (value.is_array() && value.size() > ConfigLimits::kEosIds)
    fail(Code::kFormat, "\"", key, "\" is ", json_shown(value), "; at most ", ConfigLimits::kEosIds,
         " are allowed");
  const auto take = [&](const Json& id) {
    const int64_t number = json_int_value(id, key, -1, ConfigLimits::kVocab);
    // Ids beyond the vocabulary occur in files cut down from larger ones; they can never be drawn.
    if (number >= 0 && number < vocab) ids.push_back(static_cast<int32_t>(number));
  };
  if (!value.is_array()) {
    take(value);
    return ids;
  }
  for (const Json& id : value) take(id);
  return ids;
}

int32_t intermediate_size(const Json& json, const ConfigTraits& traits) {
  constexpr int64_t kMax = ConfigLimits::kIntermediate;
  if (traits.shared_mlp)
    return static_cast<int32_t>(json_int(json, "shared_intermediate_size", 1, kMax, 1024));
  if (!traits.lfm2_keys) return static_cast<int32_t>(json_int(json, "intermediate_size", 1, kMax));
  // block_ff_dim goes first. Two thirds of it, for a block with a gate, are rounded up.
  const char* const key = json_has(json, "block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  int64_t size = json_int(json, key, 1, kMax, 12288);
  if (!json_bool(json, "block_auto_adjust_ff_dim", true)) return static_cast<int32_t>(size);
  constexpr const char* kMultiplier = "block_ffn_dim_multiplier";
  size = 2 * size / 3;
  const bool none = json.contains(kMultiplier) && json.at(kMultiplier).is_null();
  if (!none) {
    const double scaled = json_float(json, kMultiplier, 1) * static_cast<double>(size);
    if (!(scaled >= 1 && scaled <= kMax))
      fail(Code::kFormat, "two thirds of ", key, " times ", kMultiplier, " are ", scaled,
           ", outside [1, ", kMax, "]");
    const int64_t multiple = json_int(json, "block_multiple_of", 1, kMax, 256);
    size = (static_cast<int64_t>(scaled) + multiple - 1) / multiple * multiple;
  }
  if (size < 1 || size > kMax)
    fail(Code::kFormat, key, " becomes ", size, ", outside [1, ", kMax, "]");
  return static_cast<int32_t>(size);
}

// Whether tokens see those behind them. Two keys say so: the first one for windows that count both
// sides together, the second one, of transformers, for any architecture.
void read_direction(const Json& json, const Architecture& architecture, ModelConfig& c) {
  constexpr const char* kHalved = "use_bidirectional_attention";
  c.halved_windows = json_bool(json, kHalved, false);
  c.bidirectional =
      c.halved_windows || architecture.bidirectional || !json_bool(json, "is_causal", true);
  if (architecture.bidirectional) {
    c.head_temperature = json_float(json, "temperature", 1);
    if (!(c.head_temperature > 0))
      fail(Code::kFormat, "temperature is ", c.head_temperature, ", not above 0");
  }
  if (c.halved_windows && !c.windows.empty() && !architecture.config.window.own_rope)
    fail(Code::kUnsupportedModel, kHalved, " is true and some layers have a window of ",
         std::ranges::max(c.windows), "; architecture ", quote(c.architecture),
         " does not say whether it counts both sides");
}

bool is_rotated(const Json& json) {
  const std::string type = json_string(json, "position_embedding_type", "nope");
  if (type != "rope" && type != "nope")
    fail(Code::kUnsupportedModel, "position_embedding_type ", quote(type),
         " is not supported (supported: \"rope\", \"nope\")");
  return type == "rope";
}

void read_multipliers(const Json& json, ModelConfig& c) {
  c.embedding_multiplier = json_float(json, "embedding_multiplier", 1);
  c.residual_multiplier = json_float(json, "residual_multiplier", 1);
  c.logits_scaling = json_float(json, "logits_scaling", 1);
  c.attention_scale = json_float(json, "attention_multiplier", 1);
  if (c.attention_scale == 0) fail(Code::kFormat, "attention_multiplier is 0");
}

// Of scores and logits.
void read_scores(const Json& json, const ScoreTraits& traits, ModelConfig& c) {
  const double divisor = json_float(json, "query_pre_attn_scalar", traits.query_scale);
  if (!(divisor > 0)) fail(Code::kFormat, "query_pre_attn_scalar is ", divisor, ", not above 0");
  c.attention_scale = 1 / std::sqrt(divisor);
  const auto cap = [&](const char* key, double absent) {  // null: none
    return json.contains(key) && !json_has(json, key) ? 0 : json_float(json, key, absent);
  };
  if (traits.caps_scores) c.score_cap = cap("attn_logit_softcapping", traits.score_cap);
  c.logit_cap = cap("final_logit_softcapping", traits.logit_cap);
}

// The language model's part of the configuration of a vision-language model.
const Json& text_config(const Json& json, const Architecture& architecture) {
  constexpr const char* kKey = "text_config";
  if (!architecture.config.text_config || !json_has(json, kKey)) return json;
  const Json& text = json.at(kKey);
  if (!text.is_object())
    fail(Code::kFormat, "\"", kKey, "\" is ", json_shown(text), ", not an object");
  const std::string type = json_string(text, "model_type", std::string(architecture.name));
  if (&find_architecture(type) != &architecture)
    fail(Code::kUnsupportedModel, "\"", kKey, "\" has model_type ", quote(type), " beside ",
         quote(architecture.name));
  return text;
}

void read_shape(const Json& json, const Architecture& architecture, ModelConfig& c) {
  const ConfigTraits& traits = architecture.config;
  const auto count = [&](const char* key, int64_t max, int32_t absent = 0) {
    return absent > 0 && !json_has(json, key) ? absent
                                              : static_cast<int32_t>(json_int(json, key, 1, max));
  };
  c.vocab_size = count("vocab_size", ConfigLimits::kVocab, traits.vocab_size);
  c.hidden = count("hidden_size", ConfigLimits::kHidden);
  const int32_t listed = traits.layer_pattern ? listed_layers(json, architecture) : 0;
  c.layers = listed > 0 && !json_has(json, "num_hidden_layers")
                 ? static_cast<int32_t>(std::min<int64_t>(listed, ConfigLimits::kLayers))
                 : count("num_hidden_layers", ConfigLimits::kLayers);
  c.heads = count("num_attention_heads", ConfigLimits::kHeads, traits.heads);
  const bool grouped = json.contains("num_key_value_heads");  // null means: as many as heads
  const int64_t kv_heads = traits.kv_heads && !grouped ? traits.kv_heads : c.heads;
  c.kv_heads = static_cast<int32_t>(
      json_int(json, "num_key_value_heads", 1, ConfigLimits::kHeads, kv_heads));
  if (!json_has(json, "head_dim") && !traits.head_dim && c.hidden % c.heads != 0)
    fail(Code::kFormat, "hidden_size (", c.hidden, ") is not a multiple of num_attention_heads (",
         c.heads, "), and head_dim is missing");
  c.head_dim =
      static_cast<int32_t>(json_int(json, "head_dim", 1, ConfigLimits::kHeadDim,
                                    traits.head_dim ? traits.head_dim : c.hidden / c.heads));
  c.intermediate = intermediate_size(json, traits);
  c.max_positions =
      count("max_position_embeddings", ConfigLimits::kPositions, traits.max_positions);
}

// Transformers goes by the outer key, and writes the inner one with its default beside it.
bool ties_embeddings(const Json& whole, const Json& json, const ConfigTraits& traits) {
  constexpr const char* kTied = "tie_word_embeddings";
  const bool tied = json_bool(whole.contains(kTied) ? whole : json, kTied, traits.tied);
  return traits.lfm2_keys ? json_bool(json, "tie_embedding", tied) : tied;
}

void read_biases(const Json& json, const ConfigTraits& traits, ModelConfig& c) {
  c.attention_bias =
      traits.qkv_bias ||
      (json_bool(json, "attention_bias", traits.attention_biased) && traits.attention_bias);
  c.attention_output_bias = c.attention_bias && !traits.qkv_bias;
  c.mlp_bias = json_bool(json, "mlp_bias", false) && traits.mlp_bias;
}

void read_attention_gate(const Json& json, const Architecture& architecture, ModelConfig& c) {
  c.attention_gate = architecture.output_gate;
  if (c.attention_gate && !json_bool(json, "attn_output_gate", true))
    fail(Code::kUnsupportedModel, "attn_output_gate is false; architecture ", quote(c.architecture),
         " is supported with the gate only");
}

void read_rotation(const Json& json, const ConfigTraits& traits, ModelConfig& c) {
  c.rotates = traits.rotates && (!traits.named_positions || is_rotated(json));
  if (!c.rotates) return;
  if (traits.window.own_rope && (!c.windows.empty() || has_ropes_by_type(json)))
    read_two_ropes(json, traits, c);
  else
    read_rope(json, rope_parameters(json, traits), "rope_theta", traits.rope_theta, traits, c);
}

void read_special_tokens(const Json& whole, const Json& json, ModelConfig& c) {
  const auto ids = [&](const char* key) {
    return token_ids(json_has(json, key) ? json : whole, key, c.vocab_size);
  };
  c.eos_ids = ids("eos_token_id");
  const std::vector<int32_t> bos = ids("bos_token_id");
  if (!bos.empty()) c.bos_id = bos.front();
}

std::string dtype_of(const Json& json) {
  return json_string(json, "dtype", json_string(json, "torch_dtype", ""));
}

}  // namespace

ModelConfig config_from_json(const Json& whole) {
  if (!whole.is_object()) fail(Code::kFormat, "it is ", json_shown(whole), ", not an object");
  ModelConfig c;
  c.architecture = json_string(whole, "model_type", "");
  if (c.architecture.empty()) fail(Code::kFormat, "key \"model_type\" is missing");
  const Architecture& architecture = find_architecture(c.architecture);
  c.architecture = architecture.name;
  const ConfigTraits& traits = architecture.config;
  const Json& json = text_config(whole, architecture);
  refuse_token_labels(whole);
  refuse_unsupported(whole, architecture);
  if (&json != &whole) refuse_unsupported(json, architecture);

  read_shape(json, architecture, c);
  c.norm_eps = static_cast<float>(json_float(json, traits.norm_eps_key, traits.norm_eps));
  c.tie_embeddings = ties_embeddings(whole, json, traits);
  read_biases(json, traits, c);
  const bool has_windows = traits.window.layers != WindowLayers::kNone;
  if (has_windows) read_windows(json, architecture, c);
  read_direction(json, architecture, c);
  c.feed_forward = architecture.feed_forward;
  if (c.feed_forward == FeedForward::kGated) c.activation = read_activation(json, architecture);
  if (architecture.recurrent != Mixer::kNone) read_recurrent(json, architecture, c);
  if (traits.experts.count.name != nullptr) read_experts(json, architecture, c);
  if (traits.multipliers) read_multipliers(json, c);
  if (traits.scores.read) read_scores(json, traits.scores, c);
  if (traits.scaled_embedding) c.embedding_multiplier = std::sqrt(static_cast<double>(c.hidden));
  read_attention_gate(json, architecture, c);
  read_rotation(json, traits, c);
  lengthen_context(c);
  if (!has_windows) read_windows(json, architecture, c);  // refuses those shorter than the context
  if (traits.unrotated_interval > 0) read_unrotated(json, traits, c);
  read_special_tokens(whole, json, c);
  c.quantization = quant_config_from_json(json);
  if (c.quantization.method == QuantMethod::kNone) c.quantization = quant_config_from_json(whole);
  c.dtype = dtype_of(json);
  if (c.dtype.empty()) c.dtype = dtype_of(whole);
  check_config(c);
  return c;
}

void apply_generation_config(const Json& json, ModelConfig& config) {
  if (!json.is_object()) fail(Code::kFormat, "it is ", json_shown(json), ", not an object");
  if (json_has(json, "eos_token_id"))
    config.eos_ids = token_ids(json, "eos_token_id", config.vocab_size);
}

}  // namespace prefix
