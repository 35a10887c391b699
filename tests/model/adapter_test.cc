// Adapters as files: what is read of them, and what is refused by its name.
#include "model/adapter.h"

#include <gtest/gtest.h>

#include <fstream>

#include "random_adapter.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::make_engine;
using testing_support::TempFolder;
using testing_support::TinyCheckpoint;
using tools::PeftTensor;

AdapterConfig config_of(const std::string& text) {
  const InputFile file(
      "adapter_config.json",
      std::vector<std::byte>(reinterpret_cast<const std::byte*>(text.data()),
                             reinterpret_cast<const std::byte*>(text.data()) + text.size()));
  return read_adapter_config(file);
}

std::string with(const std::string& more) {
  return R"({"peft_type": "LORA", "r": 8, "lora_alpha": 16)" + (more.empty() ? "" : ", " + more) +
         "}";
}

TEST(AdapterConfig, SaysRankAndScaleOfAModule) {
  const AdapterConfig plain = config_of(with(""));
  EXPECT_EQ(plain.rank_of("model.layers.0.self_attn.q_proj"), 8);
  EXPECT_EQ(plain.scale_of("model.layers.0.self_attn.q_proj"), 2);
  EXPECT_DOUBLE_EQ(config_of(with(R"("use_rslora": true)")).scale_of("q_proj"), 16 / std::sqrt(8));
  const AdapterConfig patterns = config_of(with(
      R"("rank_pattern": {"q_proj": 4, "layers.1.mlp.up_proj": 2}, "alpha_pattern": {"q_proj": 1})"));
  EXPECT_EQ(patterns.rank_of("model.layers.0.self_attn.q_proj"), 4);
  EXPECT_EQ(patterns.scale_of("model.layers.0.self_attn.q_proj"), 0.25);
  EXPECT_EQ(patterns.rank_of("model.layers.1.mlp.up_proj"), 2);
  EXPECT_EQ(patterns.rank_of("model.layers.11.mlp.up_proj"), 8) << "layers.1 is no end of its name";
  EXPECT_EQ(patterns.rank_of("model.layers.0.self_attn.xq_proj"), 8);
}

