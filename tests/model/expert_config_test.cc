// Configurations of models with routed experts, and what is refused of them.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/config.h"
#include "model/layer.h"
#include "model/step_memory.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;

using Changes = std::initializer_list<std::pair<const char*, Json>>;

Json qwen(Changes changes = {}) {
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
  const ModelConfig c = config_from_json(qwen({{"norm_topk_prob", true}}));
  EXPECT_EQ(c.experts.count, 6);
  EXPECT_EQ(c.experts.per_token, 2);
  EXPECT_EQ(c.experts.intermediate, 24);
  EXPECT_TRUE(c.experts.normalized);
  EXPECT_EQ(c.intermediate, 96);
  EXPECT_EQ(blocks(c), "eeee");
  EXPECT_FALSE(config_from_json(qwen()).experts.normalized);
  EXPECT_EQ(blocks(config_from_json(qwen({{"decoder_sparse_step", 2}}))), "gege");
  EXPECT_EQ(blocks(config_from_json(qwen({{"mlp_only_layers", {0, 3}}}))), "geeg");
  EXPECT_EQ(blocks(config_from_json(qwen({{"num_experts", 0}}))), "gggg");
  EXPECT_EQ(config_from_json(qwen({{"num_local_experts", 6}})).experts.count, 6);
}

TEST(ExpertConfig, LeftOutKeysAreThoseOfTransformers) {
  const ModelConfig c = config_from_json(mixtral());
  EXPECT_EQ(c.experts.count, 8);
  EXPECT_EQ(c.experts.per_token, 2);
  EXPECT_EQ(c.experts.intermediate, 96);
  EXPECT_TRUE(c.experts.normalized);
  EXPECT_EQ(blocks(c), "ee");
  Json json = qwen();
  for (const char* key : {"num_experts", "num_experts_per_tok", "moe_intermediate_size"})
    json.erase(key);
  const ModelConfig q = config_from_json(json);
  EXPECT_EQ(q.experts.count, 128);
  EXPECT_EQ(q.experts.per_token, 8);
  EXPECT_EQ(q.experts.intermediate, 768);
}

TEST(ExpertConfig, RefusesWhatMakesNoSense) {
  const auto refused = [](const Json& json, std::initializer_list<std::string_view> words,
                          Code code = Code::kFormat) {
    expect_error(code, words, [&] { config_from_json(json); });
  };
  refused(qwen({{"num_experts_per_tok", 7}}), {"num_experts_per_tok", "7", "6"});
  refused(qwen({{"num_experts_per_tok", 0}}), {"num_experts_per_tok", "0"});
  refused(qwen({{"num_experts", 5000}}), {"num_experts", "5000", "4096"});
  refused(qwen({{"num_local_experts", 8}}), {"num_experts", "6", "num_local_experts", "8"});
  refused(qwen({{"moe_intermediate_size", 0}}), {"moe_intermediate_size", "0"});
  refused(qwen({{"mlp_only_layers", {4}}}), {"mlp_only_layers", "4", "3"});
  refused(qwen({{"mlp_only_layers", "0"}}), {"mlp_only_layers"});
  refused(qwen({{"decoder_sparse_step", 0}}), {"decoder_sparse_step", "0"});
  refused(mixtral({{"num_local_experts", 0}}), {"num_local_experts", "mixtral"},
          Code::kUnsupportedModel);
}

TEST(ExpertConfig, RefusesAGpu) {
  struct Gpu final : ops::DeviceSizes {
    ops::ComputeType compute_type() const override { return ops::ComputeType::kBf16; }
    size_t projection_bytes() const override { return 2; }
    int64_t act_ld(int64_t n) const override { return n; }
    int64_t f32_ld(int64_t n) const override { return n; }
    bool host_memory() const override { return false; }
    int64_t usable_bytes() const override { return 0; }
    size_t own_bytes() const override { return 0; }
    size_t workspace_bytes(const ops::ReserveShape&) const override { return 0; }
  };
  expect_error(Code::kUnsupportedDevice, {"6 experts", "\"cpu\""},
               [] { check_device(config_from_json(qwen()), Gpu()); });
}

}  // namespace
}  // namespace prefix
