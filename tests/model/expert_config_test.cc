// Configurations of models with routed experts, and what is refused of them.
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config_support.h"
#include "model/layer.h"

namespace prefix {
namespace {

using testing_support::Changes;
using testing_support::config_of;
using testing_support::expect_bad;
using testing_support::expect_error;
using testing_support::GgufWriter;

Json qwen_moe(Changes changes = {}) {
  Json json = {{"model_type", "qwen3_moe"},  {"vocab_size", 1000},
               {"hidden_size", 64},          {"intermediate_size", 96},
               {"num_hidden_layers", 4},     {"num_attention_heads", 4},
               {"num_key_value_heads", 2},   {"max_position_embeddings", 512},
               {"num_experts", 6},           {"num_experts_per_tok", 2},
               {"moe_intermediate_size", 24}};
  for (const auto& [key, value] : changes) json[key] = value;
  return json;
}

Json mixtral(Changes changes = {}) {
  Json json = {{"model_type", "mixtral"},  {"vocab_size", 1000},
               {"hidden_size", 64},        {"intermediate_size", 96},
               {"num_hidden_layers", 2},   {"num_attention_heads", 4},
               {"num_key_value_heads", 2}, {"max_position_embeddings", 512}};
  for (const auto& [key, value] : changes) json[key] = value;
  return json;
}

// A letter for each layer: experts, or a gated block of its own.
std::string blocks(const ModelConfig& config) {
  std::string letters;
  for (const LayerSpec& layer : resolve_layers(config, find_architecture(config.architecture)))
    letters += layer.feed_forward == FeedForward::kExperts ? 'e' : 'g';
  return letters;
}

TEST(ExpertConfig, ReadsSizesAndLayers) {
  const ModelConfig c = config_from_json(qwen_moe({{"norm_topk_prob", true}}));
  EXPECT_EQ(c.experts.count, 6);
  EXPECT_EQ(c.experts.per_token, 2);
  EXPECT_EQ(c.experts.intermediate, 24);
  EXPECT_TRUE(c.experts.normalized);
  EXPECT_EQ(c.intermediate, 96);
  EXPECT_EQ(blocks(c), "eeee");
  EXPECT_FALSE(config_from_json(qwen_moe()).experts.normalized);
  EXPECT_EQ(blocks(config_from_json(qwen_moe({{"decoder_sparse_step", 2}}))), "gege");
  EXPECT_EQ(blocks(config_from_json(qwen_moe({{"mlp_only_layers", {0, 3}}}))), "geeg");
  EXPECT_EQ(blocks(config_from_json(qwen_moe({{"num_experts", 0}}))), "gggg");
  EXPECT_EQ(config_from_json(qwen_moe({{"num_local_experts", 6}})).experts.count, 6);
}

TEST(ExpertConfig, LeftOutKeysAreThoseOfTransformers) {
  const ModelConfig c = config_from_json(mixtral());
  EXPECT_EQ(c.experts.count, 8);
  EXPECT_EQ(c.experts.per_token, 2);
  EXPECT_EQ(c.experts.intermediate, 96);
  EXPECT_TRUE(c.experts.normalized);
  EXPECT_EQ(blocks(c), "ee");
  Json json = qwen_moe();
  for (const char* key : {"num_experts", "num_experts_per_tok", "moe_intermediate_size"})
    json.erase(key);
  const ModelConfig q = config_from_json(json);
  EXPECT_EQ(q.experts.count, 128);
  EXPECT_EQ(q.experts.per_token, 8);
  EXPECT_EQ(q.experts.intermediate, 768);
}

Json gpt_oss(Changes changes = {}) {
  Json json = {{"model_type", "gpt_oss"}, {"vocab_size", 1000},
               {"hidden_size", 64},       {"intermediate_size", 96},
               {"num_hidden_layers", 3},  {"num_attention_heads", 16},
               {"head_dim", 16},          {"max_position_embeddings", 512}};
  for (const auto& [key, value] : changes) json[key] = value;
  return json;
}

TEST(ExpertConfig, LeftOutKeysOfGptOssAreThoseOfTransformers) {
  Json json = gpt_oss();
  json.erase("head_dim");
  const ModelConfig c = config_from_json(json);
  EXPECT_EQ(c.experts.count, 128);
  EXPECT_EQ(c.experts.per_token, 4);
  EXPECT_EQ(c.experts.intermediate, 96);
  EXPECT_TRUE(c.experts.normalized && c.experts.biased);
  EXPECT_EQ(blocks(c), "eee");
  EXPECT_EQ(c.activation, ops::ActivationFn::kClampedSwiglu);
  EXPECT_EQ(c.kv_heads, 8);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_TRUE(c.attention_bias && c.attention_output_bias);
  EXPECT_EQ(c.windows, (std::vector<int32_t>{128, 0, 128}));
  EXPECT_EQ(c.rope.type, RopeType::kYarn);
  EXPECT_EQ(c.rope.theta, 150000);
  EXPECT_EQ(c.rope.factor, 32);
  EXPECT_EQ(c.rope.original_max_positions, 4096);
  EXPECT_FALSE(c.rope.truncate);
  EXPECT_FALSE(c.tie_embeddings);
  EXPECT_EQ(c.norm_eps, 1e-5f);
}

TEST(ExpertConfig, ReadsWhatGptOssSays) {
  const Json types = {"full_attention", "sliding_attention", "full_attention"};
  const ModelConfig c = config_from_json(
      gpt_oss({{"attention_bias", false},
               {"layer_types", types},
               {"sliding_window", 9},
               {"num_experts", 5},
               {"swiglu_limit", 7.0},
               {"swiglu_alpha", 1.702},
               {"hidden_act", "silu"},
               {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}, {"truncate", true}}}}));
  EXPECT_FALSE(c.attention_bias || c.attention_output_bias);
  EXPECT_EQ(c.windows, (std::vector<int32_t>{0, 9, 0}));
  EXPECT_EQ(c.experts.count, 5);
  EXPECT_EQ(c.rope.factor, 2);
  EXPECT_TRUE(c.rope.truncate);
  // An empty object says that there is nothing special.
  EXPECT_EQ(config_from_json(gpt_oss({{"rope_parameters", Json::object()}})).rope.type,
            RopeType::kDefault);
}

