// The life of a task: waiting, cancelling, releasing, threads, engines that go away. Nothing here
// sleeps or measures time. A document that is not UTF-8 fails while the task is being encoded: it
// tells another thread that the task has begun.
#include <gtest/gtest.h>

#include <thread>

#include "tasks_support.h"

namespace prefix_tasks {
namespace {

constexpr int64_t kMinute = 60'000;  // instead of "for ever", so that a hang is a failure

Texts documents(size_t count, bool signal = false) {
  Texts list;
  if (signal) list.add("\xff");
  for (size_t i = 0; i < count; ++i)
    list.add("Document " + std::to_string(i * 7919 % 10007) + " is about rivers and trees.");
  return list;
}

int64_t done(const prefix_task* task) {
  int64_t n = -1;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_progress(task, &n, nullptr, e); });
  return n;
}

void wait_until_begun(const prefix_task* task) {
  while (done(task) == 0) std::this_thread::yield();
}

void cancel(prefix_task* task) {
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_cancel(task, e); });
}

// Every item has a result, and those that were given up say so.
void expect_cancelled(const prefix_task* task, bool some) {
  const std::vector<int32_t> status = statuses(task);
  const std::vector<float> score = values(task);
  ASSERT_EQ(score.size(), status.size());
  EXPECT_EQ(done(task), static_cast<int64_t>(status.size()));
  size_t cancelled = 0, ok = 0;
  for (size_t i = 0; i < status.size(); ++i) {
    const auto item = static_cast<int64_t>(i);
    EXPECT_EQ(std::isnan(score[i]), status[i] != PREFIX_OK);
    if (status[i] == PREFIX_OK) ++ok;
    if (status[i] != PREFIX_ERR_CANCELLED) continue;
    if (++cancelled == 1) {
      EXPECT_NE(message(task, item).find("cancelled"), std::string::npos) << message(task, item);
      EXPECT_EQ(info(task, item).finish, PREFIX_FINISH_CANCELLED);
    }
  }
  EXPECT_EQ(cancelled > 0, some);
  EXPECT_EQ(order(task, 0).size(), ok);
  EXPECT_EQ(totals(task).failed, static_cast<int64_t>(status.size() - ok));
}

TEST(Cancel, FromAnotherThreadWhileTheTaskEncodes) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(20'000, true));
  std::thread other([&] {
    wait_until_begun(task);
    cancel(task);
  });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_run(task, kMinute, e); });
  other.join();
  expect_cancelled(task, true);
  run(task);  // it stays done
}

TEST(Cancel, WhileTheEngineComputes) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(20'000));
  expect(PREFIX_ERR_TIMEOUT, [&](prefix_error* e) { return prefix_task_run(task, 0, e); },
         {"of 20000 items"});
  std::thread([&] { cancel(task); }).join();
  cancel(task);  // again
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_run(task, kMinute, e); });
  expect_cancelled(task, true);
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

// How far the engine comes is left to it; an answer of which there is something must show it.
TEST(Cancel, KeepsWhatThereIsOfAnAnswer) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  Texts questions;
  for (int i = 0; i < 8; ++i) questions.add("Which tree is number " + std::to_string(i) + "?");
  const Json options = {{"recipe", "extractive-qa"},
                        {"request", {{"max_tokens", 200}, {"stop_tokens", Json::array()}}}};
  bool found = false;
  for (int round = 0; round < 200 && !found; ++round) {
    const Task task = answer(engine, tokenizer, "Rivers and trees.", questions, options);
    Error error;
    for (int looks = 0; looks < round; ++looks)
      if (prefix_task_run(task, 1, &error) == PREFIX_OK) break;
    cancel(task);
    run(task);
    const std::vector<int32_t> status = statuses(task);
    for (size_t i = 0; i < status.size(); ++i) {
      const auto item = static_cast<int64_t>(i);
      if (status[i] != PREFIX_ERR_CANCELLED || info(task, item).generated_tokens < 20) continue;
      found = true;
      EXPECT_NE(answer_text(task, item), "") << info(task, item).generated_tokens;
    }
  }
  EXPECT_TRUE(found) << "no answer was cancelled half way";
}

