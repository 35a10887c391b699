// The log in a child of fork(), whose parent was logging in other threads.
#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support/child_process.h"

namespace prefix {
namespace {

using testing_support::in_child;

// A child that waits for a lock of a thread which it does not have is ended by the alarm.
TEST(Log, AForkedChildDoesNotWaitForThreadsOfItsParent) {
  std::atomic<bool> stop{false};
  std::atomic<int64_t> told{0};
  set_log_callback(
      [](int32_t, const char*, void* count) { ++*static_cast<std::atomic<int64_t>*>(count); },
      &told);
  std::thread logs([&] {
    while (!stop) log_message(LogLevel::kError, "again");
  });
  while (told == 0) std::this_thread::yield();
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(in_child([] {
                alarm(60);
                LogLevel level;
                std::string text;
                while (next_log(SIZE_MAX, &level, &text)) {
                }
                log_message(LogLevel::kError, "of the child");
                if (!next_log(SIZE_MAX, &level, &text) || text != "of the child") return 1;
                set_log_callback(nullptr, nullptr);  // would wait for calls that run
                return 0;
              }),
              0);
  }
  stop = true;
  logs.join();
  set_log_callback(nullptr, nullptr);
}

}  // namespace
}  // namespace prefix
