#include "random_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace prefix::tools {
namespace {

// splitmix64: the same bytes on every machine and compiler.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Roughly normal: the sum of four 16-bit uniforms, scaled to variance 1.
  float normal() {
    const uint64_t bits = next();
    const double sum = static_cast<double>(bits & 0xffff) +
                       static_cast<double>(bits >> 16 & 0xffff) +
                       static_cast<double>(bits >> 32 & 0xffff) + static_cast<double>(bits >> 48);
    return static_cast<float>((sum / 65536.0 - 2.0) * 1.7320508);
  }

 private:
  uint64_t state_;
};

uint16_t bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct Entry {
  std::string name;
  std::vector<int64_t> shape;
  float deviation;
  float mean = 0;
};

// Norms of 1 + w, before and after each block.
bool gemma(const CheckpointShape& s) {
  return s.architecture == "gemma2" || s.architecture == "gemma3_text";
}
bool hybrid(const CheckpointShape& s) { return !s.recurrent.layers.empty(); }

std::vector<Entry> hybrid_entries(const CheckpointShape& s) {
  const RecurrentShape& r = s.recurrent;
  const bool granite = s.architecture == "granitemoehybrid";
  const int64_t q = int64_t{s.heads} * s.head_dim, kv = int64_t{s.kv_heads} * s.head_dim;
  const int64_t inner = int64_t{r.heads} * r.head_dim;
  const int64_t channels = inner + 2 * int64_t{r.groups} * r.state;
  std::vector<Entry> list;
  const auto matrix = [&](const std::string& name, int64_t n, int64_t k) {
    list.push_back({name + ".weight", {n, k}, 0.5f / std::sqrt(static_cast<float>(k))});
  };
  // Norms of Qwen3.5 multiply by 1 + w, but for that of the recurrence.
  const auto norm = [&](const std::string& name, int64_t n, float mean) {
    list.push_back({name, {n}, 0.1f, mean});
  };
  const float one = granite ? 1 : 0;
  list.push_back({"model.embed_tokens.weight", {s.vocab, s.hidden}, 1});
  for (size_t i = 0; i < r.layers.size(); ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    norm(layer + "input_layernorm.weight", s.hidden, one);
    if (r.layers[i] == 'a') {
      matrix(layer + "self_attn.q_proj", granite ? q : 2 * q, s.hidden);
      matrix(layer + "self_attn.k_proj", kv, s.hidden);
      matrix(layer + "self_attn.v_proj", kv, s.hidden);
      matrix(layer + "self_attn.o_proj", s.hidden, q);
      if (!granite) {
        norm(layer + "self_attn.q_norm.weight", s.head_dim, one);
        norm(layer + "self_attn.k_norm.weight", s.head_dim, one);
      }
    } else {
      const std::string mixer = layer + (granite ? "mamba." : "linear_attn.");
      if (granite) {
        matrix(mixer + "in_proj", inner + channels + r.heads, s.hidden);
        norm(mixer + "D", r.heads, 1);
      } else {
        matrix(mixer + "in_proj_qkv", channels, s.hidden);
        matrix(mixer + "in_proj_z", inner, s.hidden);
        matrix(mixer + "in_proj_b", r.heads, s.hidden);
        matrix(mixer + "in_proj_a", r.heads, s.hidden);
      }
      norm(mixer + "norm.weight", granite ? inner : r.head_dim, 1);
      list.push_back({mixer + "conv1d.weight", {channels, 1, r.conv}, 0.5f});
      if (granite) norm(mixer + "conv1d.bias", channels, 0);
      list.push_back({mixer + "dt_bias", {r.heads}, 0.5f, -1});
      list.push_back({mixer + "A_log", {r.heads}, 0.7f, 0.3f});
      matrix(mixer + "out_proj", s.hidden, inner);
    }
    norm(layer + "post_attention_layernorm.weight", s.hidden, one);
    if (granite) {
      matrix(layer + "shared_mlp.input_linear", 2 * int64_t{s.intermediate}, s.hidden);
      matrix(layer + "shared_mlp.output_linear", s.hidden, s.intermediate);
    } else {
      matrix(layer + "mlp.gate_proj", s.intermediate, s.hidden);
      matrix(layer + "mlp.up_proj", s.intermediate, s.hidden);
      matrix(layer + "mlp.down_proj", s.hidden, s.intermediate);
    }
  }
  norm("model.norm.weight", s.hidden, one);
  if (!s.tied) matrix("lm_head", s.vocab, s.hidden);
  return list;
}

