// Configurations of models with recurrent layers, and what is refused of them.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "config_support.h"
#include "model/architecture.h"
#include "model/files/model_files.h"
#include "model/layer.h"
#include "model/step_memory.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::Changes;
using testing_support::config_of;
using testing_support::expect_bad;
using testing_support::expect_error;
using testing_support::expect_unsupported;
using testing_support::GgufType;
using testing_support::GgufWriter;
using testing_support::TempFolder;
using testing_support::with;
using testing_support::without;

Json types(std::initializer_list<const char*> list) {
  return std::vector<std::string>(list.begin(), list.end());
}

// A letter for each layer, as in hybrid_configs.py.
std::string kinds(const ModelConfig& c) {
  std::string letters;
  for (int32_t i = 0; i < c.layers; ++i) letters += "arf"[static_cast<int>(c.kind(i))];
  return letters;
}

Json granite(Changes changes = {}) {
  const Json json = {{"model_type", "granitemoehybrid"},
                     {"vocab_size", 1000},
                     {"hidden_size", 64},
                     {"num_hidden_layers", 3},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"shared_intermediate_size", 96},
                     {"max_position_embeddings", 512},
                     {"num_local_experts", 0},
                     {"layer_types", types({"mamba", "attention", "mamba"})},
                     {"mamba_n_heads", 8},
                     {"mamba_n_groups", 2},
                     {"mamba_d_state", 12}};
  return with(changes, json);
}

Json qwen(Changes changes = {}) {
  const Json json = {{"model_type", "qwen3_5_text"},
                     {"vocab_size", 1000},
                     {"hidden_size", 64},
                     {"num_hidden_layers", 8},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"head_dim", 32},
                     {"intermediate_size", 96},
                     {"max_position_embeddings", 512},
                     {"linear_num_value_heads", 6},
                     {"linear_num_key_heads", 2},
                     {"linear_value_head_dim", 20},
                     {"linear_key_head_dim", 24}};
  return with(changes, json);
}

Json nemotron(Changes changes = {}) {
  const Json json = {{"model_type", "nemotron_h"},
                     {"vocab_size", 1000},
                     {"hidden_size", 64},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"intermediate_size", 96},
                     {"max_position_embeddings", 512},
                     {"hybrid_override_pattern", "M-*M-"},
                     {"mamba_num_heads", 8},
                     {"mamba_head_dim", 20},
                     {"ssm_state_size", 12},
                     {"n_groups", 4}};
  return with(changes, json);
}

Json lfm2(Changes changes = {}) {
  const Json json = {{"model_type", "lfm2"},
                     {"vocab_size", 1000},
                     {"hidden_size", 64},
                     {"num_hidden_layers", 3},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"intermediate_size", 6656},
                     {"max_position_embeddings", 512},
                     {"layer_types", types({"conv", "full_attention", "conv"})}};
  return with(changes, json);
}

TEST(RecurrentConfig, ReadsGranite) {
  const ModelConfig c = config_from_json(granite({{"embedding_multiplier", 12},
                                                  {"residual_multiplier", 0.25},
                                                  {"logits_scaling", 3},
                                                  {"attention_multiplier", 0.0625},
                                                  {"rms_norm_eps", 1e-5}}));
  EXPECT_EQ(kinds(c), "rar");
  EXPECT_EQ(c.intermediate, 96);
  EXPECT_FALSE(c.rotates);
  EXPECT_EQ(c.rotary_dim(), 0);
  const RecurrentConfig& r = c.recurrent;
  EXPECT_EQ(r.mixer, Mixer::kMamba2);
  EXPECT_EQ(r.heads, 8);
  EXPECT_EQ(r.head_dim, 16);  // 2 x 64 / 8
  EXPECT_EQ(r.groups, 2);
  EXPECT_EQ(r.state, 12);
  EXPECT_EQ(r.conv_width, 4);
  EXPECT_TRUE(r.conv_bias);
  EXPECT_EQ(r.dt_max, 0);
  EXPECT_EQ(r.projection(), 2 * 128 + 2 * 24 + 8);
  EXPECT_EQ(r.conv_channels(), 128 + 2 * 24);
  EXPECT_EQ(c.embedding_scale(), 48.0f);
  EXPECT_EQ(c.residual_norm_eps(), 1.6e-4f);
  EXPECT_EQ(c.attention_scale, 0.0625);
  EXPECT_EQ(c.logits_scaling, 3);
  const StateLayout state = state_layout_of(c);
  EXPECT_EQ(state.layers, 2);
  EXPECT_EQ(state.conv_channels, 176);
  EXPECT_EQ(state.conv_width, 4);
  EXPECT_EQ(state.scan_floats, 128 * 12);
  const std::vector<LayerSpec> layers = resolve_layers(c, find_architecture(c.architecture));
  EXPECT_EQ(layers[0].state_layer, 0);
  EXPECT_EQ(layers[0].kv_layer, -1);
  EXPECT_EQ(layers[1].kv_layer, 0);
  EXPECT_EQ(layers[1].state_layer, -1);
  EXPECT_EQ(layers[2].state_layer, 1);
  EXPECT_EQ(kv_layers(layers), 1);
}

