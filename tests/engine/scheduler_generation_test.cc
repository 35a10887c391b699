// Generations among others: their rows in a step, the tokens and pages that they were promised, and
// a path that others have gone before them.
#include <algorithm>
#include <set>

#include "scheduler_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;

// --- rows ----------------------------------------------------------------------------------------

// Of one prompt, and so hot that every token is as likely as any other.
std::vector<RequestSpec> unlike_generations(int n) {
  std::vector<RequestSpec> batch;
  for (int i = 0; i < n; ++i) {
    batch.push_back(SchedulerTest::generate({7}, 200));
    batch.back().sampling.temperature = 1e6f;
    batch.back().sampling.seed = i;
  }
  return batch;
}

// Generations that fill all steps leave rows to a prompt that ranks no lower.
TEST_F(SchedulerTest, PromptsGetRowsBesideGenerations) {
  open(100, 4);
  const auto generations = submit(unlike_generations(6));
  for (int i = 0; i < 5; ++i) step();
  RequestSpec prompt = logits_of(text(2, 3));
  const auto equal = submit({prompt});
  const size_t before = generated(*generations);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_TRUE(equal->done());
  EXPECT_GT(generated(*generations), before);
  prompt.priority = -1;
  prompt.tokens = text(3, 3);
  const auto lower = submit({prompt});
  for (int i = 0; i < 20; ++i) step();
  EXPECT_FALSE(lower->next_event(0));
  generations->cancel();
  finish_all();
}

// More generations than rows: nobody waits for the end of another one.
TEST_F(SchedulerTest, GenerationsTakeTurnsWhenRowsAreFew) {
  open(100, 2);
  const std::vector<RequestSpec> batch = unlike_generations(5);
  const auto job = submit(batch);
  step();  // the prompt, which they share
  std::set<int32_t> first;
  for (size_t i = 0; i < batch.size(); ++i) first.insert(job->edit_result(i).tokens.at(0));
  ASSERT_EQ(first.size(), batch.size()) << "they must not share the rows behind it";
  for (int round = 0; round < 20; ++round) step();
  for (size_t i = 0; i < batch.size(); ++i) EXPECT_EQ(generated(*job, i), 1u + 20 * 2 / 5) << i;
  job->cancel();
  finish_all();
}

// Whatever came first: the rows that those of a higher priority leave go round among the others.
TEST_F(SchedulerTest, GenerationsOfAHigherPriorityHaveARowInEveryStep) {
  open(100, 3);
  std::vector<RequestSpec> batch = unlike_generations(6);
  batch[2].priority = batch[5].priority = 1;
  const auto job = submit(batch);
  for (int round = 0; round < 21; ++round) step();
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_EQ(generated(*job, i), i == 2 || i == 5 ? 1u + 20 : 1u + 20 / 4) << i;
  job->cancel();
  finish_all();
}

// --- promises ------------------------------------------------------------------------------------

// What a generation may still grow by counts against the quota, until it ends.
TEST_F(SchedulerTest, TokensPromisedToAGenerationComeBackHoweverItEnds) {
  const NodeId root = scheduler->roots().root_of(1, 100, 0);
  tree->set_limits(1, 0, 200);
  for (int round = 0; round < 3; ++round) {
    RequestSpec spec = generate(text(round, 20), 100);
    spec.name_space = 1;
    const auto job = submit({spec});
    for (int i = 0; i <= round; ++i) step();
    job->cancel();
    finish_all();
    ASSERT_EQ(job->result(0).status, Code::kCancelled);
    const auto all = submit({logits_of(text(50 + round, 200), 1)});  // the whole quota
    finish_all();
    EXPECT_EQ(all->result(0).status, Code::kOk) << all->result(0).message;
    EXPECT_EQ(tree->tokens_of(1), 200);
    tree->drop(root);
  }
}

// A generation whose path somebody continues by another token after each of its tokens: leaving him
// takes a page each time, beyond what was promised.
struct PursuedGeneration : SchedulerTest {
  void begin(int32_t pages) {
    open(100, 2048);
    const auto job = submit({leader});
    finish_all();
    drawn = job->result(0).tokens;
    open(pages, 2048);
    root = scheduler->roots().root_of(0, 100, 0);
    running = submit({leader});
    step();
  }
  // Takes a page that nobody can evict; false when there is none.
  bool pursue() {
    const size_t n = generated(*running);
    if (n + 1 >= drawn.size()) return false;
    std::vector<int32_t> tokens = leader.tokens;
    tokens.insert(tokens.end(), drawn.begin(), drawn.begin() + static_cast<ptrdiff_t>(n));
    tokens.push_back((drawn[n] + 1) % 131);
    try {
      tree->attach(tree->match(root, tokens), tokens, {});  // and is never let go of
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  const RequestSpec leader = generate(text(1, 20), 40);
  std::vector<int32_t> drawn;
  std::shared_ptr<Job> running;
  NodeId root = kNoNode;
};

TEST_F(PursuedGeneration, HasThePagesThatItNeedsByItselfAndTakesNoOthers) {
  for (int32_t pages = 5; pages < 40; ++pages) {
    begin(pages);
    while (!running->done()) {
      pursue();
      step();
      SCOPED_TRACE(cat(pages, " pages, ", generated(*running), " tokens"));
      ASSERT_GE(pool->available(), 0);
      ASSERT_LE(pool->used(), pages);
      if (running->done()) break;
      // Whoever takes the rest: it can always go on by itself.
      const auto left = 40 - static_cast<int32_t>(generated(*running));
      const int32_t promised = pages - pool->used() - pool->available();
      ASSERT_GE(promised, (left + kPageTokens - 1) / kPageTokens);
    }
    const RequestResult& result = running->result(0);
    EXPECT_TRUE(result.status == Code::kOk || result.status == Code::kCacheFull) << result.message;
    EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), drawn.begin()));
  }
}

