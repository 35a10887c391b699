// The life of a task: waiting, cancelling, releasing, threads, engines that go away. Nothing here
// sleeps or measures time. A document that is not UTF-8 fails while the task is being encoded: it
// tells another thread that the task has begun.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tasks_support.h"

namespace prefix_tasks {
namespace {

void wait_until_begun(const prefix_task* task) {
  while (done(task) == 0) std::this_thread::yield();
}

void cancel(prefix_task* task) {
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_cancel(task, e); });
}

// Every item has a result, and those that were given up say so.
void expect_cancelled(const Task& task, bool some) {
  const std::vector<int32_t> status = statuses(task);
  const std::vector<float> score = values(task);
  ASSERT_EQ(score.size(), status.size());
  EXPECT_EQ(done(task), status.size());
  size_t cancelled = 0, ok = 0;
  for (size_t i = 0; i < status.size(); ++i) {
    EXPECT_EQ(std::isnan(score[i]), status[i] != PREFIX_OK);
    if (status[i] == PREFIX_OK) ++ok;
    if (status[i] != PREFIX_ERR_CANCELLED) continue;
    if (++cancelled == 1) {
      EXPECT_NE(message(task, i).find("cancelled"), std::string::npos) << message(task, i);
      EXPECT_EQ(info(task, i).finish, PREFIX_FINISH_CANCELLED);
    }
  }
  EXPECT_EQ(cancelled > 0, some);
  EXPECT_EQ(order(task, 0).size(), ok);
  EXPECT_EQ(totals(task).failed, static_cast<int64_t>(status.size() - ok));
}

// Ends within a minute, so that a hang is a failure.
void end(prefix_task* task) {
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_wait(task, kMinute, e); });
}

TEST(Cancel, FromAnotherThread) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(20'000, true));
  std::thread other([&] {
    wait_until_begun(task);
    cancel(task);
    cancel(task);  // again
  });
  submit(task);
  end(task);
  other.join();
  expect_cancelled(task, true);
  end(task);  // it stays done
  prefix_abi::expect_works(engine);
}

TEST(Cancel, BeforeTheTaskRunsCostsNothing) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?", "Rivers?"}, documents(5));
  cancel(task);
  run(task);
  EXPECT_EQ(statuses(task), std::vector<int32_t>(10, PREFIX_ERR_CANCELLED));
  EXPECT_EQ(totals(task).tokens_given, 0);
  expect_cancelled(task, true);
}

TEST(Cancel, AfterTheEndChangesNothing) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(5));
  const std::vector<float> before = values_after_run(task);
  cancel(task);
  end(task);
  EXPECT_TRUE(same_bits(values(task), before));
  expect_cancelled(task, false);
}

// What is there by then can be read, and stays. On a busy machine the time may be over before the
// first item is looked at; then there is more of it.
TEST(Deadline, KeepsWhatIsDone) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  Texts list = documents(20'000, true);
  std::vector<int32_t> status;
  for (int64_t ms = 1; status.empty() || status[0] == PREFIX_ERR_DEADLINE; ms *= 2) {
    const Task task =
        rerank(engine, tokenizer, {"Trees?"}, list, {{"deadline_ms", ms}, {"chunk_tokens", 100}});
    submit(task);
    end(task);
    status = statuses(task);
    const size_t last = status.size() - 1;
    ASSERT_EQ(status[last], PREFIX_ERR_DEADLINE);
    const std::string limit = std::to_string(ms) + " ms";
    EXPECT_NE(message(task, last).find(limit), std::string::npos) << message(task, last);
    for (size_t i = 0; i < status.size(); ++i)
      if (status[i] == PREFIX_ERR_DEADLINE) {
        EXPECT_EQ(info(task, i).finish, PREFIX_FINISH_ERROR) << i;
      }
    const std::vector<float> score = values(task);
    for (size_t i = 0; i < status.size(); ++i)
      EXPECT_EQ(std::isnan(score[i]), status[i] != PREFIX_OK) << i;
  }
  EXPECT_EQ(status[0], PREFIX_ERR_INVALID_UTF8) << "it was found before the time was over";
}

