// The configuration in GGUF metadata. Keys are prefixed with the architecture's name:
// llama.embedding_length, llama.attention.head_count, ...
#include <algorithm>
#include <cmath>

#include "base/quote.h"
#include "base/status.h"
#include "model/architecture.h"
#include "model/config/config.h"
#include "model/files/gguf_metadata.h"

namespace prefix {
namespace {

// Keys that change what is computed, in ways the architectures here do not have. A writer that
// sets one of them means another model than the one that would be run.
constexpr const char* kForeignKeys[] = {
    "attention.max_alibi_bias",
    "attention.alibi_bias_max",
    "attention.clamp_kqv",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "attention.temperature_scale",
    "rope.scale_linear",
    "attention.q_lora_rank",
    "attention.kv_lora_rank",
    "attention.layer_norm_epsilon",
    "attention.relative_buckets_count",
};
constexpr const char* kMultiplierKeys[] = {"attention.scale", "embedding_scale", "logit_scale",
                                           "residual_scale"};

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
    prefix_ = c_.architecture + ".";
    const Architecture& architecture = find(c_.architecture);
    const ConfigTraits& traits = architecture.config;
    c_.architecture = architecture.name;
    refuse_unsupported(traits);
    sizes(architecture);
    c_.feed_forward = architecture.feed_forward;
    if (architecture.recurrent != Mixer::kNone) recurrent(architecture);
    c_.activation = traits.activation;
    if (traits.experts.count.name != nullptr) experts(traits);
    if (traits.multipliers) multipliers();
    if (traits.scores.read) scores(traits.scores);
    if (traits.scaled_embedding)
      c_.embedding_multiplier = std::sqrt(static_cast<double>(c_.hidden));
    c_.attention_gate = architecture.output_gate;
    // llama.cpp's switch for models of this kind; its default is to rotate.
    c_.rotates = traits.rotates &&
                 (!traits.named_positions || m_.boolean(key("rope.scaling.finetuned"), true));
    c_.norm_eps = static_cast<float>(m_.number(key("attention.layer_norm_rms_epsilon")));
    c_.tie_embeddings = !tensors_.find("output.weight");
    c_.qk_permuted = traits.gguf_permuted;
    c_.attention_bias = traits.qkv_bias;
    windows(traits.window);
    direction(architecture);
    if (c_.rotates) rope(traits);
    for (int32_t i = 0; traits.unrotated_interval > 0 && i < c_.layers; ++i)
      c_.unrotated.push_back((i + 1) % traits.unrotated_interval == 0);
    token_ids();
    check_config(c_);
    if (c_.rotates && c_.rope.type != RopeType::kLongrope)
      c_.rope.frequency_divisors =
          vector_tensor(tensors_, "rope_freqs.weight", c_.rotary_dim() / 2);
    return c_;
  }

 private:
  const Architecture& find(const std::string& name) const {
    if (name == "mistral3")  // as in config.json it is another model
      fail(Code::kUnsupportedModel, "GGUF architecture ", quote(name), " is not supported");
    const Architecture& named = find_architecture(name);
    const auto is_other = [&](std::string_view other, const char* sign) {
      return !other.empty() && m_.integer(key(sign), 0, INT32_MAX, 0) > 0;
    };
    if (is_other(named.windowed_gguf, "attention.sliding_window"))
      return find_architecture(named.windowed_gguf);
    if (is_other(named.experts_gguf, "expert_count")) return find_architecture(named.experts_gguf);
    return named;
  }
  std::string key(const char* name) const { return prefix_ + name; }
  int32_t count(const char* name, int64_t max) const {
    return static_cast<int32_t>(m_.integer(key(name), 1, max));
  }

