// Which files say that tokens see those behind them, and how far.
#include <gtest/gtest.h>

#include "base/json.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "model/model_files.h"
#include "model/step_memory.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::GgufType;
using testing_support::GgufWriter;

Json of(const std::string& type, std::initializer_list<std::pair<const char*, Json>> more = {}) {
  Json json = {
      {"model_type", type},     {"vocab_size", 100},        {"hidden_size", 64},
      {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
      {"head_dim", 16},         {"intermediate_size", 96},  {"max_position_embeddings", 512}};
  for (const auto& [key, value] : more) json[key] = value;
  return json;
}

TEST(BidirectionalConfig, TwoKeysAndAModelTypeSaySo) {
  EXPECT_FALSE(config_from_json(of("llama")).bidirectional);
  EXPECT_FALSE(config_from_json(of("llama", {{"is_causal", true}})).bidirectional);
  EXPECT_TRUE(config_from_json(of("llama", {{"is_causal", false}})).bidirectional);
  EXPECT_TRUE(config_from_json(of("qwen2", {{"is_causal", false}})).bidirectional);
  EXPECT_TRUE(config_from_json(of("llama_bidirec")).bidirectional);
  EXPECT_TRUE(
      config_from_json(of("gemma3_text", {{"use_bidirectional_attention", true}})).bidirectional);
  EXPECT_EQ(config_from_json(of("llama_bidirec", {{"temperature", 0.5}})).head_temperature, 0.5);
  EXPECT_EQ(config_from_json(of("llama", {{"temperature", 0.5}})).head_temperature, 1);
  expect_error(Code::kFormat, {"temperature is 0"},
               [] { config_from_json(of("llama_bidirec", {{"temperature", 0}})); });
}

// Keys that a token sees in each direction, its own counted.
TEST(BidirectionalConfig, WindowsAreOfBothSides) {
  const auto window = [](const Json& json) { return config_from_json(json).window(0); };
  const auto gemma = [](int keys) {
    return of("gemma3_text", {{"use_bidirectional_attention", true}, {"sliding_window", keys}});
  };
  EXPECT_EQ(window(gemma(12)), 7);
  EXPECT_EQ(window(gemma(67)), 34);
  EXPECT_EQ(window(of("ministral", {{"is_causal", false}, {"sliding_window", 9}})), 10);
  EXPECT_EQ(window(of("ministral", {{"is_causal", false}, {"sliding_window", 511}})), 0);
  EXPECT_EQ(window(of("ministral", {{"sliding_window", 9}})), 9);
  expect_error(Code::kUnsupportedModel, {"use_bidirectional_attention", "window of 9"}, [] {
    config_from_json(
        of("ministral", {{"use_bidirectional_attention", true}, {"sliding_window", 9}}));
  });
}

TEST(BidirectionalConfig, OneOfRecurrentLayersIsRefused) {
  expect_error(Code::kUnsupportedModel, {"bidirectional", "recurrent"}, [] {
    config_from_json(of(
        "lfm2", {{"is_causal", false}, {"layer_types", Json::array({"conv", "full_attention"})}}));
  });
}

ModelConfig from_gguf(const std::string& architecture, bool causal) {
  GgufWriter w;
  w.string("general.architecture", architecture);
  const std::pair<const char*, uint32_t> keys[] = {
      {"embedding_length", 64},    {"block_count", 2},      {"attention.head_count", 4},
      {"feed_forward_length", 96}, {"context_length", 512}, {"attention.head_count_kv", 2}};
  for (const auto& [key, value] : keys) w.integer(architecture + "." + key, value);
  if (architecture != "llama") w.integer(architecture + ".attention.sliding_window", 12);
  if (!causal) w.key(architecture + ".attention.causal", GgufType::kBool, uint8_t{0});
  w.number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  w.tensor("token_embd.weight", {64, 100}, 0, 64 * 100 * 4);
  GgufMetadata metadata;
  TensorSource tensors;
  read_gguf(std::make_shared<InputFile>("file", w.bytes()), metadata, tensors);
  return config_from_gguf(metadata, tensors);
}

TEST(BidirectionalConfig, GgufSaysItByAKeyOrByItsArchitecture) {
  EXPECT_FALSE(from_gguf("llama", true).bidirectional);
  EXPECT_TRUE(from_gguf("llama", false).bidirectional);
  EXPECT_FALSE(from_gguf("gemma3", true).bidirectional);
  const ModelConfig gemma = from_gguf("gemma-embedding", true);
  EXPECT_TRUE(gemma.bidirectional);
  EXPECT_EQ(gemma.window(0), 7);
  expect_error(Code::kUnsupportedModel, {"phi3.attention.causal", "window of 12"},
               [] { from_gguf("phi3", false); });
}

}  // namespace
}  // namespace prefix
