// Files as they are published: the names of tensors behind other prefixes, and no output matrix.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "model/model_info.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/renamed_tensors.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using nlohmann::json;
using testing_support::expect_error;
using testing_support::file_text;
using testing_support::golden_models;
using testing_support::make_options;
using testing_support::renamed_tensors;
using testing_support::TempFolder;

constexpr char kModel[] = "mistral-base";

// The model with its tensors renamed; those whose new name is empty are left out.
void write_renamed(const TempFolder& folder,
                   const std::function<std::string(const std::string&)>& rename) {
  const std::string from = golden_models() + "/" + kModel;
  folder.write("config.json", file_text(from + "/config.json"));
  folder.write("model.safetensors",
               renamed_tensors(file_text(from + "/model.safetensors"), rename));
}

std::string with_prefixes(const std::string& name, const std::string& body,
                          const std::string& head) {
  return name.starts_with("model.") ? body + name.substr(6) : head + name;
}

RequestSpec request(Task task) {
  RequestSpec spec;
  spec.task = task;
  spec.tokens = {3, 50, 7, 90, 11};
  spec.logit_ids = {0, 64, 130};
  spec.choices = {{4, 5}, {6}};
  spec.from = 1;
  return spec;
}

RequestResult answer(Engine& engine, Task task) {
  const auto job = engine.submit({request(task)});
  job->wait(-1);
  return job->result(0);
}

std::vector<float> values(Engine& engine, Task task) {
  const RequestResult result = answer(engine, task);
  EXPECT_EQ(result.status, Code::kOk) << result.message;
  EXPECT_FALSE(result.values.empty());
  return result.values;
}

std::shared_ptr<Engine> open(const std::string& path) {
  return Engine::create(path, make_options({}), nullptr);
}

TEST(PublishedNames, GiveTheSameBitsBehindEveryPrefix) {
  const auto plain = open(golden_models() + "/" + kModel);
  const std::vector<float> logits = values(*plain, Task::kLogits);
  const std::vector<float> vector = values(*plain, Task::kEmbed);
  const std::pair<const char*, const char*> kPrefixes[] = {
      {"", ""},
      {"backbone.", ""},
      {"model.language_model.", ""},
      {"language_model.model.", "language_model."},
      {"language_model.", ""},
  };
  for (const auto& [body, head] : kPrefixes) {
    SCOPED_TRACE(body);
    const TempFolder folder;
    write_renamed(folder, [&](const std::string& n) { return with_prefixes(n, body, head); });
    const auto engine = open(folder.path());
    EXPECT_EQ(values(*engine, Task::kLogits), logits);
    EXPECT_EQ(values(*engine, Task::kEmbed), vector);
    EXPECT_TRUE(json::parse(model_info_json(folder.path())).at("logits").get<bool>());
  }
}

TEST(PublishedNames, AreAllBehindOnePrefix) {
  const TempFolder folder;
  write_renamed(folder, [](const std::string& name) {
    return name == "model.norm.weight" ? name : with_prefixes(name, "", "");
  });
  expect_error(Code::kFormat, {"\"norm.weight\" is missing"}, [&] { open(folder.path()); });
  const TempFolder unknown;
  write_renamed(unknown, [](const std::string& n) { return with_prefixes(n, "decoder.", ""); });
  expect_error(Code::kFormat, {"\"model.embed_tokens.weight\" is missing"},
               [&] { open(unknown.path()); });
}

// As Transformers from version 5 on: a configuration that ties them is
// believed where the file agrees.
TEST(PublishedNames, AnOutputMatrixOfItsOwnIsUsed) {
  const auto untied = open(golden_models() + "/" + kModel);
  const TempFolder folder;
  write_renamed(folder, [](const std::string& n) { return n; });
  json config = json::parse(file_text(folder / "config.json"));
  ASSERT_FALSE(config.at("tie_word_embeddings").get<bool>());
  config["tie_word_embeddings"] = true;
  folder.write("config.json", config.dump());
  LogLevel level = LogLevel::kOff;
  std::string text;
  while (next_log(SIZE_MAX, &level, &text)) {
  }
  const auto engine = open(folder.path());
  EXPECT_EQ(values(*engine, Task::kLogits), values(*untied, Task::kLogits));
  EXPECT_FALSE(json::parse(engine->info_json()).at("model").at("tied").get<bool>());
  bool told = false;
  while (next_log(SIZE_MAX, &level, &text))
    told = told || (level == LogLevel::kWarning && text.find("\"lm_head.weight\"") != text.npos);
  EXPECT_TRUE(told);
}

TEST(PublishedNames, AnOutputMatrixThatRepeatsTheEmbeddingIsTied) {
  const TempFolder folder;
  write_renamed(folder, [](const std::string& n) { return n; });
  json config = json::parse(file_text(folder / "config.json"));
  config["tie_word_embeddings"] = true;
  folder.write("config.json", config.dump());
  const std::string path = folder / "model.safetensors";
  std::string bytes = file_text(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const json header = json::parse(bytes.substr(8, length));
  const auto place = [&](const char* name) {
    const auto at = header.at(name).at("data_offsets").get<std::vector<size_t>>();
    return std::pair{8 + length + at.at(0), at.at(1) - at.at(0)};
  };
  const auto [from, size] = place("model.embed_tokens.weight");
  const auto [to, room] = place("lm_head.weight");
  ASSERT_EQ(size, room);
  bytes.replace(to, size, bytes.substr(from, size));
  folder.write("model.safetensors", bytes);
  const json tied = json::parse(open(folder.path())->info_json()).at("model");
  EXPECT_TRUE(tied.at("tied").get<bool>());
  // One number is enough; in the last row, so that all of them are looked at.
  bytes[to + size - 1] = static_cast<char>(bytes[to + size - 1] ^ 1);
  folder.write("model.safetensors", bytes);
  EXPECT_FALSE(json::parse(open(folder.path())->info_json()).at("model").at("tied").get<bool>());
}

TEST(PublishedNames, WithoutAnOutputMatrixEmbedOnly) {
  const auto whole = open(golden_models() + "/" + kModel);
  const TempFolder folder;
  write_renamed(folder, [](const std::string& name) {
    return name == "lm_head.weight" ? "" : with_prefixes(name, "", "");
  });
  const auto engine = open(folder.path());
  EXPECT_EQ(values(*engine, Task::kEmbed), values(*whole, Task::kEmbed));
  EXPECT_EQ(answer(*engine, Task::kWarm).status, Code::kOk);
  for (const Task task : {Task::kLogits, Task::kLogprobs, Task::kChoices, Task::kGenerate}) {
    const RequestResult result = answer(*engine, task);
    EXPECT_EQ(result.status, Code::kUnsupportedModel);
    EXPECT_NE(result.message.find("tensor \"lm_head.weight\" is missing"), std::string::npos)
        << result.message;
  }
  const json info = json::parse(engine->info_json()).at("model");
  EXPECT_FALSE(info.at("logits").get<bool>() || info.at("tied").get<bool>());
  EXPECT_TRUE(json::parse(whole->info_json()).at("model").at("logits").get<bool>());
  EXPECT_FALSE(json::parse(model_info_json(folder.path())).at("logits").get<bool>());
  EXPECT_LT(info.at("weight_bytes").get<int64_t>(),
            json::parse(whole->info_json()).at("model").at("weight_bytes").get<int64_t>());
}

}  // namespace
}  // namespace prefix
