#include "model/config.h"

#include <cmath>

#include "base/status.h"
#include "model/architecture.h"

namespace prefix {
namespace {

constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxPositions = 1 << 24;

// Rules that hold whatever the source.
void check(const ModelConfig& c) {
  if (c.heads % c.kv_heads != 0)
    fail(Code::kFormat, "num_attention_heads (", c.heads,
         ") is not a multiple of num_key_value_heads (", c.kv_heads, ")");
  if (c.head_dim % 2 != 0) fail(Code::kFormat, "head_dim is ", c.head_dim, ", an odd number");
  if (!(c.norm_eps > 0 && c.norm_eps < 1))
    fail(Code::kFormat, "rms_norm_eps is ", c.norm_eps, ", outside (0, 1)");
  if (!(c.rope.theta > 0)) fail(Code::kFormat, "rope_theta is ", c.rope.theta, ", not positive");
  if (!(c.rope.partial_rotary_factor > 0 && c.rope.partial_rotary_factor <= 1))
    fail(Code::kFormat, "partial_rotary_factor is ", c.rope.partial_rotary_factor,
         ", outside (0, 1]");
}

std::vector<double> factors(const Json& rope, const char* key) {
  std::vector<double> list;
  if (!rope.contains(key) || !rope.at(key).is_array())
    fail(Code::kFormat, "rope parameter \"", key, "\" must be a list");
  for (const Json& v : rope.at(key)) {
    if (!v.is_number() || !(v.get<double>() > 0))
      fail(Code::kFormat, "rope parameter \"", key, "\" holds ", v.dump(), ", not a positive number");
    list.push_back(v.get<double>());
  }
  return list;
}

double positive(const Json& rope, const char* key) {
  const double value = json_float(rope, key);
  if (!(value > 0)) fail(Code::kFormat, "rope parameter \"", key, "\" is ", value, ", not positive");
  return value;
}

// v4: rope_theta beside rope_scaling {type or rope_type, ...}; v5: rope_parameters with both.
RopeConfig rope_from_json(const Json& json) {
  RopeConfig rope;
  Json scaling = Json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (json_has(json, key)) scaling = json.at(key);
  if (!scaling.is_object()) fail(Code::kFormat, "the rope parameters are not an object");
  if (scaling.contains("full_attention") || scaling.contains("sliding_attention"))
    fail(Code::kUnsupportedModel, "rope parameters per layer type are not supported");
  rope.theta = json_float(scaling, "rope_theta", json_float(json, "rope_theta", 10000));
  rope.partial_rotary_factor = json_float(scaling, "partial_rotary_factor",
                                          json_float(json, "partial_rotary_factor", 1));
  const std::string type = json_string(scaling, "rope_type", json_string(scaling, "type", "default"));
  const auto original = [&] {
    const int64_t outer = json_int(json, "original_max_position_embeddings", 1, kMaxPositions, 0);
    return static_cast<int32_t>(
        outer > 0 ? outer : json_int(scaling, "original_max_position_embeddings", 1, kMaxPositions));
  };
  if (type == "default") {
    rope.type = RopeType::kDefault;
  } else if (type == "linear") {
    rope.type = RopeType::kLinear;
    rope.factor = positive(scaling, "factor");
  } else if (type == "llama3") {
    rope.type = RopeType::kLlama3;
    rope.factor = positive(scaling, "factor");
    rope.low_freq_factor = positive(scaling, "low_freq_factor");
    rope.high_freq_factor = positive(scaling, "high_freq_factor");
    if (!(rope.high_freq_factor > rope.low_freq_factor))
      fail(Code::kFormat, "high_freq_factor (", rope.high_freq_factor,
           ") must be above low_freq_factor (", rope.low_freq_factor, ")");
    rope.original_max_positions = original();
  } else if (type == "longrope") {
    rope.type = RopeType::kLongrope;
    rope.short_factor = factors(scaling, "short_factor");
    rope.long_factor = factors(scaling, "long_factor");
    rope.attention_factor = json_float(scaling, "attention_factor", 0);
    rope.original_max_positions = original();
  } else {
    fail(Code::kUnsupportedModel, "rope type \"", type,
         "\" is not supported (supported: default, linear, llama3, longrope)");
  }
  return rope;
}

void refuse_unsupported(const Json& json) {
  const std::string activation = json_string(json, "hidden_act", "silu");
  if (activation != "silu")
    fail(Code::kUnsupportedModel, "activation \"", activation, "\" is not supported (supported: silu)");
  if (json_has(json, "quantization_config"))
    fail(Code::kUnsupportedModel,
         "checkpoints with a quantization_config are not supported; use the bf16 weights or a GGUF file");
  const bool windows = json_bool(json, "use_sliding_window", json_has(json, "sliding_window") &&
                                                                 !json.contains("use_sliding_window"));
  if (windows && json_has(json, "sliding_window")) {
    // A window at least as long as the context never cuts anything.
    const int64_t window = json_int(json, "sliding_window", 1, INT32_MAX);
    const int64_t context = json_int(json, "max_position_embeddings", 1, kMaxPositions);
    if (window < context - 1)
      fail(Code::kUnsupportedModel, "sliding_window = ", window, " is shorter than the context of ",
           context, ": sliding-window attention is not supported");
  }
  if (json_has(json, "layer_types"))
    for (const Json& type : json.at("layer_types"))
      if (type != "full_attention")
        fail(Code::kUnsupportedModel, "layer type ", type.dump(), " is not supported");
}

std::vector<int32_t> token_ids(const Json& json, const char* key, int32_t vocab) {
  std::vector<int32_t> ids;
  if (!json_has(json, key)) return ids;
  const Json& value = json.at(key);
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    const Json wrapped = {{key, id}};
    ids.push_back(static_cast<int32_t>(json_int(wrapped, key, -1, kMaxVocab)));
    if (ids.back() < 0 || ids.back() >= vocab) ids.pop_back();  // "none" in older exports
  }
  return ids;
}

}  // namespace

