// The scheduler step by step: who is served when, and that what a request took is counted once and
// comes back when it is cancelled.
#include "cache/page_keys.h"
#include "plentiful_tier.h"
#include "scheduler_fixture.h"
#include "support/failing_new.h"

namespace prefix {
namespace {

using namespace testing_support;

// --- order ---------------------------------------------------------------------------------------

// Memory for one at a time.
TEST_F(SchedulerTest, JobsOfEqualPriorityAreServedAsTheyCame) {
  open(2, 2048);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 4; ++i) jobs.push_back(submit({logits_of(text(i, 64))}));
  for (size_t done = 0; done < jobs.size(); ++done) {
    for (size_t i = 0; i < jobs.size(); ++i) EXPECT_EQ(jobs[i]->done(), i < done) << done;
    step();
  }
  finish_all();
  for (const auto& job : jobs) EXPECT_EQ(job->result(0).status, Code::kOk);
}

TEST_F(SchedulerTest, AJobOfHigherPriorityGoesBeforeThoseThatCameEarlier) {
  open(2, 2048);
  RequestSpec patient = logits_of(text(1, 64));
  patient.priority = -10;
  const auto first = submit({patient});
  RequestSpec urgent = logits_of(text(2, 64));
  urgent.priority = -9;
  const auto second = submit({urgent});
  urgent.tokens = text(3, 64);
  const auto third = submit({urgent});
  step();
  EXPECT_TRUE(second->done());
  EXPECT_FALSE(first->done() || third->done());
  step();
  EXPECT_TRUE(third->done());
  EXPECT_FALSE(first->done());
  finish_all();
}

// Within a job too, and equals stay in their order.
TEST_F(SchedulerTest, RequestsOfAJobGoByPriorityAndThenInOrder) {
  open(2, 2048);
  std::vector<RequestSpec> batch;
  for (int32_t i = 0; i < 4; ++i) batch.push_back(logits_of(text(i, 64)));
  batch[2].priority = 7;
  const auto job = submit(batch);
  for (const size_t next : {2u, 0u, 1u, 3u}) {
    EXPECT_FALSE(job->finished(next));
    step();
    EXPECT_TRUE(job->finished(next)) << next;
  }
}

// The highest of a job's requests moves it while it is there, and no longer.
TEST_F(SchedulerTest, AJobStandsByTheRequestsThatAreLeft) {
  open(2, 2048);
  std::vector<RequestSpec> batch;
  for (int32_t i = 0; i < 3; ++i) batch.push_back(logits_of(text(i, 64)));
  batch[0].priority = 10;
  const auto first = submit(batch);
  RequestSpec between = logits_of(text(3, 64));
  between.priority = 5;
  const auto second = submit({between});
  step();
  EXPECT_TRUE(first->finished(0));
  EXPECT_FALSE(second->done());
  step();
  EXPECT_TRUE(second->done());
  EXPECT_FALSE(first->finished(1) || first->finished(2));
  finish_all();
}

// A quota keeps its own namespace waiting, in order, and nobody else.
TEST_F(SchedulerTest, AQuotaHoldsNobodyElseUp) {
  scheduler->roots().root_of(1, 200, 0);
  tree->set_limits(1, 0, 200);
  const auto of = [](RequestSpec spec) {
    spec.name_space = 1;
    return spec;
  };
  const auto runs = submit({of(generate(text(1, 20), 100))});
  step();
  const auto waits = submit({of(generate(text(2, 20), 100))});
  const auto behind = submit({of(logits_of(text(3, 3)))});
  const auto other = submit({logits_of(text(4, 3))});
  step();
  EXPECT_TRUE(other->done());
  EXPECT_FALSE(waits->next_event(0) || behind->done());
  finish_all();
  for (const auto& job : {runs, waits, behind, other})
    EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
}

// Nobody who runs elsewhere makes room in a quota: what only they keep company is told at once.
TEST_F(SchedulerTest, WhatNobodyMakesRoomForInAQuotaDoesNotWait) {
  scheduler->roots().root_of(1, 200, 0);
  tree->set_limits(1, 0, 200);
  const auto other = submit({generate(text(1, 20), 1000)});
  step();
  RequestSpec spec = logits_of(text(2, 20));  // 120 tokens with each choice, 420 with all of them
  spec.task = Task::kChoices;
  spec.logit_ids.clear();
  for (int32_t i = 0; i < 4; ++i) spec.choices.emplace_back(100, 5 + i);
  spec.name_space = 1;
  const auto job = submit({spec});
  step();
  ASSERT_TRUE(job->done());
  EXPECT_EQ(job->result(0).status, Code::kCacheFull);
  EXPECT_FALSE(other->done());
  other->cancel();
  finish_all();
  EXPECT_EQ(tree->held_tokens(), 0);
}

// Whom pages lack is tried when some came free, or nobody holds them any more, and not in every
// step. An operation of the tree, or the try of one, is a tick of its clock.
struct LacksPages : SchedulerTest {
  // Takes 5 of the pages for as long as it runs.
  std::shared_ptr<Job> run_long(int32_t number) { return submit({generate(text(number, 32), 64)}); }
  // Whether it was tried.
  bool tries() {
    const int64_t before = tree->tick();
    step();
    return tree->tick() != before;
  }
};

TEST_F(LacksPages, IsNotTriedInVain) {
  open(6, 2048);
  const auto runs = run_long(1);
  const auto waits = submit({logits_of(text(2, 64))});
  EXPECT_TRUE(tries());
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(tries()) << i;
  EXPECT_FALSE(waits->next_event(0));
  runs->cancel();
  finish_all();
  EXPECT_EQ(waits->result(0).status, Code::kOk) << waits->result(0).message;
}

TEST_F(LacksPages, RunsWhenPagesComeFreeWhileOthersGoOn) {
  open(11, 2048);
  const auto runs = run_long(1), ends = run_long(2);
  const auto waits = submit({logits_of(text(3, 64))});
  step();
  EXPECT_FALSE(waits->next_event(0));
  ends->cancel();
  step();
  EXPECT_TRUE(waits->done());
  EXPECT_FALSE(runs->done());
  runs->cancel();
  finish_all();
}

// The pages stay in use: those of what is cached.
TEST_F(LacksPages, RunsWhenWhatIsPinnedIsLetGoOf) {
  open(8, 2048);
  submit({logits_of(text(1, 96))});
  finish_all();
  const NodeId root = scheduler->roots().root_of(0, 96, 0);
  const int64_t lease = scheduler->add_lease(tree->match(root, text(1, 96)).node, 0);
  const auto runs = run_long(2);
  const auto waits = submit({logits_of(text(3, 64))});
  step();
  EXPECT_FALSE(waits->next_event(0));
  ASSERT_TRUE(scheduler->remove_lease(lease));
  step();
  EXPECT_TRUE(waits->done());
  EXPECT_FALSE(runs->done());
  runs->cancel();
  finish_all();
}

// What is cached in a namespace with a floor is out of reach for others: until the floor is lower,
// or the owner drops it, or its time is up.
TEST_F(LacksPages, RunsWhenAFloorIsLowerOrNothingIsLeftUnderIt) {
  for (int how = 0; how < 3; ++how) {
    SCOPED_TRACE(how);
    open(8, 2048);
    RequestSpec floored = logits_of(text(1, 96));
    floored.name_space = 1;
    floored.cache_ttl_ms = 1000;
    submit({floored});
    finish_all();
    tree->set_limits(1, 96, 0);
    const auto runs = run_long(2);
    const auto waits = submit({logits_of(text(3, 64))});
    step();
    EXPECT_FALSE(tries());
    EXPECT_FALSE(waits->next_event(0));
    if (how == 0) tree->set_limits(1, 0, 0);
    if (how == 1) tree->drop(scheduler->roots().root_of(1, 96, 0));
    if (how == 2) clock.advance(1000ms);
    step();
    EXPECT_TRUE(waits->done());
    EXPECT_FALSE(runs->done());
    runs->cancel();
    finish_all();
  }
}

// A page may have a few tokens only.
TEST_F(LacksPages, RunsWhenBriefTextsHaveEnded) {
  open(10, 2048);
  const auto runs = run_long(1);
  std::vector<std::shared_ptr<Job>> brief;
  for (int32_t i = 2; i < 6; ++i) brief.push_back(submit({logits_of(text(i, 3))}));
  const auto waits = submit({logits_of(text(6, 64))});
  step();
  for (const auto& job : brief) EXPECT_TRUE(job->done());
  EXPECT_FALSE(waits->next_event(0));
  step();
  EXPECT_TRUE(waits->done());
  EXPECT_FALSE(runs->done());
  runs->cancel();
  finish_all();
}

// What no end of another makes room for is told at once.
TEST_F(SchedulerTest, WhatFitsNoEmptyCacheDoesNotWait) {
  open(10, 2048);
  const auto runs = submit({generate(text(1, 20), 100)});
  step();
  const auto large = submit({logits_of(text(2, 10 * 32 + 1))});
  const auto other = submit({logits_of(text(3, 3))});
  step();
  ASSERT_TRUE(large->done() && other->done());
  EXPECT_FALSE(runs->done());
  EXPECT_EQ(large->result(0).status, Code::kCacheFull);
  EXPECT_EQ(other->result(0).status, Code::kOk);
  finish_all();
  scheduler->roots().root_of(1, 200, 0);
  tree->set_limits(1, 0, 64);
  const auto again = submit({generate(text(1, 20), 100)});
  step();
  const auto beyond = submit({logits_of(text(2, 65), 1)});
  step();
  ASSERT_TRUE(beyond->done());
  EXPECT_EQ(beyond->result(0).status, Code::kCacheFull);
  EXPECT_FALSE(again->done());
  finish_all();
}

// Prompts of different jobs get equal shares of a step.
TEST_F(SchedulerTest, JobsTakeTurnsWhenRowsAreFew) {
  open(100, 8);
  const auto large = submit({logits_of(text(1, 320))});
  const auto small = submit({logits_of(text(2, 32))});
  step();
  EXPECT_TRUE(large->next_event(0) && small->next_event(0)) << "both have begun";
  for (int i = 1; i < 7; ++i) step();
  EXPECT_FALSE(small->done());
  step();
  step();
  EXPECT_TRUE(small->done()) << "at 4 of 8 rows a step";
  EXPECT_FALSE(large->done());
  finish_all();
}

// With many jobs those that came first are done first, not all at the end.
TEST_F(SchedulerTest, ManyJobsAreNotAllDoneAtTheEnd) {
  open(1000, 64);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 100; ++i) jobs.push_back(submit({logits_of(text(i, 40))}));
  int step_of_first = 0, steps = 0;
  for (; !scheduler->idle(); ++steps) {
    step();
    if (step_of_first == 0 && jobs.front()->done()) step_of_first = steps + 1;
    for (size_t i = 0; i + 16 < jobs.size(); ++i)
      ASSERT_TRUE(jobs[i]->done() || !jobs[i + 16]->done()) << i << " is overtaken by far";
  }
  EXPECT_LE(step_of_first, 8) << "of " << steps;
  EXPECT_LE(steps, 100 * 40 / 64 + 2) << "steps are full";
}

