// The promise of the library: a request's result has the same bits whether it runs alone or in a
// batch, in any order, with sharing on or off, with one thread or two, in prefill chunks of any
// size, cold or from the cache, with drafts or without, at each instruction-set level that the machine has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "engine/engine_support.h"
#include "engine/generation_support.h"
#include "ops/op.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::make_engine;
using testing_support::random_tokens;
using testing_support::same_bits;
using testing_support::SumsConstraint;
using testing_support::TinyCheckpoint;

RequestSpec random_request(std::mt19937& random, const std::vector<RequestSpec>& earlier,
                           int32_t vocab) {
  RequestSpec spec;
  if (!earlier.empty() && random() % 4) {  // shares a prefix with an earlier one
    spec.tokens = earlier[random() % earlier.size()].tokens;
    spec.tokens.resize(1 + random() % spec.tokens.size());
  }
  const size_t more = random() % 8 == 0 ? 100 + random() % 250 : random() % 40;
  const std::vector<int32_t> tail = random_tokens(random, more, vocab);
  spec.tokens.insert(spec.tokens.end(), tail.begin(), tail.end());
  while (spec.tokens.size() < 2) spec.tokens.push_back(1);
  switch (random() % 5) {
    case 0:
      spec.task = Task::kLogits;
      spec.logit_ids = random_tokens(random, 1 + random() % 4, vocab);
      break;
    case 1:
      spec.task = Task::kLogprobs;
      spec.from = 1 + static_cast<int32_t>(random() % (spec.tokens.size() - 1));
      break;
    case 2:
      spec.task = Task::kChoices;
      for (size_t c = 1 + random() % 3; c > 0; --c)
        spec.choices.push_back(random_tokens(random, 1 + random() % 4, vocab));
      break;
    case 3:
      spec.task = Task::kEmbed;
      break;
    default:
      spec.task = Task::kGenerate;
      spec.sampling.max_tokens = 1 + static_cast<int32_t>(random() % 6);
      spec.sampling.logprobs = true;
      if (random() % 2) {
        spec.sampling.temperature = 0.8f;
        spec.sampling.top_k = 20;
        spec.sampling.seed = static_cast<int64_t>(random());
      }
  }
  static SumsConstraint sums;
  static const std::shared_ptr<const Constraint> constraint = sums.constraint();
  if (spec.task == Task::kLogprobs || spec.task == Task::kGenerate)
    testing_support::add_options(spec, vocab, constraint);
  return spec;
}

void expect_same(const RequestResult& a, const RequestResult& b, const std::string& where) {
  ASSERT_EQ(a.status, b.status) << where << ": " << a.message << b.message;
  ASSERT_EQ(a.tokens, b.tokens) << where;
  ASSERT_TRUE(same_bits(a.values, b.values)) << where;
  ASSERT_TRUE(same_bits(a.token_logprobs, b.token_logprobs)) << where;
  ASSERT_EQ(a.top_tokens, b.top_tokens) << where;
  ASSERT_TRUE(same_bits(a.top_logprobs, b.top_logprobs)) << where;
}

struct Level {
  std::string isa;
  std::string dtype;
};

std::vector<Level> levels() {
  std::vector<Level> list;
  for (const ops::IsaLevel& level : ops::cpu_isa_levels()) {
    list.push_back({std::string(level.name), "bf16"});
    list.push_back({std::string(level.name), "f32"});
  }
  return list;
}

bool available(const std::string& isa) {
  for (const ops::IsaLevel& level : ops::cpu_isa_levels())
    if (level.name == isa) return level.available;
  return false;
}

tools::CheckpointShape odd_shape(const std::string& architecture) {
  tools::CheckpointShape shape;
  shape.architecture = architecture;
  shape.hidden = 72;
  shape.head_dim = 20;
  shape.heads = 6;
  shape.kv_heads = 2;
  return shape;
}

