// The thread of tasks when the library finds no memory for it:
// operator new of this program is that of libprefix too.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "tasks_support.h"

namespace {

// Allocations of the thread until one fails; below 0: none does.
std::atomic<int64_t> left{-1};

bool must_fail() {
  if (left.load(std::memory_order_relaxed) < 0) return false;
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return std::strcmp(name, "prefix-tasks") == 0 && left.fetch_sub(1) == 0;
}

}  // namespace

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

}  // namespace
}  // namespace prefix_tasks