// A long prompt neither holds others up nor waits for all that come after it.
TEST_F(SchedulerTest, ALongPromptGetsItsTurnsAmongManyShortOnes) {
  open(4000, 64);
  const auto longest = submit({logits_of(text(1, 640))});  // ten turns
  std::vector<std::shared_ptr<Job>> shorts;
  int done_while = 0, steps = 0;
  for (; !longest->done() && steps < 1000; ++steps) {
    for (int k = 0; k < 2; ++k) {  // more than a step computes
      const auto number = static_cast<int32_t>(shorts.size());
      std::vector<int32_t> tokens = text(2 + number % 100, 48);
      tokens[1] = number / 100;
      shorts.push_back(submit({logits_of(tokens)}));
    }
    step();
    if (steps == 3) {
      EXPECT_TRUE(shorts.front()->done());
    }
  }
  for (const auto& job : shorts) done_while += job->done();
  ASSERT_LT(steps, 10 * 12 + 20) << "12 steps compute what comes in a round of 8";
  EXPECT_EQ(longest->result(0).status, Code::kOk) << longest->result(0).message;
  EXPECT_GT(done_while, steps / 2);
  for (const auto& job : shorts) job->cancel();
  finish_all();
}

// A job of many prompts and one that comes later divide the steps; what had turns is not owed any.
TEST_F(SchedulerTest, AJobThatRanAloneOwesNothing) {
  open(4000, 64);
  std::vector<RequestSpec> batch;
  for (int32_t i = 0; i < 60; ++i) batch.push_back(logits_of(text(i, 64)));
  const auto large = submit(batch);
  for (int i = 0; i < 30; ++i) step();
  const int64_t before = large->finished_count();
  std::vector<std::shared_ptr<Job>> others;
  for (int32_t k = 0; k < 9; ++k) others.push_back(submit({logits_of(text(100 + k, 320))}));
  for (int i = 0; i < 40; ++i) step();
  EXPECT_GT(large->finished_count(), before + 1);
  finish_all();
}