// Layers of one block: Mamba-2, attention, or a feed-forward part without a gate.
std::vector<Entry> nemotron_entries(const CheckpointShape& s) {
  const RecurrentShape& r = s.recurrent;
  const int64_t q = int64_t{s.heads} * s.head_dim, kv = int64_t{s.kv_heads} * s.head_dim;
  const int64_t inner = int64_t{r.heads} * r.head_dim;
  const int64_t channels = inner + 2 * int64_t{r.groups} * r.state;
  std::vector<Entry> list;
  const auto matrix = [&](const std::string& name, int64_t n, int64_t k) {
    list.push_back({name + ".weight", {n, k}, 0.5f / std::sqrt(static_cast<float>(k))});
  };
  list.push_back({"backbone.embeddings.weight", {s.vocab, s.hidden}, 1});
  for (size_t i = 0; i < r.layers.size(); ++i) {
    const std::string layer = "backbone.layers." + std::to_string(i) + ".";
    list.push_back({layer + "norm.weight", {s.hidden}, 0.1f, 1});
    if (r.layers[i] == 'a') {
      matrix(layer + "mixer.q_proj", q, s.hidden);
      matrix(layer + "mixer.k_proj", kv, s.hidden);
      matrix(layer + "mixer.v_proj", kv, s.hidden);
      matrix(layer + "mixer.o_proj", s.hidden, q);
    } else if (r.layers[i] == 'f') {
      matrix(layer + "mixer.up_proj", s.intermediate, s.hidden);
      matrix(layer + "mixer.down_proj", s.hidden, s.intermediate);
    } else {
      matrix(layer + "mixer.in_proj", inner + channels + r.heads, s.hidden);
      list.push_back({layer + "mixer.conv1d.weight", {channels, 1, r.conv}, 0.5f});
      list.push_back({layer + "mixer.conv1d.bias", {channels}, 0.1f});
      list.push_back({layer + "mixer.dt_bias", {r.heads}, 0.5f, -1});
      list.push_back({layer + "mixer.A_log", {r.heads}, 0.7f, 0.3f});
      list.push_back({layer + "mixer.D", {r.heads}, 0.1f, 1});
      list.push_back({layer + "mixer.norm.weight", {inner}, 0.1f, 1});
      matrix(layer + "mixer.out_proj", s.hidden, inner);
    }
  }
  list.push_back({"backbone.norm_f.weight", {s.hidden}, 0.1f, 1});
  if (!s.tied) matrix("lm_head", s.vocab, s.hidden);
  return list;
}

// Gated short convolutions and attention.
std::vector<Entry> lfm2_entries(const CheckpointShape& s) {
  const RecurrentShape& r = s.recurrent;
  const int64_t q = int64_t{s.heads} * s.head_dim, kv = int64_t{s.kv_heads} * s.head_dim;
  std::vector<Entry> list;
  const auto matrix = [&](const std::string& name, int64_t n, int64_t k) {
    list.push_back({name + ".weight", {n, k}, 0.5f / std::sqrt(static_cast<float>(k))});
  };
  const auto norm = [&](const std::string& name, int64_t n) {
    list.push_back({name + ".weight", {n}, 0.1f, 1});
  };
  list.push_back({"model.embed_tokens.weight", {s.vocab, s.hidden}, 1});
  for (size_t i = 0; i < r.layers.size(); ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    norm(layer + "operator_norm", s.hidden);
    if (r.layers[i] == 'a') {
      matrix(layer + "self_attn.q_proj", q, s.hidden);
      matrix(layer + "self_attn.k_proj", kv, s.hidden);
      matrix(layer + "self_attn.v_proj", kv, s.hidden);
      matrix(layer + "self_attn.out_proj", s.hidden, q);
      norm(layer + "self_attn.q_layernorm", s.head_dim);
      norm(layer + "self_attn.k_layernorm", s.head_dim);
    } else {
      matrix(layer + "conv.in_proj", 3 * int64_t{s.hidden}, s.hidden);
      list.push_back({layer + "conv.conv.weight", {s.hidden, 1, r.conv}, 0.5f});
      matrix(layer + "conv.out_proj", s.hidden, s.hidden);
    }
    norm(layer + "ffn_norm", s.hidden);
    matrix(layer + "feed_forward.w1", s.intermediate, s.hidden);
    matrix(layer + "feed_forward.w3", s.intermediate, s.hidden);
    matrix(layer + "feed_forward.w2", s.hidden, s.intermediate);
  }
  norm("model.embedding_norm", s.hidden);
  if (!s.tied) matrix("lm_head", s.vocab, s.hidden);
  return list;
}

