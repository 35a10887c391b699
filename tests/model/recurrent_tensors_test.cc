// Tensors of models with recurrent layers: what is refused of them, and what is said about them.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/architecture.h"
#include "model/copied_model.h"
#include "model/files/model_files.h"
#include "model/model_info.h"
#include "support/expect_error.h"
#include "support/golden.h"

namespace prefix {
namespace {

using testing_support::Copied;
using testing_support::expect_error;
using testing_support::golden_models;

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
  for (const char* name : {"0.norm.weight", "0.mixer.in_proj.weight", "0.mixer.D",
                           "0.mixer.norm.weight", "1.norm.weight", "1.mixer.up_proj.weight",
                           "1.mixer.down_proj.weight", "3.mixer.o_proj.weight"}) {
    const std::string whole = std::string("backbone.layers.") + name;
    refused("nemotron-h-base", tensors, whole + "\"",
            "b" + whole.substr(0, whole.size() - 1) + "\"", {whole, "missing"});
  }
  refused("nemotron-h-base", config, "\"M-M*-\"", "\"MMM*-\"",
          {"backbone.layers.1.mixer.in_proj.weight", "missing"});
  for (const char* name : {"operator_norm.weight", "ffn_norm.weight", "conv.in_proj.weight",
                           "conv.conv.weight", "conv.out_proj.weight", "feed_forward.w3.weight"}) {
    const std::string whole = std::string("model.layers.0.") + name;
    refused("lfm2-base", tensors, whole + "\"", "b" + whole.substr(0, whole.size() - 1) + "\"",
            {whole, "missing"});
  }
  refused("lfm2-bias", config, "\"conv_bias\": true,", "\"conv_bias\":false,",
          {"model.layers.1.conv.in_proj.bias", "not part"});
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
  refused("nemotron-h-base", "\"n_groups\": 2", "\"n_groups\": 4",
          {"backbone.layers.0.mixer.in_proj.weight", "[328, 96]", "[392, 96]"});
  refused("nemotron-h-base", "\"intermediate_size\": 136", "\"intermediate_size\": 135",
          {"backbone.layers.1.mixer.up_proj.weight", "[136, 96]", "[135, 96]"});
  refused("lfm2-base", "\"conv_L_cache\": 3", "\"conv_L_cache\": 4",
          {"model.layers.0.conv.conv.weight", "[96, 1, 3]", "[96, 4]"});
  refused("lfm2-base", "\"block_multiple_of\": 16", "\"block_multiple_of\": 32",
          {"model.layers.0.feed_forward.w3.weight", "[144, 96]", "[160, 96]"});
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
  for (const char* suffix : {"", ".gguf"}) {
    const Json info = Json::parse(model_info_json(golden_models() + "/nemotron-h-base" + suffix));
    EXPECT_EQ(info.at("sizes").at("recurrent_layers"), 2);
    std::map<std::string, int64_t> parameters;
    for (const Json& group : info.at("tensors"))
      parameters[group.at("group")] += group.at("parameters").get<int64_t>();
    EXPECT_EQ(parameters["attention"], 96 * 40 * (2 * 4 + 2 * 2)) << suffix;
    EXPECT_EQ(parameters["mlp"], 2 * 2 * 96 * 136) << suffix;
    // in_proj and out_proj; filters of 192 channels with their biases; dt_bias, A_log, D.
    EXPECT_EQ(parameters["recurrent"], 2 * (96 * (328 + 128) + 192 * 5 + 3 * 8)) << suffix;
    EXPECT_EQ(parameters["other"], 0) << suffix;
    const Json lfm2 = Json::parse(model_info_json(golden_models() + "/lfm2-base" + suffix));
    EXPECT_EQ(lfm2.at("state_bytes"), 4 * 2 * 96 * 4);
    bool other = false, recurrent = false;
    for (const Json& group : lfm2.at("tensors")) {
      other |= group.at("group") == "other";
      recurrent |= group.at("group") == "recurrent";
    }
    EXPECT_TRUE(recurrent && !other) << suffix;
  }
  const Json plain = Json::parse(model_info_json(golden_models() + "/llama-base"));
  EXPECT_EQ(plain.at("sizes").at("recurrent_layers"), 0);
  EXPECT_EQ(plain.at("state_bytes"), 0);
}

}  // namespace
}  // namespace prefix