TEST(Cancel, AfterTheEndChangesNothing) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(5));
  const std::vector<float> before = values_after_run(task);
  cancel(task);
  run(task);
  EXPECT_TRUE(same_bits(values(task), before));
  expect_cancelled(task, false);
}

TEST(Run, GoesOnAfterATimeout) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Json options = {{"chunk_tokens", 500}};
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(300), options);
  int64_t before = 0;
  size_t looks = 0;
  while (true) {
    Error error;
    const prefix_status status = prefix_task_run(task, looks < 5 ? 0 : 1, &error);
    ++looks;
    EXPECT_GE(done(task), before);
    before = done(task);
    if (status == PREFIX_OK) break;
    ASSERT_EQ(status, PREFIX_ERR_TIMEOUT) << error.message;
    EXPECT_EQ(prefix_status_is_retryable(status), 1);
    EXPECT_NE(std::string(error.message).find("run again"), std::string::npos) << error.message;
    expect(PREFIX_ERR_MISUSE,
           [&](prefix_error* e) { return prefix_task_values(task, nullptr, 0, nullptr, e); });
  }
  EXPECT_EQ(before, 300);
  const Engine fresh = words_engine();
  EXPECT_TRUE(same_bits(values(task),
                        values_after_run(rerank(fresh, tokenizer, {"Trees?"}, documents(300)))));
}

TEST(Run, MayMoveBetweenThreads) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(2'000));
  std::thread([&] {
    Error error;
    prefix_task_run(task, 0, &error);
  }).join();
  std::thread([&] { run(task); }).join();
  EXPECT_EQ(statuses(task), std::vector<int32_t>(2'000, PREFIX_OK));
}

TEST(Run, TwoThreadsAtOnceAreMisuse) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  bool refused = false;
  // Whether the second call comes in time is up to the system; it has many chances.
  for (int i = 0; i < 50 && !refused; ++i) {
    const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(20'000, true));
    std::thread first([&] {
      expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_run(task, kMinute, e); });
    });
    wait_until_begun(task);
    Error error;
    const prefix_status status = prefix_task_run(task, 0, &error);
    if (status != PREFIX_OK) {
      EXPECT_EQ(status, PREFIX_ERR_MISUSE) << error.message;
      EXPECT_NE(std::string(error.message).find("another thread"), std::string::npos);
      refused = true;
    }
    cancel(task);
    first.join();
    EXPECT_EQ(done(task), 20'001) << "the first call was not disturbed";
  }
  EXPECT_TRUE(refused);
}

TEST(Run, ReadingBeforeTheEndIsMisuse) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(3));
  int64_t number = 0, total = 0;
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_progress(task, &number, &total, e); });
  EXPECT_EQ(number, 0);
  EXPECT_EQ(total, 3);
  prefix_result_info item{};
  item.struct_size = sizeof(item);
  prefix_job_totals all{};
  all.struct_size = sizeof(all);
  size_t needed = 77;
  char text[8];
  const auto misuse = [&](auto call) { expect(PREFIX_ERR_MISUSE, call, {"not done"}); };
  misuse([&](prefix_error* e) { return prefix_task_shape(task, &number, &total, e); });
  misuse([&](prefix_error* e) { return prefix_task_values(task, nullptr, 0, &needed, e); });
  misuse([&](prefix_error* e) { return prefix_task_order(task, 0, nullptr, 0, &needed, e); });
  misuse([&](prefix_error* e) { return prefix_task_statuses(task, nullptr, 0, &needed, e); });
  misuse([&](prefix_error* e) { return prefix_task_item_info(task, 0, &item, e); });
  misuse([&](prefix_error* e) { return prefix_task_item_message(task, 0, text, 8, &needed, e); });
  misuse([&](prefix_error* e) { return prefix_task_item_text(task, 0, text, 8, &needed, e); });
  misuse(
      [&](prefix_error* e) { return prefix_task_item_partial_text(task, 0, text, 8, &needed, e); });
  misuse([&](prefix_error* e) { return prefix_task_totals(task, &all, e); });
  EXPECT_EQ(needed, 77u) << "a call that fails changes nothing";
}

