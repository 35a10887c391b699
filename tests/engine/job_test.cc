// What a job tells, apart from an engine.
#include "engine/job.h"

#include <gtest/gtest.h>

namespace prefix {
namespace {

// The events of a job that nobody reads are counted beyond 2^20 of them, and the reader is told.
TEST(Job, TellsOfEventsThatWereLost) {
  constexpr int64_t kMaxEvents = 1 << 20;
  Job job(std::vector<RequestSpec>(2));
  for (int64_t i = 0; i < kMaxEvents + 5; ++i) job.post(0, Event::kToken, static_cast<int32_t>(i));
  job.finish(0);
  for (int64_t i = 0; i < kMaxEvents; ++i) ASSERT_EQ(job.next_event(0)->token, i);
  const auto lost = job.next_event(0);
  EXPECT_EQ(lost->kind, Event::kLost);
  EXPECT_EQ(lost->count, 5);
  EXPECT_EQ(lost->request, -1);
  EXPECT_EQ(job.next_event(0)->kind, Event::kFinished);
  // From then on all are there again, and none is told of twice.
  job.post(1, Event::kToken, 7);
  EXPECT_EQ(job.next_event(0)->token, 7);
  job.finish(1);
  EXPECT_EQ(job.next_event(0)->kind, Event::kFinished);
  EXPECT_FALSE(job.next_event(0).has_value());
}

// Events wait in a short form; what they tell is all there, of the request and of its result.
TEST(Job, TellsAllOfItsEvents) {
  std::vector<RequestSpec> specs(2);
  specs[1].user_tag = 70;
  Job job(std::move(specs));
  job.post(1, Event::kStarted);
  job.post(1, Event::kToken, 9, -0.5f);
  job.edit_result(1).status = Code::kCacheFull;
  job.edit_result(1).usage = {.cached = 3, .computed = 4};
  job.finish(1);
  job.finish(0);
  const auto started = job.next_event(0), token = job.next_event(0), failed = job.next_event(0),
             finished = job.next_event(0);
  for (const auto& event : {started, token, failed}) {
    EXPECT_EQ(event->request, 1);
    EXPECT_EQ(event->user_tag, 70);
    EXPECT_GE(event->time_ns, started->time_ns);
  }
  EXPECT_EQ(started->kind, Event::kStarted);
  EXPECT_EQ(started->token, -1);
  EXPECT_EQ(token->kind, Event::kToken);
  EXPECT_EQ(token->token, 9);
  EXPECT_EQ(token->logprob, -0.5f);
  EXPECT_EQ(failed->kind, Event::kError);
  EXPECT_EQ(failed->token, -1);
  EXPECT_EQ(failed->status, Code::kCacheFull);
  EXPECT_EQ(failed->cached, 3);
  EXPECT_EQ(failed->computed, 4);
  EXPECT_EQ(finished->kind, Event::kFinished);
  EXPECT_EQ(finished->request, 0);
  EXPECT_EQ(finished->status, Code::kOk);
}

// What is lost are tokens: there is one start for each request, as there is one end.
TEST(Job, LosesNoStart) {
  constexpr int64_t kMaxEvents = 1 << 20;
  Job job(std::vector<RequestSpec>(2));
  for (int64_t i = 0; i < kMaxEvents + 2; ++i) job.post(0, Event::kToken);
  job.post(1, Event::kStarted);
  for (int64_t i = 0; i < kMaxEvents; ++i) ASSERT_EQ(job.next_event(0)->kind, Event::kToken);
  EXPECT_EQ(job.next_event(0)->count, 2);
  const auto started = job.next_event(0);
  EXPECT_EQ(started->kind, Event::kStarted);
  EXPECT_EQ(started->request, 1);
}

// As soon as there is room, before the next event.
TEST(Job, TellsWhereEventsWereLost) {
  constexpr int64_t kMaxEvents = 1 << 20;
  Job job(std::vector<RequestSpec>(1));
  for (int64_t i = 0; i < kMaxEvents + 3; ++i) job.post(0, Event::kToken);
  for (int64_t i = 0; i < 2; ++i) job.next_event(0);
  job.post(0, Event::kToken, 9);
  for (int64_t i = 2; i < kMaxEvents; ++i) ASSERT_EQ(job.next_event(0)->kind, Event::kToken);
  const auto lost = job.next_event(0);
  EXPECT_EQ(lost->kind, Event::kLost);
  EXPECT_EQ(lost->count, 3);
  EXPECT_EQ(job.next_event(0)->token, 9);
}

// One tag for each time the reader has run out of events, whatever their number, and one for the
// end.
TEST(Job, TellsAQueueOnceForEachTimeItsReaderRanOut) {
  const auto queue = std::make_shared<CompletionQueue>();
  Job job(std::vector<RequestSpec>(1));
  bool over = true;
  job.notify_events(queue, 7);
  EXPECT_FALSE(queue->next(0)) << "nothing to read yet";
  for (int i = 0; i < 3; ++i) job.post(0, Event::kToken);
  EXPECT_EQ(queue->next(0), 7);
  EXPECT_FALSE(queue->next(0)) << "one for all three";
  EXPECT_TRUE(job.next_event(0));
  EXPECT_TRUE(job.next_event(0));
  job.post(0, Event::kToken);
  EXPECT_FALSE(queue->next(0)) << "the reader has not run out";
  EXPECT_TRUE(job.next_event(0));
  EXPECT_TRUE(job.next_event(0));
  EXPECT_FALSE(queue->next(0)) << "nor been told so";
  EXPECT_FALSE(job.next_event(0, &over));
  EXPECT_FALSE(over);
  EXPECT_FALSE(job.next_event(0)) << "to run out twice is no more";
  EXPECT_FALSE(queue->next(0));
  job.post(0, Event::kToken);
  EXPECT_EQ(queue->next(0), 7);
  EXPECT_TRUE(job.next_event(0));
  EXPECT_FALSE(job.next_event(0));
  job.finish(0);
  EXPECT_EQ(queue->next(0), 7);
  EXPECT_EQ(job.next_event(0)->kind, Event::kFinished);
  EXPECT_FALSE(job.next_event(0, &over));
  EXPECT_TRUE(over);
  EXPECT_FALSE(job.next_event(0, &over));
  EXPECT_FALSE(queue->next(0)) << "there will be no more";
  job.notify_events(queue, 8);
  EXPECT_EQ(queue->next(0), 8) << "of a job that is over at once";
  EXPECT_EQ(queue.use_count(), 2);
  EXPECT_FALSE(job.next_event(0));
  EXPECT_EQ(queue.use_count(), 1) << "a job that is read keeps no queue";
}

TEST(Job, TellsOneQueueOfEventsTheLastThatAsked) {
  const auto first = std::make_shared<CompletionQueue>();
  const auto second = std::make_shared<CompletionQueue>();
  Job job(std::vector<RequestSpec>(1));
  for (int64_t i = 0; i < 100; ++i) job.notify_events(first, i);  // more than a queue begins with
  job.notify_events(second, 200);
  EXPECT_EQ(first.use_count(), 1);
  job.post(0, Event::kToken);
  EXPECT_FALSE(first->next(0));
  EXPECT_EQ(second->next(0), 200);
  job.notify_events(first, 300);
  EXPECT_EQ(first->next(0), 300) << "at once: there is something to read";
  EXPECT_TRUE(job.next_event(0));
  EXPECT_FALSE(job.next_event(0));
  job.finish(0);
  EXPECT_EQ(first->next(0), 300);
  EXPECT_FALSE(second->next(0));
}

// A batch without requests is done before anyone asks.
TEST(Job, TellsOfAJobWithoutRequests) {
  const auto queue = std::make_shared<CompletionQueue>();
  Job job({});
  job.notify_events(queue, 5);
  EXPECT_EQ(queue->next(0), 5);
  bool over = false;
  EXPECT_FALSE(job.next_event(-1, &over));
  EXPECT_TRUE(over);
}

}  // namespace
}  // namespace prefix