TEST_F(SchedulerTest, StepsOfAJobAreThoseWhileItIsThere) {
  open(100, 64);
  const auto first = submit({logits_of(text(1, 256))});
  step();
  const auto second = submit({logits_of(text(2, 32))});
  step();
  EXPECT_TRUE(second->done());
  finish_all();
  EXPECT_EQ(second->totals().steps, 1);
  EXPECT_EQ(first->totals().steps, 5);
}

// --- ends ----------------------------------------------------------------------------------------

TEST_F(SchedulerTest, WhatIsCancelledWhileItWaitsEndsAsCancelled) {
  open(6, 2048);
  const auto running = submit({generate(text(1, 32), 64)});  // takes 5 of 6 pages
  const auto waiting = submit({logits_of(text(2, 64)), logits_of(text(3, 64))});
  step();
  waiting->cancel(1);
  step();
  EXPECT_FALSE(waiting->finished(0));
  ASSERT_TRUE(waiting->finished(1));
  EXPECT_EQ(waiting->result(1).status, Code::kCancelled);
  EXPECT_EQ(waiting->result(1).finish, Finish::kCancelled);
  running->cancel();
  step();
  EXPECT_EQ(running->result(0).status, Code::kCancelled);
  EXPECT_EQ(running->result(0).finish, Finish::kCancelled);
  finish_all();
  EXPECT_EQ(waiting->result(0).status, Code::kOk) << waiting->result(0).message;
  EXPECT_EQ(waiting->totals().requests, 2);
  EXPECT_EQ(waiting->totals().failed, 1);
  EXPECT_EQ(running->totals().failed, 1);
}