  void refuse_unsupported(const ConfigTraits& traits) const {
    if (traits.experts.count.name == nullptr &&
        m_.integer(key("expert_count"), 0, INT32_MAX, 0) > 0)
      fail(Code::kUnsupportedModel, "GGUF key ", quote(key("expert_count")), " is ",
           m_.integer(key("expert_count"), 0, INT32_MAX),
           "; experts are not supported for this architecture");
    // Converters repeat what config.json calls the epsilon of all norms.
    const std::string repeated = std::string("attention.") + traits.norm_eps_key;
    for (const char* name : kForeignKeys)
      if (name != repeated &&
          !(traits.scores.read && std::string_view(name).ends_with("softcapping")))
        refuse(name);
    if (!traits.multipliers)
      for (const char* name : kMultiplierKeys) refuse(name);
  }
  void refuse(const char* name) const {
    if (m_.has(key(name)))
      fail(Code::kUnsupportedModel, "GGUF key ", quote(key(name)),
           " is not supported for this architecture");
  }

  // llama.cpp gives a model windows of both sides only where its architecture is made for it.
  void direction(const Architecture& architecture) {
    const char* const name = "attention.causal";
    c_.bidirectional = architecture.bidirectional || !m_.boolean(key(name), true);
    c_.halved_windows = architecture.bidirectional && architecture.config.window.own_rope;
    if (c_.bidirectional && !c_.windows.empty() && !c_.halved_windows)
      fail(Code::kUnsupportedModel, "GGUF key ", quote(key(name)),
           " is false and some layers have ", "a window of ", std::ranges::max(c_.windows),
           "; architecture ", quote(c_.architecture), " does not say whether it counts both sides");
  }

  // llama.cpp leaves out, or writes as 0, a factor that does nothing.
  void multipliers() {
    const auto factor = [&](const char* name, double none) {
      const double value = m_.number(key(name), 0);
      return value == 0 ? none : value;
    };
    c_.embedding_multiplier = factor("embedding_scale", 1);
    c_.residual_multiplier = factor("residual_scale", 1);
    c_.logits_scaling = factor("logit_scale", 1);
    c_.attention_scale = factor("attention.scale", 0);
  }

  void scores(const ScoreTraits& traits) {
    if (traits.caps_scores)
      c_.score_cap = m_.number(key("attn_logit_softcapping"), traits.score_cap);
    c_.logit_cap = m_.number(key("final_logit_softcapping"), traits.logit_cap);
    if (c_.layers == traits.wide_layers)
      c_.attention_scale = 1 / std::sqrt(static_cast<double>(c_.hidden) / c_.heads);
  }

  // Of each block.
  std::vector<int64_t> list(const char* name, int64_t most, int64_t least = 0) const {
    return m_.integers(key(name), static_cast<size_t>(c_.layers + c_.draft_layers), least, most);
  }
  // Of a list with 0, if that is the least, for layers that have no such thing;
  // the others must agree. `absent`: of none.
  int32_t listed(const char* name, int64_t most, int32_t absent, int64_t least = 0) const {
    int64_t found = 0;
    for (const int64_t each : list(name, most, least)) {
      if (each == 0) continue;
      if (found != 0 && each != found)
        fail(Code::kUnsupportedModel, "GGUF key ", quote(key(name)), " holds ", found, " and ",
             each, "; layers of different sizes are not supported");
      found = each;
    }
    return static_cast<int32_t>(found == 0 ? absent : found);
  }

  // One number for all layers, which some writers repeat for each.
  int32_t repeated(const char* name, int64_t most) const {
    return m_.is_list(key(name)) ? listed(name, most, 0, 1) : count(name, most);
  }