TEST(RecurrentConfig, ReadsBothSpellingsOfLayersAndSizes) {
  const Json newer = types({"linear_attention", "full_attention", "linear_attention"});
  EXPECT_EQ(config_from_json(granite({{"layer_types", newer}})).recurrent_count(), 2);
  const Json other = without("layer_types", granite({{"layers_block_type", newer}}));
  EXPECT_EQ(config_from_json(other).recurrent_count(), 2);
  expect_bad(granite({{"layers_block_type", newer}}),
             {"layer_types", "layers_block_type", "differ"});
  EXPECT_EQ(config_from_json(granite({{"mamba_d_head", "auto"}})).recurrent.head_dim, 16);
  EXPECT_EQ(config_from_json(granite({{"mamba_d_head", 16}})).recurrent.head_dim, 16);
  EXPECT_TRUE(config_from_json(granite({{"position_embedding_type", "rope"}})).rotates);
  const Json all = granite({{"layer_types", types({"attention", "attention", "attention"})}});
  EXPECT_EQ(config_from_json(all).recurrent_count(), 0);
  EXPECT_EQ(state_layout_of(config_from_json(all)).layers, 0);
}

TEST(RecurrentConfig, ReadsTimeStepLimits) {
  const auto limits = [](const Json& value) {
    const RecurrentConfig r = config_from_json(granite({{"time_step_limit", value}})).recurrent;
    return std::pair(r.dt_min, r.dt_max);
  };
  const Json infinity = {{"__float__", "Infinity"}};
  EXPECT_EQ(limits(nullptr), std::pair(0.0f, 0.0f));
  EXPECT_EQ(limits({0.0, infinity}), std::pair(0.0f, 0.0f));
  EXPECT_EQ(limits({0.25, 4}), std::pair(0.25f, 4.0f));
  EXPECT_EQ(limits({0.25, infinity}), std::pair(0.25f, INFINITY));
  for (const Json& value : {Json(3), Json({1}), Json({1, 1}), Json({-1, 1}), Json({0, "x"})})
    expect_bad(granite({{"time_step_limit", value}}), {"time_step_limit"});
}

TEST(RecurrentConfig, ReadsQwen) {
  const ModelConfig c = config_from_json(qwen());
  EXPECT_EQ(c.architecture, "qwen3_5");
  EXPECT_EQ(c.recurrent_count(), 6);
  EXPECT_EQ(kinds(c), "rrrarrra");
  EXPECT_TRUE(c.attention_gate && c.rotates);
  EXPECT_EQ(c.rotary_dim(), 8);
  const RecurrentConfig& r = c.recurrent;
  EXPECT_EQ(r.mixer, Mixer::kGatedDelta);
  EXPECT_EQ(r.heads, 6);
  EXPECT_EQ(r.head_dim, 20);
  EXPECT_EQ(r.groups, 2);
  EXPECT_EQ(r.state, 24);
  EXPECT_EQ(r.conv_channels(), 2 * 48 + 120);
  EXPECT_EQ(r.projection(), 2 * 48 + 2 * 120 + 2 * 6);
  EXPECT_EQ(state_layout_of(c).scan_floats, 6 * 20 * 24);
  EXPECT_EQ(config_from_json(qwen({{"full_attention_interval", 2}})).recurrent_count(), 4);
  EXPECT_EQ(
      config_from_json(qwen({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}})).rotary_dim(),
      16);
}

