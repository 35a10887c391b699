#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "config_support.h"

namespace prefix {
namespace {

using testing_support::Changes;
using testing_support::expect_bad;
using testing_support::expect_error;
using testing_support::expect_unsupported;
using testing_support::of;
using testing_support::with;
using testing_support::without;

Json llama() { return of("llama"); }
Json with(Changes changes) { return of("llama", changes); }
Json without(const char* key) { return without(key, llama()); }

TEST(ConfigJson, ReadsSizes) {
  const ModelConfig c = config_from_json(llama());
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.vocab_size, 1000);
  EXPECT_EQ(c.hidden, 64);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.intermediate, 96);
  EXPECT_EQ(c.max_positions, 512);
  EXPECT_EQ(c.norm_eps, 1e-5f);
  EXPECT_FALSE(c.tie_embeddings || c.attention_bias || c.mlp_bias || c.from_gguf || c.qk_permuted);
  EXPECT_EQ(c.rope.theta, 10000);
  EXPECT_EQ(c.rotary_dim(), 16);
}

TEST(ConfigJson, TakesTheDefaultsOfTransformers) {
  EXPECT_EQ(config_from_json(without("num_key_value_heads")).kv_heads, 4);
  EXPECT_EQ(config_from_json(with({{"num_key_value_heads", nullptr}})).kv_heads, 4);
  EXPECT_EQ(config_from_json(without("rms_norm_eps")).norm_eps, 1e-6f);
  EXPECT_EQ(config_from_json(without("rms_norm_eps", of("olmo2"))).norm_eps, 1e-5f);
  EXPECT_EQ(config_from_json(without("rms_norm_eps", of("phi3"))).norm_eps, 1e-5f);
  EXPECT_EQ(config_from_json(of("qwen3")).head_dim, 128);
  EXPECT_EQ(config_from_json(with({{"head_dim", 32}}, of("qwen3"))).head_dim, 32);
  EXPECT_EQ(config_from_json(with({{"head_dim", nullptr}})).head_dim, 16);
  const Json wide = with({{"num_attention_heads", 64}}, of("qwen3"));
  EXPECT_EQ(config_from_json(without("num_key_value_heads", wide)).kv_heads, 32);
}

TEST(ConfigJson, ReadsFlags) {
  const Json all =
      with({{"attention_bias", true}, {"mlp_bias", true}, {"tie_word_embeddings", true}});
  const ModelConfig c = config_from_json(all);
  EXPECT_TRUE(c.attention_bias && c.attention_output_bias && c.mlp_bias && c.tie_embeddings);
  // Phi-3 looks at neither, Qwen3 has no biases in its feed-forward part.
  Json phi = all;
  phi["model_type"] = "phi3";
  EXPECT_FALSE(config_from_json(phi).attention_bias);
  EXPECT_FALSE(config_from_json(phi).mlp_bias);
  phi["model_type"] = "qwen3";
  EXPECT_TRUE(config_from_json(phi).attention_bias);
  EXPECT_FALSE(config_from_json(phi).mlp_bias);
}

TEST(ConfigJson, NamesUnknownModels) {
  expect_unsupported(of("mamba"),
                     {"\"mamba\"", "supported: gemma, gemma-embedding, gemma2, ", "qwen3"});
  expect_unsupported(of("LLAMA"), {"\"LLAMA\""});
  for (const char* name : {"gemma4", "gemma4_text", "gemma4_unified"})
    expect_unsupported(of(name), {name, "heads of another size", "embeddings of their own"});
  expect_unsupported(of("gemma3n"), {"gemma3n", "several residuals"});
  expect_unsupported(of("gemma44"), {"\"gemma44\" is not supported (supported: "});
  expect_bad(without("model_type"), {"model_type", "missing"});
  expect_bad(with({{"model_type", 7}}), {"model_type", "7"});
  expect_bad(Json::array(), {"a list of 0 values"});
}

TEST(ConfigJson, LimitsEverySize) {
  const std::pair<const char*, int64_t> limits[] = {
      {"vocab_size", ConfigLimits::kVocab},
      {"hidden_size", ConfigLimits::kHidden},
      {"num_hidden_layers", ConfigLimits::kLayers},
      {"intermediate_size", ConfigLimits::kIntermediate},
      {"max_position_embeddings", ConfigLimits::kPositions},
  };
  for (const auto& [key, most] : limits) {
    EXPECT_NO_THROW(config_from_json(with({{key, most}}))) << key;
    expect_bad(with({{key, most + 1}}), {key, std::to_string(most + 1), std::to_string(most)});
    expect_bad(with({{key, UINT64_MAX}}), {key, "18446744073709551615"});
    for (const Json& value :
         {Json(0), Json(-1), Json(4.0), Json("4"), Json(true), Json::array({4})})
      expect_bad(with({{key, value}}), {key});
    expect_bad(with({{key, nullptr}}), {key, "missing"});
    expect_bad(without(key), {key, "missing"});
  }
  const auto heads = [](int64_t n) {
    return with({{"num_attention_heads", n}, {"num_key_value_heads", n}, {"head_dim", 16}});
  };
  EXPECT_NO_THROW(config_from_json(heads(1024)));
  expect_bad(heads(1025), {"num_attention_heads", "1025", "1024"});
  EXPECT_NO_THROW(config_from_json(with({{"head_dim", 1024}})));
  expect_bad(with({{"head_dim", 1025}}), {"head_dim", "1025", "1024"});
}