// So many requests and a few more, each alone against each of the other ways to run it.
void compare_ways(const tools::CheckpointShape& shape, const Level& level, int requests) {
  const auto& [isa, dtype] = level;
  const TinyCheckpoint checkpoint(shape);
  const auto alone = make_engine(
      checkpoint, {{"isa", isa}, {"dtype", dtype}, {"threads", "1"}, {"cache", "false"}});
  struct Variant {
    const char* name;
    std::shared_ptr<Engine> engine;
    int32_t draft_tokens = 0;
  };
  const Variant variants[] = {
      {"batched, 2 threads, cached",
       make_engine(checkpoint, {{"isa", isa}, {"dtype", dtype}, {"threads", "2"}})},
      {"sharing off", make_engine(checkpoint, {{"isa", isa},
                                               {"dtype", dtype},
                                               {"threads", "2"},
                                               {"sharing", "false"},
                                               {"cache", "false"}})},
      {"chunks of 7",
       make_engine(checkpoint, {{"isa", isa}, {"dtype", dtype}, {"threads", "1"}, {"rows", "7"}})},
      {"chunks of 33, cache off",
       make_engine(
           checkpoint,
           {{"isa", isa}, {"dtype", dtype}, {"threads", "2"}, {"rows", "33"}, {"cache", "false"}})},
      {"drafts", make_engine(checkpoint, {{"isa", isa}, {"dtype", dtype}, {"threads", "2"}}), 5},
  };
  int compared = 0;
  for (unsigned seed = 0; compared < requests; ++seed) {
    std::mt19937 random(seed * 7919 + static_cast<unsigned>(isa.size()));
    std::vector<RequestSpec> batch;
    const size_t count = seed % 8 == 0 ? 1 + random() % 64 : 1 + random() % 8;
    while (batch.size() < count) batch.push_back(random_request(random, batch, shape.vocab));
    std::vector<RequestResult> expected;
    for (const RequestSpec& spec : batch) {
      const auto job = alone->submit({spec});
      job->wait(-1);
      expected.push_back(job->result(0));
      ASSERT_EQ(expected.back().status, Code::kOk) << expected.back().message;
    }
    for (const Variant& v : variants) {
      std::vector<size_t> order(batch.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      std::vector<RequestSpec> shuffled;
      for (size_t i : order) shuffled.push_back(batch[i]);
      for (RequestSpec& spec : shuffled) spec.draft_tokens = v.draft_tokens;
      const auto job = v.engine->submit(shuffled);
      job->wait(-1);
      for (size_t i = 0; i < order.size(); ++i)
        expect_same(job->result(i), expected[order[i]],
                    std::string(v.name) + ", seed " + std::to_string(seed) + ", request " +
                        std::to_string(order[i]));
      if (testing::Test::HasFatalFailure()) return;
      ++compared;
    }
  }
}

class Invariance : public testing::TestWithParam<Level> {};

TEST_P(Invariance, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  if (!available(GetParam().isa)) GTEST_SKIP() << "this machine lacks " << GetParam().isa;
  compare_ways(odd_shape("qwen3"), GetParam(), testing_support::cases(2000 / 8) + 1);
}

class ArchitectureInvariance : public testing::TestWithParam<const char*> {};

// Each level computes a row in its own way, whatever the architecture: one of them will do here.
TEST_P(ArchitectureInvariance, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  compare_ways(odd_shape(GetParam()), {"auto", "bf16"}, testing_support::cases(500));
}

INSTANTIATE_TEST_SUITE_P(Names, ArchitectureInvariance,
                         testing::Values("mistral", "granite", "gemma", "smollm3"));

// So many columns of q, k and v that blocks of rows project them in slices: of 4, 4, 4 and 2 heads,
// the third with queries and keys. OLMo-2 norms all heads together.
class SlicesOfHeads : public testing::TestWithParam<const char*> {};

TEST_P(SlicesOfHeads, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  tools::CheckpointShape shape = odd_shape(GetParam());
  shape.head_dim = 80;
  shape.heads = 10;
  compare_ways(shape, {"auto", "bf16"}, testing_support::cases(200));
}

INSTANTIATE_TEST_SUITE_P(Names, SlicesOfHeads, testing::Values("qwen3", "olmo2"));

// Many requests behind a cached prefix that ends inside a page: each gets its own copy of the page.
TEST_P(Invariance, ManyRequestsBehindACachedPrefixThatEndsInsideAPage) {
  const auto& [isa, dtype] = GetParam();
  if (!available(isa)) GTEST_SKIP() << "this machine lacks " << isa;
  tools::CheckpointShape shape;
  const TinyCheckpoint checkpoint(shape);
  const auto alone = make_engine(
      checkpoint, {{"isa", isa}, {"dtype", dtype}, {"threads", "1"}, {"cache", "false"}});
  const auto cached = make_engine(checkpoint, {{"isa", isa}, {"dtype", dtype}, {"threads", "2"}});
  std::mt19937 random(3);
  for (size_t length : {1u, 31u, 32u, 33u, 47u, 255u, 256u, 300u}) {
    const std::vector<int32_t> head = random_tokens(random, length, shape.vocab);
    RequestSpec first;
    first.task = Task::kEmbed;
    first.tokens = head;
    cached->submit({first})->wait(-1);
    std::vector<RequestSpec> batch;
    for (int i = 0; i < 24; ++i) {
      RequestSpec spec;
      spec.task = Task::kLogprobs;
      spec.tokens = head;
      for (int32_t t : random_tokens(random, 1 + random() % 50, shape.vocab))
        spec.tokens.push_back(t);
      spec.from = static_cast<int32_t>(length);
      batch.push_back(std::move(spec));
    }
    const auto job = cached->submit(batch);
    job->wait(-1);
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto single = alone->submit({batch[i]});
      single->wait(-1);
      expect_same(job->result(i), single->result(0), "prefix " + std::to_string(length));
      EXPECT_GE(job->result(i).usage.cached, static_cast<int64_t>(length) - 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Invariance, testing::ValuesIn(levels()), [](const auto& level) {
  return level.param.isa + "_" + level.param.dtype;
});

}  // namespace
}  // namespace prefix