// The first chunk is encoded by the call that submits, which would take its time for all of these.
TEST(Deadline, EndsAChunkThatIsBeingEncoded) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  std::string large;
  while (large.size() < 400'000) large += "trees ";
  const Task task = rerank(engine, tokenizer, {"Trees?"}, Strings(50, large),
                           {{"deadline_ms", 1}, {"truncate", "off"}});
  submit(task);
  end(task);
  const std::vector<int32_t> status = statuses(task);
  EXPECT_EQ(status.back(), PREFIX_ERR_DEADLINE);
  EXPECT_LT(std::count(status.begin(), status.end(), PREFIX_ERR_PROMPT_TOO_LONG), 50);
}

TEST(Deadline, ThatIsNotMissedChangesNothing) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task with =
      rerank(engine, tokenizer, {"Trees?"}, documents(20), {{"deadline_ms", 10 * kMinute}});
  const Task without = rerank(engine, tokenizer, {"Trees?"}, documents(20));
  EXPECT_TRUE(same_bits(values_after_run(with), values_after_run(without)));
}

TEST(Wait, TellsHowFarATaskIs) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task =
      rerank(engine, tokenizer, {"Trees?"}, documents(3'000), {{"chunk_tokens", 500}});
  submit(task);
  size_t before = 0;
  for (prefix_status status = PREFIX_ERR_TIMEOUT; status != PREFIX_OK;) {
    Error error;
    status = prefix_task_wait(task, before == 0 ? 0 : 1, &error);
    EXPECT_GE(done(task), before);
    before = done(task);
    if (status == PREFIX_OK) break;
    ASSERT_EQ(status, PREFIX_ERR_TIMEOUT) << error.message;
    EXPECT_EQ(prefix_status_is_retryable(status), 1);
    EXPECT_NE(std::string(error.message).find("of 3000 items"), std::string::npos) << error.message;
  }
  EXPECT_EQ(before, 3'000u);
  const Engine fresh = words_engine();
  EXPECT_TRUE(same_bits(values(task),
                        values_after_run(rerank(fresh, tokenizer, {"Trees?"}, documents(3'000)))));
}

TEST(Wait, FromManyThreads) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(500));
  submit(task);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { end(task); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statuses(task), std::vector<int32_t>(500, PREFIX_OK));
}

// Items are there one by one; those that are not answer MISUSE.
TEST(Wait, FinishedItemsCanBeReadAtAnyTime) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task =
      rerank(engine, tokenizer, {"Trees?"}, documents(20'000, true), {{"chunk_tokens", 1}});
  submit(task);
  EXPECT_EQ(info(task, 0).status, PREFIX_ERR_INVALID_UTF8) << "known once it is encoded";
  const size_t last = 20'000;
  const auto misuse = [&](auto call) { expect(PREFIX_ERR_MISUSE, call, {"item 20000"}); };
  prefix_result_info item = PREFIX_RESULT_INFO_INIT;
  char text[8];
  size_t needed = 77;
  // 20,000 chunks of one item: the last one is not there yet.
  misuse([&](prefix_error* e) { return prefix_task_item_info(task, last, &item, e); });
  misuse(
      [&](prefix_error* e) { return prefix_task_item_message(task, last, text, 8, &needed, e); });
  misuse([&](prefix_error* e) { return prefix_task_item_text(task, last, text, 8, &needed, e); });
  misuse(
      [&](prefix_error* e) { return prefix_task_item_values(task, last, nullptr, 0, &needed, e); });
  EXPECT_EQ(needed, 77u) << "a call that fails changes nothing";
  EXPECT_EQ(statuses(task)[last], PREFIX_ERR_NO_EVENT);
  EXPECT_TRUE(std::isnan(values(task)[last]));
  while (statuses(task)[5] == PREFIX_ERR_NO_EVENT) std::this_thread::yield();
  const std::vector<float> early = values(task);
  EXPECT_FALSE(std::isnan(early[5]));
  EXPECT_EQ(ranking(task, 5, 1), std::vector<int64_t>{0});
  cancel(task);
  end(task);
  EXPECT_EQ(values(task)[5], early[5]);
}

TEST(Release, WhileAnotherThreadWaits) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  for (int i = 0; i < 5; ++i) {
    Task task = rerank(engine, tokenizer, {"Trees?"}, documents(20'000, true));
    submit(task);
    prefix_task* const raw = task.give_up();
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_retain(raw, e); });
    std::thread waiter([&] {
      end(raw);
      prefix_task_release(raw);
    });
    cancel(raw);
    prefix_task_release(raw);
    waiter.join();
    expect(PREFIX_ERR_MISUSE,
           [&](prefix_error* e) { return prefix_task_all_values(raw, nullptr, 0, nullptr, e); });
  }
  prefix_abi::expect_works(engine);
}

TEST(Release, UnfinishedAndUnstartedTasks) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  {
    const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(10));
  }
  {
    const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(20'000));
    submit(task);
  }
  prefix_abi::expect_works(engine);
}

// Only the last release cancels.
TEST(Release, OneOfTwoReferences) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(10));
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_retain(task, e); });
  prefix_task_release(task);
  run(task);
  EXPECT_EQ(statuses(task), std::vector<int32_t>(10, PREFIX_OK));
}

