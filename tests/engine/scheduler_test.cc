// The scheduler step by step: who is served when, what time does, and that what a request took comes
// back however it ends.
#include <algorithm>
#include <limits>
#include <set>

#include "scheduler_fixture.h"

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

// Generations that fill all steps leave rows to a prompt that ranks no lower.
TEST_F(SchedulerTest, PromptsGetRowsBesideGenerations) {
  open(100, 4);
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 6; ++i) {
    batch.push_back(generate({7}, 200));
    batch.back().sampling.temperature = 1e6f;
    batch.back().sampling.seed = i;
  }
  const auto generations = submit(batch);
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
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 5; ++i) {
    batch.push_back(generate({7}, 200));
    // So hot that every token is as likely as any other.
    batch.back().sampling.temperature = 1e6f;
    batch.back().sampling.seed = i;
  }
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
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 6; ++i) {
    batch.push_back(generate({7}, 200));
    batch.back().sampling.temperature = 1e6f;
    batch.back().sampling.seed = i;
  }
  batch[2].priority = batch[5].priority = 1;
  const auto job = submit(batch);
  for (int round = 0; round < 21; ++round) step();
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_EQ(generated(*job, i), i == 2 || i == 5 ? 1u + 20 : 1u + 20 / 4) << i;
  job->cancel();
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
    for (int k = 0; k < 2; ++k)  // more than a step computes
      shorts.push_back(submit({logits_of(text(100 + 2 * steps + k, 48))}));
    step();
    if (steps == 3) {
      EXPECT_TRUE(shorts.front()->done());
    }
  }
  for (const auto& job : shorts) done_while += job->done();
  EXPECT_LT(steps, 10 * 8 + 20);
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

// --- time ----------------------------------------------------------------------------------------

TEST_F(SchedulerTest, ADeadlineEndsARequestWhenItHasPassedAndNotBefore) {
  RequestSpec spec = generate({1, 2, 3}, 1000);
  spec.deadline_ms = 100;
  const auto job = submit({spec, generate({4, 5}, 1000)});
  clock.advance(40ms);
  spec.deadline_ms = 60;
  const auto later = submit({spec});
  for (int i = 0; i < 3; ++i) step();
  clock.advance(60ms);
  step();
  EXPECT_FALSE(job->finished(0)) << "at 100 ms";
  EXPECT_FALSE(later->finished(0)) << "at 60 ms";
  clock.advance(1us);
  step();
  ASSERT_TRUE(job->finished(0));
  ASSERT_TRUE(later->finished(0));
  EXPECT_FALSE(job->finished(1));
  const RequestResult& result = job->result(0);
  EXPECT_EQ(result.status, Code::kDeadline);
  EXPECT_EQ(result.finish, Finish::kError);
  EXPECT_NE(result.message.find("deadline_ms = 100"), std::string::npos) << result.message;
  EXPECT_EQ(result.tokens.size(), 4u) << "of the steps before";
  EXPECT_EQ(result.timing.total_us, 100001);
  EXPECT_EQ(later->result(0).timing.total_us, 60001);
  job->cancel();
  finish_all();
  EXPECT_EQ(tree->held_tokens(), 0);
}

// The longest deadline there is lies in the future.
TEST_F(SchedulerTest, AnEndlessDeadlineNeverPasses) {
  RequestSpec spec = generate({1, 2, 3}, 5);
  spec.deadline_ms = std::numeric_limits<int64_t>::max();
  const auto job = submit({spec});
  clock.advance(std::chrono::hours(24 * 365 * 200));
  finish_all();
  EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
}

TEST_F(SchedulerTest, ADeadlineEndsWhatWaitsToo) {
  open(6, 2048);
  const auto running = submit({generate(text(1, 32), 64)});  // takes 5 of 6 pages
  RequestSpec spec = logits_of(text(2, 64));
  spec.deadline_ms = 10;
  const auto waiting = submit({spec});
  step();
  EXPECT_EQ(scheduler->counters().waiting, 1);
  clock.advance(10ms);
  step();
  EXPECT_FALSE(waiting->done());
  clock.advance(1ns);
  step();
  ASSERT_TRUE(waiting->done());
  EXPECT_EQ(waiting->result(0).status, Code::kDeadline);
  EXPECT_EQ(waiting->result(0).finish, Finish::kError);
  EXPECT_EQ(scheduler->counters().waiting, 0);
  running->cancel();
  finish_all();
}

