// The configuration in GGUF metadata. Keys are prefixed with the architecture's name:
// llama.embedding_length, llama.attention.head_count, ...
#include <algorithm>

#include "base/quote.h"
#include "base/status.h"
#include "model/architecture.h"
#include "model/config.h"

namespace prefix {
namespace {

// Keys that change what is computed, in ways the architectures here do not have. A writer that
// sets one of them means another model than the one that would be run.
constexpr const char* kForeignKeys[] = {
    "attention.alibi_bias_max",
    "attention.clamp_kqv",
    "attention.scale",
    "attn_logit_softcapping",
    "embedding_scale",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "rope.scale_linear",
    "attention.q_lora_rank",
    "attention.kv_lora_rank",
    "attention.layer_norm_epsilon",
    "attention.relative_buckets_count",
};

// The values of a small tensor; null when the file has none of that name.
std::vector<float> vector_tensor(const TensorSource& tensors, const char* name, int32_t length) {
  const Tensor* t = tensors.find(name);
  if (!t) return {};
  if (t->shape != std::vector<int64_t>{length})
    fail(Code::kFormat, "tensor \"", name, "\" must be a vector of ", length, " values");
  std::vector<float> values(static_cast<size_t>(length));
  read_row(*t, 0, values.data());
  for (const float v : values)
    if (!(v > 0 && v <= 1e9f))
      fail(Code::kFormat, "tensor \"", name, "\" holds ", v, ", outside (0, 1e9]");
  return values;
}

class GgufConfigReader {
 public:
  GgufConfigReader(const GgufMetadata& metadata, const TensorSource& tensors)
      : m_(metadata), tensors_(tensors) {}

  ModelConfig read() {
    c_.from_gguf = true;
    const std::string kind = m_.text("general.type", "model");
    if (kind != "model")
      fail(Code::kUnsupportedModel, "the file holds a ", quote(kind), ", not a model");
    c_.architecture = m_.text("general.architecture");
    const ConfigTraits& traits = find_architecture(c_.architecture).config;
    prefix_ = c_.architecture + ".";
    refuse_unsupported();
    sizes();
    c_.norm_eps = static_cast<float>(m_.number(key("attention.layer_norm_rms_epsilon")));
    c_.tie_embeddings = !tensors_.find("output.weight");
    c_.qk_permuted = traits.gguf_permuted;
    c_.attention_bias = traits.qkv_bias;
    windows();
    rope();
    token_ids();
    check_config(c_);
    if (c_.rope.type == RopeType::kDefault || c_.rope.type == RopeType::kLinear)
      c_.rope.frequency_divisors =
          vector_tensor(tensors_, "rope_freqs.weight", c_.rotary_dim() / 2);
    return c_;
  }

 private:
  std::string key(const char* name) const { return prefix_ + name; }
  int32_t count(const char* name, int64_t max) const {
    return static_cast<int32_t>(m_.integer(key(name), 1, max));
  }

  void refuse_unsupported() const {
    if (m_.has(key("expert_count")) && m_.integer(key("expert_count"), 0, INT32_MAX) > 0)
      fail(Code::kUnsupportedModel, "GGUF key ", quote(key("expert_count")), " is ",
           m_.integer(key("expert_count"), 0, INT32_MAX),
           "; mixtures of experts are not supported");
    if (!m_.boolean(key("attention.causal"), true))
      fail(Code::kUnsupportedModel, "GGUF key ", quote(key("attention.causal")),
           " is false; attention to later tokens is not supported");
    for (const char* name : kForeignKeys)
      if (m_.has(key(name)))
        fail(Code::kUnsupportedModel, "GGUF key ", quote(key(name)),
             " is not supported for this architecture");
  }

  void sizes() {
    const Tensor* embedding = tensors_.find("token_embd.weight");
    if (!embedding || embedding->shape.size() != 2)
      fail(Code::kFormat, "tensor \"token_embd.weight\" is missing or not a matrix");
    if (embedding->shape[0] > ConfigLimits::kVocab)
      fail(Code::kFormat, "tensor \"token_embd.weight\" has ", embedding->shape[0],
           " rows; at most ", ConfigLimits::kVocab, " are allowed");
    c_.vocab_size = static_cast<int32_t>(embedding->shape[0]);
    // Some writers count padding in one of the two, so only a smaller table is wrong.
    const int64_t stated = m_.integer(key("vocab_size"), 1, ConfigLimits::kVocab, c_.vocab_size);
    if (stated > c_.vocab_size)
      fail(Code::kFormat, "GGUF key ", quote(key("vocab_size")), " is ", stated,
           "; tensor \"token_embd.weight\" has only ", c_.vocab_size, " rows");
    c_.hidden = count("embedding_length", ConfigLimits::kHidden);
    c_.layers = count("block_count", ConfigLimits::kLayers);
    c_.heads = count("attention.head_count", ConfigLimits::kHeads);
    c_.kv_heads = static_cast<int32_t>(
        m_.integer(key("attention.head_count_kv"), 1, ConfigLimits::kHeads, c_.heads));
    if (!m_.has(key("attention.key_length")) && c_.hidden % c_.heads != 0)
      fail(Code::kFormat, "embedding_length (", c_.hidden, ") is not a multiple of head_count (",
           c_.heads, "), and attention.key_length is missing");
    c_.head_dim = static_cast<int32_t>(
        m_.integer(key("attention.key_length"), 1, ConfigLimits::kHeadDim, c_.hidden / c_.heads));
    const int64_t values =
        m_.integer(key("attention.value_length"), 1, ConfigLimits::kHeadDim, c_.head_dim);
    if (values != c_.head_dim)
      fail(Code::kUnsupportedModel, "heads with ", c_.head_dim, " key and ", values,
           " value dimensions are not supported");
    c_.intermediate = count("feed_forward_length", ConfigLimits::kIntermediate);
    c_.max_positions = count("context_length", ConfigLimits::kPositions);
  }

