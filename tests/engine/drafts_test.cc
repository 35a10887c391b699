// Generations that guess: they draw the tokens that they draw without a draft, in fewer steps, and
// leave the tree and its pages as if nothing had been guessed.
#include <algorithm>
#include <map>
#include <string>

#include "generation_support.h"
#include "poisoned_checkpoint.h"
#include "recurrent_support.h"
#include "scheduler_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

struct Drafts : SchedulerTest {
  static RequestSpec drafting(RequestSpec spec, int32_t draft_tokens = 8) {
    spec.draft_tokens = draft_tokens;
    return spec;
  }
  // Makes every step and checks the tree behind it.
  int64_t run_all() {
    const int64_t before = scheduler->counters().steps;
    for (int i = 0; !scheduler->idle() && i < 10000; ++i) {
      step();
      tree->check();
    }
    return scheduler->counters().steps - before;
  }
  RequestResult run(const RequestSpec& spec) {
    const auto job = submit({spec});
    run_all();
    return job->result(0);
  }
  // Nothing runs: what was set aside for generations is there for others.
  void expect_all_given_back() {
    EXPECT_EQ(scheduler->reserved_tokens(0), 0);
    EXPECT_EQ(pool->available() + pool->used(), pool->capacity());
    tree->drop(scheduler->roots().root_of(0, 100, 0));
    EXPECT_EQ(pool->used(), 0);
  }
  // An answer all of which can be guessed.
  static RequestSpec repeating(int32_t first = 5) {
    RequestSpec spec = drafting(generate(Tokens(40, 4), 60));
    spec.tokens[0] = first;
    spec.sampling.allowed_tokens = {4};
    return spec;
  }
  int64_t accepted() const { return scheduler->counters().drafts_accepted; }
  int64_t drafted() const { return scheduler->counters().drafted; }
};

// An answer that the cache has behind the prompt costs a step for a draft and the token behind it.
TEST_F(Drafts, ReadAnAnswerThatIsInTheCache) {
  RequestSpec spec = generate(text(5, 40), 90);
  spec.sampling.temperature = 1e6f;  // so that no token follows from those before it
  spec.sampling.seed = 11;
  spec.sampling.logprobs = true;
  const RequestResult first = run(spec);
  const int64_t rows = scheduler->counters().rows;
  const auto job = submit({drafting(spec, 16)});
  const int64_t steps = run_all();
  EXPECT_TRUE(same_bits(job->result(0), first));
  EXPECT_LE(steps, 1 + 1 + 1 + 6) << "drafts of 4, 8, then 16";
  EXPECT_GE(steps, 90 / 17);
  EXPECT_EQ(accepted(), drafted()) << "all were right";
  EXPECT_EQ(first.usage.drafted, 0);
  EXPECT_EQ(job->result(0).usage.drafted, drafted());
  EXPECT_EQ(job->result(0).usage.drafts_accepted, accepted());
  EXPECT_EQ(job->result(0).usage.computed, 0 + 1) << "the prompt's last token";
  EXPECT_EQ(scheduler->counters().rows - rows, 90) << "one for each token, as without drafts";
  expect_all_given_back();
}

// The answer repeats a text of the prompt.
TEST_F(Drafts, AreRightWhereAnAnswerRepeatsItself) {
  RequestSpec spec = generate(text(5, 40), 120);
  spec.sampling.allowed_tokens = {3};
  const int64_t plain = [&] {
    submit({spec});
    return run_all();
  }();
  open(100, 2048);
  const RequestResult result = run(drafting(spec));
  EXPECT_EQ(result.tokens, Tokens(120, 3));
  EXPECT_EQ(plain, 120);
  EXPECT_LE(scheduler->counters().steps, 120 / 9 + 4);
  EXPECT_EQ(accepted(), drafted());
  EXPECT_EQ(accepted() + scheduler->counters().steps, 120) << "each saves a step";
  expect_all_given_back();
}

// The path has the tokens of the answer only, and its pages.
TEST_F(Drafts, ThatAreWrongLeaveNothingBehind) {
  RequestSpec spec = generate(text(5, 40), 100);
  spec.sampling.temperature = 1e6f;
  spec.sampling.allowed_tokens = {3, 4};  // so guesses are made, and half of them are wrong
  const RequestResult plain = run(spec);
  const int32_t used = pool->used();
  const int64_t nodes = static_cast<int64_t>(tree->node_count());
  open(100, 2048);
  const RequestResult drafted_one = run(drafting(spec));
  EXPECT_TRUE(same_bits(drafted_one, plain));
  EXPECT_GT(accepted(), 5);
  EXPECT_GT(drafted(), accepted() + 5);
  EXPECT_EQ(pool->used(), used);
  EXPECT_EQ(static_cast<int64_t>(tree->node_count()), nodes);
  EXPECT_EQ(tree->token_count(), 40 + 100 - 1);
  expect_all_given_back();
}

