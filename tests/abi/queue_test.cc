// Completion queues: one thread, or an event loop, for many jobs.
#include <poll.h>

#include <algorithm>
#include <set>
#include <thread>

#include "abi_support.h"

namespace prefix_abi {
namespace {

prefix_status next(prefix_queue* queue, int64_t timeout_ms, int64_t* tag) {
  return prefix_queue_next(queue, timeout_ms, tag, nullptr);
}

void notify(prefix_job* job, prefix_queue* queue, int64_t tag) {
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_notify(job, queue, tag, e); });
}

Batch endless_batch(prefix_engine* engine) {
  const Options options = make_options({{"max_tokens", "4000"}, {"ignore_eos", "true"}});
  Batch batch = make_batch(engine);
  add_generate(batch, {1, 2, 3}, options);
  return batch;
}

bool is_readable(int32_t descriptor) {
  pollfd entry = {descriptor, POLLIN, 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0;
}

TEST(Queue, ATagComesOnceForEachNotice) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2, 3});
  const Queue queue = make_queue();
  int64_t tag = -7;
  expect(PREFIX_ERR_TIMEOUT, [&](prefix_error* e) { return prefix_queue_next(queue, 0, &tag, e); },
         {"0 ms"});
  EXPECT_EQ(tag, -7);
  constexpr int64_t kJobs = 200;  // more than the room that a queue begins with
  std::vector<Job> jobs;
  for (int64_t i = 0; i < kJobs; ++i) {
    jobs.push_back(submit(engine, batch));
    notify(jobs.back(), queue, i);
  }
  std::set<int64_t> tags;
  for (int64_t i = 0; i < kJobs; ++i) {
    ASSERT_EQ(next(queue, -1, &tag), PREFIX_OK);
    EXPECT_TRUE(tags.insert(tag).second) << tag;
    expect(PREFIX_OK,
           [&](prefix_error* e) { return prefix_job_wait(jobs[static_cast<size_t>(tag)], 0, e); });
  }
  EXPECT_EQ(*tags.begin(), 0);
  EXPECT_EQ(*tags.rbegin(), kJobs - 1);
  EXPECT_EQ(next(queue, 0, &tag), PREFIX_ERR_TIMEOUT);
  // Of a job that is done at once, and as often as it is asked for.
  notify(jobs[0], queue, 70);
  notify(jobs[0], queue, 71);
  ASSERT_EQ(next(queue, 0, &tag), PREFIX_OK);
  EXPECT_EQ(tag, 70) << "the oldest first";
  ASSERT_EQ(next(queue, 0, &tag), PREFIX_OK);
  EXPECT_EQ(tag, 71);
}

TEST(Queue, TellsOfJobsThatAreCancelledReleasedOrShutDown) {
  const Queue queue = make_queue();
  int64_t tag = 0;
  {
    const Engine engine = make_engine();
    const Batch batch = endless_batch(engine);
    Job job = submit(engine, batch);
    notify(job, queue, 1);
    EXPECT_EQ(next(queue, 0, &tag), PREFIX_ERR_TIMEOUT);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
    ASSERT_EQ(next(queue, -1, &tag), PREFIX_OK);
    EXPECT_EQ(tag, 1);
    job = submit(engine, batch);
    notify(job, queue, 2);
    job = Job();
    ASSERT_EQ(next(queue, -1, &tag), PREFIX_OK);
    EXPECT_EQ(tag, 2);
    job = submit(engine, batch);
    notify(job, queue, 3);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
    ASSERT_EQ(next(queue, -1, &tag), PREFIX_OK);
    EXPECT_EQ(tag, 3);
  }
  // A queue may go before what it was to tell of.
  const Engine engine = make_engine();
  const Batch batch = endless_batch(engine);
  const Job job = submit(engine, batch);
  notify(job, make_queue(), 4);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, -1, e); });
  expect_works(engine);
}

TEST(Queue, ADescriptorIsReadableWhileThereIsATag) {
  const Queue queue = make_queue();
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_post(queue, 5, e); });
  int32_t descriptor = -1, again = -1;
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_queue_descriptor(queue, &descriptor, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_descriptor(queue, &again, e); });
  EXPECT_EQ(again, descriptor);
  EXPECT_TRUE(is_readable(descriptor));
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_post(queue, 6, e); });
  int64_t tag = 0;
  ASSERT_EQ(next(queue, 0, &tag), PREFIX_OK);
  EXPECT_TRUE(is_readable(descriptor)) << "one is left";
  ASSERT_EQ(next(queue, 0, &tag), PREFIX_OK);
  EXPECT_FALSE(is_readable(descriptor));
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2, 3});
  const Job job = submit(engine, batch);
  notify(job, queue, 7);
  pollfd entry = {descriptor, POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, -1), 1);
  ASSERT_EQ(next(queue, 0, &tag), PREFIX_OK);
  EXPECT_EQ(tag, 7);
}

// Also where the room grows while the oldest is not in the first place.
TEST(Queue, TagsComeInTheOrderInWhichTheyWerePut) {
  const Queue queue = make_queue();
  int64_t put = 0, got = 0;
  for (const int64_t more : {10, 20, 3, 100, 0}) {
    for (int64_t i = 0; i < more; ++i)
      expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_post(queue, put++, e); });
    for (const int64_t keep = more > 0 ? 5 : 0; put - got > keep; ++got) {
      int64_t tag = -1;
      ASSERT_EQ(next(queue, 0, &tag), PREFIX_OK);
      EXPECT_EQ(tag, got);
    }
  }
  EXPECT_EQ(got, 133);
}

TEST(Queue, APostWakesOneOfThoseWhoWait) {
  const Queue queue = make_queue();
  std::vector<int64_t> got(4);
  std::vector<std::thread> threads;
  for (int64_t& tag : got) threads.emplace_back([&] { next(queue, -1, &tag); });
  for (int64_t i = 1; i <= 4; ++i)
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_post(queue, i, e); });
  for (std::thread& thread : threads) thread.join();
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(Queue, ADetachedJobGoesOnWithoutAHandle) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  const Tokens prompt(300, 7);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_warm(batch, prompt.data(), prompt.size(), nullptr, 0, nullptr, e);
  });
  const Queue queue = make_queue();
  Job job = submit(engine, batch);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_detach(job, e); });
  notify(job, queue, 1);
  job = Job();
  int64_t tag = 0;
  ASSERT_EQ(next(queue, -1, &tag), PREFIX_OK);
  EXPECT_EQ(stats_of(engine).requests_finished, 1);
  EXPECT_EQ(stats_of(engine).requests_failed, 0);
}

}  // namespace
}  // namespace prefix_abi
