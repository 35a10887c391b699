// The thread of tasks when there is no memory for it: operator new of this program is that of libprefix
// too, and its malloc() that of both libraries.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "tasks_support.h"

namespace {

bool is_thread_of_tasks() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return std::strcmp(name, "prefix-tasks") == 0;
}

// Allocations of the thread by libprefix until one fails; below 0: none does.
std::atomic<int64_t> left{-1};

bool must_fail() {
  return left.load(std::memory_order_relaxed) >= 0 && is_thread_of_tasks() &&
         left.fetch_sub(1) == 0;
}

// Allocations of the thread by both libraries until all fail; below 0: none does.
std::atomic<int64_t> before_the_end{-1};

bool has_ended() {
  if (before_the_end.load(std::memory_order_relaxed) < 0 || !is_thread_of_tasks()) return false;
  if (before_the_end.load() == 0) return true;
  before_the_end.fetch_sub(1);
  return false;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t size);  // NOLINT: the names of glibc
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);

void* malloc(size_t size) noexcept { return has_ended() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) noexcept {
  return has_ended() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) noexcept {
  return has_ended() ? nullptr : __libc_realloc(memory, size);
}
}

// Not inlined: the compiler would see free() of what operator new gave, and warn.
[[gnu::noinline]] void* operator new(size_t size) {
  void* const memory = must_fail() ? nullptr : std::malloc(size ? size : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace prefix_tasks {
namespace {

// A job that the thread could not follow is cancelled, and may take a moment to end.
prefix_abi::Job submit_when_there_is_room(const Engine& engine, const prefix_batch* batch) {
  prefix_abi::Job job;
  prefix_status status;
  while ((status = prefix_submit(engine, batch, job.out(), nullptr)) == PREFIX_ERR_QUEUE_FULL)
    std::this_thread::yield();
  EXPECT_EQ(status, PREFIX_OK);
  return job;
}

// A task waits for room in the engine's queue, and the thread of all tasks, which looks for it from
// time to time, finds no memory once, wherever that is. The task may end with that, but it ends,
// and the next one is done.
TEST(TasksMemory, TheThreadOutlivesAShortage) {
  const Engine engine = words_engine({{"queue_limit", "2"}});
  const Tokenizer tokenizer = words_tokenizer();
  const auto options = prefix_abi::make_options({{"max_tokens", "900"}, {"ignore_eos", "true"}});
  const auto others = prefix_abi::make_batch(engine);
  for (const prefix_token first : {5, 6}) prefix_abi::add_generate(others, {first, 7}, options);
  int failed = 0;
  for (int64_t nth = 0; nth < 80; ++nth) {
    const auto job = submit_when_there_is_room(engine, others);
    const Task waits = rerank(engine, tokenizer, {"Who?"}, {"bread", "rain"});
    left = nth;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_submit(waits, e); });
    while (left >= 0 && prefix_job_wait(job, 0, nullptr) == PREFIX_ERR_TIMEOUT)
      std::this_thread::yield();
    failed += left.exchange(-1) < 0;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, -1, e); });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_wait(waits, -1, e); });
    for (const int32_t status : statuses(waits))
      EXPECT_TRUE(status == PREFIX_OK || status == PREFIX_ERR_OUT_OF_MEMORY) << status;
  }
  EXPECT_GT(failed, 0);
  const Task after = rerank(engine, tokenizer, {"Who?"}, {"bread", "rain"});
  run(after);
  EXPECT_EQ(statuses(after), (std::vector<int32_t>{PREFIX_OK, PREFIX_OK}));
}

// From some moment on the thread gets nothing at all, until its task has ended: items fail by then, and
// the process lives.
TEST(TasksMemory, ItemsFailWhereNothingIsLeft) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  size_t ok = 0, failed = 0;
  // The first one is that with which a thread begins at all.
  for (int64_t nth = 1; nth < 2000; nth += 37) {
    const Task task = task_of(engine, tokenizer, "generate",
                              {{"max_tokens", 12},
                               {"ignore_eos", true},
                               {"samples", 3},
                               {"top_logprobs", 20},
                               {"stream", nth % 2 == 1},
                               {"chunk_tokens", 1}});
    add(task, {"Bread is", "The rain", "Rivers and trees"});
    before_the_end = nth;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_submit(task, e); });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_wait(task, kMinute, e); });
    before_the_end = -1;
    const std::vector<int32_t> status = statuses(task);
    for (size_t i = 0; i < status.size(); ++i) {
      ok += status[i] == PREFIX_OK;
      if (status[i] == PREFIX_OK) continue;
      ++failed;
      EXPECT_EQ(status[i], PREFIX_ERR_OUT_OF_MEMORY) << message(task, i);
      EXPECT_NE(message(task, i), "");
    }
  }
  EXPECT_GT(ok, 0u);
  EXPECT_GT(failed, 0u);
  const Task after = rerank(engine, tokenizer, {"Who?"}, {"bread", "rain"});
  run(after);
  EXPECT_EQ(statuses(after), (std::vector<int32_t>{PREFIX_OK, PREFIX_OK}));
}

}  // namespace
}  // namespace prefix_tasks