// One draft is as long as those before it were right.
TEST_F(Drafts, GrowAndShrinkWithTheirSuccess) {
  RequestSpec spec = generate(text(5, 40), 120);
  spec.sampling.allowed_tokens = {3};
  const auto job = submit({drafting(spec, 32)});
  std::vector<int64_t> lengths;
  int64_t before = 0;
  for (int i = 0; i < 200 && !scheduler->idle(); ++i) {
    step();
    lengths.push_back(drafted() - before);
    before = drafted();
  }
  lengths.resize(6);
  EXPECT_EQ(lengths, (std::vector<int64_t>{0, 4, 8, 16, 31, 31})) << "as many rows as are cheap";
}

// A token that ends the answer ends it where it does without drafts.
TEST_F(Drafts, DoNotGoBeyondAnEnd) {
  RequestSpec spec = generate(text(5, 40), 100);
  spec.sampling.temperature = 1e6f;
  for (int32_t token = 0; token < 40; ++token) spec.sampling.stop_tokens.push_back(token);
  spec.sampling.seed = 3;
  for (int seed = 0; seed < 40; ++seed) {
    spec.sampling.seed = seed;
    spec.tokens[0] = 50 + seed;
    const RequestResult plain = run(spec);
    const RequestResult again = run(drafting(spec));
    ASSERT_TRUE(same_bits(again, plain)) << seed;
    ASSERT_EQ(again.finish, plain.finish) << seed;
  }
  EXPECT_GT(accepted(), 20);
  // Nor does the text have to end where it had an end before.
  spec.tokens = {9, 3, 3, 4, 3, 3, 4, 3};
  spec.sampling.stop_tokens = {4};
  spec.sampling.allowed_tokens = {3, 4};
  std::vector<RequestResult> plain;
  for (const int32_t draft_tokens : {0, 8}) {
    open(100, 2048);
    for (int seed = 0; seed < 30; ++seed) {
      spec.sampling.seed = seed;
      spec.tokens[0] = 10 + seed;
      const RequestResult result = run(drafting(spec, draft_tokens));
      if (draft_tokens == 0) {
        plain.push_back(result);
      } else {
        EXPECT_TRUE(same_bits(result, plain[static_cast<size_t>(seed)])) << seed;
      }
    }
  }
  EXPECT_GT(drafted(), 0);
  spec.sampling.stop_tokens.clear();
  spec.sampling.allowed_tokens = {3};
  for (int32_t most = 1; most < 12; ++most) {
    spec.sampling.max_tokens = most;
    EXPECT_EQ(run(drafting(spec)).tokens, Tokens(static_cast<size_t>(most), 3));
  }
  expect_all_given_back();
}

// Whatever is asked for, and whoever runs beside it.
TEST_F(Drafts, OfAllKindsOfGenerationsChangeNoBit) {
  SumsConstraint sums;
  const auto constraint = sums.constraint();
  const int rounds = cases(60);
  int64_t right = 0, wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    std::mt19937 random(static_cast<unsigned>(round));
    std::vector<RequestSpec> batch;
    for (size_t i = 1 + random() % 6; i > 0; --i) {
      Tokens prompt;
      if (!batch.empty() && random() % 2) {
        const Tokens& earlier = batch[random() % batch.size()].tokens;
        prompt = first_tokens(earlier, 1 + random() % earlier.size());
      }
      for (const int32_t token : random_tokens(random, 1 + random() % 70, 131))
        prompt.push_back(token % (1 + static_cast<int32_t>(random() % 131)));
      RequestSpec spec = generate(prompt, 1 + static_cast<int32_t>(random() % 60));
      spec.sampling.logprobs = random() % 2;
      if (random() % 2) {
        spec.sampling.temperature = 0.2f + static_cast<float>(random() % 4);
        spec.sampling.top_k = static_cast<int32_t>(random() % 4);
        spec.sampling.seed = static_cast<int64_t>(random() % 4);
      }
      add_options(spec, 131, constraint);
      if (random() % 3 == 0) {  // so that guesses are made, and many are wrong
        spec.sampling.temperature = 1e6f;
        spec.sampling.allowed_tokens = {3, 4};
      }
      batch.push_back(std::move(spec));
    }
    const int32_t rows = round % 3 == 0 ? 1 + static_cast<int32_t>(random() % 9) : 2048;
    open(200, rows);
    const auto plain = submit(batch);
    run_all();
    if (round % 2) open(60 + static_cast<int32_t>(random() % 30), rows);  // or behind the answers
    std::vector<RequestSpec> guessing = batch;
    for (RequestSpec& spec : guessing)
      if (random() % 5) spec.draft_tokens = 1 + static_cast<int32_t>(random() % 32);
    const auto job = submit(guessing);
    run_all();
    int64_t drafted_of_requests = 0, accepted_of_requests = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      ASSERT_TRUE(same_bits(job->result(i), plain->result(i)))
          << "round " << round << ", request " << i << ": " << job->result(i).message;
      ASSERT_EQ(job->result(i).finish, plain->result(i).finish);
      const Usage& usage = job->result(i).usage;
      if (guessing[i].draft_tokens == 0) {
        ASSERT_EQ(usage.drafted, 0);
      }
      drafted_of_requests += usage.drafted;
      accepted_of_requests += usage.drafts_accepted;
    }
    ASSERT_EQ(drafted_of_requests, drafted());
    ASSERT_EQ(accepted_of_requests, accepted());
    right += accepted();
    wrong += drafted() - accepted();
    expect_all_given_back();
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
  }
  EXPECT_GT(right, 5 * rounds);
  EXPECT_GT(wrong, 5 * rounds);
}

