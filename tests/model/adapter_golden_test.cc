// Adapters against the models that they are made of: W + scale B A, merged, in Hugging Face
// transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/golden.h"
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

INSTANTIATE_TEST_SUITE_P(Adapters, AdapterGolden, testing::ValuesIn(adapter_names()),
                         [](const auto& adapter) {
                           std::string name = adapter.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace prefix
