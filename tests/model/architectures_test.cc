// What single architectures read of their files that others do not.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "config_support.h"
#include "engine/memory_estimate.h"
#include "model/architecture.h"
#include "model/layer.h"
#include "model/rope.h"

namespace prefix {
namespace {

using testing_support::Changes;
using testing_support::config_of;
using testing_support::expect_bad;
using testing_support::expect_error;
using testing_support::GgufWriter;
using testing_support::of;
using testing_support::with;

// Eight layers.
Json deep(const char* type, Changes changes = {}) {
  return with(changes, of(type, {{"num_hidden_layers", 8}}));
}

GgufWriter deep_gguf(const std::string& architecture) {
  GgufWriter w;
  w.string("general.architecture", architecture);
  const std::pair<const char*, uint32_t> keys[] = {
      {"embedding_length", 64},       {"block_count", 8},          {"attention.head_count", 4},
      {"attention.head_count_kv", 2}, {"feed_forward_length", 96}, {"context_length", 512}};
  for (const auto& [key, value] : keys) w.integer(architecture + "." + key, value);
  w.number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  w.tensor("token_embd.weight", {64, 100}, 0, 64 * 100 * 4);
  return w;
}

// Whether each layer rotates.
std::vector<bool> rotating(const ModelConfig& c) {
  std::vector<bool> list;
  for (const LayerSpec& layer : resolve_layers(c, find_architecture(c.architecture)))
    list.push_back(layer.rope_table >= 0);
  return list;
}

TEST(Mistral, TakesTheDefaultsOfTransformers) {
  Json json = deep("mistral", {{"sliding_window", nullptr}, {"attention_bias", true}});
  json.erase("num_key_value_heads");
  json["num_attention_heads"] = 16;
  const ModelConfig c = config_from_json(json);
  EXPECT_EQ(c.kv_heads, 8);
  EXPECT_FALSE(c.attention_bias);
}

TEST(SeeingModels, AreReadByTheirTextModel) {
  for (const auto& [whole, text] :
       {std::pair("mistral3", "mistral"), {"qwen3_vl", "qwen3_vl_text"}}) {
    Json inner = deep(text, {{"sliding_window", nullptr}, {"head_dim", 16}, {"eos_token_id", 7}});
    Json json = {{"model_type", whole}, {"text_config", inner}, {"tie_word_embeddings", true}};
    const ModelConfig c = config_from_json(json);
    EXPECT_EQ(c.architecture, text == std::string("mistral") ? "mistral" : "qwen3");
    EXPECT_EQ(c.layers, 8);
    EXPECT_TRUE(c.tie_embeddings);
    EXPECT_EQ(c.eos_ids, std::vector<int32_t>{7});
    json["text_config"]["model_type"] = "llama";
    expect_bad(json, {"text_config", "\"llama\""}, Code::kUnsupportedModel);
  }
}

TEST(Gemma, HasGeluAndAScaledEmbedding) {
  Json json = deep("gemma", {{"hidden_act", "gelu"}, {"hidden_activation", nullptr}});
  json.erase("num_key_value_heads");
  json["num_attention_heads"] = 32;
  const ModelConfig c = config_from_json(json);
  EXPECT_EQ(c.activation, ops::ActivationFn::kGeluTanh);
  EXPECT_EQ(c.embedding_multiplier, 8);
  EXPECT_EQ(c.head_dim, 256);
  EXPECT_EQ(c.kv_heads, 16);
  EXPECT_TRUE(c.tie_embeddings);
  EXPECT_EQ(config_from_json(deep("gemma")).activation, ops::ActivationFn::kGeluTanh);
  EXPECT_EQ(config_from_json(deep("gemma", {{"hidden_act", "silu"}})).activation,
            ops::ActivationFn::kSilu);
  const ModelConfig file = config_of(deep_gguf("gemma"));
  EXPECT_EQ(file.activation, ops::ActivationFn::kGeluTanh);
  EXPECT_EQ(file.embedding_multiplier, 8);
  EXPECT_FALSE(file.qk_permuted);
}

TEST(Gemma, LooksBackOnly) {
  EXPECT_NO_THROW(config_from_json(deep("gemma", {{"use_bidirectional_attention", nullptr}})));
  EXPECT_TRUE(
      config_from_json(deep("gemma", {{"use_bidirectional_attention", true}})).bidirectional);
  expect_bad(deep("gemma", {{"is_encoder_decoder", true}}), {"encoder-decoder"},
             Code::kUnsupportedModel);
}

TEST(Activation, IsNamed) {
  const auto activation = [](const char* type, const char* name) {
    return config_from_json(deep(type, {{"hidden_act", name}})).activation;
  };
  EXPECT_EQ(activation("llama", "gelu_pytorch_tanh"), ops::ActivationFn::kGeluTanh);
  EXPECT_EQ(activation("llama", "silu"), ops::ActivationFn::kSilu);
  for (const char* name : {"gelu", "relu", ""})
    expect_bad(deep("llama", {{"hidden_act", name}}),
               {"activation", name, "\"silu\", \"gelu_pytorch_tanh\""}, Code::kUnsupportedModel);
  expect_bad(deep("llama", {{"hidden_act", 7}}), {"hidden_act", "7"});
}

TEST(Smollm3, SaysWhichLayersRotate) {
  const std::vector<bool> fourth = {true, true, true, false, true, true, true, false};
  EXPECT_EQ(rotating(config_from_json(deep("smollm3"))), fourth);
  EXPECT_EQ(config_from_json(deep("smollm3")).rope.theta, 2e6);
  EXPECT_EQ(rotating(config_of(deep_gguf("smollm3"))), fourth);
  EXPECT_EQ(rotating(config_from_json(deep("smollm3", {{"no_rope_layer_interval", 3}}))),
            (std::vector<bool>{true, true, false, true, true, false, true, true}));
  const std::vector<int> listed = {0, 1, 1, 1, 0, 1, 0, 1, 0, 0};  // may be longer
  EXPECT_EQ(rotating(config_from_json(
                deep("smollm3", {{"no_rope_layers", listed}, {"no_rope_layer_interval", 3}}))),
            (std::vector<bool>{false, true, true, true, false, true, false, true}));
  EXPECT_EQ(rotating(config_from_json(deep("llama", {{"no_rope_layers", listed}}))),
            std::vector<bool>(8, true));
  expect_bad(deep("smollm3", {{"no_rope_layers", std::vector<int>(7, 1)}}),
             {"no_rope_layers", "not a list of 8"});
  expect_bad(deep("smollm3", {{"no_rope_layers", 1}}), {"no_rope_layers", "1"});
  expect_bad(deep("smollm3", {{"no_rope_layers", std::vector<int>(8, 2)}}),
             {"no_rope_layers", "2"});
  expect_bad(deep("smollm3", {{"no_rope_layer_interval", 0}}), {"no_rope_layer_interval", "0"});
}

TEST(Granite, ReadsItsMultipliers) {
  const ModelConfig c = config_from_json(deep("granite", {{"embedding_multiplier", 12.0},
                                                          {"residual_multiplier", 0.22},
                                                          {"attention_multiplier", 0.0078125},
                                                          {"logits_scaling", 16.0}}));
  EXPECT_EQ(c.embedding_multiplier, 12);
  EXPECT_EQ(c.residual_multiplier, 0.22);
  EXPECT_EQ(c.attention_scale, 0.0078125);
  EXPECT_EQ(c.logits_scaling, 16);
  EXPECT_EQ(config_from_json(deep("granite")).attention_scale, 1);
}

Json yarn(std::initializer_list<std::pair<const char*, Json>> changes = {}) {
  Json rope = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}};
  for (const auto& [key, value] : changes) {
    rope[key] = value;
    if (value.is_null()) rope.erase(key);
  }
  return deep("llama", {{"rope_scaling", rope}});
}