// A cache that the answers just fit into has no page for a guess.
TEST_F(Drafts, TakeThePagesThatWereSetAsideOnly) {
  RequestSpec spec = generate(text(5, 30), 200);
  spec.sampling.allowed_tokens = {3};
  for (const int32_t pages : {9, 10}) {
    open(pages, 2048);
    const RequestResult plain = run(spec);
    open(pages, 2048);
    const RequestResult guessed = run(drafting(spec, 32));
    EXPECT_EQ(guessed.status, plain.status) << guessed.message;
    EXPECT_EQ(guessed.tokens, plain.tokens);
  }
}

// Others on the same path keep it, whatever they guess of it.
TEST_F(Drafts, OfSeveralOnOnePathLeaveItToEach) {
  std::vector<RequestSpec> batch(7, generate(text(9, 50), 80));
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].sampling.allowed_tokens = {3, 4};
    batch[i].sampling.temperature = 1e6f;
    batch[i].sampling.seed = static_cast<int64_t>(i / 2);  // each twice but for the last
  }
  const auto plain = submit(batch);
  run_all();
  open(100, 2048);
  for (RequestSpec& spec : batch) spec.draft_tokens = 5;
  const auto job = submit(batch);
  run_all();
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_TRUE(same_bits(job->result(i), plain->result(i))) << i;
  EXPECT_GT(accepted(), 0);
  expect_all_given_back();
}

// Token 8 overflows in the first feed-forward layer where token 7 comes before it, and only there:
// what attention brings from 7 is multiplied by what 8 has itself.
void overflow_behind_bad_token(StoredWeights& w) {
  constexpr int64_t kOfBad = 5, kOfOther = 6, kBrought = 7;  // columns of the residual
  reserve_column(w, kOfBad);
  reserve_column(w, kOfOther);
  reserve_column(w, kBrought);
  const std::string embedding = "model.embed_tokens.weight", layer = "model.layers.0.";
  for (const int64_t column : {kOfOther, kBrought}) w.set(embedding, kBadToken, column, 0);
  w.set(embedding, 8, kOfOther, 50);
  w.set_row(layer + "self_attn.v_proj.weight", 0, 0);
  w.set(layer + "self_attn.v_proj.weight", 0, kOfBad, 1);
  w.set(layer + "self_attn.o_proj.weight", kBrought, 0, 1);
  for (const char* half : {"gate", "up"}) w.set_row(layer + "mlp." + half + "_proj.weight", 0, 0);
  w.set(layer + "mlp.gate_proj.weight", 0, kBrought, 1e25f);
  w.set(layer + "mlp.up_proj.weight", 0, kOfOther, 1e25f);
}

// A guess with numbers that are not finite spoils nothing: neither its page, nor the request.
TEST_F(Drafts, WithNumbersThatAreNotFiniteSpoilNothing) {
  const TinyCheckpoint checkpoint(poisoned_shape());
  {
    StoredWeights weights(checkpoint.path());
    overflow_behind_bad_token(weights);
  }
  for (const bool comes : {false, true}) {
    RequestSpec spec = generate({1, 3, 4, 8, 5, kBadToken, 6}, 70);  // 8 is guessed behind 3 4
    spec.sampling.temperature = 1e6f;
    spec.sampling.allowed_tokens = {3, 4};
    if (comes) spec.sampling.allowed_tokens = {3, 4, 8};
    std::vector<RequestResult> plain, guessed;
    size_t nodes[2];
    for (const bool guesses : {false, true}) {
      open(checkpoint, 100, 2048);
      for (int seed = 0; seed < 12; ++seed) {
        spec.sampling.seed = seed;
        spec.tokens[0] = 10 + seed;
        (guesses ? guessed : plain).push_back(run(drafting(spec, guesses ? 6 : 0)));
      }
      if (guesses) {
        EXPECT_GT(accepted(), 0);
      }
      nodes[guesses] = tree->node_count();
      expect_all_given_back();
    }
    if (!comes) {
      EXPECT_GT(nodes[1], nodes[0]) << "paths go on in pages of their own";
    }
    size_t failed = 0;
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(same_bits(guessed[i], plain[i])) << i << guessed[i].message;
      EXPECT_EQ(guessed[i].message, plain[i].message);
      failed += plain[i].status == Code::kNotFinite;
    }
    EXPECT_EQ(failed, comes ? plain.size() : 0);
  }
}