TEST(Release, ATaskKeepsWhatItNeeds) {
  Task task;
  {
    const Engine engine = words_engine();
    const Tokenizer tokenizer = words_tokenizer();
    task = rerank(engine, tokenizer, {"Trees?"}, documents(10));
  }
  run(task);
  EXPECT_EQ(statuses(task), std::vector<int32_t>(10, PREFIX_OK));
}

// However a task ends: the thread of tasks keeps no engine of one that was waited for.
TEST(Release, TheEngineIsGoneAfterAWait) {
  const Tokenizer tokenizer = words_tokenizer();
  for (int round = 0; round < 60; ++round) {
    Engine engine = words_engine({{"cache_bytes", "2M"}, {"threads", "1"}});
    {
      const bool late = round % 3 == 1;
      const Task task = rerank(engine, tokenizer, {"Trees?"}, {"a", "b\xff"},
                               late ? Json{{"deadline_ms", 1}} : Json());
      submit(task);
      if (round % 3 == 2) cancel(task);
      wait(task);
    }
    prefix_engine* const handle = engine.give_up();
    prefix_engine_release(handle);
    ASSERT_EQ(prefix_engine_retain(handle, nullptr), PREFIX_ERR_MISUSE) << "round " << round;
  }
}

// Threads of this process that work on tasks.
int64_t threads_of_tasks() {
  int64_t count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);  // "" when it has gone meanwhile
    count += name == "prefix-tasks";
  }
  return count;
}
bool come_to(int64_t count) {
  const auto start = std::chrono::steady_clock::now();
  while (threads_of_tasks() != count) {
    if (std::chrono::steady_clock::now() - start > std::chrono::milliseconds(kMinute)) return false;
    std::this_thread::yield();
  }
  return true;
}

// The tasks find the queue of the engine full, and so run until the other work ends.
TEST(Thread, OfAllTasksEndsWithTheLast) {
  const Engine engine = words_engine({{"queue_limit", "2"}});
  const Tokenizer tokenizer = words_tokenizer();
  const auto options = prefix_abi::make_options({{"max_tokens", "900"}, {"ignore_eos", "true"}});
  const auto batch = prefix_abi::make_batch(engine);
  for (const prefix_token first : {5, 6}) prefix_abi::add_generate(batch, {first, 7}, options);
  ASSERT_TRUE(come_to(0)) << "of tests before";
  for (int round = 0; round < 3; ++round) {
    const auto job = prefix_abi::submit(engine, batch);
    const Task one = rerank(engine, tokenizer, {"Trees?"}, documents(3));
    const Task other = rerank(engine, tokenizer, {"Rivers?"}, documents(3));
    EXPECT_EQ(threads_of_tasks(), 0) << "none is there before a task runs";
    submit(one);
    submit(other);
    ASSERT_TRUE(come_to(1)) << "round " << round;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
    end(one);
    end(other);
    ASSERT_TRUE(come_to(0)) << "the handles are still there, round " << round;
  }
}