TEST(Release, WhileAnotherThreadRunsIt) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  for (int i = 0; i < 5; ++i) {
    Task task = rerank(engine, tokenizer, {"Trees?"}, documents(20'000, true));
    prefix_task* const raw = task.give_up();
    std::thread runner([&] {
      Error error;
      const prefix_status status = prefix_task_run(raw, kMinute, &error);
      EXPECT_EQ(status, PREFIX_OK) << error.message;
    });
    wait_until_begun(raw);
    prefix_task_release(raw);
    runner.join();
    expect(PREFIX_ERR_MISUSE,
           [&](prefix_error* e) { return prefix_task_values(raw, nullptr, 0, nullptr, e); });
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
    expect(PREFIX_ERR_TIMEOUT, [&](prefix_error* e) { return prefix_task_run(task, 0, e); });
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

TEST(EngineGone, ShutDownInTheMiddle) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(20'000));
  expect(PREFIX_ERR_TIMEOUT, [&](prefix_error* e) { return prefix_task_run(task, 0, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
  for (int i = 0; i < 2; ++i)
    expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) { return prefix_task_run(task, kMinute, e); },
           {"shut down"});
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_task_values(task, nullptr, 0, nullptr, e); });
  const Task late = rerank(engine, tokenizer, {"Trees?"}, documents(1));
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) { return prefix_task_run(late, -1, e); },
         {"shut down"});
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
  Error error;
  const prefix_status status = prefix_task_run(task, 0, &error);
  // The other work may have ended by itself.
  EXPECT_TRUE(status == PREFIX_ERR_TIMEOUT || status == PREFIX_OK) << error.message;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
  run(task);
  EXPECT_EQ(statuses(task), std::vector<int32_t>(9, PREFIX_OK));
}

TEST(Options, NamespacesShareNothing) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto cached = [&](const char* tenant) {
    const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(10),
                             {{"request", {{"namespace", tenant}}}});
    run(task);
    return totals(task).tokens_cached;
  };
  EXPECT_EQ(cached("one"), 0);
  EXPECT_GT(cached("one"), 0);
  EXPECT_EQ(cached("two"), 0);
}

TEST(Empty, ListsAreTasksWithoutItems) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  struct Case {
    Task task;
    int64_t rows, columns;
  };
  std::vector<Case> cases;
  cases.push_back({rerank(engine, tokenizer, {}, {"a", "b"}), 0, 2});
  cases.push_back({rerank(engine, tokenizer, {"a", "b"}, {}), 2, 0});
  cases.push_back({embed(engine, tokenizer, {}), 0, 128});
  cases.push_back({answer(engine, tokenizer, "context", {}), 0, 0});
  cases.push_back({classify(engine, tokenizer, {}, {"a"}), 0, 1});
  for (const Case& c : cases) {
    run(c.task);
    int64_t rows = -1, columns = -1;
    expect(PREFIX_OK,
           [&](prefix_error* e) { return prefix_task_shape(c.task, &rows, &columns, e); });
    EXPECT_EQ(rows, c.rows);
    EXPECT_EQ(columns, c.columns);
    EXPECT_TRUE(values(c.task).empty());
    EXPECT_TRUE(statuses(c.task).empty());
    EXPECT_EQ(totals(c.task).requests, 0);
  }
  EXPECT_TRUE(order(cases[1].task, 1).empty());
}

// An empty text has no tokens of its own; whether that is enough depends on the prompt around it.
TEST(Empty, TextsFailAloneWhereNothingIsLeft) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task bare = embed(engine, tokenizer, {"a", "", "b"});
  run(bare);
  EXPECT_EQ(statuses(bare),
            (std::vector<int32_t>{PREFIX_OK, PREFIX_ERR_INVALID_ARGUMENT, PREFIX_OK}));
  EXPECT_NE(message(bare, 1).find("no tokens"), std::string::npos) << message(bare, 1);
  const Task with_end = embed(engine, tokenizer, {"a", "", "b"}, {{"recipe", "qwen3-embedding"}});
  run(with_end);
  EXPECT_EQ(statuses(with_end), std::vector<int32_t>(3, PREFIX_OK));
  const Task ranked = rerank(engine, tokenizer, {""}, {""});
  run(ranked);
  EXPECT_EQ(statuses(ranked), std::vector<int32_t>(1, PREFIX_OK));
}

}  // namespace
}  // namespace prefix_tasks