TEST(ConfigJson, ChecksHowSizesFit) {
  expect_bad(with({{"num_key_value_heads", 3}}), {"(4)", "(3)", "multiple"});
  expect_bad(with({{"num_key_value_heads", 8}}), {"(4)", "(8)"});
  expect_bad(with({{"num_attention_heads", 6}}),
             {"hidden_size (64)", "(6)", "head_dim is missing"});
  expect_bad(with({{"head_dim", 15}}), {"15", "even"});
  for (const Json& eps : {Json(0), Json(1), Json(-1e-5), Json(2)})
    expect_bad(with({{"rms_norm_eps", eps}}), {"epsilon", "(0, 1)"});
  expect_bad(with({{"rms_norm_eps", "small"}}), {"rms_norm_eps", "\"small\""});
}

TEST(ConfigJson, RefusesWhatItCannotRun) {
  expect_unsupported(with({{"hidden_act", "gelu"}}), {"\"gelu\"", "silu"});
  EXPECT_EQ(config_from_json(with({{"hidden_act", "swish"}})).activation, ops::ActivationFn::kSilu)
      << "another name of it, in transformers";
  expect_unsupported(with({{"quantization_config", {{"quant_method", "hqq"}}}}), {"\"hqq\""});
  expect_bad(with({{"quantization_config", "x"}}), {"quantization_config"});
  expect_unsupported(with({{"is_encoder_decoder", true}}), {"encoder-decoder"});
  expect_unsupported(with({{"architectures", {"LlamaForTokenClassification"}}}),
                     {"\"LlamaForTokenClassification\"", "label single tokens"});
  EXPECT_NO_THROW(config_from_json(with({{"architectures", {"LlamaForSequenceClassification"}}})));
  EXPECT_NO_THROW(
      config_from_json(with({{"quantization_config", nullptr}, {"hidden_act", "silu"}})));
}

