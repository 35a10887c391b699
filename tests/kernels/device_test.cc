// Whole engines on the emulated GPU: the same results as the CPU within the rounding of bf16, and
// the same bookkeeping.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/engine_support.h"
#include "kernels/gpu_support.h"

namespace prefix {
namespace {

using ops::testing::EmulatedCuda;
using testing_support::make_engine;
using testing_support::random_tokens;
using testing_support::TinyCheckpoint;

double relative(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / std::max(norm, 1e-30));
}

TEST(EmulatedEngine, TinyModelEqualsTheCpu) {
  const EmulatedCuda cuda;
  const TinyCheckpoint checkpoint;
  const auto cpu = make_engine(checkpoint, {});
  const auto gpu = make_engine(checkpoint, {{"device", "cuda"}});
  std::mt19937 random(5);
  const std::vector<int32_t> head = random_tokens(random, 70, 64);
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 6; ++i) {
    RequestSpec spec;
    spec.task = Task::kEmbed;
    spec.normalize = false;
    spec.tokens = head;
    for (int32_t t : random_tokens(random, 5 + i * 7, 64)) spec.tokens.push_back(t);
    batch.push_back(spec);
  }
  const auto want = cpu->submit(batch);
  want->wait(-1);
  const auto got = gpu->submit(batch);
  got->wait(-1);
  for (size_t i = 0; i < batch.size(); ++i) {
    ASSERT_EQ(got->result(i).status, Code::kOk) << got->result(i).message;
    EXPECT_LE(relative(got->result(i).values, want->result(i).values), 2e-2);
    EXPECT_EQ(got->result(i).usage.computed, want->result(i).usage.computed);
    EXPECT_EQ(got->result(i).usage.shared, want->result(i).usage.shared);
  }
}

}  // namespace
}  // namespace prefix
