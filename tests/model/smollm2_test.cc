// SmolLM2-135M-Instruct from its GGUF file against transformers on the same dequantised weights.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::Distance;
using testing_support::Golden;
using testing_support::golden_folder;
using testing_support::make_options;

std::string model_path() {
  return std::string(PREFIX_BUILD_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

class Smollm2 : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(model_path())) << "fetch it first: make model";
  }
  const Golden golden{golden_folder() + "/smollm2"};
  // Requests for the greedy continuation of every prompt.
  std::vector<RequestSpec> greedy() const {
    std::vector<RequestSpec> list;
    for (const auto& prompt : golden.index.at("prompts")) {
      RequestSpec r;
      r.tokens = prompt.at("tokens").get<std::vector<int32_t>>();
      r.sampling.max_tokens = 32;
      r.sampling.ignore_eos = true;
      list.push_back(std::move(r));
    }
    return list;
  }
  // Tokens before the first difference, over all prompts.
  int agreeing(const Job& job) const {
    int same = 0;
    for (size_t i = 0; i < job.count(); ++i) {
      const auto expected = golden.index.at("prompts")[i].at("greedy").get<std::vector<int32_t>>();
      EXPECT_EQ(job.result(i).status, Code::kOk) << job.result(i).message;
      for (size_t t = 0; t < expected.size() && job.result(i).tokens[t] == expected[t]; ++t) ++same;
    }
    return same;
  }
};

TEST_F(Smollm2, F32LogitsAgreeTo1e3AndGreedyTokensAreIdentical) {
  const auto engine = Engine::create(
      model_path(), make_options({{"dtype", "f32"}, {"cache_bytes", "1G"}}), nullptr);
  std::vector<RequestSpec> batch;
  for (const auto& prompt : golden.index.at("prompts")) {
    RequestSpec r;
    r.task = Task::kLogits;
    r.tokens = prompt.at("tokens").get<std::vector<int32_t>>();
    r.logit_ids = prompt.at("top_ids").get<std::vector<int32_t>>();
    batch.push_back(r);
  }
  const auto& every = golden.index.at("every_position");
  std::vector<int32_t> tokens;
  for (const auto& prompt : golden.index.at("prompts"))
    if (prompt.at("name") == every.at("prompt"))
      tokens = prompt.at("tokens").get<std::vector<int32_t>>();
  const auto ids = every.at("ids").get<std::vector<int32_t>>();
  for (size_t n = 1; n <= tokens.size(); ++n) {
    RequestSpec r;
    r.task = Task::kLogits;
    r.tokens.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n));
    r.logit_ids = ids;
    batch.push_back(r);
  }
  const auto job = engine->submit(batch);
  job->wait(-1);
  Distance distance;
  for (size_t i = 0; i < golden.index.at("prompts").size(); ++i)
    distance.add(job->result(i).values.data(), golden.at(golden.index.at("prompts")[i], "top_at"),
                 50);
  const float* rows = golden.at(every, "logits_at");
  for (size_t n = 0; n < tokens.size(); ++n)
    distance.add(job->result(golden.index.at("prompts").size() + n).values.data(),
                 rows + n * ids.size(), ids.size());
  std::printf("max-abs difference of f32 logits: %.2e\n", distance.max_abs);
  EXPECT_LE(distance.max_abs, 1e-3);

  const auto decoded = engine->submit(greedy());
  decoded->wait(-1);
  EXPECT_EQ(agreeing(*decoded), 32 * static_cast<int>(decoded->count()));
}

TEST_F(Smollm2, Bf16GreedyTokensAgreeUpToTheFirstSplit) {
  const auto engine = Engine::create(model_path(), make_options({{"cache_bytes", "1G"}}), nullptr);
  const auto decoded = engine->submit(greedy());
  decoded->wait(-1);
  const int same = agreeing(*decoded);
  const int all = 32 * static_cast<int>(decoded->count());
  std::printf("bf16: %d of %d greedy tokens before the first difference\n", same, all);
  // Near-ties of the reference (margin below bf16 noise) may go either way; what follows a split
  // belongs to another sentence and is not counted.
  EXPECT_GE(same, 0.95 * all);
}

}  // namespace
}  // namespace prefix
