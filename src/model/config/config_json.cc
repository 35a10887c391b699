// config.json of a Hugging Face model, in the spelling of transformers v4 ("torch_dtype") or v5
// ("dtype").
#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/quote.h"
#include "base/status.h"
#include "model/architecture.h"
#include "model/config/config.h"
#include "model/config/config_json_experts.h"
#include "model/config/config_json_recurrent.h"
#include "model/config/config_json_rope.h"
#include "model/config/config_json_windows.h"

namespace prefix {
namespace {

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
