// docs/adding-an-architecture.md followed literally: its example, example_architecture.cc, runs a
// checkpoint. But for names it is Qwen3, whose numbers are compared with transformers.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "model/model_info.h"
#include "support/renamed_tensors.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::file_text;
using testing_support::make_options;
using testing_support::renamed_tensors;
using testing_support::TempFolder;
using testing_support::TinyCheckpoint;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::vector<float> logits_of(const std::string& path) {
  const auto engine = Engine::create(path, make_options({}), nullptr);
  RequestSpec spec;
  spec.task = Task::kLogits;
  spec.tokens = {3, 50, 7, 90, 11};
  spec.logit_ids = {0, 64, 130};
  const auto job = engine->submit({spec});
  job->wait(-1);
  EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
  return job->result(0).values;
}

TEST(ExampleArchitecture, RunsACheckpointWithItsNames) {
  const TinyCheckpoint qwen3;  // of two layers, which both rotate
  const std::string config = file_text(qwen3.path() + "/config.json");
  const TempFolder folder;
  folder.write("config.json", replaced(config, "\"qwen3\"", "\"example\""));
  const auto rename = [](const std::string& name) {
    const std::string norm = replaced(name, "post_attention_layernorm", "mlp_norm");
    return replaced(replaced(norm, "q_norm", "query_norm"), "k_norm", "key_norm");
  };
  folder.write("model.safetensors",
               renamed_tensors(file_text(qwen3.path() + "/model.safetensors"), rename));
  const std::vector<float> logits = logits_of(folder.path());
  EXPECT_EQ(logits.size(), 3u);
  EXPECT_EQ(logits, logits_of(qwen3.path()));
  const auto info = nlohmann::json::parse(model_info_json(folder.path()));
  EXPECT_EQ(info.at("model_type"), "example");
}

}  // namespace
}  // namespace prefix
