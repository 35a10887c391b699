// Sliding windows in config.json and GGUF metadata.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "config_support.h"
#include "engine/memory_estimate.h"
#include "model/layer.h"
#include "model/rope.h"

namespace prefix {
namespace {

using testing_support::config_of;
using testing_support::expect_bad;
using testing_support::expect_error;
using testing_support::expect_unsupported;
using testing_support::GgufType;
using testing_support::GgufWriter;
using testing_support::headed;
using testing_support::with;

// The windows of the two layers, as attention will have them.
std::vector<int32_t> windows_of(const Json& json) {
  const ModelConfig c = config_from_json(json);
  return {c.window(0), c.window(1)};
}

const Json& sliding_and_full() {
  static const Json types = Json::array({"sliding_attention", "full_attention"});
  return types;
}

// google/gemma-3-4b-it: the text part has the sizes that differ from those of its class.
TEST(WindowConfig, GemmaLeavesSizesToItsClass) {
  const Json text = {
      {"model_type", "gemma3_text"}, {"hidden_size", 2560},
      {"intermediate_size", 10240},  {"num_hidden_layers", 34},
      {"sliding_window", 1024},      {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}};
  const ModelConfig c = config_from_json({{"model_type", "gemma3"}, {"text_config", text}});
  EXPECT_EQ(c.vocab_size, 262208);
  EXPECT_EQ(c.heads, 8);
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 256);
  EXPECT_EQ(c.max_positions, 131072);
  EXPECT_EQ(c.window(0), 1024);
  EXPECT_EQ(c.window(5), 0);
  EXPECT_EQ(config_from_json(with({{"num_attention_heads", 16}}, text)).heads, 16);
  // Other classes have nothing that a published file would leave out.
  for (const char* key : {"vocab_size", "num_attention_heads", "max_position_embeddings"}) {
    Json json = headed("gemma2");
    json.erase(key);
    expect_bad(json, {key, "is missing"});
  }
}

TEST(WindowConfig, ReadsWindows) {
  using Windows = std::vector<int32_t>;
  EXPECT_EQ(windows_of(with({{"sliding_window", 511}}, headed("phi3"))), (Windows{511, 511}));
  // One at least as long as the context cuts nothing.
  EXPECT_EQ(windows_of(with({{"sliding_window", 512}}, headed("phi3"))), (Windows{0, 0}));
  EXPECT_EQ(windows_of(with({{"sliding_window", nullptr}}, headed("phi3"))), (Windows{0, 0}));
  EXPECT_EQ(windows_of(headed("phi3")), (Windows{0, 0}));

  const Json qwen = with({{"sliding_window", 16}, {"max_window_layers", 1}}, headed("qwen2"));
  EXPECT_EQ(windows_of(qwen), (Windows{0, 0}));
  EXPECT_EQ(windows_of(with({{"use_sliding_window", true}}, qwen)), (Windows{0, 16}));
  EXPECT_EQ(windows_of(with({{"use_sliding_window", true}, {"max_window_layers", 9}}, qwen)),
            (Windows{0, 0}));
  EXPECT_EQ(
      windows_of(with({{"use_sliding_window", true}, {"layer_types", sliding_and_full()}}, qwen)),
      (Windows{16, 0}));

  EXPECT_EQ(windows_of(with({{"sliding_window", 7}}, headed("ministral"))), (Windows{7, 7}));
  EXPECT_EQ(windows_of(with({{"sliding_window", nullptr}}, headed("ministral"))), (Windows{0, 0}));
  EXPECT_EQ(windows_of(with({{"sliding_window", 7}, {"layer_types", sliding_and_full()}},
                            headed("ministral"))),
            (Windows{7, 0}));
  EXPECT_EQ(
      windows_of(with({{"sliding_window", 7}, {"sliding_window_pattern", 2}}, headed("olmo3"))),
      (Windows{7, 0}));
  EXPECT_EQ(windows_of(with({{"sliding_window", 7}}, headed("olmo3"))), (Windows{7, 7}));
}

TEST(WindowConfig, AnyWindowBeyondTheContextIsNone) {
  for (const int64_t keys : {int64_t{100000}, int64_t{INT32_MAX} - 1, int64_t{INT32_MAX}}) {
    ModelConfig c = config_from_json(with({{"sliding_window", keys}}, headed("phi3")));
    EXPECT_EQ(c.window(0), 0);
    c.bidirectional = true;
    EXPECT_EQ(c.window(0), 0) << keys;
  }
}

// By max_positions too, which leaves the rotation as it is.
TEST(WindowConfig, AWindowThatHoldsEveryTextIsNone) {
  const Json json = with({{"sliding_window", 9}, {"sliding_window_pattern", 2}}, headed("olmo3"));
  const auto windows = [&](const char* positions, bool bidirectional) {
    ModelConfig c = config_from_json(json);
    Options options;
    options.set("max_positions", positions);
    c.bidirectional = c.halved_windows = bidirectional;
    apply_attention(options, c);
    EXPECT_EQ(c.max_positions, 512);
    const std::vector<LayerSpec> layers = resolve_layers(c, find_architecture("olmo3"));
    EXPECT_EQ(layers[0].rope_table, 1) << positions;
    EXPECT_EQ(layers[1].rope_table, 0) << positions;
    return std::vector<int32_t>{layers[0].window, layers[1].window};
  };
  using Windows = std::vector<int32_t>;
  EXPECT_EQ(windows("0", false), (Windows{9, 0}));
  EXPECT_EQ(windows("10", false), (Windows{9, 0}));
  EXPECT_EQ(windows("9", false), (Windows{0, 0}));
  EXPECT_EQ(windows("6", true), (Windows{5, 0}));  // four keys on each side
  EXPECT_EQ(windows("5", true), (Windows{0, 0}));
}

// Transformers writes both tables, whichever types of layers there are.
TEST(WindowConfig, TablesByTypeOfLayerNeedNoWindows) {
  const Json rope = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 5000}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 300}}}};
  const Json all_full = Json::array({"full_attention", "full_attention"});
  for (const char* type : {"gemma3_text", "olmo3"}) {
    const ModelConfig c = config_from_json(
        with({{"layer_types", all_full}, {"rope_parameters", rope}}, headed(type)));
    EXPECT_EQ(c.window(0), 0);
    EXPECT_EQ(c.rope.theta, 5000) << type;
    EXPECT_EQ(c.rope.type, RopeType::kLinear);
    EXPECT_FALSE(c.window_rope);
  }
}