std::vector<Entry> entries(const CheckpointShape& s) {
  if (s.architecture == "nemotron_h") return nemotron_entries(s);
  if (s.architecture == "lfm2") return lfm2_entries(s);
  if (hybrid(s)) return hybrid_entries(s);
  const int64_t q = int64_t{s.heads} * s.head_dim;
  const int64_t kv = int64_t{s.kv_heads} * s.head_dim;
  std::vector<Entry> list;
  const auto matrix = [&](const std::string& name, int64_t n, int64_t k) {
    list.push_back({name, {n, k}, 0.5f / std::sqrt(static_cast<float>(k))});
  };
  const auto norm = [&](const std::string& name, int64_t n) {
    list.push_back({name, {n}, 0.1f, gemma(s) ? 0.0f : 1.0f});
  };
  list.push_back({"model.embed_tokens.weight", {s.vocab, s.hidden}, 1});
  for (int32_t i = 0; i < s.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    if (s.architecture == "olmo2" || s.architecture == "olmo3") {
      norm(layer + "post_attention_layernorm.weight", s.hidden);
      norm(layer + "post_feedforward_layernorm.weight", s.hidden);
      norm(layer + "self_attn.q_norm.weight", q);
      norm(layer + "self_attn.k_norm.weight", kv);
    } else {
      norm(layer + "input_layernorm.weight", s.hidden);
      norm(layer + "post_attention_layernorm.weight", s.hidden);
    }
    if (gemma(s)) {
      norm(layer + "pre_feedforward_layernorm.weight", s.hidden);
      norm(layer + "post_feedforward_layernorm.weight", s.hidden);
    }
    if (s.architecture == "qwen3" || s.architecture == "gemma3_text") {
      norm(layer + "self_attn.q_norm.weight", s.head_dim);
      norm(layer + "self_attn.k_norm.weight", s.head_dim);
    }
    if (s.architecture == "phi3") {
      matrix(layer + "self_attn.qkv_proj.weight", q + 2 * kv, s.hidden);
      matrix(layer + "mlp.gate_up_proj.weight", 2 * int64_t{s.intermediate}, s.hidden);
    } else {
      matrix(layer + "self_attn.q_proj.weight", q, s.hidden);
      matrix(layer + "self_attn.k_proj.weight", kv, s.hidden);
      matrix(layer + "self_attn.v_proj.weight", kv, s.hidden);
      matrix(layer + "mlp.gate_proj.weight", s.intermediate, s.hidden);
      matrix(layer + "mlp.up_proj.weight", s.intermediate, s.hidden);
    }
    matrix(layer + "self_attn.o_proj.weight", s.hidden, q);
    matrix(layer + "mlp.down_proj.weight", s.hidden, s.intermediate);
  }
  norm("model.norm.weight", s.hidden);
  if (!s.tied) matrix("lm_head.weight", s.vocab, s.hidden);
  return list;
}

int64_t count(const Entry& e) {
  int64_t n = 1;
  for (int64_t d : e.shape) n *= d;
  return n;
}

std::string header(const std::vector<Entry>& list) {
  std::string json = "{";
  int64_t offset = 0;
  for (const Entry& e : list) {
    std::string shape;
    for (int64_t d : e.shape) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    const int64_t end = offset + 2 * count(e);
    json += (offset ? ",\"" : "\"") + e.name + "\":{\"dtype\":\"BF16\",\"shape\":[" + shape +
            "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  json += "}";
  while (json.size() % 8) json += ' ';
  return json;
}

std::string number(const char* key, int64_t value) {
  return "  \"" + std::string(key) + "\": " + std::to_string(value) + ",\n";
}

