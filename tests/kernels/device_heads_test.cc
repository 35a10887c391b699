// Heads of an engine on the emulated GPU: what comes back of rows of logits, and how little.
#include "kernels/engines.h"
#include "support/relative_error.h"

namespace prefix {
namespace {

std::vector<RequestSpec> generations(std::mt19937& random, size_t count, size_t tokens,
                                     const Sampling& sampling) {
  std::vector<RequestSpec> batch(count);
  for (RequestSpec& spec : batch) {
    spec.tokens = random_tokens(random, tokens, 64);
    spec.sampling = sampling;
    spec.sampling.ignore_eos = true;
    spec.sampling.seed = static_cast<int64_t>(random());
  }
  return batch;
}

// Bytes that come back for a row, by the way that its token is found.
TEST_F(EmulatedEngine, ARowOfLogitsStaysOnTheDevice) {
  const auto engine = make({}, TinyCheckpoint({.vocab = 3000}));
  const auto bytes_of_a_token = [&](const Sampling& sampling) {
    const int64_t before = counters().downloaded_bytes;
    results_of(*engine, generations(random_, 32, 20, sampling));
    return (counters().downloaded_bytes - before) / (32 * sampling.max_tokens);
  };
  Sampling sampling;
  sampling.max_tokens = 3;
  EXPECT_LE(bytes_of_a_token(sampling), 64);
  sampling.logprobs = true;
  EXPECT_LE(bytes_of_a_token(sampling), 64);
  sampling.temperature = 1;
  sampling.top_k = 20;
  EXPECT_LE(bytes_of_a_token(sampling), 64 + 20 * 8);
  sampling.repetition_penalty = 1.1f;
  EXPECT_LE(bytes_of_a_token(sampling), 64 + 256 * 8 + 23 * 4);
  sampling.top_k = 0;
  EXPECT_GE(bytes_of_a_token(sampling), 3000 * 4);
}

TEST_F(EmulatedEngine, AScoreIsAFewBytes) {
  const auto cpu = make_engine(tiny_checkpoint(), {{"dtype", "f32"}});
  const auto engine = make({{"dtype", "f32"}});
  std::vector<RequestSpec> batch(3);
  for (RequestSpec& spec : batch) {
    spec.task = Task::kLogprobs;
    spec.tokens = tokens(300);
  }
  batch[2].task = Task::kChoices;
  batch[2].choices = {{1, 2, 3}, {1, 2}, {7}};
  const int64_t before = counters().downloaded_bytes;
  const std::vector<RequestResult> got = results_of(*engine, batch);
  constexpr int64_t kFlags = (3 * 300 + 6) * 4;  // of the rows of its steps
  EXPECT_LE(counters().downloaded_bytes - before, (2 * 299 + 6) * 24 + kFlags);
  const std::vector<RequestResult> want = results_of(*cpu, batch);
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_LE(testing_support::relative_error(got[i].values, want[i].values), 1e-5);
}

// All ids of the vocabulary, of many rows: not a copy for each panel of 32.
// Nor one for each vector.
TEST_F(EmulatedEngine, ChosenLogitsAndEmbeddingsComeInOneCopy) {
  const auto engine = make();
  for (const Task task : {Task::kLogits, Task::kEmbed}) {
    std::vector<RequestSpec> batch;
    for (int i = 0; i < 7; ++i) {
      batch.push_back(logits_of(tokens(20)));
      batch.back().task = task;
      for (int32_t id = 3; id < 131; ++id) batch.back().logit_ids.push_back(id);
    }
    const int64_t before = counters().downloads;
    results_of(*engine, batch);
    EXPECT_EQ(counters().downloads - before, 1);
  }
}

// Two ways to ask for the same: from candidates, and from the whole row, which is read when top-k
// is off. In a vocabulary of 131, the 256 most likely tokens are all.
TEST_F(EmulatedEngine, TokensFromCandidatesAreThoseOfTheWholeRow) {
  const auto engine = make({{"cache", "false"}});
  for (const float penalty : {1.0f, 1.3f}) {
    const Sampling sampling{
        .max_tokens = 8, .temperature = 1.5f, .repetition_penalty = penalty, .logprobs = true};
    std::vector<RequestSpec> batch = generations(random_, 6, 30, sampling);
    const std::vector<RequestResult> whole = results_of(*engine, batch);
    for (RequestSpec& spec : batch) spec.sampling.top_k = 200;
    const std::vector<RequestResult> candidates = results_of(*engine, batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      const RequestResult &a = whole[i], &b = candidates[i];
      EXPECT_EQ(a.tokens, b.tokens);
      for (size_t t = 0; t < a.tokens.size(); ++t)
        EXPECT_NEAR(a.token_logprobs[t], b.token_logprobs[t], 1e-5);
    }
  }
}

// Of 256 candidates most were seen and are punished so hard that others are better, which nobody
// knows yet: the row is read after all.
TEST_F(EmulatedEngine, APenaltyMayNeedTheWholeRow) {
  const auto engine = make({{"cache", "false"}}, TinyCheckpoint({.vocab = 600}));
  const Sampling sampling{.max_tokens = 4,
                          .temperature = 2,
                          .top_k = 150,
                          .top_p = 1e-6f,  // the best of what is left
                          .repetition_penalty = 1e6f};
  std::vector<RequestSpec> batch = generations(random_, 2, 4, sampling);
  for (RequestSpec& spec : batch)
    for (int32_t id = 0; id < 600; ++id)
      if (id % 5 != 0) spec.tokens.push_back(id);
  const int64_t before = counters().downloaded_bytes;
  const std::vector<RequestResult> candidates = results_of(*engine, batch);
  EXPECT_GE(counters().downloaded_bytes - before, 600 * 4);
  for (RequestSpec& spec : batch) spec.sampling.top_k = 0;
  const std::vector<RequestResult> whole = results_of(*engine, batch);
  for (size_t i = 0; i < batch.size(); ++i) EXPECT_EQ(candidates[i].tokens, whole[i].tokens);
}

}  // namespace
}  // namespace prefix