// What a constraint allows behind a guess is not known before it is right.
TEST_F(Drafts, AreNotMadeBesideAConstraint) {
  SumsConstraint sums;
  RequestSpec constrained = repeating(5);
  constrained.constraint = sums.constraint();
  const auto job = submit({constrained, repeating(6)});
  run_all();
  for (const size_t i : {0, 1}) {
    ASSERT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
    EXPECT_EQ(job->result(i).tokens, Tokens(60, 4));
  }
  EXPECT_EQ(job->result(0).usage.drafted, 0);
  EXPECT_GT(job->result(1).usage.drafted, 0);
  EXPECT_EQ(sums.ended, sums.begun);
}

// Their states would have to go back.
TEST_F(Drafts, AreNotMadeByModelsWithRecurrentLayers) {
  for (const char* family : {"granite", "qwen", "nemotron", "lfm2"}) {
    const TinyCheckpoint checkpoint(hybrid_shape(family));
    open(checkpoint, 200, 2048);
    for (int again = 0; again < 2; ++again) {  // then the answer is in the cache
      const RequestResult result = run(repeating());
      EXPECT_EQ(result.tokens, Tokens(60, 4)) << family << result.message;
    }
    EXPECT_EQ(drafted(), 0) << family;
  }
}

// Behind a window of every layer pages are given back that a path which shrinks would need; other
// paths are whole.
TEST_F(Drafts, AreNotMadeWhereEveryLayerHasAWindow) {
  tools::CheckpointShape shape;
  shape.architecture = "mistral";
  shape.window = 33;
  shape.windows = "ss";
  {
    const TinyCheckpoint checkpoint(shape);
    open(checkpoint, 100, 2048, shape.window);
    for (int again = 0; again < 2; ++again) EXPECT_EQ(run(repeating()).tokens, Tokens(60, 4));
    EXPECT_EQ(drafted(), 0);
  }
  shape.architecture = "qwen3";
  shape.windows = "sf";
  const TinyCheckpoint checkpoint(shape);
  open(checkpoint, 100, 2048);
  EXPECT_EQ(run(repeating()).tokens, Tokens(60, 4));
  EXPECT_GT(drafted(), 0);
}

// Where generations alone take more rows than are cheap, there are no drafts.
TEST_F(Drafts, AreNotMadeWhereRowsCost) {
  std::vector<RequestSpec> batch;
  for (int32_t i = 0; i < 40; ++i) {
    batch.push_back(drafting(generate(text(i, 40), 30)));
    batch.back().sampling.allowed_tokens = {3};
  }
  open(400, 2048);
  submit(batch);
  run_all();
  EXPECT_EQ(drafted(), 0);
  batch.resize(20);
  for (RequestSpec& spec : batch) spec.tokens[1] = 9;
  submit(batch);
  for (int i = 0; i < 200 && !scheduler->idle(); ++i) {
    const int64_t before = drafted(), generations = scheduler->counters().running;
    step();
    EXPECT_LE(drafted() - before, 32 - generations);
  }
  EXPECT_GT(drafted(), 0);
}

// The rows of prompts in the same step are none of those.
TEST_F(Drafts, AreMadeBesideThePromptsOfOthers) {
  const auto job = submit({repeating()});
  for (int i = 0; i < 3; ++i) step();
  const int64_t before = drafted();
  const auto other = submit({logits_of(text(9, 100))});
  step();
  EXPECT_TRUE(other->done());
  EXPECT_GT(drafted() - before, 0);
  run_all();
  EXPECT_EQ(job->result(0).tokens, Tokens(60, 4));
}

// Cancelled with a draft in its path, it leaves none of it.
TEST_F(Drafts, OfACancelledGenerationGoWithIt) {
  RequestSpec spec = generate(text(5, 40), 100);
  spec.sampling.allowed_tokens = {3};
  const auto job = submit({drafting(spec)});
  for (int i = 0; i < 4; ++i) step();
  scheduler->plan();
  job->cancel();
  scheduler->execute();
  scheduler->complete();
  run_all();
  EXPECT_EQ(job->result(0).status, Code::kCancelled);
  EXPECT_EQ(tree->token_count(), 40 + std::ssize(job->result(0).tokens) - 1);
  expect_all_given_back();
}

}  // namespace
}  // namespace prefix
