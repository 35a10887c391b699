// Requests that wait for pages from a tier below: what a plan spends on them, and where they stand
// when the wait is over.
#include "cache/page_keys.h"
#include "lower_tiers_support.h"
#include "recurrent_support.h"
#include "scheduler_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr int32_t kManyRequests = 10000;
constexpr int64_t kFetches = 16;  // at a time

struct SchedulerOverATier : SchedulerTest {
  SchedulerOverATier() { open_over_a_tier(100); }
  ~SchedulerOverATier() override { scheduler.reset(); }  // it uses the tiers

  void open_over_a_tier(int32_t memory_pages,
                        const TinyCheckpoint& checkpoint = tiny_checkpoint()) {
    scheduler.reset();
    tiers.reset();
    keys.reset();
    open(checkpoint, memory_pages, 2048);
    keys = std::make_unique<PageKeys>(*tree, *pool, root_key_of);
    auto fake = std::make_unique<FakeTier>();
    tier = fake.get();
    std::vector<LowerTier> list;
    list.push_back({"disk", std::move(fake)});
    tiers = std::make_unique<LowerTiers>(std::move(list), *tree, *pool, *kv, *keys, 1s,
                                         LowerTierLimits{.now = clock.now()}, model->state_pages());
    scheduler = std::make_unique<Scheduler>(*model, *kv, *pool, *tree, SchedulerOptions{},
                                            tiers.get(), clock.now());
  }

  // As the engine's thread does.
  void turn() {
    scheduler->plan();
    if (scheduler->idle() || scheduler->blocked_on_tiers()) return;
    scheduler->execute();
    scheduler->complete();
  }
  void turn_until_done(Job& job) {
    for (int i = 0; !job.done(); ++i) {
      ASSERT_LT(i, 1000);
      turn();
    }
  }
  // At requests that wait, and their jobs, in the next plans.
  int64_t looks(int plans) {
    const int64_t before = scheduler->counters().looks;
    for (int i = 0; i < plans; ++i) turn();
    return scheduler->counters().looks - before;
  }

  // A full page and a token more, which no other number has.
  static RequestSpec numbered(int32_t number) {
    std::vector<int32_t> tokens = text(number % 100, 33);
    tokens[1] = number / 100;
    return logits_of(std::move(tokens));
  }
  std::vector<std::shared_ptr<Job>> submit_in_jobs_of(size_t size, std::vector<RequestSpec> all) {
    std::vector<std::shared_ptr<Job>> jobs;
    for (auto at = all.begin(); at != all.end(); at += static_cast<ptrdiff_t>(size))
      jobs.push_back(submit({at, at + static_cast<ptrdiff_t>(size)}));
    return jobs;
  }
  void cancel(const std::vector<std::shared_ptr<Job>>& jobs) {
    for (const auto& job : jobs) job->cancel();
    turn();
    EXPECT_TRUE(scheduler->idle());
    for (const auto& job : jobs) EXPECT_TRUE(job->done());
  }

  FakeTier* tier = nullptr;
  std::unique_ptr<PageKeys> keys;
  std::unique_ptr<LowerTiers> tiers;
};

// --- what plans look at --------------------------------------------------------------------------

TEST_F(SchedulerOverATier, PlansLookAtNobodyWhileEachWaitsForATurnToFetch) {
  for (const size_t in_a_job : {size_t{kManyRequests}, size_t{1}}) {
    SCOPED_TRACE(in_a_job);
    open_over_a_tier(100);
    std::vector<RequestSpec> requests;
    for (int32_t i = 0; i < kManyRequests; ++i) requests.push_back(numbered(i));
    const auto jobs = submit_in_jobs_of(in_a_job, std::move(requests));
    EXPECT_LE(looks(1), 2 * kFetches);
    EXPECT_EQ(tier->calls[FakeTier::kExists], kFetches);
    EXPECT_EQ(looks(100), 0);
    tier->answer();
    EXPECT_LE(looks(1), 4 * kFetches) << "those run, and as many others begin";
    EXPECT_EQ(tier->calls[FakeTier::kExists], 2 * kFetches);
    EXPECT_EQ(looks(100), 0);
    cancel(jobs);
  }
}