TEST(Yarn, ReadsItsParameters) {
  const RopeConfig rope = config_from_json(yarn()).rope;
  EXPECT_EQ(rope.type, RopeType::kYarn);
  EXPECT_EQ(rope.factor, 4);
  EXPECT_EQ(rope.original_max_positions, 128);
  EXPECT_EQ(rope.beta_fast, 32);
  EXPECT_EQ(rope.beta_slow, 1);
  EXPECT_TRUE(rope.truncate);
  EXPECT_DOUBLE_EQ(rope.attention_factor, 0.1 * std::log(4.0) + 1);
  const auto changed = [](std::initializer_list<std::pair<const char*, Json>> changes) {
    return config_from_json(yarn(changes)).rope;
  };
  EXPECT_EQ(changed({{"attention_factor", 0.5}, {"mscale", 2.0}}).attention_factor, 0.5);
  EXPECT_DOUBLE_EQ(changed({{"mscale", 2.0}, {"mscale_all_dim", 3.0}}).attention_factor,
                   (0.2 * std::log(4.0) + 1) / (0.3 * std::log(4.0) + 1));
  // 0 is none.
  for (const Json& all_dim : {Json(), Json(0), Json(0.0)})
    EXPECT_DOUBLE_EQ(changed({{"mscale", 2.0}, {"mscale_all_dim", all_dim}}).attention_factor,
                     0.1 * std::log(4.0) + 1);
  EXPECT_DOUBLE_EQ(changed({{"mscale", 0.0}, {"mscale_all_dim", 3.0}}).attention_factor,
                   0.1 * std::log(4.0) + 1);
  EXPECT_EQ(changed({{"factor", 0.5}}).attention_factor, 1);
  EXPECT_EQ(changed({{"factor", nullptr}}).factor, 512.0 / 128);
  EXPECT_EQ(changed({{"original_max_position_embeddings", nullptr}}).original_max_positions, 512);
  EXPECT_FALSE(changed({{"truncate", false}}).truncate);
  EXPECT_EQ(changed({{"beta_fast", 16}, {"beta_slow", 2}}).beta_slow, 2);
}