// What its step has computed of the prompt stays.
TEST_F(SchedulerTest, ResultsThatNobodyWantsAnyMoreAreGivenUpBetweenBlocksOfThem) {
  constexpr int32_t kTokens = 201;
  std::shared_ptr<Job> job;
  int64_t asked = 0, last = 0;
  scheduler.reset();
  scheduler = std::make_unique<Scheduler>(*model, *kv, *pool, *tree,
                                          SchedulerOptions{.between_layers =
                                                               [&] {
                                                                 if (++asked == last) job->cancel();
                                                               }},
                                          nullptr, clock.now());
  RequestSpec spec;
  spec.task = Task::kLogprobs;
  spec.from = 1;
  spec.tokens = text(1, kTokens);
  job = submit({spec});
  step();
  ASSERT_TRUE(job->done());
  const int64_t layers = model->config().layers, all = asked;
  ASSERT_GT(all, layers + 2) << "the results are one block";
  for (last = layers + 1; last <= all; ++last) {
    asked = 0;
    spec.tokens = text(static_cast<int32_t>(last), kTokens);
    job = submit({spec});
    step();
    EXPECT_EQ(asked, last) << "a block was computed for nobody";
    step();
    EXPECT_EQ(job->result(0).status, Code::kCancelled);
    const NodeId root = scheduler->roots().root_of(0, kTokens, 0);
    EXPECT_EQ(tree->match(root, spec.tokens).computed, kTokens - 1);
  }
}

// The prompt of choices, and each choice.
TEST_F(SchedulerTest, EveryTokenOfChoicesCountsOnce) {
  RequestSpec choices = logits_of(text(1, 64));
  choices.task = Task::kChoices;
  choices.choices = {text(5, 40), text(6, 3), text(5, 50)};
  for (int round = 0; round < 2; ++round) {
    const auto job = submit({choices});
    finish_all();
    const Usage& usage = job->result(0).usage;
    EXPECT_EQ(usage.prompt, 64 + 40 + 3 + 50);
    EXPECT_EQ(usage.cached + usage.shared + usage.computed, usage.prompt);
    EXPECT_EQ(job->totals().tokens_given, usage.prompt);
  }
}