// Gemma 2 caps scores; the class of Gemma 3 has the key and does not use it.
TEST(WindowConfig, ScoresAreCappedWhereTheClassDoesIt) {
  const auto cap = [](const char* type) {
    return config_from_json(with({{"attn_logit_softcapping", 3.0}}, headed(type))).score_cap;
  };
  EXPECT_EQ(cap("gemma2"), 3);
  EXPECT_EQ(cap("gemma3_text"), 0);
}

TEST(WindowConfig, RefusesWindowsThatMakeNoSense) {
  expect_bad(with({{"sliding_window", 0}}, headed("phi3")), {"sliding_window", "0"});
  expect_unsupported(with({{"sliding_window", 511}}, headed("llama")),
                     {"sliding_window is 511", "512", "\"llama\""});
  expect_unsupported(
      with({{"sliding_window", 7}, {"layer_types", sliding_and_full()}}, headed("phi3")),
      {"layer_types", "\"phi3\"", "one kind"});
  expect_bad(with({{"layer_types", sliding_and_full()}}, headed("qwen3")),
             {"sliding_attention", "use_sliding_window"});
  expect_bad(
      with({{"layer_types", sliding_and_full()}, {"sliding_window", nullptr}}, headed("olmo3")),
      {"sliding_attention", "sliding_window\" is missing"});
  expect_unsupported(
      with({{"layer_types", {"full_attention", "chunked_attention"}}}, headed("qwen3")),
      {"\"chunked_attention\"", "\"sliding_attention\""});
  expect_unsupported(with({{"layer_types", sliding_and_full()}}, headed("llama")),
                     {"\"sliding_attention\""});
  expect_bad(with({{"layer_types", Json::array({"full_attention"})}}, headed("qwen3")),
             {"layer_types", "list of 1", "list of 2"});
}

// Layers with a window may rotate by a table of their own: v5 says so by type of layer.
TEST(WindowConfig, ReadsTheRotationOfLayersWithAWindow) {
  const Json base = with({{"sliding_window", 7}, {"sliding_window_pattern", 2}}, headed("olmo3"));
  const Json scaling = {{"rope_type", "linear"}, {"factor", 8}};
  const ModelConfig v4 =
      config_from_json(with({{"rope_theta", 5e5}, {"rope_scaling", scaling}}, base));
  ASSERT_TRUE(v4.window_rope);
  EXPECT_EQ(v4.rope.type, RopeType::kLinear);
  EXPECT_EQ(v4.rope.theta, 5e5);
  EXPECT_EQ(v4.window_rope->type, RopeType::kDefault);
  EXPECT_EQ(v4.window_rope->theta, 5e5);
  const std::vector<LayerSpec> layers = resolve_layers(v4, find_architecture("olmo3"));
  EXPECT_EQ(layers[0].rope_table, 1);
  EXPECT_EQ(layers[1].rope_table, 0);
  EXPECT_EQ(attention_windows(layers), (std::vector<int32_t>{7, 0}));
  EXPECT_EQ(layers[1].attention_plan, 1);

  const Json full = {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 5e5}};
  const Json windowed = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  const ModelConfig v5 = config_from_json(with(
      {{"rope_parameters", {{"full_attention", full}, {"sliding_attention", windowed}}}}, base));
  ASSERT_TRUE(v5.window_rope);
  EXPECT_EQ(v5.rope.type, RopeType::kLinear);
  EXPECT_EQ(v5.rope.theta, 5e5);
  EXPECT_EQ(v5.window_rope->theta, 1e4);
  EXPECT_EQ(rope_table_bytes(v5, 10), 2 * rope_table_bytes(v5.of_window_rope(), 10));

  expect_bad(with({{"rope_parameters", full}}, base), {"rope_parameters", "full_attention"});
  expect_bad(
      with({{"rope_parameters", {{"full_attention", 3}, {"sliding_attention", windowed}}}}, base),
      {"full_attention", "not an object"});
  expect_unsupported(with({{"rope_parameters", {{"full_attention", full}}}}, headed("qwen3")),
                     {"per layer type", "full_attention"});
}