TEST_F(PursuedGeneration, GetsThePageOfARequestThatEndsInTheSameStep) {
  begin(30);
  while (pool->available() > 2) {
    ASSERT_TRUE(pursue());
    step();
    ASSERT_FALSE(running->done());
  }
  while (pool->available() > 1) tree->attach({root, 0, 0, 0}, text(7, 32), {});
  ASSERT_LT(generated(*running) + 2, drawn.size());
  const auto other = submit({logits_of(text(2, 32))});  // takes the last page for this step
  step();
  ASSERT_TRUE(other->done());
  EXPECT_EQ(other->result(0).status, Code::kOk);
  EXPECT_FALSE(running->done()) << running->result(0).message;
}

// --- a generation whose path others have gone before it ------------------------------------------

// A model with a window of 70. A generation that fits into the pool runs through the path of one
// that does not: that one is ahead, holds its path, and has given back the pages behind its window.
struct OvertakenGeneration : SchedulerTest {
  static constexpr size_t kPrompt = 100;
  static constexpr int32_t kMore = 60;

  OvertakenGeneration() {
    open(checkpoint, 60, 2048, 70);
    const auto job = submit({generate(text(1, kPrompt), 500)});
    finish_all();
    all = job->spec(0).tokens;
    all.insert(all.end(), job->result(0).tokens.begin(), job->result(0).tokens.end());
    open(checkpoint, 20, 64, 70);
    behind = submit({generate(text(1, kPrompt), kMore)});
    while (generated(*behind) == 0) step();
    ahead = submit({generate(all, 100)});
    step();
  }
  // Steps until the generation has a root of its own, or has ended.
  void run_into_it() {
    for (int i = 0; i < 200 && roots() == 1 && !behind->done(); ++i) step();
  }
  int roots() const {
    int count = 0;
    for (NodeId id = 0; id < tree->node_limit(); ++id) {
      const Node& n = tree->node(id);
      if (n.root >= 0 && n.parent == kNoNode) ++count;
    }
    return count;
  }

  const TinyCheckpoint checkpoint{[] {
    tools::CheckpointShape shape;
    shape.architecture = "mistral";
    shape.windows = "ss";
    shape.window = 70;
    return shape;
  }()};
  std::vector<int32_t> all;  // the prompt and what follows it
  std::shared_ptr<Job> behind, ahead;
};

TEST_F(OvertakenGeneration, IsComputedOnceMoreByItself) {
  run_into_it();
  ASSERT_EQ(roots(), 2);
  EXPECT_FALSE(behind->done() || ahead->done());
  const size_t before = generated(*behind);
  EXPECT_GT(before, 10u);
  EXPECT_LT(before, static_cast<size_t>(kMore));
  check();
  // All its tokens again, in steps, and no token twice.
  for (int i = 0; i < 2; ++i) step();
  EXPECT_LE(generated(*behind), before + 1);
  check();
  finish_all();
  const RequestResult& result = behind->result(0);
  EXPECT_EQ(result.status, Code::kOk) << result.message;
  ASSERT_EQ(result.tokens.size(), static_cast<size_t>(kMore));
  EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), all.begin() + kPrompt));
  EXPECT_EQ(ahead->result(0).status, Code::kOk) << ahead->result(0).message;
  EXPECT_EQ(result.usage.generated, kMore);
  EXPECT_EQ(result.usage.cached + result.usage.shared + result.usage.computed,
            static_cast<int64_t>(kPrompt));
  // What it took by itself is nobody's afterwards.
  EXPECT_EQ(roots(), 1);
  EXPECT_EQ(pool->bands() + pool->sliding_pages(), 0);
  check();
  tree->trim(0);
  EXPECT_EQ(tree->token_count(), 0);
  EXPECT_EQ(pool->available(), 20);
}

TEST_F(OvertakenGeneration, GivesAllBackWhenItIsCancelled) {
  run_into_it();
  ASSERT_EQ(roots(), 2);
  behind->cancel();
  step();
  EXPECT_EQ(behind->result(0).status, Code::kCancelled);
  EXPECT_EQ(roots(), 1);
  check();
  finish_all();
  EXPECT_EQ(ahead->result(0).status, Code::kOk) << ahead->result(0).message;
}

}  // namespace
}  // namespace prefix