// The last position of a cached prompt is computed again to be read, once for all choices.
TEST_F(SchedulerTest, ChoicesCountAPromptThatIsThereOnce) {
  for (const int32_t rows : {2048, 1}) {
    open(100, rows);
    for (const size_t length : {64u, 1u}) {
      submit({logits_of(text(1, length))});
      finish_all();
      RequestSpec choices = logits_of(text(1, length));
      choices.task = Task::kChoices;
      for (int32_t i = 0; i < 10; ++i) choices.choices.push_back({5 + i, 3});
      const auto job = submit({choices});
      finish_all();
      const Usage& usage = job->result(0).usage;
      EXPECT_EQ(usage.cached, static_cast<int64_t>(length) - 1) << rows;
      EXPECT_EQ(usage.shared, 0) << rows;
      EXPECT_EQ(usage.computed, 1 + 10 * 2) << rows;
    }
  }
}

// A row that is computed again only to be read is taken off the count that had it.
TEST_F(SchedulerTest, NoCountOfTokensIsNegative) {
  open(5, 2048);
  const std::vector<int32_t> prompt = text(1, 32);
  RequestSpec brief = generate(prompt, 64);  // promised 4 pages, ends after a token
  for (int32_t id = 0; id < 131; ++id) brief.sampling.stop_tokens.push_back(id);
  // The second waits for the first one's pages; by then the third finds its prompt computed, by a
  // request of its own job.
  const auto job = submit({brief, logits_of(text(2, 64)), logits_of(prompt)});
  finish_all();
  for (size_t i = 0; i < job->count(); ++i) {
    const Usage& usage = job->result(i).usage;
    for (const int64_t count : {usage.cached, usage.shared, usage.computed}) EXPECT_GE(count, 0);
    EXPECT_EQ(usage.cached + usage.shared + usage.computed, usage.prompt);
  }
  EXPECT_EQ(job->result(2).usage.cached, 0);
  EXPECT_EQ(job->result(2).usage.shared, 31);
  EXPECT_EQ(job->result(2).usage.computed, 1);
}

// --- memory --------------------------------------------------------------------------------------

// For itself, or for the root of its namespace.
TEST_F(SchedulerTest, ARequestThatThereIsNoMemoryForFailsAlone) {
  RequestSpec spec = logits_of(text(1, 64));
  submit({spec});
  finish_all();  // steps that do little take no memory from now on
  for (int64_t allocations = 0; allocations < 3; ++allocations) {
    SCOPED_TRACE(allocations);
    spec.name_space = 1 + static_cast<int32_t>(allocations);
    const auto job = submit({spec});
    {
      const Allowing few(allocations);
      scheduler->plan();
    }
    ASSERT_TRUE(job->done());
    EXPECT_EQ(job->result(0).status, Code::kOutOfMemory);
    const auto next = submit({spec});
    finish_all();
    EXPECT_EQ(next->result(0).status, Code::kOk);
    EXPECT_EQ(tree->held_tokens(), 0);
  }
}

// Nor does it when a tier could not be asked.
TEST_F(SchedulerTest, ARequestThatThereIsNoMemoryToLookUpFailsAlone) {
  PageKeys keys(*tree, *pool, [](NodeId) { return PageKey{}; });
  auto tier = std::make_unique<PlentifulTier>();
  const FakeTier& asked = tier->fake;
  tier->fake.at_once = true;
  std::vector<LowerTier> list;
  list.push_back({"disk", std::move(tier)});
  LowerTiers tiers(std::move(list), *tree, *pool, *kv, keys, 1s, {.now = clock.now()});
  scheduler.reset();
  scheduler = std::make_unique<Scheduler>(*model, *kv, *pool, *tree, SchedulerOptions{}, &tiers,
                                          clock.now());
  RequestSpec spec = logits_of(text(1, 64));
  submit({spec});
  finish_all();  // steps that do little take no memory from now on
  int refused = 0, looked_up = 0;
  for (int64_t allocations = 0; allocations < 40; ++allocations) {
    SCOPED_TRACE(allocations);
    spec.name_space = 1 + static_cast<int32_t>(allocations);
    const auto job = submit({spec});
    const int before = asked.calls[FakeTier::kExists];
    {
      const Allowing few(allocations);
      EXPECT_NO_THROW(scheduler->plan());
    }
    looked_up += asked.calls[FakeTier::kExists] > before;
    refused += job->done();
    finish_all();
    const Code status = job->result(0).status;
    EXPECT_TRUE(status == Code::kOk || status == Code::kOutOfMemory) << job->result(0).message;
  }
  EXPECT_GT(refused, 5);
  EXPECT_GT(looked_up, 5);
  EXPECT_LT(refused, 40);
  scheduler.reset();  // it uses the tiers
}

}  // namespace
}  // namespace prefix