ModelConfig config_from_json(const Json& json) {
  if (!json.is_object()) fail(Code::kFormat, "config.json is not an object");
  ModelConfig c;
  c.architecture = json_string(json, "model_type", "");
  if (c.architecture.empty()) fail(Code::kFormat, "config.json has no model_type");
  find_architecture(c.architecture);
  refuse_unsupported(json);
  const auto count = [&](const char* key, int64_t most) {
    return static_cast<int32_t>(json_int(json, key, 1, most));
  };
  c.vocab_size = count("vocab_size", kMaxVocab);
  c.hidden = count("hidden_size", kMaxWidth);
  c.layers = count("num_hidden_layers", kMaxLayers);
  c.heads = count("num_attention_heads", kMaxHeads);
  c.kv_heads = static_cast<int32_t>(json_int(json, "num_key_value_heads", 1, kMaxHeads, c.heads));
  // Qwen3 fixes the head dimension; the others derive it from the width.
  const int64_t derived = c.architecture == "qwen3" ? 128 : c.hidden / c.heads;
  c.head_dim = static_cast<int32_t>(json_int(json, "head_dim", 1, kMaxHeadDim, derived));
  c.intermediate = count("intermediate_size", kMaxWidth);
  c.max_positions = count("max_position_embeddings", kMaxPositions);
  c.norm_eps = static_cast<float>(json_float(json, "rms_norm_eps", c.architecture == "phi3" || c.architecture == "olmo2" ? 1e-5 : 1e-6));
  c.tie_embeddings = json_bool(json, "tie_word_embeddings", false);
  c.attention_bias = json_bool(json, "attention_bias", false) && c.architecture != "phi3";
  c.attention_output_bias = c.attention_bias;
  c.mlp_bias = json_bool(json, "mlp_bias", false) && c.architecture == "llama";
  c.rope = rope_from_json(json);
  c.eos_ids = token_ids(json, "eos_token_id", c.vocab_size);
  check(c);
  return c;
}

