// What time does to requests, and to what the cache has of them.
#include <limits>

#include "scheduler_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;

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

// Of those that run and of those that wait.
TEST_F(SchedulerTest, DeadlinesPassOneAfterTheOther) {
  std::vector<RequestSpec> batch;
  for (int32_t i = 1; i <= 4; ++i) {
    batch.push_back(generate(text(i, 3), 1000));  // takes 35 of 100 pages
    batch.back().deadline_ms = 10 * i;
  }
  const auto job = submit(batch);
  step();
  EXPECT_EQ(scheduler->counters().running, 2);
  clock.advance(1us);
  for (size_t ended = 0; ended <= batch.size(); ++ended) {
    step();
    for (size_t i = 0; i < batch.size(); ++i) EXPECT_EQ(job->finished(i), i < ended) << ended;
    clock.advance(10ms);
  }
}

TEST_F(SchedulerTest, NobodyLooksAtJobsOfWhichNothingWasCancelledOrIsOverdue) {
  submit({generate(text(1, 3), 3000)});
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 50; ++i) {
    RequestSpec spec = generate(text(2, 3), 3000);
    spec.deadline_ms = 100 + i;
    jobs.push_back(submit({spec, spec}));
  }
  const auto looks = [&] {
    const int64_t before = scheduler->counters().looks;
    step();
    return scheduler->counters().looks - before;
  };
  const int64_t of_a_plan = (step(), looks());
  jobs[20]->cancel(1);
  EXPECT_EQ(looks(), of_a_plan + 2);
  EXPECT_TRUE(jobs[20]->finished(1));
  EXPECT_FALSE(jobs[20]->finished(0));
  EXPECT_EQ(looks(), of_a_plan);
  clock.advance(100ms + 1us);
  EXPECT_EQ(looks(), of_a_plan + 2);
  EXPECT_TRUE(jobs[0]->done());
  EXPECT_FALSE(jobs[1]->done());
  clock.advance(19ms);
  looks();
  clock.advance(1ms);
  EXPECT_EQ(looks(), of_a_plan + 1) << "the one that is left of it";
  EXPECT_TRUE(jobs[20]->done());
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

// The order in which leases end is that of the uses of their paths, and so of their eviction.
TEST_F(SchedulerTest, LeasesThatEndTogetherEndAsTheyWereMade) {
  std::vector<NodeId> nodes;
  for (int32_t i = 1; i <= 3; ++i) {
    submit({logits_of(text(i, 64))});
    finish_all();
    nodes.push_back(tree->match(scheduler->roots().root_of(0, 64, 0), text(i, 64)).node);
  }
  scheduler->add_lease(nodes[2], 30);
  scheduler->add_lease(nodes[0], 20);
  scheduler->add_lease(nodes[1], 10);
  scheduler->add_lease(nodes[1], 1000);
  clock.advance(31ms);
  scheduler->expire_cache();
  EXPECT_LT(tree->node(nodes[2]).last_use, tree->node(nodes[0]).last_use);
  EXPECT_LT(tree->node(nodes[0]).last_use, tree->node(nodes[1]).last_use);
  EXPECT_EQ(tree->held_tokens(), 64);
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

TEST_F(SchedulerTest, TheLongestTimeToLiveHasNoEnd) {
  clock.advance(1s);
  RequestSpec lasting = logits_of(text(1, 64));
  lasting.cache_ttl_ms = INT64_MAX;
  submit({lasting});
  finish_all();
  clock.advance(std::chrono::hours(24 * 365));
  scheduler->expire_cache();
  EXPECT_EQ(tree->match(scheduler->roots().root_of(0, 64, 0), text(1, 64)).computed, 64);
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

}  // namespace
}  // namespace prefix