TEST_F(SchedulerTest, TimesOfAResultAreThoseOfTheClock) {
  open(100, 32);
  RequestSpec spec = generate(text(1, 64), 3);  // two steps until the first token
  const auto job = submit({spec});
  for (int i = 0; i < 4; ++i) {
    clock.advance(5ms);
    step();
  }
  ASSERT_TRUE(job->done());
  EXPECT_EQ(job->result(0).timing.queue_us, 5000);
  EXPECT_EQ(job->result(0).timing.first_us, 10000);
  EXPECT_EQ(job->result(0).timing.total_us, 20000);
  EXPECT_EQ(job->totals().total_us, 20000);
  int64_t before = 0;
  while (const auto event = job->next_event(0)) {
    EXPECT_EQ(event->time_ns % 5'000'000, 0);
    EXPECT_GE(event->time_ns, before);
    before = event->time_ns;
  }
}

TEST_F(SchedulerTest, ALeaseEndsWhenItsTimeIsUpAndNotBefore) {
  const std::vector<int32_t> tokens = text(1, 64);
  submit({logits_of(tokens)});
  finish_all();
  const NodeId node = tree->match(scheduler->roots().root_of(0, 64, 0), tokens).node;
  clock.advance(999us);  // the scheduler counts whole milliseconds
  const int64_t brief = scheduler->add_lease(node, 1000);
  const int64_t endless = scheduler->add_lease(node, 0);
  EXPECT_NE(brief, endless);
  EXPECT_TRUE(scheduler->remove_lease(endless));
  EXPECT_FALSE(scheduler->remove_lease(endless));
  clock.advance(999ms);
  scheduler->expire_cache();
  EXPECT_EQ(tree->held_tokens(), 64);
  clock.advance(1ms);
  scheduler->expire_cache();
  EXPECT_EQ(tree->held_tokens(), 0);
  EXPECT_FALSE(scheduler->remove_lease(brief));
  EXPECT_EQ(tree->match(scheduler->roots().root_of(0, 64, 0), tokens).computed, 64)
      << "it was only let go of";
}

TEST_F(SchedulerTest, APinWithoutAnEndStays) {
  const std::vector<int32_t> tokens = text(1, 64);
  submit({logits_of(tokens)});
  finish_all();
  const int64_t lease =
      scheduler->add_lease(tree->match(scheduler->roots().root_of(0, 64, 0), tokens).node, 0);
  clock.advance(std::chrono::hours(24 * 365));
  step();
  EXPECT_EQ(tree->held_tokens(), 64);
  EXPECT_TRUE(scheduler->remove_lease(lease));
  EXPECT_EQ(tree->held_tokens(), 0);
}

TEST_F(SchedulerTest, WhatIsCachedGoesWhenItsTimeToLiveIsOverAndNotBefore) {
  RequestSpec brief = logits_of(text(1, 64));
  brief.cache_ttl_ms = 1000;
  submit({brief, logits_of(text(2, 64))});
  finish_all();
  const NodeId root = scheduler->roots().root_of(0, 64, 0);
  const auto there = [&](int32_t number) {
    scheduler->expire_cache();
    return tree->match(root, text(number, 64)).computed;
  };
  clock.advance(999ms);
  EXPECT_EQ(there(1), 64);
  submit({brief});  // every use begins it anew
  finish_all();
  clock.advance(999ms);
  EXPECT_EQ(there(1), 64);
  clock.advance(1ms);
  EXPECT_EQ(there(1), 0);
  EXPECT_EQ(there(2), 64) << "of another request, without a limit";
}

// It is the time of what a request leaves, not of the request.
TEST_F(SchedulerTest, ATimeToLiveBeginsWhenARequestEnds) {
  RequestSpec slow = generate(text(1, 64), 6);
  slow.cache_ttl_ms = 100;
  const auto job = submit({slow});
  while (!job->done()) {
    step();
    clock.advance(60ms);
  }
  const NodeId root = scheduler->roots().root_of(0, 70, 0);
  const auto there = [&] {
    scheduler->expire_cache();
    return tree->match(root, text(1, 64)).computed;
  };
  clock.advance(39ms);
  EXPECT_EQ(there(), 64);
  clock.advance(1ms);
  EXPECT_EQ(there(), 0);
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
  tree->check();
  // All its tokens again, in steps, and no token twice.
  for (int i = 0; i < 2; ++i) step();
  EXPECT_LE(generated(*behind), before + 1);
  tree->check();
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
  tree->check();
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
  tree->check();
  finish_all();
  EXPECT_EQ(ahead->result(0).status, Code::kOk) << ahead->result(0).message;
}

}  // namespace
}  // namespace prefix