constexpr const char* kMultipliers =
    "  \"embedding_multiplier\": 12,\n  \"residual_multiplier\": 0.25,\n"
    "  \"attention_multiplier\": 0.0625,\n  \"logits_scaling\": 3,\n";

std::string hybrid_config(const CheckpointShape& s) {
  const RecurrentShape& r = s.recurrent;
  const char* const recurrent = s.architecture == "lfm2" ? "\"conv\"" : "\"linear_attention\"";
  std::string layers;
  for (const char kind : r.layers)
    layers += std::string(layers.empty() ? "" : ", ") + (kind == 'a'   ? "\"full_attention\""
                                                         : kind == 'f' ? "\"mlp\""
                                                                       : recurrent);
  std::string text = "  \"layer_types\": [" + layers + "],\n";
  if (s.architecture == "nemotron_h")
    return text + number("mamba_num_heads", r.heads) + number("mamba_head_dim", r.head_dim) +
           number("n_groups", r.groups) + number("ssm_state_size", r.state) +
           number("conv_kernel", r.conv);
  if (s.architecture == "lfm2")
    return text + number("conv_L_cache", r.conv) + "  \"block_auto_adjust_ff_dim\": false,\n";
  if (s.architecture == "granitemoehybrid") {
    return text + number("mamba_n_heads", r.heads) + number("mamba_d_head", r.head_dim) +
           number("mamba_n_groups", r.groups) + number("mamba_d_state", r.state) +
           number("mamba_d_conv", r.conv) +
           number("mamba_expand", int64_t{r.heads} * r.head_dim / s.hidden) +
           number("shared_intermediate_size", s.intermediate) + number("num_local_experts", 0) +
           number("num_experts_per_tok", 0) +
           "  \"mamba_conv_bias\": true,\n  \"mamba_proj_bias\": false,\n"
           "  \"position_embedding_type\": \"nope\",\n" +
           kMultipliers;
  }
  return text + number("linear_num_value_heads", r.heads) +
         number("linear_value_head_dim", r.head_dim) + number("linear_num_key_heads", r.groups) +
         number("linear_key_head_dim", r.state) + number("linear_conv_kernel_dim", r.conv) +
         "  \"attn_output_gate\": true,\n  \"partial_rotary_factor\": 0.25,\n";
}

std::string window_config(const CheckpointShape& s) {
  std::string layers;
  for (const char kind : s.windows)
    layers += std::string(layers.empty() ? "" : ", ") +
              (kind == 's' ? "\"sliding_attention\"" : "\"full_attention\"");
  std::string text = "  \"layer_types\": [" + layers + "],\n" + number("sliding_window", s.window);
  if (s.architecture.starts_with("qwen")) text += "  \"use_sliding_window\": true,\n";
  if (gemma(s))
    text +=
        number("query_pre_attn_scalar", 24) + "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n";
  if (s.architecture == "gemma2")
    text += "  \"attn_logit_softcapping\": 4.0,\n  \"final_logit_softcapping\": 7.5,\n";
  return text;
}

// What an architecture without recurrent layers has of its own.
std::string special_config(const CheckpointShape& s) {
  if (!s.windows.empty()) return window_config(s);
  if (s.architecture == "granite") return kMultipliers;
  if (s.architecture == "smollm3") return number("no_rope_layer_interval", 2);
  if (s.architecture == "mistral") return "  \"sliding_window\": null,\n";
  return "";
}

std::string config(const CheckpointShape& s) {
  const std::string activation = s.architecture == "gemma" ? "gelu_pytorch_tanh" : "silu";
  return "{\n  \"model_type\": \"" + s.architecture + "\",\n  \"hidden_act\": \"" + activation +
         "\",\n" + number("vocab_size", s.vocab) + number("hidden_size", s.hidden) +
         number("num_hidden_layers", s.layers) + number("num_attention_heads", s.heads) +
         number("num_key_value_heads", s.kv_heads) + number("head_dim", s.head_dim) +
         number("intermediate_size", s.intermediate) +
         number("max_position_embeddings", s.max_positions) +
         (hybrid(s) ? hybrid_config(s) : special_config(s)) +
         "  \"rms_norm_eps\": 1e-06,\n  \"rope_theta\": 1000000.0,\n  \"attention_bias\": false,\n"
         "  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n  \"pad_token_id\": null,\n"
         "  \"torch_dtype\": \"bfloat16\",\n  \"tie_word_embeddings\": " +
         (s.tied ? "true" : "false") + "\n}\n";
}