TEST(ConfigJson, ReadsTokenIds) {
  const auto eos = [](const Json& value) {
    return config_from_json(with({{"eos_token_id", value}})).eos_ids;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(eos(7), Ids{7});
  EXPECT_EQ(eos(Json::array({7, 9})), (Ids{7, 9}));
  EXPECT_EQ(eos(nullptr), Ids{});
  EXPECT_EQ(eos(-1), Ids{});
  EXPECT_EQ(eos(999), Ids{999});
  EXPECT_EQ(eos(1000), Ids{});
  for (const Json& value : {Json("x"), Json(1.0), Json::array({"x"}), Json(-2), Json(1 << 25)})
    expect_bad(with({{"eos_token_id", value}}), {"eos_token_id"});
  expect_bad(with({{"eos_token_id", Json(std::vector<int>(1025, 1))}}), {"list of 1025", "1024"});
  EXPECT_EQ(config_from_json(with({{"bos_token_id", 1}})).bos_id, 1);
  EXPECT_EQ(config_from_json(llama()).bos_id, -1);
}

TEST(ConfigJson, GenerationConfigGoesBefore) {
  ModelConfig c = config_from_json(with({{"eos_token_id", 7}}));
  apply_generation_config(Json::object(), c);
  EXPECT_EQ(c.eos_ids, std::vector<int32_t>{7});
  apply_generation_config({{"eos_token_id", {8, 9}}}, c);
  EXPECT_EQ(c.eos_ids, (std::vector<int32_t>{8, 9}));
}

TEST(ConfigJson, ReadsTheTypeInBothSpellings) {
  EXPECT_EQ(config_from_json(with({{"torch_dtype", "bfloat16"}})).dtype, "bfloat16");
  EXPECT_EQ(config_from_json(with({{"dtype", "float16"}})).dtype, "float16");
}

// Rotary embedding, in both spellings.
const Json kLlama3 = {{"rope_type", "llama3"},
                      {"factor", 8.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 256}};

TEST(ConfigJsonRope, ReadsBothSpellings) {
  const RopeConfig v4 =
      config_from_json(with({{"rope_theta", 5e5}, {"rope_scaling", kLlama3}})).rope;
  Json parameters = kLlama3;
  parameters["rope_theta"] = 5e5;
  const RopeConfig v5 = config_from_json(with({{"rope_parameters", parameters}})).rope;
  for (const RopeConfig& rope : {v4, v5}) {
    EXPECT_EQ(rope.type, RopeType::kLlama3);
    EXPECT_EQ(rope.theta, 5e5);
    EXPECT_EQ(rope.factor, 8);
    EXPECT_EQ(rope.low_freq_factor, 1);
    EXPECT_EQ(rope.high_freq_factor, 4);
    EXPECT_EQ(rope.original_max_positions, 256);
  }
  const auto type_of = [](const Json& scaling) {
    return config_from_json(with({{"rope_scaling", scaling}})).rope.type;
  };
  EXPECT_EQ(type_of(nullptr), RopeType::kDefault);
  EXPECT_EQ(type_of(Json::object()), RopeType::kDefault);
  EXPECT_EQ(type_of({{"type", "linear"}, {"factor", 2}}), RopeType::kLinear);
  EXPECT_EQ(type_of({{"rope_type", "linear"}, {"type", "linear"}, {"factor", 2}}),
            RopeType::kLinear);
}

// Tools of either version write their own spelling and leave the other one.
TEST(ConfigJsonRope, TakesBothSpellingsThatAgree) {
  const auto read = [](const Json& older, const Json& newer, const Json& json = llama()) {
    return config_from_json(with({{"rope_scaling", older}, {"rope_parameters", newer}}, json)).rope;
  };
  Json parameters = kLlama3, older = kLlama3;
  parameters["rope_theta"] = 5e5;
  older["type"] = older["rope_type"];
  older.erase("rope_type");
  older["factor"] = 8;
  for (const Json& scaling : {kLlama3, older, parameters, Json(nullptr), Json::object()}) {
    const RopeConfig rope = read(scaling, parameters);
    EXPECT_EQ(rope.type, RopeType::kLlama3);
    EXPECT_EQ(rope.theta, 5e5);
    EXPECT_EQ(rope.factor, 8);
  }
  // What one of them leaves out is taken from the other.
  const RopeConfig joined = read({{"type", "linear"}, {"factor", 2}}, {{"rope_theta", 5e5}});
  EXPECT_EQ(joined.type, RopeType::kLinear);
  EXPECT_EQ(joined.factor, 2);
  EXPECT_EQ(joined.theta, 5e5);
  const Json factors = std::vector<double>(8, 1.0);
  const Json lengths = {{"short_factor", factors}, {"long_factor", factors}};
  EXPECT_EQ(read(with({{"type", "su"}}, lengths), with({{"rope_type", "longrope"}}, lengths),
                 of("phi3", {{"original_max_position_embeddings", 128}}))
                .type,
            RopeType::kLongrope);
  expect_unsupported(with({{"rope_scaling", {{"full_attention", {{"rope_type", "default"}}}}},
                           {"rope_parameters", {{"rope_theta", 5e5}}}}),
                     {"per layer type", "full_attention"});
}

// The priority of transformers v5.
TEST(ConfigJsonRope, WhatIsInsideGoesBeforeWhatIsBesideIt) {
  for (const char* object : {"rope_parameters", "rope_scaling"}) {
    const Json inside = {{"rope_type", "default"}, {"rope_theta", 5e5}};
    EXPECT_EQ(config_from_json(with({{"rope_theta", 2e4}, {object, inside}})).rope.theta, 5e5);
  }
  const Json half = {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(config_from_json(of("phi3", {{"partial_rotary_factor", 1}, {"rope_parameters", half}}))
                .rope.partial_rotary_factor,
            0.5);
}

TEST(ConfigJsonRope, RefusesContradictions) {
  expect_bad(with({{"rope_scaling", kLlama3}, {"rope_parameters", {{"rope_type", "default"}}}}),
             {"rope_scaling", "rope_parameters", "differ", "rope_type is \"llama3\" in one",
              "\"default\" in the other"});
  expect_bad(with({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                   {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.5}}}}),
             {"differ", "factor is 2 in one", "4.5 in the other"});
  expect_bad(with({{"rope_scaling", {{"rope_type", "linear"}, {"type", "llama3"}}}}),
             {"\"linear\"", "\"llama3\""});
  expect_bad(with({{"rope_scaling", {{"factor", 2}}}}), {"factor", "no rope_type"});
  expect_bad(with({{"rope_scaling", "linear"}}), {"rope_scaling", "\"linear\"", "object"});
}

