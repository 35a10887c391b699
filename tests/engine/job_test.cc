// What a job tells, apart from an engine.
#include "engine/job.h"

#include <gtest/gtest.h>

namespace prefix {
namespace {

// The events of a job that nobody reads are counted beyond 2^20 of them, and the reader is told.
TEST(Job, TellsOfEventsThatWereLost) {
  constexpr int64_t kMost = 1 << 20;
  Job job(std::vector<RequestSpec>(2));
  for (int64_t i = 0; i < kMost + 5; ++i)
    job.post({.kind = Event::kToken, .request = 0, .token = static_cast<int32_t>(i)});
  job.finish(0);
  for (int64_t i = 0; i < kMost; ++i) ASSERT_EQ(job.next_event(0)->token, i);
  const auto lost = job.next_event(0);
  EXPECT_EQ(lost->kind, Event::kLost);
  EXPECT_EQ(lost->count, 5);
  EXPECT_EQ(lost->request, -1);
  EXPECT_EQ(job.next_event(0)->kind, Event::kFinished);
  // From then on all are there again, and none is told of twice.
  job.post({.kind = Event::kToken, .request = 1, .token = 7});
  EXPECT_EQ(job.next_event(0)->token, 7);
  job.finish(1);
  EXPECT_EQ(job.next_event(0)->kind, Event::kFinished);
  EXPECT_FALSE(job.next_event(0).has_value());
}

// As soon as there is room, before the next event.
TEST(Job, TellsWhereEventsWereLost) {
  constexpr int64_t kMost = 1 << 20;
  Job job(std::vector<RequestSpec>(1));
  for (int64_t i = 0; i < kMost + 3; ++i) job.post({.kind = Event::kToken});
  for (int64_t i = 0; i < 2; ++i) job.next_event(0);
  job.post({.kind = Event::kToken, .token = 9});
  for (int64_t i = 2; i < kMost; ++i) ASSERT_EQ(job.next_event(0)->kind, Event::kToken);
  const auto lost = job.next_event(0);
  EXPECT_EQ(lost->kind, Event::kLost);
  EXPECT_EQ(lost->count, 3);
  EXPECT_EQ(job.next_event(0)->token, 9);
}

}  // namespace
}  // namespace prefix