  void windows() const {
    const int64_t window = m_.integer(key("attention.sliding_window"), 0, INT32_MAX, 0);
    if (window > 0 && window < c_.max_positions)
      fail(Code::kUnsupportedModel, "GGUF key ", quote(key("attention.sliding_window")), " is ",
           window, ", shorter than the context of ", c_.max_positions,
           "; sliding-window attention is not supported");
  }

  void rope() {
    c_.rope.theta = m_.number(key("rope.freq_base"), 10000);
    const int64_t rotary = m_.integer(key("rope.dimension_count"), 2, c_.head_dim, c_.head_dim);
    c_.rope.partial_rotary_factor = static_cast<double>(rotary) / c_.head_dim;
    const std::string scaling = m_.text(key("rope.scaling.type"), "none");
    if (tensors_.find("rope_factors_long.weight") || scaling == "longrope") {
      longrope(static_cast<int32_t>(rotary / 2));
    } else if (scaling == "linear") {
      c_.rope.type = RopeType::kLinear;
      c_.rope.factor = m_.number(key("rope.scaling.factor"));
      if (!(c_.rope.factor > 0 && c_.rope.factor <= 1e9))
        fail(Code::kFormat, "GGUF key ", quote(key("rope.scaling.factor")), " is ", c_.rope.factor,
             ", outside (0, 1e9]");
    } else if (scaling != "none") {
      fail(Code::kUnsupportedModel, "GGUF rope scaling ", quote(scaling),
           " is not supported (supported: none, linear, longrope)");
    }
  }

  // The factors are two small tensors; the rest are keys.
  void longrope(int32_t frequencies) {
    RopeConfig& rope = c_.rope;
    rope.type = RopeType::kLongrope;
    const auto factors = [&](const char* name) {
      const std::vector<float> values = vector_tensor(tensors_, name, frequencies);
      if (values.empty()) fail(Code::kFormat, "tensor \"", name, "\" of longrope is missing");
      return std::vector<double>(values.begin(), values.end());
    };
    rope.short_factor = factors("rope_factors_short.weight");
    rope.long_factor = factors("rope_factors_long.weight");
    rope.original_max_positions =
        count("rope.scaling.original_context_length", ConfigLimits::kPositions);
    const double longer = static_cast<double>(c_.max_positions) / rope.original_max_positions;
    rope.attention_factor =
        m_.number(key("rope.scaling.attn_factor"),
                  longrope_attention_factor(longer, rope.original_max_positions));
    if (!(rope.attention_factor > 0 && rope.attention_factor <= 1e9))
      fail(Code::kFormat, "GGUF key ", quote(key("rope.scaling.attn_factor")), " is ",
           rope.attention_factor, ", outside (0, 1e9]");
  }

  void token_ids() {
    const auto id = [&](const char* name) {
      const int64_t value = m_.integer(name, 0, INT64_MAX, -1);
      return value < c_.vocab_size ? static_cast<int32_t>(value) : -1;
    };
    c_.bos_id = id("tokenizer.ggml.bos_token_id");
    // "End of turn" and "end of message" end an answer as well.
    for (const char* name : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                             "tokenizer.ggml.eom_token_id"}) {
      const int32_t end = id(name);
      if (end >= 0 && std::find(c_.eos_ids.begin(), c_.eos_ids.end(), end) == c_.eos_ids.end())
        c_.eos_ids.push_back(end);
    }
  }

  const GgufMetadata& m_;
  const TensorSource& tensors_;
  ModelConfig c_;
  std::string prefix_;
};

}  // namespace

ModelConfig config_from_gguf(const GgufMetadata& metadata, const TensorSource& tensors) {
  return GgufConfigReader(metadata, tensors).read();
}

}  // namespace prefix