TEST(EngineGone, ShutDownInTheMiddle) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(20'000));
  const Task late = rerank(engine, tokenizer, {"Trees?"}, documents(1));
  submit(task);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
  end(task);
  const std::vector<int32_t> status = statuses(task);
  EXPECT_EQ(status.back(), PREFIX_ERR_CANCELLED);
  EXPECT_EQ(message(task, status.size() - 1), "the engine was shut down while the task ran");
  EXPECT_EQ(info(task, status.size() - 1).finish, PREFIX_FINISH_CANCELLED);
  size_t failed = 77;
  Error first;
  const prefix_status told = prefix_task_first_failure(task, &failed, &first);
  ASSERT_LT(failed, status.size());
  EXPECT_EQ(told, status[failed]);
  EXPECT_EQ(message(task, failed), first.message);
  for (size_t i = 0; i < failed; ++i) EXPECT_EQ(status[i], PREFIX_OK) << i;
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) { return prefix_task_submit(late, e); },
         {"shut down"});
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) { return prefix_task_wait(late, 0, e); },
         {"not submitted"});
}

// Others have filled the queue: the task waits for its turn as it waits for the engine.
TEST(Queue, FullOfOtherWork) {
  const Engine engine = words_engine({{"queue_limit", "2"}});
  const Tokenizer tokenizer = words_tokenizer();
  const auto options = prefix_abi::make_options({{"max_tokens", "900"}, {"ignore_eos", "true"}});
  const auto batch = prefix_abi::make_batch(engine);
  for (const prefix_token first : {5, 6}) prefix_abi::add_generate(batch, {first, 7}, options);
  const auto job = prefix_abi::submit(engine, batch);

  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(9));
  submit(task);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
  end(task);
  EXPECT_EQ(statuses(task), std::vector<int32_t>(9, PREFIX_OK));
}

// Tasks of all kinds from eight threads, left at every moment: nothing hangs, nothing is lost.
TEST(Storm, OfTasksThatAreLeftAtAnyMoment) {
  const Engine engine = words_engine({{"queue_limit", "64"}});
  const Tokenizer tokenizer = words_tokenizer();
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      uint32_t state = thread + 1;
      const auto random = [&](uint32_t n) {
        return (state = state * 1664525 + 1013904223) / 7 % n;
      };
      for (int round = 0; round < 30; ++round) {
        Task task;
        switch (random(4)) {
          case 0:
            task = rerank(engine, tokenizer, {"Trees?"}, documents(random(60)),
                          {{"chunk_tokens", 1 + random(300)}});
            break;
          case 1:
            task = embed(engine, tokenizer, documents(random(20), true));
            break;
          case 2:
            task = classify(engine, tokenizer, documents(random(9)), {"a", "b"},
                            {{"deadline_ms", 1 + random(20)}});
            break;
          default:
            task = answer(engine, tokenizer, "Rivers.", documents(random(5)),
                          {{"max_tokens", 8}, {"stream", true}, {"stop", "e"}});
        }
        const auto queue = prefix_abi::make_queue();
        expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_notify(task, queue, 5, e); });
        if (random(8) == 0) continue;
        submit(task);
        if (random(4) == 0) continue;  // released while it runs
        if (random(3) == 0) cancel(task);
        end(task);
        for (const int32_t status : statuses(task)) EXPECT_NE(status, PREFIX_ERR_NO_EVENT);
        size_t count = 0;
        expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_count(task, &count, e); });
        EXPECT_EQ(done(task), count);
        int64_t tag = 0;
        expect(PREFIX_OK,
               [&](prefix_error* e) { return prefix_queue_next(queue, kMinute, &tag, e); });
        EXPECT_EQ(tag, 5);
      }
    });
  for (std::thread& thread : threads) thread.join();
  prefix_abi::expect_works(engine);
}

}  // namespace
}  // namespace prefix_tasks