TEST_F(SchedulerOverATier, PlansLookAtNobodyWhileAllWaitForTheSamePage) {
  for (const size_t in_a_job : {size_t{kManyRequests}, size_t{1}}) {
    SCOPED_TRACE(in_a_job);
    open_over_a_tier(100);
    std::vector<RequestSpec> requests(kManyRequests, numbered(7));
    for (int32_t i = 0; i < kManyRequests; ++i)
      requests[static_cast<size_t>(i)].tokens.back() = i % 100;
    const auto jobs = submit_in_jobs_of(in_a_job, std::move(requests));
    EXPECT_LE(looks(1), 2 * kManyRequests);
    EXPECT_EQ(tier->calls[FakeTier::kExists], 1);
    EXPECT_EQ(looks(100), 0);
    const auto other = submit({logits_of(text(1, 5))});
    EXPECT_EQ(looks(1), 2) << "at a job and its request";
    EXPECT_TRUE(other->done());
    cancel(jobs);
  }
}

// No row of it is read, so a state to go on from is not wanted either.
TEST_F(SchedulerOverATier, WhoseLogprobsAreKnownAsksForNoState) {
  const TinyCheckpoint hybrid(hybrid_shape("granite"));
  open_over_a_tier(200, hybrid);
  RequestSpec spec;
  spec.task = Task::kChoices;
  spec.tokens = text(1, 70);
  spec.choices = {{5, 6}, {7}};
  RequestSpec scores;
  scores.task = Task::kLogprobs;
  scores.tokens = joined(spec.tokens, spec.choices[0]);
  scores.from = 70;
  const auto first = submit({spec});
  turn();
  EXPECT_GT(tier->calls[FakeTier::kExists], 0);
  tier->answer();
  turn_until_done(*first);
  // Its keys and values stay; the state, which others would look for, is gone.
  const NodeId node = tree->match(scheduler->roots().find(0, 70), spec.tokens).node;
  for (NodeId at; (at = tree->state_at(node, 70)) != kNoNode;) tree->drop_state(at);
  const int64_t asked = tier->calls[FakeTier::kExists];
  const auto again = submit({spec, scores});
  turn();
  EXPECT_TRUE(again->done());
  EXPECT_EQ(tier->calls[FakeTier::kExists], asked);
  scores.from = 30;
  const auto more = submit({scores});
  turn();
  EXPECT_FALSE(more->done());
  EXPECT_GT(tier->calls[FakeTier::kExists], asked);
  tier->answer();
  turn_until_done(*more);
}

// --- in which order ------------------------------------------------------------------------------

// Memory for one at a time. The first one waits for pages, so the second one runs.
TEST_F(SchedulerOverATier, WhoseFetchHasEndedStandsWhereItStood) {
  open_over_a_tier(4);
  const auto first = submit({logits_of(text(1, 128))});
  const auto second = submit({generate(text(2, 20), 30)});
  const auto third = submit({generate(text(3, 20), 30)});
  turn();
  EXPECT_EQ(generated(*second), 1u);
  tier->answer();
  turn_until_done(*second);
  turn_until_done(*first);
  EXPECT_EQ(generated(*third), 0u);
  turn_until_done(*third);
  EXPECT_TRUE(scheduler->idle());
  for (const auto& job : {first, second, third}) EXPECT_EQ(job->result(0).status, Code::kOk);
}