TEST(Yarn, ChecksItsParameters) {
  for (const char* key : {"factor", "attention_factor", "beta_fast", "beta_slow"})
    for (const Json& value : {Json(0), Json(-1), Json("8"), Json(1e300)})
      expect_bad(yarn({{key, value}}), {key});
  expect_bad(yarn({{"beta_fast", 1.0}}), {"beta_fast (1)", "beta_slow (1)"});
  expect_bad(yarn({{"mscale", -1.0}, {"mscale_all_dim", 1.0}}), {"mscale", "-1"});
  expect_bad(yarn({{"mscale", 1.0}, {"mscale_all_dim", "1"}}), {"mscale_all_dim", "\"1\""});
  expect_bad(yarn({{"truncate", 1}}), {"truncate", "1"});
  Json flat = yarn();
  flat["rope_theta"] = 1.0;
  expect_bad(flat, {"rope theta is 1", "yarn"});
}

// As model cards say: yarn is added to a file that says nothing else of a longer context.
TEST(Yarn, AddedByHandLengthensTheContext) {
  const auto positions = [](double factor, int32_t original, const char* type = "llama") {
    const Json rope = {
        {"type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", original}};
    return config_from_json(deep(type, {{"rope_scaling", rope}})).max_positions;
  };
  EXPECT_EQ(positions(4, 512), 2048);
  EXPECT_EQ(positions(2.5, 512), 1280);
  EXPECT_EQ(positions(4, 400), 1600);  // Qwen3: 40960 in the file, of them 32768 for yarn
  EXPECT_EQ(positions(4, 128), 512);   // as published
  EXPECT_EQ(positions(2, 128), 512);
  EXPECT_EQ(positions(4, 513), 512);  // cut from a larger model
  EXPECT_EQ(config_from_json(of("gpt_oss", {{"num_local_experts", 4}})).max_positions, 512);
  expect_bad(deep("llama", {{"rope_scaling", {{"type", "yarn"}, {"factor", 1e6}}}}),
             {"1e+06", "512 positions", "16777216"});
  // A window as long as the context before is shorter than it now.
  const Json windowed = deep("llama", {{"sliding_window", 512}});
  EXPECT_NO_THROW(config_from_json(windowed));
  expect_bad(with({{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}}, windowed),
             {"sliding_window is 512", "2048", "\"llama\""}, Code::kUnsupportedModel);
}

// Option max_positions makes the context shorter; no table is made for what is beyond it.
TEST(Context, OfAnOptionIsAtMostThatOfTheModel) {
  const ModelConfig c = config_from_json(deep("llama"));
  const auto length = [&](const char* positions) {
    Options options;
    options.set("max_positions", positions);
    return context_length(options, c);
  };
  EXPECT_EQ(length("0"), 512);
  EXPECT_EQ(length("1"), 1);
  EXPECT_EQ(length("512"), 512);
  expect_error(Code::kOutOfRange, {"max_positions is 513", "512 tokens"}, [&] { length("513"); });
}

