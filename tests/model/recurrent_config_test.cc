// Configurations of models with recurrent layers, and what is refused of them and of their tensors.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "model/architecture.h"
#include "model/config.h"
#include "model/gguf_writer.h"
#include "model/layer.h"
#include "model/model_files.h"
#include "model/model_info.h"
#include "model/step_memory.h"
#include "model/weights.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::GgufType;
using testing_support::GgufWriter;
using testing_support::golden_models;
using testing_support::TempFolder;

using Changes = std::initializer_list<std::pair<const char*, Json>>;

Json with(Changes changes, Json json) {
  for (const auto& [key, value] : changes) json[key] = value;
  return json;
}
Json without(const char* key, Json json) {
  json.erase(key);
  return json;
}

Json types(std::initializer_list<const char*> list) {
  return std::vector<std::string>(list.begin(), list.end());
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

void expect_bad(const Json& json, std::initializer_list<std::string_view> parts,
                Code code = Code::kFormat) {
  expect_error(code, parts, [&] { config_from_json(json); });
}
void expect_unsupported(const Json& json, std::initializer_list<std::string_view> parts) {
  expect_bad(json, parts, Code::kUnsupportedModel);
}

TEST(RecurrentConfig, ReadsGranite) {
  const ModelConfig c = config_from_json(granite({{"embedding_multiplier", 12},
                                                  {"residual_multiplier", 0.25},
                                                  {"logits_scaling", 3},
                                                  {"attention_multiplier", 0.0625},
                                                  {"rms_norm_eps", 1e-5}}));
  EXPECT_EQ(c.recurrent_layers, (std::vector<bool>{true, false, true}));
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
  EXPECT_FALSE(c.is_recurrent(3) || c.is_recurrent(7));
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
  expect_bad(with({{"text_config", qwen({{"tie_word_embeddings", false}})}}, whole),
             {"tie_word_embeddings", "true", "false", "text_config"});
  expect_unsupported(with({{"text_config", qwen({{"model_type", "llama"}})}}, whole),
                     {"text_config", "\"llama\"", "\"qwen3_5\""});
  expect_unsupported(with({{"quantization_config", {{"quant_method", "fp8"}}}}, whole), {"fp8"});
}

TEST(RecurrentConfig, RefusesWhatItDoesNotRun) {
  expect_unsupported(granite({{"num_local_experts", 62}}), {"num_local_experts is 62"});
  expect_unsupported(without("num_local_experts", granite()), {"num_local_experts is 8"});
  expect_unsupported(granite({{"layer_types", types({"mamba", "conv", "attention"})}}),
                     {"\"conv\"", "supported: \"full_attention\", \"linear_attention\""});
  expect_unsupported(granite({{"layer_types", types({"mamba", "mamba", "mamba"})}}),
                     {"all 3 layers are recurrent", "attention"});
  expect_unsupported(without("layer_types", granite()), {"all 3 layers are recurrent"});
  expect_bad(granite({{"layer_types", types({"mamba"})}}), {"layer_types", "3"});
  expect_unsupported(granite({{"mamba_proj_bias", true}}), {"mamba_proj_bias"});
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

TEST(RecurrentConfig, RefusesAGpu) {
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
  expect_error(Code::kUnsupportedDevice, {"2 of the 3 layers", "\"cpu\""},
               [] { check_device(config_from_json(granite()), Gpu()); });
}

std::vector<std::byte> numbers(std::initializer_list<uint32_t> list) {
  std::vector<std::byte> bytes;
  for (const uint32_t n : list) GgufWriter::put(bytes, n);
  return bytes;
}

GgufWriter gguf(const std::string& name) {
  GgufWriter w;
  w.string("general.architecture", name);
  for (const auto& [key, value] :
       {std::pair("block_count", 3), std::pair("embedding_length", 64),
        std::pair("context_length", 512), std::pair("attention.head_count", 4),
        std::pair("ssm.conv_kernel", 4), std::pair("ssm.state_size", 12),
        std::pair("ssm.group_count", 2), std::pair("ssm.inner_size", 128),
        std::pair("ssm.time_step_rank", 8), std::pair("feed_forward_length", 96)})
    w.integer(name + "." + key, static_cast<uint32_t>(value));
  w.number(name + ".attention.layer_norm_rms_epsilon", 1e-5f);
  w.tensor("token_embd.weight", {64, 100}, 0, 64 * 100 * 4);
  return w;
}

ModelConfig config_of(const GgufWriter& w) {
  const TempFolder folder;
  const std::vector<std::byte> bytes = w.bytes();
  folder.write("model.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return open_model(folder / "model.gguf").config;
}

GgufWriter granite_gguf() {
  GgufWriter w = gguf("granitehybrid");
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
  EXPECT_EQ(c.recurrent_layers, (std::vector<bool>{true, false, true}));
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

TEST(RecurrentConfig, ReadsQwensGguf) {
  GgufWriter w = gguf("qwen35").integer("qwen35.full_attention_interval", 2);
  const ModelConfig c = config_of(w.integer("qwen35.attention.head_count_kv", 2));
  EXPECT_EQ(c.architecture, "qwen3_5");
  EXPECT_EQ(c.recurrent_layers, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(c.rotary_dim(), 4);
  EXPECT_TRUE(c.attention_gate);
  const ModelConfig drafting = config_of(w.integer("qwen35.nextn_predict_layers", 1));
  EXPECT_EQ(drafting.layers, 2);
  EXPECT_EQ(drafting.draft_layers, 1);
  GgufWriter listed = gguf("qwen35");
  listed.list("qwen35.attention.recurrent_layers", GgufType::kBool, 3,
              {std::byte{0}, std::byte{1}, std::byte{1}});
  EXPECT_EQ(config_of(listed).recurrent_layers, (std::vector<bool>{false, true, true}));
}

TEST(RecurrentConfig, RefusesBadGguf) {
  const auto bad = [](GgufWriter w, std::initializer_list<std::string_view> parts,
                      Code code = Code::kFormat) {
    expect_error(code, parts, [&] { config_of(w); });
  };
  const auto heads = [](uint64_t length, std::initializer_list<uint32_t> list) {
    GgufWriter w = gguf("granitehybrid");
    return w.list("granitehybrid.attention.head_count_kv", GgufType::kU32, length, numbers(list));
  };
  bad(heads(2, {0, 2}), {"head_count_kv", "a list of 2 values", "3 whole numbers"});
  bad(heads(3, {0, 2, 1025}), {"head_count_kv", "1025", "1024"});
  bad(heads(3, {2, 4, 0}), {"head_count_kv", "2 and 4"}, Code::kUnsupportedModel);
  bad(heads(3, {0, 0, 0}), {"all 3 layers"}, Code::kUnsupportedModel);
  bad(granite_gguf().integer("granitehybrid.expert_count", 4), {"expert_count", "4"},
      Code::kUnsupportedModel);
  GgufWriter llama = gguf("llama");
  bad(llama.number("llama.residual_scale", 2), {"residual_scale"}, Code::kUnsupportedModel);
  GgufWriter qwen = gguf("qwen35");
  bad(qwen.number("qwen35.logit_scale", 2), {"logit_scale"}, Code::kUnsupportedModel);
}

// --- tensors ---

// A copy of a golden model that a test may change.
struct Copied {
  explicit Copied(const std::string& name) {
    for (const char* file : {"config.json", "model.safetensors"}) {
      const std::string from = golden_models() + "/" + name + "/" + file;
      EXPECT_TRUE(std::filesystem::exists(from)) << "tools/golden/make_models.py writes the models";
      std::filesystem::copy_file(from, folder / file);
    }
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // In either file: the name of a tensor, a number. Of the same length, so that offsets stay.
  void replace(const char* file, const std::string& from, const std::string& to) {
    std::string bytes = read(folder / file);
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    ASSERT_EQ(from.size(), to.size());
    bytes.replace(at, from.size(), to);
    folder.write(file, bytes);
  }
  void check() const {
    const ModelFiles files = open_model(folder.path());
    weight_shapes(files, find_architecture(files.config.architecture), ops::WeightFormat::kBf16);
  }
  TempFolder folder;
};

TEST(RecurrentTensors, NamesOneThatIsMissingExtraOrMisshaped) {
  const auto refused = [](const std::string& model, const char* file, const std::string& from,
                          const std::string& to, std::initializer_list<std::string_view> parts) {
    Copied copied(model);
    copied.check();
    copied.replace(file, from, to);
    expect_error(Code::kFormat, parts, [&] { copied.check(); });
  };
  const char* tensors = "model.safetensors";
  const char* config = "config.json";
  for (const char* name : {"in_proj.weight", "conv1d.weight", "conv1d.bias", "dt_bias", "A_log",
                           "D", "norm.weight", "out_proj.weight"}) {
    const std::string whole = std::string("model.layers.1.mamba.") + name;
    std::string other = whole;
    other[other.find("mamba")] = 'z';
    refused("granite-h-base", tensors, whole + "\"", other + "\"", {whole, "missing"});
  }
  for (const char* name :
       {"in_proj_qkv.weight", "in_proj_z.weight", "in_proj_b.weight", "in_proj_a.weight",
        "conv1d.weight", "dt_bias", "A_log", "norm.weight", "out_proj.weight"}) {
    const std::string whole = std::string("model.layers.1.linear_attn.") + name;
    std::string other = whole;
    other[other.find("linear")] = 'z';
    refused("qwen35-group", tensors, whole + "\"", other + "\"", {whole, "missing"});
  }
  const std::string extra = "model.layers.0.mamba.conv1d.bias";
  refused("granite-h-base", config, "\"mamba_conv_bias\": true,", "\"mamba_conv_bias\":false,",
          {extra, "not part"});
}

TEST(RecurrentTensors, NamesWrongShapes) {
  const auto refused = [](const std::string& model, const std::string& from, const std::string& to,
                          std::initializer_list<std::string_view> parts) {
    Copied copied(model);
    copied.replace("config.json", from, to);
    expect_error(Code::kFormat, parts, [&] { copied.check(); });
  };
  refused("granite-h-base", "\"mamba_d_state\": 16", "\"mamba_d_state\": 17",
          {"model.layers.0.mamba.in_proj.weight", "[422, 96]", "[424, 96]"});
  refused("granite-h-base", "\"mamba_d_conv\": 4", "\"mamba_d_conv\": 5",
          {"model.layers.0.mamba.conv1d.weight", "[224, 1, 4]", "[224, 5]"});
  refused("qwen35-group", "\"linear_key_head_dim\": 24", "\"linear_key_head_dim\": 25",
          {"model.layers.1.linear_attn.in_proj_qkv.weight", "[216, 80]", "[220, 80]"});
  refused("qwen35-group", "\"linear_conv_kernel_dim\": 4", "\"linear_conv_kernel_dim\": 3",
          {"model.layers.1.linear_attn.conv1d.weight", "[216, 1, 4]", "[216, 3]"});
}

TEST(RecurrentTensors, LeavesOtherPartsOfAVisionModelAlone) {
  Copied copied("qwen35-base");
  EXPECT_NO_THROW(copied.check());
  copied.replace("model.safetensors", "\"model.visual.", "\"model.visuel.");
  expect_error(Code::kFormat, {"model.visuel.", "not part"}, [&] { copied.check(); });
  Copied drafting("qwen35-base");
  drafting.replace("model.safetensors", "\"mtp.", "\"mtq.");
  expect_error(Code::kFormat, {"mtq.", "not part"}, [&] { drafting.check(); });
}

TEST(RecurrentTensors, AreInTheInformationAboutAModel) {
  for (const char* suffix : {"", ".gguf"}) {
    const Json info = Json::parse(model_info_json(golden_models() + "/qwen35-base" + suffix));
    EXPECT_EQ(info.at("sizes").at("recurrent_layers"), 3);
    // 3 taps of 96 channels and 2 heads of 16 x 16.
    EXPECT_EQ(info.at("state_bytes"), 3 * 4 * (3 * 96 + 2 * 16 * 16));
    bool recurrent = false, unused = false;
    for (const Json& group : info.at("tensors")) {
      recurrent |= group.at("group") == "recurrent";
      unused |= group.at("group") == "unused";
    }
    EXPECT_TRUE(recurrent && unused) << suffix;
  }
  const Json plain = Json::parse(model_info_json(golden_models() + "/llama-base"));
  EXPECT_EQ(plain.at("sizes").at("recurrent_layers"), 0);
  EXPECT_EQ(plain.at("state_bytes"), 0);
}

}  // namespace
}  // namespace prefix