TEST_F(SchedulerOverATier, WhoseFetchHasEndedStandsWhereItStoodInItsJob) {
  open_over_a_tier(4);
  const auto job = submit({logits_of(text(1, 128)), generate(text(2, 20), 30),
                           logits_of(text(4, 128)), generate(text(3, 20), 30)});
  turn();
  EXPECT_EQ(generated(*job, 1), 1u);
  tier->answer();
  while (!job->finished(1)) turn();
  for (int i = 0; !job->finished(2); ++i) {
    ASSERT_LT(i, 100);
    EXPECT_EQ(generated(*job, 3), 0u);
    turn();
  }
  EXPECT_TRUE(job->finished(0));
  turn_until_done(*job);
  EXPECT_TRUE(scheduler->idle());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(job->result(i).status, Code::kOk);
}

TEST_F(SchedulerOverATier, WhoseFetchesEndTogetherStandByTheirPriorities) {
  open_over_a_tier(4);
  const auto first = submit({logits_of(text(1, 128))});
  turn();
  RequestSpec urgent = logits_of(text(2, 128));
  urgent.priority = 1;
  const auto second = submit({urgent});
  turn();
  EXPECT_TRUE(scheduler->blocked_on_tiers());
  tier->answer();
  turn_until_done(*second);
  EXPECT_FALSE(first->done());
  turn_until_done(*first);
}

// What its job still waits for in a tier counts for its rank.
TEST_F(SchedulerOverATier, AJobStandsByARequestThatWaitsForPagesToo) {
  open_over_a_tier(4);
  std::vector<RequestSpec> batch = {logits_of(text(1, 128)), generate(text(2, 20), 30),
                                    generate(text(3, 20), 30)};
  batch[0].priority = 10;
  batch[1].priority = 5;
  const auto first = submit(batch);
  RequestSpec between = generate(text(4, 20), 30);
  between.priority = 3;
  const auto second = submit({between});
  for (int i = 0; !first->finished(2); ++i) {
    ASSERT_LT(i, 1000);
    EXPECT_EQ(generated(*second), 0u);
    turn();
  }
  EXPECT_FALSE(first->finished(0));
  tier->answer();
  turn_until_done(*first);
  turn_until_done(*second);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(first->result(i).status, Code::kOk);
}

// --- and when they end ---------------------------------------------------------------------------

TEST_F(SchedulerOverATier, AWaitEndsWithTheDeadlineOfItsRequest) {
  RequestSpec patient = logits_of(text(1, 64));
  RequestSpec hurried = patient;
  hurried.deadline_ms = 100;
  const auto first = submit({patient, hurried});
  const auto second = submit({hurried});
  turn();
  EXPECT_EQ(tier->calls[FakeTier::kExists], 1);
  clock.advance(101ms);
  turn();
  EXPECT_EQ(first->result(1).status, Code::kDeadline);
  EXPECT_EQ(second->result(0).status, Code::kDeadline);
  EXPECT_FALSE(first->finished(0));
  tier->answer();
  turn_until_done(*first);
  EXPECT_EQ(first->result(0).status, Code::kOk);
}

TEST_F(SchedulerOverATier, AFetchThatOnlyCancelledRequestsWaitForIsCancelled) {
  const auto job = submit({logits_of(text(1, 64))});
  turn();
  const TicketPtr ticket = tier->open.front().ticket;
  EXPECT_FALSE(ticket->cancelled());
  job->cancel();
  turn();
  EXPECT_TRUE(ticket->cancelled());
  EXPECT_TRUE(scheduler->idle());
}

TEST_F(SchedulerOverATier, AnAbortEndsThoseWhoWaitToo) {
  const auto waits = submit({logits_of(text(1, 64))});
  const auto runs = submit({generate(text(2, 20), 30)});
  turn();
  const auto queued = submit({logits_of(text(3, 5))});
  scheduler->abort_all(Code::kCancelled, "the engine was shut down");
  for (const auto& job : {waits, runs, queued}) {
    ASSERT_TRUE(job->done());
    EXPECT_EQ(job->result(0).status, Code::kCancelled);
  }
  EXPECT_TRUE(scheduler->idle());
  EXPECT_EQ(scheduler->counters().waiting, 0);
}

}  // namespace
}  // namespace prefix