  // A list of the layers; or no key-value heads where a layer is not of attention, and in models of
  // single blocks a width where it is feed-forward; or attention at an interval.
  void layer_kinds(const Architecture& architecture) {
    const auto layers = static_cast<size_t>(c_.layers);
    const int32_t interval = architecture.config.attention_interval;
    c_.layer_kinds.assign(layers, LayerKind::kAttention);
    const auto take = [&](const std::vector<int64_t>& values, LayerKind kind, auto has_kind) {
      for (size_t i = 0; i < layers; ++i)
        if (has_kind(values[i])) c_.layer_kinds[i] = kind;
    };
    const auto none = [](int64_t v) { return v == 0; };
    const auto some = [](int64_t v) { return v != 0; };
    if (m_.has(key("attention.recurrent_layers"))) {
      take(list("attention.recurrent_layers", 1), LayerKind::kRecurrent, some);
    } else if (m_.is_list(key("attention.head_count_kv"))) {
      take(list("attention.head_count_kv", ConfigLimits::kHeads), LayerKind::kRecurrent, none);
    } else if (interval > 0) {
      const auto every = static_cast<size_t>(
          m_.integer(key("full_attention_interval"), 1, ConfigLimits::kLayers, interval));
      for (size_t i = 0; i < layers; ++i)
        if ((i + 1) % every != 0) c_.layer_kinds[i] = LayerKind::kRecurrent;
    }
    if (architecture.single_blocks)
      take(list("feed_forward_length", ConfigLimits::kIntermediate), LayerKind::kFeedForward, some);
  }

  void recurrent(const Architecture& architecture) {
    layer_kinds(architecture);
    if (c_.recurrent_count() == 0) return;
    RecurrentConfig& r = c_.recurrent;
    r.mixer = architecture.recurrent;
    if (r.mixer == Mixer::kShortConv) {
      r.heads = r.groups = 1;
      r.head_dim = c_.hidden;
      r.conv_width =
          static_cast<int32_t>(m_.integer(key("shortconv.l_cache"), 2, ConfigLimits::kConvWidth));
      return;
    }
    r.heads = count("ssm.time_step_rank", ConfigLimits::kHeads);
    r.groups = count("ssm.group_count", ConfigLimits::kHeads);
    r.state = count("ssm.state_size", ConfigLimits::kHeadDim);
    r.conv_width =
        static_cast<int32_t>(m_.integer(key("ssm.conv_kernel"), 2, ConfigLimits::kConvWidth));
    const int32_t inner = count("ssm.inner_size", ConfigLimits::kIntermediate);
    if (inner % r.heads != 0 || inner / r.heads > ConfigLimits::kHeadDim)
      fail(Code::kFormat, "GGUF key ", quote(key("ssm.inner_size")), " is ", inner,
           "; it does not give ", r.heads, " heads of at most ", ConfigLimits::kHeadDim);
    r.head_dim = inner / r.heads;
  }

  // The weights of a token's experts sum to 1 unless a key says otherwise.
  void experts(const ConfigTraits& traits) {
    ExpertConfig& e = c_.experts;
    e.shared = traits.shared_mlp;
    // Such models may have none.
    if (e.shared && m_.integer(key("expert_count"), 0, ConfigLimits::kExperts, 0) == 0) return;
    e.count = static_cast<int32_t>(m_.integer(key("expert_count"), 1, ConfigLimits::kExperts));
    e.per_token = static_cast<int32_t>(m_.integer(key("expert_used_count"), 1, e.count));
    constexpr const char* kOwn = "expert_feed_forward_length";
    const bool own = !e.shared && traits.experts.intermediate.name != nullptr;
    e.intermediate = repeated(own || m_.has(key(kOwn)) ? kOwn : "feed_forward_length",
                              ConfigLimits::kIntermediate);
    e.normalized = m_.boolean(key("expert_weights_norm"), true);
    e.biased = traits.experts.biased;
    for (int32_t i = 0; i < c_.layers; ++i)
      e.layers.push_back(tensors_.find("blk." + std::to_string(i) + ".ffn_gate_inp.weight") !=
                         nullptr);
  }