TEST(ConfigJsonRope, NamesUnknownTypes) {
  for (const char* type : {"mrope", "su", "proportional", "Default"})
    expect_unsupported(with({{"rope_scaling", {{"rope_type", type}, {"factor", 2}}}}),
                       {"rope type", type, "default, linear, dynamic, yarn, llama3, longrope"});
  expect_unsupported(with({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}),
                     {"per layer type", "full_attention"});
}

TEST(ConfigJsonRope, ChecksValues) {
  const auto llama3 = [](const char* key, const Json& value) {
    Json rope = kLlama3;
    rope[key] = value;
    return with({{"rope_scaling", rope}});
  };
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    for (const Json& value : {Json(0), Json(-1), Json("8"), Json(1e300), Json(nullptr)})
      expect_bad(llama3(key, value), {key});
  }
  expect_bad(llama3("high_freq_factor", 1.0), {"high_freq_factor (1)", "low_freq_factor (1)"});
  expect_bad(llama3("original_max_position_embeddings", nullptr), {"original_max", "missing"});
  expect_bad(llama3("original_max_position_embeddings", 1 << 25), {"original_max", "33554432"});
  for (const Json& theta : {Json(0), Json(0.5), Json(-1e4), Json(1e16)})
    expect_bad(with({{"rope_theta", theta}}), {"theta", "[1, 1e15]"});
}

TEST(ConfigJsonRope, PartialRotationIsForArchitecturesThatHaveIt) {
  const ModelConfig c = config_from_json(with({{"partial_rotary_factor", 0.75}}, of("phi3")));
  EXPECT_EQ(c.rotary_dim(), 12);
  expect_unsupported(with({{"partial_rotary_factor", 0.5}}), {"\"llama\"", "16", "8"});
  for (const Json& factor : {Json(0), Json(1.5), Json(-1)})
    expect_bad(with({{"partial_rotary_factor", factor}}, of("phi3")),
               {"partial_rotary_factor", "(0, 1]"});
  expect_bad(with({{"partial_rotary_factor", 0.2}}, of("phi3")), {"rotary dimension is 3", "even"});
  expect_bad(with({{"partial_rotary_factor", 0.05}}, of("phi3")), {"rotary dimension is 0"});
}

Json longrope(std::initializer_list<std::pair<const char*, Json>> changes = {}) {
  Json rope = {{"type", "longrope"},
               {"short_factor", std::vector<double>(8, 1.0)},
               {"long_factor", std::vector<double>(8, 2.0)}};
  for (const auto& [key, value] : changes) rope[key] = value;
  return with({{"rope_scaling", rope}, {"original_max_position_embeddings", 128}}, of("phi3"));
}

TEST(ConfigJsonRope, ReadsLongrope) {
  const RopeConfig rope = config_from_json(longrope()).rope;
  EXPECT_EQ(rope.type, RopeType::kLongrope);
  EXPECT_EQ(rope.original_max_positions, 128);
  EXPECT_EQ(rope.long_factor, std::vector<double>(8, 2.0));
  EXPECT_DOUBLE_EQ(rope.attention_factor, std::sqrt(1 + std::log(4.0) / std::log(128.0)));
  const auto factor = [](std::initializer_list<std::pair<const char*, Json>> changes) {
    return config_from_json(longrope(changes)).rope.attention_factor;
  };
  EXPECT_EQ(factor({{"attention_factor", 1.5}}), 1.5);
  EXPECT_EQ(factor({{"factor", 1.0}}), 1.0);
  EXPECT_DOUBLE_EQ(factor({{"factor", 16.0}}), std::sqrt(1 + std::log(16.0) / std::log(128.0)));
  for (const char* older : {"su", "yarn"})
    EXPECT_EQ(config_from_json(longrope({{"type", older}})).rope.type, RopeType::kLongrope);
}

TEST(ConfigJsonRope, ChecksLongrope) {
  expect_bad(longrope({{"short_factor", nullptr}}), {"short_factor", "missing"});
  expect_bad(longrope({{"long_factor", 2.0}}), {"long_factor", "2.0", "list"});
  expect_bad(longrope({{"long_factor", std::vector<double>(7, 2.0)}}), {"7 factors", "16 needs 8"});
  expect_bad(longrope({{"long_factor", std::vector<double>(2000, 2.0)}}), {"list of 2000", "1024"});
  expect_bad(longrope({{"long_factor", std::vector<double>(8, 0.0)}}), {"long_factor", "0.0"});
  expect_bad(longrope({{"long_factor", std::vector<std::string>(8, "x")}}),
             {"long_factor", "\"x\""});
  expect_bad(longrope({{"attention_factor", -1}}), {"attention_factor", "-1"});
  Json nowhere = longrope();
  nowhere.erase("original_max_position_embeddings");
  expect_bad(nowhere, {"original_max_position_embeddings", "missing"});
}

}  // namespace
}  // namespace prefix
