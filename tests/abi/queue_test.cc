// Completion queues: one thread, or an event loop, for many jobs.
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
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

void notify_events(prefix_job* job, prefix_queue* queue, int64_t tag) {
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_notify_events(job, queue, tag, e); });
}

// Reads until there is nothing more, and appends the tokens; whether the job is over.
bool read_events(prefix_job* job, Tokens* tokens, int* events) {
  for (;; ++*events) {
    prefix_event event = PREFIX_EVENT_INIT;
    const prefix_status status = prefix_job_next_event(job, 0, &event, nullptr);
    if (status != PREFIX_OK) {
      EXPECT_TRUE(status == PREFIX_ERR_TIMEOUT || status == PREFIX_ERR_NO_EVENT);
      return status == PREFIX_ERR_NO_EVENT;
    }
    if (event.kind == PREFIX_EVENT_TOKEN) tokens->push_back(event.token);
  }
}

Tokens tokens_of(const prefix_job* job) {
  Tokens tokens(64);
  size_t count = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_tokens(job, 0, tokens.data(), tokens.size(), &count, e);
  });
  tokens.resize(count);
  return tokens;
}

// Seconds of work if it is let be, so that it is not done however late a thread looks.
Batch endless_batch(prefix_engine* engine) {
  const Options options = make_options({{"max_tokens", "4000"}, {"ignore_eos", "true"}});
  Batch batch = make_batch(engine);
  for (int i = 0; i < 200; ++i) add_generate(batch, {1, 2, 3}, options);
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

// A wake-up that is lost would leave the one thread waiting for ever.
TEST(Queue, OneThreadStreamsTheTokensOfManyJobs) {
  const Engine engine = make_engine();
  const Queue queue = make_queue();
  const size_t n = quick() ? 60 : 300;
  std::vector<Job> jobs;
  for (size_t i = 0; i < n; ++i) {
    const std::string most = std::to_string(1 + i % 12);
    const Options options =
        make_options({{"max_tokens", most.c_str()}, {"ignore_eos", "true"}, {"seed", "5"}});
    const Batch batch = make_batch(engine);
    add_generate(batch, {static_cast<prefix_token>(i % 131), 2, 3}, options);
    jobs.push_back(submit(engine, batch));
    notify_events(jobs.back(), queue, static_cast<int64_t>(i));
  }
  std::vector<Tokens> streamed(n);
  for (size_t open = n; open > 0;) {
    int64_t tag = -1;
    ASSERT_EQ(next(queue, -1, &tag), PREFIX_OK);
    const auto i = static_cast<size_t>(tag);
    int events = 0;
    const bool over = read_events(jobs[i], &streamed[i], &events);
    EXPECT_TRUE(over || events > 0) << "a tag without anything to read";
    if (over) --open;
  }
  int64_t tag = -1;
  EXPECT_EQ(next(queue, 0, &tag), PREFIX_ERR_TIMEOUT) << "after the end";
  for (size_t i = 0; i < n; ++i) EXPECT_EQ(streamed[i], tokens_of(jobs[i])) << i;
}

TEST(Queue, EventsThatAreNotReadBringOneTag) {
  const Engine engine = make_engine();
  const Options options = make_options({{"max_tokens", "40"}, {"ignore_eos", "true"}});
  const Batch batch = make_batch(engine);
  add_generate(batch, {1, 2, 3}, options);
  const Queue queue = make_queue();
  const Job job = submit(engine, batch);
  notify_events(job, queue, 9);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, -1, e); });
  int64_t tag = 0;
  ASSERT_EQ(next(queue, 0, &tag), PREFIX_OK);
  EXPECT_EQ(tag, 9);
  EXPECT_EQ(next(queue, 0, &tag), PREFIX_ERR_TIMEOUT) << "a tag for each token";
  Tokens tokens;
  int events = 0;
  EXPECT_TRUE(read_events(job, &tokens, &events));
  EXPECT_EQ(tokens, tokens_of(job));
  EXPECT_EQ(next(queue, 0, &tag), PREFIX_ERR_TIMEOUT);
  notify_events(job, queue, 10);  // of a job that is done and read
  ASSERT_EQ(next(queue, 0, &tag), PREFIX_OK);
  EXPECT_EQ(tag, 10);
}

TEST(Queue, ALaterNoticeOfEventsTakesThePlaceOfTheOneBefore) {
  const Engine engine = make_engine();
  const Batch batch = endless_batch(engine);
  const Job job = submit(engine, batch);
  const Queue first = make_queue(), second = make_queue();
  notify_events(job, first, 1);
  int64_t tag = 0;
  ASSERT_EQ(next(first, -1, &tag), PREFIX_OK);
  notify_events(job, second, 2);
  for (bool over = false; !over;) {
    ASSERT_EQ(next(second, -1, &tag), PREFIX_OK);
    EXPECT_EQ(tag, 2);
    Tokens tokens;
    int events = 0;
    over = read_events(job, &tokens, &events);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
  }
  EXPECT_EQ(next(first, 0, &tag), PREFIX_ERR_TIMEOUT);
}

TEST(Queue, ANoticeOfEventsNeedsAJobAndAQueue) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2, 3});
  Job job = run(engine, batch);
  Queue queue = make_queue();
  prefix_queue* const gone = queue;
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_job_notify_events(job, nullptr, 1, e); });
  queue = make_queue();
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_job_notify_events(job, gone, 1, e); });
  prefix_job* const released = job;
  job = Job();
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_job_notify_events(released, queue, 1, e); });
  int64_t tag = 0;
  EXPECT_EQ(next(queue, 0, &tag), PREFIX_ERR_TIMEOUT);
  // A queue may go before the job that it was to tell of.
  const Job last = submit(engine, endless_batch(engine));
  notify_events(last, make_queue(), 1);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(last, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(last, -1, e); });
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

// Not in a child: there a queue is FORKED.
TEST(Queue, ADescriptorThatTheSystemDoesNotGiveIsIo) {
  const Queue queue = make_queue();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  int32_t descriptor = -7;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  expect(PREFIX_ERR_IO,
         [&](prefix_error* e) { return prefix_queue_descriptor(queue, &descriptor, e); },
         {"descriptor", std::strerror(EMFILE)});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(descriptor, -7);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_post(queue, 5, e); });
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_queue_descriptor(queue, &descriptor, e); });
  EXPECT_TRUE(is_readable(descriptor)) << "what failed changed nothing";
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