  void sizes(const Architecture& architecture) {
    const ConfigTraits& traits = architecture.config;
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
    // Counted among the blocks, behind the others.
    if (traits.attention_interval > 0)
      c_.draft_layers =
          static_cast<int32_t>(m_.integer(key("nextn_predict_layers"), 0, c_.layers - 1, 0));
    c_.layers -= c_.draft_layers;
    c_.heads = repeated("attention.head_count", ConfigLimits::kHeads);
    c_.kv_heads = m_.is_list(key("attention.head_count_kv"))
                      ? listed("attention.head_count_kv", ConfigLimits::kHeads, c_.heads,
                               architecture.recurrent != Mixer::kNone ? 0 : 1)
                      : static_cast<int32_t>(m_.integer(key("attention.head_count_kv"), 1,
                                                        ConfigLimits::kHeads, c_.heads));
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
    // That of the experts, if any, where both are there.
    const bool shared = traits.shared_mlp && m_.integer(key("expert_shared_feed_forward_length"), 0,
                                                        ConfigLimits::kIntermediate, 0) > 0;
    c_.intermediate =
        architecture.single_blocks
            ? listed("feed_forward_length", ConfigLimits::kIntermediate, 1)
            : repeated(shared ? "expert_shared_feed_forward_length" : "feed_forward_length",
                       ConfigLimits::kIntermediate);
    c_.max_positions = count("context_length", ConfigLimits::kPositions);
  }

  // A list of the layers, or every n-th has none.
  void windows(const WindowTraits& traits) {
    const bool known = traits.layers != WindowLayers::kNone;
    const int64_t absent = traits.layers == WindowLayers::kFromLayer ? 0 : traits.absent;
    const auto window = static_cast<int32_t>(
        m_.integer(key("attention.sliding_window"), 0, INT32_MAX, known ? absent : 0));
    const std::string pattern = key("attention.sliding_window_pattern");
    if (window == 0) return;
    if (!known || (traits.layers == WindowLayers::kFromLayer && !m_.has(pattern))) {
      if (window < c_.max_positions)
        fail(Code::kUnsupportedModel, "GGUF key ", quote(key("attention.sliding_window")), " is ",
             window, ", shorter than the context of ", c_.max_positions,
             known ? "; it does not say which layers have it"
                   : "; this architecture has no windows");
      return;
    }
    c_.windows.assign(static_cast<size_t>(c_.layers), window);
    if (m_.is_list(pattern)) {
      const std::vector<int64_t> has = list("attention.sliding_window_pattern", 1);
      for (size_t i = 0; i < c_.windows.size(); ++i)
        if (has[i] == 0) c_.windows[i] = 0;
      return;
    }
    const auto every =
        static_cast<size_t>(m_.integer(pattern, 0, ConfigLimits::kLayers, traits.pattern));
    for (size_t i = 0; i < c_.windows.size(); ++i)
      if (every > 0 && (i + 1) % every == 0) c_.windows[i] = 0;
  }

  void rope(const ConfigTraits& traits) {
    c_.rope.theta = m_.number(key("rope.freq_base"), 10000);
    const auto absent = static_cast<int64_t>(c_.head_dim * traits.partial_rotary_factor);
    const int64_t rotary = m_.integer(key("rope.dimension_count"), 2, c_.head_dim, absent);
    c_.rope.partial_rotary_factor = static_cast<double>(rotary) / c_.head_dim;
    // Linearly, where the type is not said; as in llama.cpp, no factor and 0 are none.
    const double factor = m_.number(key("rope.scaling.factor"), 0);
    const bool scales = factor != 0 && factor != 1;
    const std::string scaling = m_.text(key("rope.scaling.type"), scales ? "linear" : "none");
    const bool is_long = tensors_.find("rope_factors_long.weight") || scaling == "longrope";
    if (!is_long && (scaling == "linear" || scaling == "none")) {
      const double attention = m_.number(key("rope.scaling.attn_factor"), 1);
      if (attention != 1)
        fail(Code::kUnsupportedModel, "GGUF key ", quote(key("rope.scaling.attn_factor")), " is ",
             attention, "; with rope scaling ", quote(scaling), " only 1 is supported");
    }
    if (is_long) {
      longrope(static_cast<int32_t>(rotary / 2));
    } else if (scaling == "linear" && scales) {
      c_.rope.type = RopeType::kLinear;
      c_.rope.factor = factor;
      if (!(factor > 0 && factor <= 1e9))
        fail(Code::kFormat, "GGUF key ", quote(key("rope.scaling.factor")), " is ", factor,
             ", outside (0, 1e9]");
    } else if (scaling == "yarn") {
      yarn();
      c_.rope.truncate = !traits.yarn;
    } else if (scaling != "none" && scaling != "linear") {
      fail(Code::kUnsupportedModel, "GGUF rope scaling ", quote(scaling),
           " is not supported (supported: none, linear, yarn, longrope)");
    }
    if (traits.window.own_rope && !c_.windows.empty()) {
      const double local = traits.window.rope_theta;
      c_.window_rope.emplace();
      c_.window_rope->theta =
          m_.number(key("rope.freq_base_swa"), local > 0 ? local : c_.rope.theta);
      c_.window_rope->partial_rotary_factor = c_.rope.partial_rotary_factor;
    }
  }

