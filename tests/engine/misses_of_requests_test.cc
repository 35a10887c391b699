// Of every request, however it ended, it is told why each token that was computed for it was not in
// the cache; and what the engine counts are the sums of its requests.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "misses.h"
#include "recurrent_support.h"
#include "snapshot_support.h"
#include "support/golden.h"

namespace prefix {
namespace {

using namespace testing_support;

// Makes requests, of which the ones before may share prefixes.
using Draw = std::function<RequestSpec(std::mt19937&, const std::vector<RequestSpec>&)>;

RequestSpec any_task(std::mt19937& random, const std::vector<RequestSpec>& earlier) {
  RequestSpec spec = random_task(random, random_prompt(random, earlier));
  if (random() % 8 == 0) spec.task = Task::kWarm;
  if (spec.task == Task::kGenerate) {
    spec.sampling.max_tokens = 1 + static_cast<int32_t>(random() % 40);
    spec.draft_tokens = static_cast<int32_t>(random() % 9);
  }
  return spec;
}

RequestSpec of_hybrids(std::mt19937& random, const std::vector<RequestSpec>& earlier) {
  return random_hybrid_request(random, earlier, kVocab);
}

RequestSpec embedding(std::mt19937& random, const std::vector<RequestSpec>& earlier) {
  RequestSpec spec;
  spec.task = Task::kEmbed;
  spec.tokens = random_prompt(random, earlier);
  spec.pooling = random() % 2 ? Pooling::kMean : Pooling::kTokens;
  return spec;
}

struct Totals {
  Misses missed;
  int64_t drafted = 0, accepted = 0, failed = 0;
};

// Batches of requests that come again, in several namespaces; some are cancelled, and some do not
// fit. `sharing`: whether the engine does.
Totals run_batches(Engine& engine, const Draw& draw, int batches, bool sharing = true) {
  std::mt19937 random(71);
  const std::vector<int32_t> spaces = open_tuples(engine, random);
  if (sharing) engine.set_cache_limits(spaces[2], 0, 400 * engine.info().kv_bytes_per_token);
  std::vector<RequestSpec> known;
  Totals all;
  for (int i = 0; i < batches && !testing::Test::HasFailure(); ++i) {
    std::vector<RequestSpec> batch;
    for (size_t n = 1 + random() % 4; n > 0; --n) {
      if (known.size() < 60 || random() % 4 == 0) known.push_back(draw(random, known));
      batch.push_back(known[random() % known.size()]);
      batch.back().name_space = spaces[random() % spaces.size()];
    }
    if (sharing && i % 30 == 9) engine.cache_trim(0);
    const auto job = engine.submit(batch);
    if (random() % 10 == 0) job->cancel(random() % batch.size());
    job->wait(-1);
    for (size_t r = 0; r < batch.size(); ++r) {
      const RequestResult& result = job->result(r);
      const Usage& usage = result.usage;
      const Misses missed = Misses::of(usage.missed);
      EXPECT_EQ(missed.sum(), sharing ? usage.computed : 0)
          << "batch " << i << ": " << result.message;
      EXPECT_LE(usage.drafts_accepted, usage.drafted);
      all.missed = all.missed + missed;
      all.drafted += usage.drafted;
      all.accepted += usage.drafts_accepted;
      all.failed += result.status != Code::kOk;
    }
    EXPECT_EQ(Misses::of(engine.stats()), all.missed) << "batch " << i;
  }
  EXPECT_EQ(engine.stats().draft_tokens, all.drafted);
  EXPECT_EQ(engine.stats().draft_tokens_accepted, all.accepted);
  return all;
}

TEST(MissesOfRequests, AreAllThatWasComputedForThem) {
  for (const int64_t pages : {20, 40, 1000}) {
    const auto engine = open_engine(pages);
    const Totals all = run_batches(*engine, any_task, cases(600));
    for (const int64_t count : {all.missed.first_seen, all.missed.name_space, all.missed.budget,
                                all.missed.evicted, all.missed.granularity})
      EXPECT_GT(count, 0) << pages;
    EXPECT_EQ(all.missed.state, 0);
    EXPECT_GT(all.failed, 0);
    EXPECT_GT(all.accepted, 0);
  }
}

TEST(MissesOfRequests, OfModelsWithRecurrentLayersHaveStatesAmongThem) {
  for (const char* family : {"granite", "lfm2"}) {
    const TinyCheckpoint checkpoint(hybrid_shape(family));
    for (const int64_t pages : {60, 1000}) {
      const auto engine = open_engine(pages, {}, checkpoint);
      const Totals all = run_batches(*engine, of_hybrids, cases(300));
      EXPECT_GT(all.missed.state, 0) << family << " " << pages;
      EXPECT_GT(all.missed.budget + all.missed.evicted, 0) << family << " " << pages;
    }
  }
}

// Where pages are given back behind a window, and what is there may be of no use.
TEST(MissesOfRequests, OfModelsThatSlideAreAllToo) {
  tools::CheckpointShape shape;
  shape.architecture = "mistral";
  shape.windows = "ss";
  shape.window = 33;
  const TinyCheckpoint checkpoint(shape);
  for (const int64_t pages : {12, 40}) {
    const auto engine = open_engine(pages, {}, checkpoint);
    const Totals all = run_batches(*engine, any_task, cases(300));
    EXPECT_GT(all.missed.budget, 0);
    EXPECT_EQ(all.drafted, 0);
  }
}

TEST(MissesOfRequests, OfWholeTextsAreWholeTexts) {
  const auto engine =
      Engine::create(golden_models() + "/gemma3-embedding", make_options({}), nullptr);
  const Totals all = run_batches(*engine, embedding, cases(200));
  EXPECT_GT(all.missed.first_seen, 0);
  EXPECT_GT(all.missed.name_space, 0);
  EXPECT_GT(all.missed.evicted, 0);
}

// There is nothing that they could have been found in.
TEST(MissesOfRequests, ThatShareNothingHaveNone) {
  const TinyCheckpoint hybrid(hybrid_shape("granite"));
  const auto plain = open_engine(200, {{"sharing", "false"}});
  const auto recurrent = open_engine(200, {{"sharing", "false"}}, hybrid);
  EXPECT_EQ(run_batches(*plain, any_task, cases(100), false).missed, Misses{});
  EXPECT_EQ(run_batches(*recurrent, of_hybrids, cases(100), false).missed, Misses{});
}

}  // namespace
}  // namespace prefix