// What Transformers wrote before goes for layers without a window.
TEST(WindowConfig, BothSpellingsOfTheRotationMustAgree) {
  const Json base = with({{"sliding_window", 7}, {"sliding_window_pattern", 2}}, headed("olmo3"));
  const auto read = [&](double factor) {
    const Json full = {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 5e5}};
    const Json windowed = {{"rope_type", "default"}, {"rope_theta", 1e4}};
    return with({{"rope_scaling", {{"type", "linear"}, {"factor", factor}}},
                 {"rope_parameters", {{"full_attention", full}, {"sliding_attention", windowed}}}},
                base);
  };
  const ModelConfig c = config_from_json(read(8));
  EXPECT_EQ(c.rope.type, RopeType::kLinear);
  EXPECT_EQ(c.rope.theta, 5e5);
  ASSERT_TRUE(c.window_rope);
  EXPECT_EQ(c.window_rope->type, RopeType::kDefault);
  EXPECT_EQ(c.window_rope->theta, 1e4);
  expect_bad(read(4), {"rope_scaling", "rope_parameters", "differ", "factor is 4.0", "8 in the"});
}

// Two layers and a window.
GgufWriter window_gguf(const std::string& architecture) {
  GgufWriter w;
  w.string("general.architecture", architecture);
  const std::pair<const char*, uint32_t> keys[] = {
      {"embedding_length", 64},       {"block_count", 2},      {"attention.head_count", 4},
      {"feed_forward_length", 96},    {"context_length", 512}, {"attention.head_count_kv", 2},
      {"attention.sliding_window", 7}};
  for (const auto& [key, value] : keys) w.integer(architecture + "." + key, value);
  w.number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  w.number(architecture + ".rope.freq_base", 5e5f);
  w.tensor("token_embd.weight", {64, 100}, 0, 64 * 100 * 4);
  return w;
}

TEST(WindowConfig, ReadsWindowsOfGguf) {
  const auto windows = [](const GgufWriter& w) {
    const ModelConfig c = config_of(w);
    return std::vector<int32_t>{c.window(0), c.window(1)};
  };
  using Windows = std::vector<int32_t>;
  EXPECT_EQ(windows(window_gguf("phi3")), (Windows{7, 7}));
  EXPECT_EQ(windows(window_gguf("phi3").integer("phi3.attention.sliding_window_pattern", 2)),
            (Windows{7, 0}));
  std::vector<std::byte> list(2);
  list[1] = std::byte{1};
  EXPECT_EQ(windows(window_gguf("phi3").list("phi3.attention.sliding_window_pattern",
                                             GgufType::kBool, 2, list)),
            (Windows{0, 7}));
  EXPECT_EQ(windows(window_gguf("qwen2").integer("qwen2.attention.sliding_window_pattern", 2)),
            (Windows{7, 0}));
}

// GGUF has no name of its own for OLMo-3.
TEST(WindowConfig, OlmoWithWindowsIsTheThird) {
  const ModelConfig c =
      config_of(window_gguf("olmo2").integer("olmo2.attention.sliding_window_pattern", 2));
  EXPECT_EQ(c.architecture, "olmo3");
  EXPECT_EQ(c.window(0), 7);
  EXPECT_EQ(c.window(1), 0);
  ASSERT_TRUE(c.window_rope);
  EXPECT_EQ(c.window_rope->theta, 5e5);
  // As converted: attention_factor of config.json, which is what yarn by 8 has anyway.
  GgufWriter w = window_gguf("olmo2");
  w.integer("olmo2.attention.sliding_window_pattern", 4);
  w.string("olmo2.rope.scaling.type", "yarn").number("olmo2.rope.scaling.factor", 8);
  w.integer("olmo2.rope.scaling.original_context_length", 64);
  w.number("olmo2.rope.scaling.yarn_attn_factor", 1.2079441541679836f);
  EXPECT_DOUBLE_EQ(config_of(w).rope.attention_factor, 0.1 * std::log(8.0) + 1);
}

}  // namespace
}  // namespace prefix