// As PEFT has it: a rule and what goes before it, in the order of the file.
TEST(AdapterConfig, TheFirstPatternThatFitsCounts) {
  const char* const kLayer = "model.layers.3.self_attn.q_proj";
  const char* const kOther = "model.layers.13.self_attn.q_proj";
  const AdapterConfig before =
      config_of(with(R"("rank_pattern": {"layers.3.self_attn.q_proj": 16, "q_proj": 4},
              "alpha_pattern": {"^model\\.layers\\.[0-7]\\..*": 2, "self_attn.*": 1})"));
  EXPECT_EQ(before.rank_of(kLayer), 16);
  EXPECT_EQ(before.rank_of(kOther), 4);
  EXPECT_EQ(before.scale_of(kLayer), 0.125);
  EXPECT_EQ(before.scale_of(kOther), 0.25);
  EXPECT_EQ(before.scale_of("model.layers.13.mlp.up_proj"), 2);
  const AdapterConfig behind =
      config_of(with(R"("rank_pattern": {"q_proj": 4, "layers.3.self_attn.q_proj": 16})"));
  EXPECT_EQ(behind.rank_of(kLayer), 4);
  std::string many;
  for (int i = 0; i < 80; ++i) many += cat(i ? ", " : "", "\"q{900}_", i, "\": 4");
  expect_error(Code::kUnsupportedModel, {"rank_pattern", "more than 65536 states"},
               [&] { config_of(with("\"rank_pattern\": {" + many + "}")); });
}

TEST(AdapterConfig, TargetsAreNamesOrTheirEnds) {
  const AdapterConfig list = config_of(with(R"("target_modules": ["q_proj", "mlp.up_proj"])"));
  EXPECT_TRUE(list.is_target("model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(list.is_target("model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(list.is_target("model.layers.0.self_attn.k_proj"));
  EXPECT_FALSE(list.is_target("model.layers.0.self_attn.eq_proj"));
  // A regular expression is not run: the tensors say which modules there are.
  EXPECT_TRUE(config_of(with(R"("target_modules": "all-linear")")).is_target("anything"));
}

TEST(AdapterConfig, WhatIsNotPlainLoraIsRefusedByName) {
  const auto refused = [](const std::string& text, Code code,
                          std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(text);
    expect_error(code, parts, [&] { config_of(text); });
  };
  const Code unsupported = Code::kUnsupportedModel;
  refused(R"({"peft_type": "IA3"})", unsupported, {"adapter_config.json", "peft_type", "IA3"});
  refused(R"({"r": 8})", unsupported, {"peft_type"});
  refused(with(R"("bias": "all")"), unsupported, {"bias", "all"});
  refused(with(R"("use_dora": true)"), unsupported, {"use_dora", "DoRA"});
  refused(with(R"("modules_to_save": ["lm_head"])"), unsupported, {"modules_to_save"});
  refused(with(R"("init_lora_weights": "pissa_niter_4")"), unsupported, {"pissa_niter_4"});
  refused(with(R"("alora_invocation_tokens": [1, 2])"), unsupported, {"alora_invocation_tokens"});
  refused(with(R"("target_parameters": ["mlp.experts"])"), unsupported, {"target_parameters"});
  refused(with(R"("use_something_new": true)"), unsupported, {"use_something_new", "not known"});
  refused(with(R"x("rank_pattern": {"(?!up)": 4})x"), unsupported,
          {"\"rank_pattern\" has \"(?!up)\", a regular expression with", "not run"});
  refused(with(R"("alpha_pattern": {"(up": 4})"), Code::kFormat, {"alpha_pattern", "(up"});
  refused(R"({"peft_type": "LORA", "r": 0})", Code::kFormat, {"\"r\"", "0"});
  refused(R"({"peft_type": "LORA", "r": 1025})", Code::kFormat, {"\"r\"", "1025", "1024"});
  refused(with(R"("rank_pattern": {"q_proj": 4096})"), Code::kFormat, {"rank_pattern", "4096"});
  refused(with(R"("alpha_pattern": {"q_proj": "x"})"), Code::kFormat,
          {"alpha_pattern", "a number"});
  refused(with(R"("target_modules": [1])"), Code::kFormat, {"target_modules"});
  refused(with(R"("target_modules": [])"), Code::kFormat, {"target_modules", "list of 1 to"});
  refused("[]", Code::kFormat, {"not an object"});
  // What PEFT writes and what changes nothing.
  config_of(with(
      R"("use_dora": false, "modules_to_save": null, "loftq_config": {}, "peft_version": "0.18",
                    "megatron_core": "megatron.core", "qalora_group_size": 16, "lora_dropout": 0.1,
                    "init_lora_weights": "gaussian", "layers_to_transform": [0], "something_new": null)"));
  // It trains A alone, beside weights that stay as they are.
  config_of(with(R"("init_lora_weights": "mica")"));
}

// A model of two layers, hidden 64, and an adapter whose tensors one of the tests spoils.
class AdapterTensors : public testing::Test {
 protected:
  void SetUp() override { engine_ = make_engine(checkpoint_); }

  static PeftTensor tensor(const std::string& module, const std::string& side, int64_t n,
                           int64_t k) {
    return {"base_model.model." + module + ".lora_" + side + ".weight",
            {n, k},
            std::vector<float>(static_cast<size_t>(n * k), 0.25f)};
  }
  static std::vector<PeftTensor> good(const std::string& start = "model.") {
    const std::string module = start + "layers.1.self_attn.q_proj";
    return {tensor(module, "A", 8, 64), tensor(module, "B", 64, 8)};
  }
  void load(const std::vector<PeftTensor>& tensors, const std::string& config = with("")) {
    tools::write_adapter_files(folder_.path(), config, tensors);
    engine_->load_adapter("it", folder_.path());
  }
  void refuses(const std::vector<PeftTensor>& tensors, Code code,
               std::initializer_list<std::string_view> parts,
               const std::string& config = with("")) {
    expect_error(code, parts, [&] { load(tensors, config); });
    EXPECT_EQ(engine_->adapters_json(), "[]");
  }

  TinyCheckpoint checkpoint_;
  TempFolder folder_;
  std::shared_ptr<Engine> engine_;
};

TEST_F(AdapterTensors, NamesMayBeThoseOfABodyOrOfANestedModel) {
  for (const char* start : {"model.", "", "model.language_model.", "language_model.model."}) {
    load(good(start));
    EXPECT_NE(engine_->adapters_json().find("\"matrices\":1"), std::string::npos);
  }
}

TEST_F(AdapterTensors, EachFindsItsMatrixOrIsRefusedByName) {
  auto tensors = good();
  tensors.push_back(tensor("model.layers.2.self_attn.q_proj", "A", 8, 64));
  refuses(tensors, Code::kUnsupportedModel, {"layers.2.self_attn.q_proj.lora_A", "2 layers"});
  tensors = good();
  tensors.push_back(tensor("lm_head", "A", 8, 64));
  refuses(tensors, Code::kUnsupportedModel, {"lm_head.lora_A", "no place"});
  tensors = good();
  tensors.push_back(tensor("model.layers.0.self_attn.q_proj", "magnitude_vector", 8, 64));
  refuses(tensors, Code::kUnsupportedModel, {"lora_magnitude_vector", "not run"});
  tensors = good();
  tensors[0].name = tensors[0].name.substr(std::string("base_model.model.").size());
  refuses(tensors, Code::kUnsupportedModel, {"base_model.model."});
  refuses({}, Code::kFormat, {"no tensors"});
}

TEST_F(AdapterTensors, ShapesAndPairsMustFit) {
  auto tensors = good();
  tensors.pop_back();
  refuses(tensors, Code::kFormat, {"layers.1.self_attn.q_proj.lora_B.weight", "missing"});
  tensors = good();
  tensors.erase(tensors.begin());
  refuses(tensors, Code::kFormat, {"layers.1.self_attn.q_proj.lora_A.weight", "missing"});
  const std::string module = "model.layers.1.self_attn.q_proj";
  refuses({tensor(module, "A", 8, 63), tensor(module, "B", 64, 8)}, Code::kFormat,
          {"lora_A", "[8, 63]", "[8, 64]"});
  refuses({tensor(module, "A", 8, 64), tensor(module, "B", 32, 8)}, Code::kFormat,
          {"lora_B", "[32, 8]", "[64, 8]"});
  refuses({tensor(module, "A", 4, 64), tensor(module, "B", 64, 4)}, Code::kFormat,
          {"[4, 64]", "the rank, 8", "[8, 64]"});
  refuses(good(), Code::kFormat, {"q_proj.lora_A", "target_modules"},
          with(R"("target_modules": ["v_proj"])"));
  tensors = good();
  for (const PeftTensor& t : good("")) tensors.push_back(t);
  refuses(tensors, Code::kFormat, {"both", "one module"});
}

TEST_F(AdapterTensors, FilesMustBeThere) {
  expect_error(Code::kNotFound, {"adapter_config.json"},
               [&] { engine_->load_adapter("it", folder_.path()); });
  std::ofstream(folder_ / "adapter_config.json") << with("");
  expect_error(Code::kNotFound, {"adapter_model.safetensors"},
               [&] { engine_->load_adapter("it", folder_.path()); });
  folder_.write("adapter_model.safetensors", "garbage");
  expect_error(Code::kFormat, {"adapter_model.safetensors"},
               [&] { engine_->load_adapter("it", folder_.path()); });
}

}  // namespace
}  // namespace prefix
