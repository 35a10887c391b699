// A model with quantised weights computes what the same model with its weights in f32 computes: the
// files of tools/golden/quantised_models.py, and their twins.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "support/golden.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::golden_models;
using testing_support::make_options;

// Of the list of all files: "HASH  NAME/config.json".
std::vector<std::string> quantised_models() {
  std::ifstream list(testing_support::golden_folder() + "/models.sha256");
  std::vector<std::string> names;
  std::string hash, path;
  while (list >> hash >> path) {
    const std::string name = path.substr(0, path.find('/'));
    if (path == name + "/config.json" && name.starts_with("quantised-") &&
        !name.ends_with("-plain"))
      names.push_back(name);
  }
  return names;
}

std::vector<float> logits_of(const std::string& model, const std::string& dtype) {
  const auto engine =
      Engine::create(golden_models() + "/" + model, make_options({{"dtype", dtype}}), nullptr);
  RequestSpec r;
  r.task = Task::kLogits;
  for (int32_t i = 0; i < 24; ++i) r.tokens.push_back(i * 37 % 131);
  r.logit_ids.resize(131);
  std::iota(r.logit_ids.begin(), r.logit_ids.end(), 0);
  const auto job = engine->submit({r});
  job->wait(-1);
  EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
  return job->result(0).values;
}

class QuantisedModel : public testing::TestWithParam<std::string> {};

TEST_P(QuantisedModel, EqualsItsTwinInF32) {
  for (const char* dtype : {"f32", "bf16"}) {
    const std::vector<float> quantised = logits_of(GetParam(), dtype);
    const std::vector<float> plain = logits_of(GetParam() + "-plain", dtype);
    ASSERT_EQ(quantised.size(), 131u);
    ASSERT_EQ(plain.size(), 131u);
    EXPECT_EQ(std::memcmp(quantised.data(), plain.data(), plain.size() * sizeof(float)), 0)
        << dtype;
    // The twins are no trivial models.
    const auto [least, most] = std::ranges::minmax_element(plain);
    EXPECT_GT(*most - *least, 1.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedModel, testing::ValuesIn(quantised_models()),
                         [](const auto& model) { return testing_support::test_name(model.param); });

}  // namespace
}  // namespace prefix
