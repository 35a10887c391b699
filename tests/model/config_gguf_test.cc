#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "config_support.h"

namespace prefix {
namespace {

using testing_support::config_of;
using testing_support::expect_bad;
using testing_support::expect_error;
using testing_support::expect_unsupported;
using testing_support::GgufType;
using testing_support::GgufWriter;

// A model of which one key (without the prefix) may be left out.
GgufWriter plain_gguf(const std::string& architecture = "llama",
                      const std::string& leave_out = "") {
  GgufWriter w;
  w.string("general.architecture", architecture);
  const std::pair<const char*, uint32_t> keys[] = {
      {"embedding_length", 64},       {"block_count", 2},          {"attention.head_count", 4},
      {"attention.head_count_kv", 2}, {"feed_forward_length", 96}, {"context_length", 512}};
  for (const auto& [key, value] : keys)
    if (key != leave_out) w.integer(architecture + "." + key, value);
  if (leave_out != "attention.layer_norm_rms_epsilon")
    w.number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  w.tensor("token_embd.weight", {64, 100}, 0, 64 * 100 * 4);
  return w;
}

TEST(ConfigGguf, ReadsSizes) {
  const ModelConfig c = config_of(plain_gguf());
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.vocab_size, 100);
  EXPECT_EQ(c.hidden, 64);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.intermediate, 96);
  EXPECT_EQ(c.max_positions, 512);
  EXPECT_EQ(c.norm_eps, 1e-5f);
  EXPECT_TRUE(c.from_gguf && c.qk_permuted && c.tie_embeddings);
  EXPECT_EQ(c.rope.theta, 10000);
  EXPECT_EQ(c.bos_id, -1);
  EXPECT_TRUE(c.eos_ids.empty());
}

TEST(ConfigGguf, KnowsWhoPermutes) {
  for (const char* architecture : {"qwen3", "olmo2", "phi3"})
    EXPECT_FALSE(config_of(plain_gguf(architecture)).qk_permuted) << architecture;
}

TEST(ConfigGguf, AnOutputMatrixMeansUntied) {
  GgufWriter w = plain_gguf();
  w.tensor("output.weight", {64, 100}, 0, 64 * 100 * 4);
  EXPECT_FALSE(config_of(w).tie_embeddings);
}

TEST(ConfigGguf, NamesWhatIsMissing) {
  for (const char* key :
       {"embedding_length", "block_count", "attention.head_count", "feed_forward_length",
        "context_length", "attention.layer_norm_rms_epsilon"})
    expect_bad(plain_gguf("llama", key), {std::string("llama.") + key, "missing"});
  EXPECT_EQ(config_of(plain_gguf("llama", "attention.head_count_kv")).kv_heads, 4);
  expect_bad(GgufWriter(), {"general.architecture", "missing"});
  GgufWriter w = plain_gguf();
  w.tensors.clear();
  w.data.clear();
  expect_bad(w, {"token_embd.weight", "missing"});
}

TEST(ConfigGguf, LimitsEverySize) {
  const std::pair<const char*, int64_t> limits[] = {
      {"embedding_length", ConfigLimits::kHidden},
      {"block_count", ConfigLimits::kLayers},
      {"feed_forward_length", ConfigLimits::kIntermediate},
      {"context_length", ConfigLimits::kPositions},
  };
  for (const auto& [key, most] : limits) {
    const std::string name = std::string("llama.") + key;
    const auto with = [&](int64_t value) {
      GgufWriter w = plain_gguf("llama", key);
      w.key(name, GgufType::kI64, value);
      return w;
    };
    EXPECT_NO_THROW(config_of(with(most))) << key;
    expect_bad(with(most + 1), {name, std::to_string(most + 1), std::to_string(most)});
    expect_bad(with(0), {name, "is 0"});
    expect_bad(with(-5), {name, "is -5"});
  }
  expect_bad(plain_gguf("llama", "block_count").number("llama.block_count", 2),
             {"block_count", "integer"});
  expect_bad(plain_gguf("llama", "embedding_length")
                 .list("llama.embedding_length", GgufType::kU32, 2, std::vector<std::byte>(8)),
             {"embedding_length", "a list of 2 values"});
  expect_bad(plain_gguf("llama", "attention.head_count").integer("llama.attention.head_count", 5),
             {"embedding_length (64)", "(5)"});
}