TEST(RecurrentConfig, ReadsNemotron) {
  const ModelConfig c = config_from_json(nemotron({{"layer_norm_epsilon", 0.25}}));
  EXPECT_EQ(kinds(c), "rfarf");
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.norm_eps, 0.25f);
  EXPECT_FALSE(c.rotates || c.tie_embeddings || c.mlp_bias || c.recurrent.projection_bias);
  const RecurrentConfig& r = c.recurrent;
  EXPECT_EQ(r.mixer, Mixer::kMamba2);
  EXPECT_EQ(r.projection(), 2 * 160 + 2 * 48 + 8);
  EXPECT_EQ(r.conv_width, 4);
  EXPECT_TRUE(r.conv_bias);
  EXPECT_EQ(r.dt_max, 0);
  const std::vector<LayerSpec> layers = resolve_layers(c, find_architecture(c.architecture));
  EXPECT_EQ(layers[0].mixer, Mixer::kMamba2);
  EXPECT_EQ(layers[0].feed_forward, FeedForward::kNone);
  EXPECT_EQ(layers[1].mixer, Mixer::kNone);
  EXPECT_EQ(layers[1].feed_forward, FeedForward::kSquaredRelu);
  EXPECT_EQ(layers[1].kv_layer, -1);
  EXPECT_EQ(layers[2].feed_forward, FeedForward::kNone);
  EXPECT_EQ(layers[2].kv_layer, 0);
  EXPECT_EQ(layers[3].state_layer, 1);
  EXPECT_EQ(kv_layers(layers), 1);

  const Json old = types({"mamba", "mlp", "attention", "mamba", "mlp"});
  const Json listed = without("hybrid_override_pattern",
                              nemotron({{"layers_block_type", old}, {"use_bias", true}}));
  EXPECT_EQ(kinds(config_from_json(listed)), "rfarf");
  EXPECT_TRUE(config_from_json(listed).recurrent.projection_bias);
  EXPECT_EQ(config_from_json(nemotron({{"layers_block_type", old}})).layers, 5);
  expect_bad(nemotron({{"layers_block_type", types({"mlp", "attention"})}}),
             {"hybrid_override_pattern", "differ"});
  expect_bad(nemotron({{"num_hidden_layers", 6}}), {"has 5 of them", "num_hidden_layers is 6"});
  expect_bad(without("hybrid_override_pattern", nemotron()), {"num_hidden_layers", "missing"});
  expect_unsupported(nemotron({{"hybrid_override_pattern", "ME*"}}), {"\"E\"", "\"-\""});
  expect_unsupported(with({{"layers_block_type", types({"mamba", "moe"})}}, listed),
                     {"\"moe\"", "\"mlp\""});
  expect_unsupported(nemotron({{"hybrid_override_pattern", "M-"}}), {"none of the 2 layers"});
  expect_unsupported(nemotron({{"mlp_hidden_act", "silu"}}), {"\"silu\"", "\"relu2\""});
  expect_unsupported(nemotron({{"mamba_hidden_act", "gelu"}}), {"\"gelu\""});
  expect_bad(nemotron({{"n_groups", 3}}), {"recurrent heads (8)", "groups (3)"});
  EXPECT_EQ(kinds(config_from_json(nemotron({{"hybrid_override_pattern", "*-"}}))), "af");
}