TEST(ExpertConfig, RefusesOtherActivationsOfGptOss) {
  const auto refused = [](Changes changes, std::initializer_list<std::string_view> words) {
    expect_error(Code::kUnsupportedModel, words, [&] { config_from_json(gpt_oss(changes)); });
  };
  refused({{"swiglu_limit", 5.5}}, {"swiglu_limit", "5.5", "7"});
  refused({{"swiglu_alpha", 1}}, {"swiglu_alpha", "1", "1.702"});
  refused({{"hidden_act", "gelu"}}, {"\"gelu\"", "\"silu\""});
}

TEST(ExpertConfig, ReadsWindowsOfAllLayers) {
  const auto windows = [](const Json& json) { return config_from_json(json).windows; };
  EXPECT_EQ(windows(mixtral({{"sliding_window", 7}})), (std::vector<int32_t>{7, 7}));
  EXPECT_TRUE(windows(mixtral({{"sliding_window", nullptr}})).empty());
  EXPECT_TRUE(windows(mixtral()).empty());
  const std::vector<int32_t> all(4, 7), absent(4, 4096);
  EXPECT_EQ(windows(qwen_moe({{"sliding_window", 7}, {"use_sliding_window", true}})), all);
  EXPECT_EQ(windows(qwen_moe({{"use_sliding_window", true}})), absent);
  EXPECT_TRUE(windows(qwen_moe({{"sliding_window", 7}})).empty());
  expect_error(Code::kUnsupportedModel, {"layer_types", "\"mixtral\"", "one kind"}, [] {
    config_from_json(
        mixtral({{"sliding_window", 7}, {"layer_types", {"full_attention", "sliding_attention"}}}));
  });
}