TEST(ConfigGguf, ReadsHeadDimensions) {
  EXPECT_EQ(config_of(plain_gguf().integer("llama.attention.key_length", 32)).head_dim, 32);
  expect_unsupported(plain_gguf().integer("llama.attention.value_length", 32),
                     {"16 key and 32 value"});
  expect_bad(plain_gguf().integer("llama.attention.key_length", 2048),
             {"key_length", "2048", "1024"});
  expect_bad(plain_gguf().integer("llama.vocab_size", 101), {"vocab_size", "101", "100 rows"});
}

TEST(ConfigGguf, RefusesWhatItCannotRun) {
  expect_unsupported(plain_gguf("mamba"),
                     {"\"mamba\"", "supported: gemma, gemma-embedding, gemma2, ", "qwen3"});
  expect_unsupported(plain_gguf().string("general.type", "adapter"),
                     {"\"adapter\"", "not a model"});
  EXPECT_NO_THROW(config_of(plain_gguf().string("general.type", "model")));
  expect_unsupported(plain_gguf("qwen3").integer("qwen3.expert_count", 8),
                     {"expert_count", "8", "experts"});
  EXPECT_NO_THROW(config_of(plain_gguf().integer("llama.expert_count", 0)));
  expect_unsupported(plain_gguf().number("llama.logit_scale", 2), {"llama.logit_scale"});
  expect_unsupported(plain_gguf().number("llama.rope.scale_linear", 2),
                     {"llama.rope.scale_linear"});
  for (const char* name : {"max_alibi_bias", "alibi_bias_max"})
    expect_unsupported(plain_gguf().number(std::string("llama.attention.") + name, 8), {name});
  expect_unsupported(plain_gguf().integer("llama.attention.sliding_window", 511), {"511", "512"});
  expect_unsupported(plain_gguf("qwen2").integer("qwen2.attention.sliding_window", 511),
                     {"511", "which layers"});
  EXPECT_NO_THROW(config_of(plain_gguf().integer("llama.attention.sliding_window", 512)));
}