ModelConfig config_from_gguf(const GgufMetadata& m, const TensorSource& tensors) {
  ModelConfig c;
  c.from_gguf = true;
  c.architecture = m.text("general.architecture", "");
  if (c.architecture.empty()) fail(Code::kFormat, "GGUF key \"general.architecture\" is missing");
  find_architecture(c.architecture);
  const std::string a = c.architecture + ".";
  const auto count = [&](const char* key, int64_t most) {
    return static_cast<int32_t>(m.integer(a + key, 1, most));
  };
  const Tensor* embedding = tensors.find("token_embd.weight");
  if (!embedding || embedding->shape.size() != 2)
    fail(Code::kFormat, "tensor \"token_embd.weight\" is missing or not a matrix");
  if (embedding->shape[0] > kMaxVocab)
    fail(Code::kFormat, "tensor \"token_embd.weight\" has ", embedding->shape[0], " rows; at most ",
         kMaxVocab);
  c.vocab_size = static_cast<int32_t>(embedding->shape[0]);
  c.hidden = count("embedding_length", kMaxWidth);
  c.layers = count("block_count", kMaxLayers);
  c.heads = count("attention.head_count", kMaxHeads);
  c.kv_heads = static_cast<int32_t>(m.integer(a + "attention.head_count_kv", 1, kMaxHeads, c.heads));
  c.head_dim = static_cast<int32_t>(
      m.integer(a + "attention.key_length", 1, kMaxHeadDim, c.hidden / c.heads));
  c.intermediate = count("feed_forward_length", kMaxWidth);
  c.max_positions = count("context_length", kMaxPositions);
  c.norm_eps = static_cast<float>(m.number(a + "attention.layer_norm_rms_epsilon"));
  c.tie_embeddings = !tensors.find("output.weight");
  c.qk_permuted = c.architecture == "llama";
  c.rope.theta = m.number(a + "rope.freq_base", 10000);
  const int64_t rotary = m.integer(a + "rope.dimension_count", 2, c.head_dim, c.head_dim);
  c.rope.partial_rotary_factor = static_cast<double>(rotary) / c.head_dim;
  const std::string scaling = m.text(a + "rope.scaling.type", "none");
  if (scaling == "linear") {
    c.rope.type = RopeType::kLinear;
    c.rope.factor = m.number(a + "rope.scaling.factor");
    if (!(c.rope.factor > 0)) fail(Code::kFormat, "rope.scaling.factor is ", c.rope.factor);
  } else if (scaling != "none") {
    fail(Code::kUnsupportedModel, "GGUF rope scaling \"", scaling,
         "\" is not supported (supported: none, linear)");
  }
  if (m.has(a + "attention.sliding_window") &&
      m.integer(a + "attention.sliding_window", 0, INT32_MAX) > 0 &&
      m.integer(a + "attention.sliding_window", 0, INT32_MAX) < c.max_positions - 1)
    fail(Code::kUnsupportedModel, "sliding-window attention is not supported");
  if (tensors.find("rope_factors_long.weight"))
    fail(Code::kUnsupportedModel, "longrope factors in GGUF files are not supported");
  if (const Tensor* freqs = tensors.find("rope_freqs.weight")) {
    if (freqs->shape != std::vector<int64_t>{rotary / 2})
      fail(Code::kFormat, "tensor \"rope_freqs.weight\" must have ", rotary / 2, " values");
    c.rope.frequency_divisors.resize(static_cast<size_t>(rotary / 2));
    read_row(*freqs, 0, c.rope.frequency_divisors.data());
  }
  const int64_t eos = m.integer("tokenizer.ggml.eos_token_id", 0, kMaxVocab, -1);
  if (eos >= 0 && eos < c.vocab_size) c.eos_ids.push_back(static_cast<int32_t>(eos));
  check(c);
  return c;
}

}  // namespace prefix