TEST(RecurrentConfig, ReadsLfm2) {
  const ModelConfig c = config_from_json(lfm2());
  EXPECT_EQ(kinds(c), "rar");
  EXPECT_TRUE(c.tie_embeddings && c.rotates);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(config_from_json(lfm2({{"rope_theta", 5e5}})).rope.theta, 5e5);
  EXPECT_EQ(config_from_json(lfm2({{"rope_theta", 5e5}, {"theta", 1e4}})).rope.theta, 1e4);
  EXPECT_EQ(c.norm_eps, 1e-5f);
  const RecurrentConfig& r = c.recurrent;
  EXPECT_EQ(r.mixer, Mixer::kShortConv);
  EXPECT_EQ(r.conv_width, 3);
  EXPECT_EQ(r.conv_channels(), 64);
  EXPECT_EQ(r.projection(), 192);
  EXPECT_FALSE(r.conv_bias || r.projection_bias);
  EXPECT_TRUE(config_from_json(lfm2({{"conv_bias", true}})).recurrent.projection_bias);
  const StateLayout state = state_layout_of(c);
  EXPECT_EQ(state.scan_floats, 0);
  EXPECT_EQ(state.bytes(), 2u * 2 * 64 * 4);

  EXPECT_EQ(c.intermediate, 4608);  // 256 x ceil(4437 / 256)
  const auto size = [](Changes changes) { return config_from_json(lfm2(changes)).intermediate; };
  EXPECT_EQ(size({{"block_auto_adjust_ff_dim", false}}), 6656);
  EXPECT_EQ(size({{"block_ff_dim", 100}, {"block_multiple_of", 7}}), 70);
  EXPECT_EQ(
      size({{"block_ff_dim", 100}, {"block_multiple_of", 7}, {"block_ffn_dim_multiplier", 1.5}}),
      105);
  EXPECT_EQ(size({{"block_ff_dim", 100}, {"block_ffn_dim_multiplier", nullptr}}), 66);
  expect_bad(lfm2({{"block_ff_dim", 0}}), {"block_ff_dim", "0"});
  expect_bad(lfm2({{"block_multiple_of", 0}}), {"block_multiple_of", "0"});
  for (const double factor : {0.0, -1.0, 1e9})
    expect_bad(lfm2({{"block_ffn_dim_multiplier", factor}}), {"block_ffn_dim_multiplier"});
  expect_bad(lfm2({{"block_ff_dim", 1}, {"block_ffn_dim_multiplier", nullptr}}), {"becomes 0"});
  EXPECT_FALSE(config_from_json(lfm2({{"tie_embedding", false}})).tie_embeddings);

  const Json unlisted = without("layer_types", lfm2());
  EXPECT_EQ(kinds(config_from_json(unlisted)), "aaa");
  EXPECT_EQ(kinds(config_from_json(with({{"full_attn_idxs", {0, 2}}}, unlisted))), "ara");
  EXPECT_EQ(kinds(config_from_json(lfm2({{"full_attn_idxs", {1}}}))), "rar");
  expect_bad(lfm2({{"full_attn_idxs", {0}}}), {"full_attn_idxs", "differ"});
  expect_bad(with({{"full_attn_idxs", {3}}}, unlisted), {"full_attn_idxs", "3"});
  expect_bad(with({{"full_attn_idxs", 3}}, unlisted), {"full_attn_idxs", "3"});
  expect_unsupported(lfm2({{"layer_types", types({"conv", "mamba", "full_attention"})}}),
                     {"\"mamba\"", "\"conv\""});
  expect_unsupported(lfm2({{"model_type", "lfm2_moe"}}), {"\"lfm2_moe\"", "lfm2"});
  for (const int width : {1, 9})
    expect_bad(lfm2({{"conv_L_cache", width}}), {"conv_L_cache", "[2, 8]"});
}