// Two layers of experts, whose width is that of the feed-forward block where the file has no other.
ModelConfig config_of(const std::string& architecture,
                      std::initializer_list<std::pair<const char*, uint32_t>> more) {
  GgufWriter w;
  w.string("general.architecture", architecture);
  w.string(architecture + ".rope.scaling.type", "yarn");
  w.number(architecture + ".rope.scaling.factor", 8);
  for (const auto& [key, value] : {std::pair{"embedding_length", 64u},
                                   {"block_count", 2},
                                   {"attention.head_count", 4},
                                   {"feed_forward_length", 96},
                                   {"context_length", 512},
                                   {"expert_count", 6},
                                   {"expert_used_count", 2},
                                   {"rope.scaling.original_context_length", 64}})
    w.integer(architecture + "." + key, value);
  for (const auto& [key, value] : more) w.integer(architecture + "." + key, value);
  w.number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  w.tensor("token_embd.weight", {64, 100}, 0, 64 * 100 * 4);
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.1.ffn_gate_inp.weight"})
    w.tensor(name, {64, 6}, 0, 64 * 6 * 4);
  return config_of(w);
}

TEST(ExpertConfig, ReadsGguf) {
  const ModelConfig oss = config_of("gpt-oss", {{"expert_feed_forward_length", 40}});
  EXPECT_EQ(oss.architecture, "gpt_oss");
  EXPECT_EQ(oss.experts.intermediate, 40);
  EXPECT_TRUE(oss.experts.biased && oss.experts.normalized);
  EXPECT_EQ(oss.windows, (std::vector<int32_t>{128, 0}));
  EXPECT_EQ(oss.activation, ops::ActivationFn::kClampedSwiglu);
  EXPECT_FALSE(oss.rope.truncate);
  EXPECT_EQ(blocks(oss), "ee");
  // GGUF has no name of its own for Mixtral.
  const ModelConfig mixtral = config_of("llama", {});
  EXPECT_EQ(mixtral.architecture, "mixtral");
  EXPECT_EQ(mixtral.experts.intermediate, 96);
  EXPECT_EQ(mixtral.experts.count, 6);
  EXPECT_TRUE(mixtral.qk_permuted && mixtral.rope.truncate);
  EXPECT_FALSE(mixtral.experts.biased);
  expect_error(Code::kFormat, {"qwen3moe.expert_feed_forward_length"},
               [] { config_of("qwen3moe", {}); });
}

TEST(ExpertConfig, RefusesWhatMakesNoSense) {
  expect_bad(qwen_moe({{"num_experts_per_tok", 7}}), {"num_experts_per_tok", "7", "6"});
  expect_bad(qwen_moe({{"num_experts_per_tok", 0}}), {"num_experts_per_tok", "0"});
  expect_bad(mixtral({{"num_local_experts", 1}}), {"num_experts_per_tok", "missing", "2", "1"});
  expect_bad(qwen_moe({{"num_experts", 5000}}), {"num_experts", "5000", "4096"});
  expect_bad(qwen_moe({{"num_local_experts", 8}}), {"num_experts", "6", "num_local_experts", "8"});
  expect_bad(qwen_moe({{"moe_intermediate_size", 0}}), {"moe_intermediate_size", "0"});
  expect_bad(qwen_moe({{"mlp_only_layers", {4}}}), {"mlp_only_layers", "4", "3"});
  expect_bad(qwen_moe({{"mlp_only_layers", "0"}}), {"mlp_only_layers"});
  expect_bad(qwen_moe({{"decoder_sparse_step", 0}}), {"decoder_sparse_step", "0"});
  expect_bad(mixtral({{"num_local_experts", 0}}), {"num_local_experts", "mixtral"},
             Code::kUnsupportedModel);
}

}  // namespace
}  // namespace prefix