  // llama.cpp multiplies cos and sin by a factor of the file's besides that of the paper.
  void yarn() {
    RopeConfig& rope = c_.rope;
    rope.type = RopeType::kYarn;
    const auto number = [&](const char* name, double absent) {
      const double value = m_.number(key(name), absent);
      if (!(value > 0 && value <= 1e9))
        fail(Code::kFormat, "GGUF key ", quote(key(name)), " is ", value, ", outside (0, 1e9]");
      return value;
    };
    refuse("rope.scaling.yarn_log_multiplier");
    refuse_yarn_ext_factor();
    // llama.cpp takes for what is missing: the whole context, which is not stretched.
    rope.original_max_positions =
        static_cast<int32_t>(m_.integer(key("rope.scaling.original_context_length"), 1,
                                        ConfigLimits::kPositions, c_.max_positions));
    rope.factor = number("rope.scaling.factor", 1);
    rope.beta_fast = number("rope.scaling.yarn_beta_fast", 32);
    rope.beta_slow = number("rope.scaling.yarn_beta_slow", 1);
    if (!(rope.beta_fast > rope.beta_slow))
      fail(Code::kFormat, "GGUF key ", quote(key("rope.scaling.yarn_beta_fast")), " is ",
           rope.beta_fast, ", not above ", rope.beta_slow, " of yarn_beta_slow");
    const double paper = yarn_attention_factor(rope.factor);
    refuse_yarn_attention_factor(paper);
    rope.attention_factor = number("rope.scaling.attn_factor", 1) * paper;
  }

  // 1, which converters copy from config.json, is what llama.cpp takes where the key is missing.
  void refuse_yarn_ext_factor() const {
    const char* const name = "rope.scaling.yarn_ext_factor";
    const double value = m_.number(key(name), 1);
    if (value != 1)
      fail(Code::kUnsupportedModel, "GGUF key ", quote(key(name)), " is ", value,
           "; only 1 is supported");
  }

  // Converters copy attention_factor of config.json, which llama.cpp does not use: a file may only
  // say what is computed.
  void refuse_yarn_attention_factor(double computed) const {
    const char* const name = "rope.scaling.yarn_attn_factor";
    constexpr double kRounded = 1e-5;  // numbers of the file are float32
    const double value = m_.number(key(name), 1);
    if (value != 1 && std::abs(value - computed) > kRounded * computed)
      fail(Code::kUnsupportedModel, "GGUF key ", quote(key(name)), " is ", value,
           "; supported are 1 and ", computed, ", that of yarn by ", c_.rope.factor);
  }

  // The factors are two small tensors; the rest are keys.
  void longrope(int32_t frequencies) {
    RopeConfig& rope = c_.rope;
    rope.type = RopeType::kLongrope;
    // llama.cpp has no place for both, and refuses such a file.
    if (tensors_.find("rope_freqs.weight"))
      fail(Code::kUnsupportedModel, "tensor \"rope_freqs.weight\" stands beside the factors of ",
           "longrope; a model has either");
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