// As Python writes it, which is not JSON.
TEST(RecurrentConfig, ReadsInfinitiesOfPython) {
  const TempFolder folder;
  const auto limit = [&](const std::string& value) {
    std::string text = nemotron({{"note", "Infinity \\\" Infinity"}}).dump();
    text.back() = ',';
    folder.write("config.json", text + "\"time_step_limit\": " + value + "}");
    return open_model(folder.path()).config.recurrent.dt_max;
  };
  folder.write("model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  EXPECT_EQ(limit("[0.0, Infinity]"), 0);
  EXPECT_EQ(limit("[0.5, Infinity]"), INFINITY);
  expect_error(Code::kFormat, {"config.json", "syntax error"}, [&] { limit("[-Infinity, 3]"); });
}

TEST(RecurrentConfig, ReadsTheTextModelOfAVisionModel) {
  const Json whole = {{"model_type", "qwen3_5"},
                      {"text_config", qwen({{"eos_token_id", 7}})},
                      {"vision_config", {{"depth", 3}}},
                      {"tie_word_embeddings", true}};
  const ModelConfig c = config_from_json(whole);
  EXPECT_EQ(c.architecture, "qwen3_5");
  EXPECT_EQ(c.hidden, 64);
  EXPECT_TRUE(c.tie_embeddings);
  EXPECT_EQ(c.eos_ids, std::vector<int32_t>{7});
  expect_bad(with({{"text_config", 3}}, whole), {"text_config", "3"});
  // The outer one counts; Transformers writes the default of the inner one beside it.
  const Json both = with({{"text_config", qwen({{"tie_word_embeddings", false}})}}, whole);
  EXPECT_TRUE(config_from_json(both).tie_embeddings);
  EXPECT_FALSE(config_from_json(with({{"tie_word_embeddings", false}}, both)).tie_embeddings);
  expect_unsupported(with({{"text_config", qwen({{"model_type", "llama"}})}}, whole),
                     {"text_config", "\"llama\"", "\"qwen3_5\""});
  expect_unsupported(with({{"quantization_config", {{"quant_method", "hqq"}}}}, whole), {"hqq"});
  const Json fp8 = {{"quant_method", "fp8"}};
  EXPECT_EQ(config_from_json(with({{"quantization_config", fp8}}, whole)).quantization.method,
            QuantMethod::kFp8);
  const Json text = qwen({{"quantization_config", fp8}});
  EXPECT_EQ(config_from_json(with({{"text_config", text}}, whole)).quantization.method,
            QuantMethod::kFp8);
}

TEST(RecurrentConfig, RefusesWhatItDoesNotRun) {
  expect_unsupported(granite({{"layer_types", types({"mamba", "conv", "attention"})}}),
                     {"\"conv\"", "supported: \"full_attention\", \"linear_attention\""});
  expect_unsupported(granite({{"layer_types", types({"mamba", "mamba", "mamba"})}}),
                     {"none of the 3 layers", "attention"});
  expect_unsupported(without("layer_types", granite()), {"none of the 3 layers"});
  expect_bad(granite({{"layer_types", types({"mamba"})}}), {"layer_types", "has 1", "3"});
  expect_bad(granite({{"layer_types", Json::array()}}), {"layer_types", "not a list of names"});
  expect_bad(granite({{"layer_types", "mamba"}}), {"layer_types", "not a list of names"});
  expect_unsupported(granite({{"hidden_act", "relu2"}}), {"\"relu2\""});
  expect_unsupported(granite({{"position_embedding_type", "alibi"}}), {"\"alibi\""});
  expect_bad(granite({{"mamba_n_groups", 3}}), {"recurrent heads (8)", "groups (3)"});
  expect_bad(granite({{"mamba_d_head", 17}}), {"8 x 17", "128"});
  expect_bad(granite({{"mamba_n_heads", 7}}), {"128", "7"});
  expect_bad(qwen({{"linear_num_key_heads", 4}}), {"value heads (6)", "key heads (4)"});
  expect_unsupported(qwen({{"attn_output_gate", false}}), {"attn_output_gate"});
  expect_bad(qwen({{"full_attention_interval", 0}}), {"full_attention_interval", "0"});
  for (const int width : {1, 9}) {
    expect_bad(granite({{"mamba_d_conv", width}}), {"mamba_d_conv", "[2, 8]"});
    expect_bad(qwen({{"linear_conv_kernel_dim", width}}), {"linear_conv_kernel_dim", "[2, 8]"});
  }
  for (const char* key : {"mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_head"})
    for (const Json& value : {Json(0), Json(1025), Json(-1), Json(2.5)})
      expect_bad(granite({{key, value}}), {key});
  for (const char* key : {"linear_num_value_heads", "linear_num_key_heads", "linear_value_head_dim",
                          "linear_key_head_dim"})
    for (const Json& value : {Json(0), Json(1025), Json("4")})
      expect_bad(qwen({{key, value}}), {key});
  for (const auto& [key, named] :
       {std::pair("embedding_multiplier", "embedding"),
        std::pair("residual_multiplier", "residual"),
        std::pair("attention_multiplier", "attention"), std::pair("logits_scaling", "logits")})
    for (const double value : {0.0, -1.0, 1e5, 1e-5}) expect_bad(granite({{key, value}}), {named});
}

std::vector<std::byte> numbers(std::initializer_list<uint32_t> list) {
  std::vector<std::byte> bytes;
  for (const uint32_t n : list) GgufWriter::put(bytes, n);
  return bytes;
}

// `blocks`: the width of the feed-forward part is to follow.
GgufWriter recurrent_gguf(const std::string& name, bool blocks = false) {
  GgufWriter w;
  w.string("general.architecture", name);
  for (const auto& [key, value] :
       {std::pair("block_count", 3), std::pair("embedding_length", 64),
        std::pair("context_length", 512), std::pair("attention.head_count", 4),
        std::pair("ssm.conv_kernel", 4), std::pair("ssm.state_size", 12),
        std::pair("ssm.group_count", 2), std::pair("ssm.inner_size", 128),
        std::pair("ssm.time_step_rank", 8)})
    w.integer(name + "." + key, static_cast<uint32_t>(value));
  if (!blocks) w.integer(name + ".feed_forward_length", 96);
  w.number(name + ".attention.layer_norm_rms_epsilon", 1e-5f);
  w.tensor("token_embd.weight", {64, 100}, 0, 64 * 100 * 4);
  return w;
}

GgufWriter granite_gguf() {
  GgufWriter w = recurrent_gguf("granitehybrid");
  w.list("granitehybrid.attention.head_count_kv", GgufType::kU32, 3, numbers({0, 2, 0}));
  return w;
}

TEST(RecurrentConfig, ReadsGranitesGguf) {
  const ModelConfig c =
      config_of(granite_gguf()
                    .number("granitehybrid.attention.scale", 0.0625f)
                    .number("granitehybrid.residual_scale", 0.25f)
                    .number("granitehybrid.logit_scale", 3)
                    .number("granitehybrid.embedding_scale", 12)
                    .key("granitehybrid.rope.scaling.finetuned", GgufType::kBool, uint8_t{0}));
  EXPECT_EQ(c.architecture, "granitemoehybrid");
  EXPECT_EQ(kinds(c), "rar");
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.recurrent.heads, 8);
  EXPECT_EQ(c.recurrent.head_dim, 16);
  EXPECT_EQ(c.recurrent.groups, 2);
  EXPECT_EQ(c.recurrent.state, 12);
  EXPECT_EQ(c.embedding_scale(), 48.0f);
  EXPECT_EQ(c.attention_scale, 0.0625);
  EXPECT_EQ(c.logits_scaling, 3);
  EXPECT_FALSE(c.rotates);
  EXPECT_TRUE(config_of(granite_gguf()).rotates);
  EXPECT_EQ(config_of(granite_gguf().integer("granitehybrid.expert_shared_feed_forward_length", 80))
                .intermediate,
            80);
}

