// Adapters against the models that they are made of: W + scale B A, merged, in Hugging Face
// transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "model/files/model_files.h"
#include "random_adapter.h"
#include "support/golden.h"
#include "support/renamed_tensors.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using namespace testing_support;

std::vector<std::string> adapter_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder() + "/adapters"))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class AdapterGolden : public testing::TestWithParam<std::string> {
 protected:
  // How far the logits of a model with the adapter are from those of the merged one.
  Distance distance(const Golden& golden, const std::string& path, const std::string& dtype) {
    const auto engine =
        Engine::create(golden_models() + "/" + path, make_options({{"dtype", dtype}}), nullptr);
    engine->load_adapter("it", golden_models() + "/" + GetParam());
    const auto vocab = golden.index.at("vocab").get<int32_t>();
    Distance all;
    for (const auto& prompt : golden.index.at("prompts")) {
      const auto tokens = prompt.at("tokens").get<std::vector<int32_t>>();
      std::vector<RequestSpec> requests;
      for (const size_t position : prompt.at("logit_positions").get<std::vector<size_t>>()) {
        RequestSpec r;
        r.task = Task::kLogits;
        r.adapter = "it";
        r.tokens.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(position) + 1);
        r.logit_ids.resize(static_cast<size_t>(vocab));
        std::iota(r.logit_ids.begin(), r.logit_ids.end(), 0);
        requests.push_back(std::move(r));
      }
      const auto job = engine->submit(requests);
      job->wait(-1);
      for (size_t i = 0; i < job->count(); ++i) {
        EXPECT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
        all.add(job->result(i).values.data(),
                golden.at(prompt, "logits_at") + i * static_cast<size_t>(vocab),
                static_cast<size_t>(vocab));
      }
    }
    return all;
  }
};

TEST_P(AdapterGolden, LogitsAreThoseOfTheMergedModel) {
  const Golden golden(golden_folder() + "/adapters/" + GetParam());
  for (const auto& path : golden.index.at("paths")) {
    const auto model = path.get<std::string>();
    SCOPED_TRACE(model);
    const Distance f32 = distance(golden, model, "f32");
    EXPECT_LE(f32.max_abs, 1e-4);
    const Distance bf16 = distance(golden, model, "bf16");
    const double theirs = golden.index.at("bf16").at("logits").get<double>();
    EXPECT_LE(bf16.relative(), 1.2 * theirs);
    std::printf("%s over %s: f32 max-abs %.2g, bf16 relative %.2g of %.2g\n", GetParam().c_str(),
                model.c_str(), f32.max_abs, bf16.relative(), theirs);
  }
}

// A safetensors file with other numbers, of type F32, in some of its tensors.
std::string with_values(const std::string& safetensors,
                        const std::map<std::string, std::vector<float>>& values) {
  uint64_t length;
  std::memcpy(&length, safetensors.data(), sizeof length);
  auto header = nlohmann::json::parse(safetensors.substr(sizeof length, length));
  std::string data;
  for (auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = tensor.at("data_offsets").get<std::vector<size_t>>();
    const size_t begin = data.size();
    const auto found = values.find(name);
    if (found == values.end()) {
      data += safetensors.substr(sizeof length + length + offsets[0], offsets[1] - offsets[0]);
    } else {
      tensor["dtype"] = "F32";
      data.append(reinterpret_cast<const char*>(found->second.data()), found->second.size() * 4);
    }
    tensor["data_offsets"] = {begin, data.size()};
  }
  const std::string text = header.dump();
  length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

std::vector<float> logits(Engine& engine, const char* adapter) {
  RequestSpec r;
  r.task = Task::kLogits;
  r.adapter = adapter;
  r.tokens = {3, 50, 7, 90, 11, 60, 4};
  r.logit_ids.resize(131);
  std::iota(r.logit_ids.begin(), r.logit_ids.end(), 0);
  const auto job = engine.submit({r});
  job->wait(-1);
  EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
  return job->result(0).values;
}

double farthest(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, double{std::abs(a[i] - b[i])});
  return most;
}

// Every token uses it, as it does a block alone.
TEST(AdapterBesideExperts, IsThatOfTheMergedModel) {
  constexpr int64_t kRank = 3, kAlpha = 6;
  const std::string model = golden_models() + "/granite-h-experts";
  const ModelFiles files = open_model(model);
  const TempFolder adapter, merged;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto draw = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = 0.1f * normal(random);
    return values;
  };
  std::vector<tools::PeftTensor> tensors;
  std::map<std::string, std::vector<float>> values;
  for (const char* layer : {"0", "2"})
    for (const char* matrix : {"input_linear", "output_linear"}) {
      const std::string module = std::string("model.layers.") + layer + ".shared_mlp." + matrix;
      const Tensor& weight = *files.tensors->find(module + ".weight");
      const int64_t n = weight.shape[0], k = weight.shape[1];
      const std::vector<float> a = draw(kRank * k), b = draw(n * kRank);
      std::vector<float>& sum = values[module + ".weight"];
      sum.resize(static_cast<size_t>(n * k));
      for (int64_t row = 0; row < n; ++row) {
        float* const out = sum.data() + row * k;
        read_row(weight, row, out);
        for (int64_t i = 0; i < kRank * k; ++i)
          out[i % k] += kAlpha / kRank * b[static_cast<size_t>(row * kRank + i / k)] *
                        a[static_cast<size_t>(i)];
      }
      const std::string stem = "base_model.model." + module;
      tensors.push_back({stem + ".lora_A.weight", {kRank, k}, a});
      tensors.push_back({stem + ".lora_B.weight", {n, kRank}, b});
    }
  tools::write_adapter_files(adapter.path(), R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6})",
                             tensors);
  merged.write("config.json", file_text(model + "/config.json"));
  merged.write("model.safetensors", with_values(file_text(model + "/model.safetensors"), values));
  const auto open = [](const std::string& path) {
    return Engine::create(path, make_options({{"dtype", "f32"}}), nullptr);
  };
  const auto engine = open(model);
  engine->load_adapter("it", adapter.path());
  const std::vector<float> wanted = logits(*open(merged.path()), "");
  EXPECT_LE(farthest(logits(*engine, "it"), wanted), 1e-4);
  EXPECT_GE(farthest(logits(*engine, ""), wanted), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Adapters, AdapterGolden, testing::ValuesIn(adapter_names()),
                         [](const auto& adapter) {
                           std::string name = adapter.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace prefix
