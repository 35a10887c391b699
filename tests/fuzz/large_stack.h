// Runs calls on one stack that is as large as libprefix_text makes them for templates. With its
// feature "fuzzing" the library makes none: for every thread a sanitizer clears what it knows of
// the stack, which takes longer than the template.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <functional>
#include <mutex>

#include "target.h"

namespace prefix::fuzz {

class LargeStack {
 public:
  // The only one; its thread ends with the process.
  static LargeStack& get() {
    static LargeStack* const kOne = new LargeStack;
    return *kOne;
  }

  void run(const std::function<void()>& call) {
    std::unique_lock lock(mutex_);
    call_ = &call;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !call_; });
  }

 private:
  LargeStack() {
    pthread_attr_t attributes;
    pthread_t thread;
    KEEP(pthread_attr_init(&attributes) == 0);
    KEEP(pthread_attr_setstacksize(&attributes, size_t{256} << 20) == 0);
    KEEP(pthread_create(&thread, &attributes, &LargeStack::work, this) == 0);
    KEEP(pthread_detach(thread) == 0);
    pthread_attr_destroy(&attributes);
  }

  static void* work(void* self) {
    auto& stack = *static_cast<LargeStack*>(self);
    std::unique_lock lock(stack.mutex_);
    for (;;) {
      stack.changed_.wait(lock, [&] { return stack.call_; });
      (*stack.call_)();
      stack.call_ = nullptr;
      stack.changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* call_ = nullptr;
};

}  // namespace prefix::fuzz