// Beside the feed-forward block of each layer, where there are any.
TEST(RecurrentConfig, ReadsTheExpertsOfGranite) {
  const auto letters = [](const ModelConfig& c) {
    std::string text;
    for (const LayerSpec& layer : resolve_layers(c, find_architecture(c.architecture)))
      text += layer.feed_forward != FeedForward::kExperts ? 'g' : layer.shared ? 's' : 'e';
    return text;
  };
  EXPECT_EQ(letters(config_from_json(granite())), "ggg");
  EXPECT_EQ(config_from_json(granite()).feed_forward_width(), 96);
  const ModelConfig c = config_from_json(
      granite({{"num_local_experts", 6}, {"num_experts_per_tok", 3}, {"intermediate_size", 40}}));
  EXPECT_EQ(letters(c), "sss");
  EXPECT_EQ(c.experts.count, 6);
  EXPECT_EQ(c.experts.per_token, 3);
  EXPECT_EQ(c.experts.intermediate, 40);
  EXPECT_EQ(c.intermediate, 96);
  EXPECT_TRUE(c.experts.normalized);
  EXPECT_EQ(c.feed_forward_width(), 3 * 40 + 96);
  const ModelConfig absent = config_from_json(without("num_local_experts", granite()));
  EXPECT_EQ(absent.experts.count, 8);
  EXPECT_EQ(absent.experts.per_token, 2);
  EXPECT_EQ(absent.experts.intermediate, 11008);

  EXPECT_EQ(letters(config_of(granite_gguf().integer("granitehybrid.expert_count", 0))), "ggg");
  GgufWriter w = granite_gguf();
  w.integer("granitehybrid.expert_count", 6).integer("granitehybrid.expert_used_count", 3);
  w.integer("granitehybrid.expert_shared_feed_forward_length", 80);
  for (const char* name :
       {"blk.0.ffn_gate_inp.weight", "blk.1.ffn_gate_inp.weight", "blk.2.ffn_gate_inp.weight"})
    w.tensor(name, {64, 6}, 0, 64 * 6 * 4);
  const ModelConfig gguf = config_of(w);
  EXPECT_EQ(letters(gguf), "sss");
  EXPECT_EQ(gguf.intermediate, 80);
  EXPECT_EQ(gguf.experts.intermediate, 96);
}