TEST(Yarn, IsReadFromGguf) {
  const auto file = [] {
    GgufWriter w = deep_gguf("llama");
    w.string("llama.rope.scaling.type", "yarn").number("llama.rope.scaling.factor", 4);
    w.integer("llama.rope.scaling.original_context_length", 128);
    return w;
  };
  const RopeConfig rope = config_of(file()).rope;
  EXPECT_EQ(rope.type, RopeType::kYarn);
  EXPECT_EQ(rope.original_max_positions, 128);
  EXPECT_DOUBLE_EQ(rope.attention_factor, 0.1 * std::log(4.0) + 1);
  EXPECT_DOUBLE_EQ(
      config_of(file().number("llama.rope.scaling.attn_factor", 0.5f)).rope.attention_factor,
      0.5 * (0.1 * std::log(4.0) + 1));
  EXPECT_EQ(config_of(file().number("llama.rope.scaling.yarn_beta_fast", 8)).rope.beta_fast, 8);
  // llama.cpp does not use what converters copy from config.json.
  for (const float same : {1.0f, 1.1386294f})
    EXPECT_DOUBLE_EQ(
        config_of(file().number("llama.rope.scaling.yarn_attn_factor", same)).rope.attention_factor,
        0.1 * std::log(4.0) + 1);
  expect_error(Code::kUnsupportedModel,
               {"rope.scaling.yarn_attn_factor", "is 1.25", "1 and 1.13863", "by 4"},
               [&] { config_of(file().number("llama.rope.scaling.yarn_attn_factor", 1.25f)); });
  const auto refused = [&](const char* key, float value, Code code) {
    expect_error(code, {key},
                 [&] { config_of(file().number(std::string("llama.") + key, value)); });
  };
  // What llama.cpp computes without the key, and converters copy from config.json.
  EXPECT_NO_THROW(config_of(file().number("llama.rope.scaling.yarn_ext_factor", 1)));
  refused("rope.scaling.yarn_ext_factor", 0.5f, Code::kUnsupportedModel);
  refused("rope.scaling.yarn_attn_factor", 0.5f, Code::kUnsupportedModel);
  refused("rope.scaling.yarn_log_multiplier", 0.5f, Code::kUnsupportedModel);
  refused("rope.scaling.yarn_beta_fast", 1, Code::kFormat);
  refused("rope.scaling.yarn_beta_slow", 0, Code::kFormat);
  refused("rope.scaling.attn_factor", -1, Code::kFormat);
}

// As llama.cpp takes them where the file leaves them out.
TEST(Yarn, OfGgufHasTheDefaultsOfLlamaCpp) {
  GgufWriter w = deep_gguf("llama");
  w.string("llama.rope.scaling.type", "yarn");
  EXPECT_EQ(config_of(w).rope.factor, 1);
  EXPECT_EQ(config_of(w).rope.attention_factor, 1);
  w.number("llama.rope.scaling.factor", 4);
  const ModelConfig c = config_of(w);
  EXPECT_EQ(c.rope.factor, 4);
  EXPECT_EQ(c.rope.original_max_positions, c.max_positions);
}

// Both stretch: each frequency is divided by its number of the tensor as well.
TEST(Yarn, OfGgufTakesFrequencyDivisors) {
  const auto file = [] {
    GgufWriter w = deep_gguf("llama");
    w.string("llama.rope.scaling.type", "yarn").number("llama.rope.scaling.factor", 4);
    w.integer("llama.rope.scaling.original_context_length", 128);
    return w;
  };
  const ModelConfig plain = config_of(file());
  const auto half = static_cast<size_t>(plain.rotary_dim() / 2);
  GgufWriter w = file();
  w.f32("rope_freqs.weight", {half}, std::vector<float>(half, 2));
  const std::vector<float> before = rope_frequencies(plain, false);
  const std::vector<float> divided = rope_frequencies(config_of(w), false);
  ASSERT_EQ(divided.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(divided[i], before[i] / 2) << i;
}

TEST(Dynamic, KeepsTheContextThatItDoesNotStretch) {
  const auto dynamic = [](const Json& factor) {
    return deep("llama", {{"rope_scaling", {{"type", "dynamic"}, {"factor", factor}}}});
  };
  const ModelConfig c = config_from_json(dynamic(2.0));
  EXPECT_EQ(c.rope.type, RopeType::kDynamic);
  EXPECT_EQ(c.max_positions, 512);
  expect_bad(dynamic(0), {"factor"});
}

}  // namespace
}  // namespace prefix
