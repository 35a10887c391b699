// Which files say that tokens see those behind them, and how far.
#include <gtest/gtest.h>

#include "config_support.h"
#include "model/files/model_files.h"
#include "model/step_memory.h"

namespace prefix {
namespace {

using testing_support::config_of;
using testing_support::expect_error;
using testing_support::GgufType;
using testing_support::GgufWriter;
using testing_support::headed;

TEST(BidirectionalConfig, TwoKeysAndAModelTypeSaySo) {
  EXPECT_FALSE(config_from_json(headed("llama")).bidirectional);
  EXPECT_FALSE(config_from_json(headed("llama", {{"is_causal", true}})).bidirectional);
  EXPECT_TRUE(config_from_json(headed("llama", {{"is_causal", false}})).bidirectional);
  EXPECT_TRUE(config_from_json(headed("qwen2", {{"is_causal", false}})).bidirectional);
  EXPECT_TRUE(config_from_json(headed("llama_bidirec")).bidirectional);
  EXPECT_TRUE(config_from_json(headed("gemma3_text", {{"use_bidirectional_attention", true}}))
                  .bidirectional);
  EXPECT_EQ(config_from_json(headed("llama_bidirec", {{"temperature", 0.5}})).head_temperature,
            0.5);
  EXPECT_EQ(config_from_json(headed("llama", {{"temperature", 0.5}})).head_temperature, 1);
  expect_error(Code::kFormat, {"temperature is 0"},
               [] { config_from_json(headed("llama_bidirec", {{"temperature", 0}})); });
}

// Keys that a token sees in each direction, its own counted.
TEST(BidirectionalConfig, WindowsAreOfBothSides) {
  const auto window = [](const Json& json) { return config_from_json(json).window(0); };
  const auto gemma = [](int keys) {
    return headed("gemma3_text", {{"use_bidirectional_attention", true}, {"sliding_window", keys}});
  };
  EXPECT_EQ(window(gemma(12)), 7);
  EXPECT_EQ(window(gemma(67)), 34);
  EXPECT_EQ(window(headed("ministral", {{"is_causal", false}, {"sliding_window", 9}})), 10);
  EXPECT_EQ(window(headed("ministral", {{"is_causal", false}, {"sliding_window", 511}})), 0);
  EXPECT_EQ(window(headed("ministral", {{"sliding_window", 9}})), 9);
  expect_error(Code::kUnsupportedModel, {"use_bidirectional_attention", "window of 9"}, [] {
    config_from_json(
        headed("ministral", {{"use_bidirectional_attention", true}, {"sliding_window", 9}}));
  });
}

TEST(BidirectionalConfig, OneOfRecurrentLayersIsRefused) {
  expect_error(Code::kUnsupportedModel, {"bidirectional", "recurrent"}, [] {
    config_from_json(headed(
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
  return config_of(w);
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