TEST(ConfigGguf, ReadsTokenIds) {
  GgufWriter w = plain_gguf();
  w.integer("tokenizer.ggml.bos_token_id", 1).integer("tokenizer.ggml.eos_token_id", 2);
  w.integer("tokenizer.ggml.eot_token_id", 3).integer("tokenizer.ggml.eom_token_id", 2);
  const ModelConfig c = config_of(w);
  EXPECT_EQ(c.bos_id, 1);
  EXPECT_EQ(c.eos_ids, (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(
      config_of(plain_gguf().integer("tokenizer.ggml.eos_token_id", 0xffffffff)).eos_ids.empty());
}

TEST(ConfigGguf, ReadsRope) {
  GgufWriter w = plain_gguf();
  w.number("llama.rope.freq_base", 5e5f).string("llama.rope.scaling.type", "linear");
  w.number("llama.rope.scaling.factor", 4);
  const ModelConfig linear = config_of(w);
  EXPECT_EQ(linear.rope.type, RopeType::kLinear);
  EXPECT_EQ(linear.rope.theta, 5e5);
  EXPECT_EQ(linear.rope.factor, 4);
  EXPECT_EQ(config_of(plain_gguf("phi3").integer("phi3.rope.dimension_count", 12)).rotary_dim(),
            12);
  expect_unsupported(plain_gguf().integer("llama.rope.dimension_count", 12), {"16", "12"});
  expect_unsupported(plain_gguf().string("llama.rope.scaling.type", "dynamic"),
                     {"\"dynamic\"", "none, linear, yarn"});
  expect_bad(plain_gguf()
                 .string("llama.rope.scaling.type", "linear")
                 .number("llama.rope.scaling.factor", -2),
             {"rope.scaling.factor", "-2"});
  // No factor, or 0, is none, as in llama.cpp.
  w = plain_gguf().string("llama.rope.scaling.type", "linear");
  EXPECT_EQ(config_of(w).rope.type, RopeType::kDefault);
  w.number("llama.rope.scaling.factor", 0);
  EXPECT_EQ(config_of(w).rope.type, RopeType::kDefault);
  expect_bad(plain_gguf().number("llama.rope.freq_base", NAN), {"freq_base", "finite"});
  // A factor without a type is linear, as in llama.cpp.
  const ModelConfig untyped = config_of(plain_gguf().number("llama.rope.scaling.factor", 4));
  EXPECT_EQ(untyped.rope.type, RopeType::kLinear);
  EXPECT_EQ(untyped.rope.factor, 4);
  const ModelConfig none = config_of(plain_gguf()
                                         .number("llama.rope.scaling.factor", 4)
                                         .string("llama.rope.scaling.type", "none"));
  EXPECT_EQ(none.rope.type, RopeType::kDefault);
  expect_unsupported(plain_gguf().number("llama.rope.scaling.attn_factor", 1.5f),
                     {"attn_factor", "1.5"});
  expect_unsupported(plain_gguf("mistral3"), {"\"mistral3\""});
}

TEST(ConfigGguf, ReadsFrequencyDivisors) {
  GgufWriter w = plain_gguf();
  w.f32("rope_freqs.weight", {8}, {1, 1, 1, 1, 2, 4, 8, 8});
  EXPECT_EQ(config_of(w).rope.frequency_divisors, (std::vector<float>{1, 1, 1, 1, 2, 4, 8, 8}));
  w = plain_gguf();
  w.f32("rope_freqs.weight", {7}, std::vector<float>(7, 1));
  expect_bad(w, {"rope_freqs.weight", "8 values"});
  w = plain_gguf();
  w.f32("rope_freqs.weight", {8}, {1, 1, 1, NAN, 1, 1, 1, 1});
  expect_bad(w, {"rope_freqs.weight", "nan"});
}

TEST(ConfigGguf, ReadsLongrope) {
  const auto phi = [] {
    GgufWriter w = plain_gguf("phi3");
    w.integer("phi3.rope.scaling.original_context_length", 128);
    w.f32("rope_factors_short.weight", {8}, std::vector<float>(8, 1.5f));
    return w;
  };
  GgufWriter w = phi();
  w.f32("rope_factors_long.weight", {8}, std::vector<float>(8, 3));
  RopeConfig rope = config_of(w).rope;
  EXPECT_EQ(rope.type, RopeType::kLongrope);
  EXPECT_EQ(rope.short_factor, std::vector<double>(8, 1.5));
  EXPECT_EQ(rope.long_factor, std::vector<double>(8, 3));
  EXPECT_EQ(rope.original_max_positions, 128);
  EXPECT_DOUBLE_EQ(rope.attention_factor, std::sqrt(1 + std::log(4.0) / std::log(128.0)));
  w.number("phi3.rope.scaling.attn_factor", 1.25f);
  EXPECT_EQ(config_of(w).rope.attention_factor, 1.25);
  expect_bad(phi().string("phi3.rope.scaling.type", "longrope"),
             {"rope_factors_long.weight", "missing"});
  w = plain_gguf("phi3");
  w.f32("rope_factors_short.weight", {8}, std::vector<float>(8, 1));
  w.f32("rope_factors_long.weight", {8}, std::vector<float>(8, 1));
  expect_bad(w, {"original_context_length", "missing"});
  w = phi();
  w.f32("rope_factors_long.weight", {8}, std::vector<float>(8, 3));
  w.f32("rope_freqs.weight", {8}, std::vector<float>(8, 2));
  expect_unsupported(w, {"rope_freqs.weight", "longrope"});
}

// As in llama.cpp, a number may be repeated for each layer.
TEST(ConfigGguf, ListsOfTheLayersMayRepeatOneNumber) {
  const auto with_list = [](const std::string& key, const std::vector<uint32_t>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    GgufWriter w = plain_gguf("llama", key);
    return w.list("llama." + key, GgufType::kU32, values.size(), {bytes.begin(), bytes.end()});
  };
  EXPECT_EQ(config_of(with_list("attention.head_count", {4, 4})).heads, 4);
  EXPECT_EQ(config_of(with_list("attention.head_count_kv", {2, 2})).kv_heads, 2);
  EXPECT_EQ(config_of(with_list("feed_forward_length", {96, 96})).intermediate, 96);
  for (const char* key :
       {"attention.head_count", "attention.head_count_kv", "feed_forward_length"}) {
    expect_unsupported(with_list(key, {4, 2}), {key, "holds 4 and 2"});
    expect_bad(with_list(key, {4, 0}), {key, "holds 0", "[1, "});
    expect_bad(with_list(key, {4, 4, 4}), {key, "list of 3", "list of 2"});
  }
}

}  // namespace
}  // namespace prefix