void require(const std::ofstream& out, const std::string& path) {
  if (!out) throw std::runtime_error("cannot write " + path);
}

}  // namespace

CheckpointShape named_shape(const std::string& name) {
  CheckpointShape s;
  if (name == "tiny") return s;
  if (name == "tiny-granite-h" || name == "tiny-qwen3.5") {
    s.architecture = name == "tiny-granite-h" ? "granitemoehybrid" : "qwen3_5_text";
    s.layers = 4;
    s.recurrent.layers = "rrar";
    s.tied = false;
    return s;
  }
  if (name == "granite-4.0-h-350m") {
    s.architecture = "granitemoehybrid";
    s.vocab = 100352;
    s.max_positions = 32768;
    s.hidden = 768;
    s.layers = 32;
    s.heads = 12;
    s.kv_heads = 4;
    s.head_dim = 64;
    s.intermediate = 2048;
    s.recurrent = {std::string(32, 'r'), 48, 32, 1, 128, 4};
    for (const size_t i : {10u, 13u, 17u, 27u}) s.recurrent.layers[i] = 'a';
    return s;
  }
  if (name == "qwen3.5-0.8b") {
    s.architecture = "qwen3_5_text";
    s.vocab = 248320;
    s.max_positions = 262144;
    s.hidden = 1024;
    s.layers = 24;
    s.heads = 8;
    s.kv_heads = 2;
    s.head_dim = 256;
    s.intermediate = 3584;
    s.recurrent = {"", 16, 128, 16, 128, 4};
    for (int i = 0; i < 24; ++i) s.recurrent.layers += i % 4 == 3 ? 'a' : 'r';
    return s;
  }
  s.vocab = 151936;
  s.max_positions = 40960;
  s.head_dim = 128;
  s.kv_heads = 8;
  if (name == "qwen3-0.6b") {
    s.hidden = 1024;
    s.layers = 28;
    s.heads = 16;
    s.intermediate = 3072;
  } else if (name == "qwen3-4b") {
    s.hidden = 2560;
    s.layers = 36;
    s.heads = 32;
    s.intermediate = 9728;
  } else if (name == "qwen3-8b") {
    s.hidden = 4096;
    s.layers = 36;
    s.heads = 32;
    s.intermediate = 12288;
    s.tied = false;
  } else {
    throw std::invalid_argument("unknown shape \"" + name +
                                "\" (known: tiny, tiny-granite-h, tiny-qwen3.5, qwen3-0.6b, "
                                "qwen3-4b, qwen3-8b, granite-4.0-h-350m, qwen3.5-0.8b)");
  }
  return s;
}

void write_checkpoint(const std::string& directory, const CheckpointShape& shape) {
  std::filesystem::create_directories(directory);
  const std::vector<Entry> list = entries(shape);
  const std::string json = header(list);
  const std::string path = directory + "/model.safetensors";
  std::ofstream out(path, std::ios::binary);
  require(out, path);
  const uint64_t length = json.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof(length));
  out.write(json.data(), static_cast<std::streamsize>(json.size()));
  std::vector<uint16_t> block;
  constexpr int64_t kBlock = 1 << 20;
  std::vector<float> repeated;
  if (shape.repeat) {
    Random random(shape.seed);
    for (int64_t i = 0; i < kBlock; ++i) repeated.push_back(random.normal());
  }
  for (size_t i = 0; i < list.size(); ++i) {
    Random random(shape.seed * 1000003 + i);
    const auto value = [&](float normal) {
      return bf16(list[i].mean + list[i].deviation * normal);
    };
    block.clear();
    for (float x : repeated) block.push_back(value(x));
    for (int64_t left = count(list[i]); left > 0; left -= static_cast<int64_t>(block.size())) {
      block.resize(static_cast<size_t>(std::min<int64_t>(left, kBlock)));
      if (!shape.repeat)
        for (uint16_t& v : block) v = value(random.normal());
      out.write(reinterpret_cast<const char*>(block.data()),
                static_cast<std::streamsize>(block.size() * 2));
    }
  }
  require(out, path);
  std::ofstream text(directory + "/config.json");
  text << config(shape);
  require(text, directory + "/config.json");
}

}  // namespace prefix::tools