TEST(RecurrentConfig, ReadsQwensGguf) {
  GgufWriter w = recurrent_gguf("qwen35").integer("qwen35.full_attention_interval", 2);
  const ModelConfig c = config_of(w.integer("qwen35.attention.head_count_kv", 2));
  EXPECT_EQ(c.architecture, "qwen3_5");
  EXPECT_EQ(kinds(c), "rar");
  EXPECT_EQ(c.rotary_dim(), 4);
  EXPECT_TRUE(c.attention_gate);
  const ModelConfig drafting = config_of(w.integer("qwen35.nextn_predict_layers", 1));
  EXPECT_EQ(drafting.layers, 2);
  EXPECT_EQ(drafting.draft_layers, 1);
  GgufWriter listed = recurrent_gguf("qwen35");
  listed.list("qwen35.attention.recurrent_layers", GgufType::kBool, 3,
              {std::byte{0}, std::byte{1}, std::byte{1}});
  EXPECT_EQ(kinds(config_of(listed)), "arr");
}

GgufWriter nemotron_gguf(std::initializer_list<uint32_t> widths) {
  GgufWriter w = recurrent_gguf("nemotron_h", true);
  w.list("nemotron_h.attention.head_count_kv", GgufType::kU32, 3, numbers({0, 2, 0}));
  w.list("nemotron_h.feed_forward_length", GgufType::kU32, widths.size(), numbers(widths));
  return w;
}

TEST(RecurrentConfig, ReadsNemotronsGguf) {
  const ModelConfig c = config_of(nemotron_gguf({96, 0, 0})
                                      .integer("nemotron_h.attention.key_length", 32)
                                      .number("nemotron_h.attention.layer_norm_epsilon", 1e-5f));
  EXPECT_EQ(kinds(c), "far");
  EXPECT_EQ(c.head_dim, 32);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.intermediate, 96);
  EXPECT_EQ(c.recurrent.groups, 2);
  EXPECT_FALSE(c.rotates);
  const auto bad = [](std::initializer_list<uint32_t> widths, Code code,
                      std::initializer_list<std::string_view> parts) {
    expect_error(code, parts, [&] { config_of(nemotron_gguf(widths)); });
  };
  bad({96, 0}, Code::kFormat, {"feed_forward_length", "2 values"});
  bad({96, 0, 97}, Code::kUnsupportedModel, {"feed_forward_length", "96 and 97"});
  bad({96, 96, 0}, Code::kUnsupportedModel, {"none of the 3 layers"});
}

TEST(RecurrentConfig, ReadsLfm2sGguf) {
  GgufWriter w = recurrent_gguf("lfm2");
  w.list("lfm2.attention.head_count_kv", GgufType::kU32, 3, numbers({0, 2, 0}));
  expect_error(Code::kFormat, {"lfm2.shortconv.l_cache"}, [&] { config_of(w); });
  const ModelConfig c = config_of(w.integer("lfm2.shortconv.l_cache", 3));
  EXPECT_EQ(kinds(c), "rar");
  EXPECT_EQ(c.recurrent.mixer, Mixer::kShortConv);
  EXPECT_EQ(c.recurrent.conv_channels(), 64);
  EXPECT_EQ(c.intermediate, 96);
  EXPECT_TRUE(c.rotates && c.tie_embeddings);
}

TEST(RecurrentConfig, RefusesBadGguf) {
  const auto bad = [](GgufWriter w, std::initializer_list<std::string_view> parts,
                      Code code = Code::kFormat) {
    expect_error(code, parts, [&] { config_of(w); });
  };
  const auto heads = [](uint64_t length, std::initializer_list<uint32_t> list) {
    GgufWriter w = recurrent_gguf("granitehybrid");
    return w.list("granitehybrid.attention.head_count_kv", GgufType::kU32, length, numbers(list));
  };
  bad(heads(2, {0, 2}), {"head_count_kv", "a list of 2 values", "3 whole numbers"});
  bad(heads(3, {0, 2, 1025}), {"head_count_kv", "1025", "1024"});
  bad(heads(3, {2, 4, 0}), {"head_count_kv", "2 and 4"}, Code::kUnsupportedModel);
  bad(heads(3, {0, 0, 0}), {"none of the 3 layers"}, Code::kUnsupportedModel);
  bad(granite_gguf().integer("granitehybrid.expert_count", 4), {"expert_used_count"});
  GgufWriter llama = recurrent_gguf("llama");
  bad(llama.number("llama.residual_scale", 2), {"residual_scale"}, Code::kUnsupportedModel);
  GgufWriter qwen = recurrent_gguf("qwen35");
  bad(qwen.number("qwen35.logit_scale", 2), {"logit_scale"}, Code::kUnsupportedModel);
}

}  // namespace
}  // namespace prefix
