// A model with experts gives the same bits from each of its files: gate and up in one tensor or
// apart, transposed or not, blocks or the numbers that they stand for.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support/golden.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::golden_models;
using testing_support::make_options;

std::vector<float> logits_of(const std::string& file, const std::string& dtype) {
  const auto engine =
      Engine::create(golden_models() + "/" + file, make_options({{"dtype", dtype}}), nullptr);
  RequestSpec r;
  r.task = Task::kLogits;
  for (int32_t i = 0; i < 60; ++i) r.tokens.push_back(i * 37 % 131);
  r.logit_ids.resize(131);
  std::iota(r.logit_ids.begin(), r.logit_ids.end(), 0);
  const auto job = engine->submit({r});
  job->wait(-1);
  EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
  return job->result(0).values;
}

TEST(ExpertFiles, OfOneModelGiveTheSameBits) {
  for (const char* model : {"gpt-oss-base", "gpt-oss-mxfp4", "gpt-oss-wide", "mixtral-base",
                            "mixtral-odd", "qwen3-moe-base", "granite-h-experts-none"})
    for (const char* dtype : {"f32", "bf16"}) {
      const std::vector<float> folder = logits_of(model, dtype);
      const std::vector<float> gguf = logits_of(std::string(model) + ".gguf", dtype);
      ASSERT_EQ(folder.size(), 131u);
      ASSERT_EQ(gguf.size(), 131u);
      EXPECT_EQ(std::memcmp(folder.data(), gguf.data(), gguf.size() * sizeof(float)), 0)
          << model << ", " << dtype;
    }
}

}  // namespace
}  // namespace prefix
