#include "base/log.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/signals.h"

namespace prefix {
namespace {

constexpr size_t kKept = 1024;

struct Sink {
  std::mutex mutex;
  std::deque<std::pair<LogLevel, std::string>> ring;
  LogCallback callback = nullptr;
  void* user = nullptr;
  // Calls that have not returned: of this callback, and of those before.
  int64_t callbacks = 0;
  int64_t running = 0, stale = 0;
  std::condition_variable returned;
  std::atomic<int32_t> level{static_cast<int32_t>(LogLevel::kWarning)};
};

Sink& sink();

// A child of fork() has a log that no thread holds, and none of the calls that run.
void heed_forks() {
  pthread_atfork([] { sink().mutex.lock(); }, [] { sink().mutex.unlock(); },
                 [] {
                   sink().running = sink().stale = 0;
                   sink().mutex.unlock();
                 });
}

// Never destroyed: threads may log while the process ends.
Sink& sink() {
  static Sink* const kSink = [] {
    heed_forks();
    return new Sink;
  }();
  return *kSink;
}

thread_local int inside = 0;

// A call of the callback, counted by the caller under the lock.
struct Call {
  explicit Call(int64_t of_callback) : of(of_callback) { ++inside; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    --inside;
    Sink& s = sink();
    std::lock_guard lock(s.mutex);
    int64_t& calls = of == s.callbacks ? s.running : s.stale;
    if (calls > 0) --calls;  // none in a child that was forked in a callback
    s.returned.notify_all();
  }
  int64_t of;
};

}  // namespace

bool inside_log_callback() noexcept { return inside > 0; }

void let_go(std::shared_ptr<void> object) noexcept {
  if (!inside_log_callback()) return;
  using Object = std::shared_ptr<void>;
  alignas(Object) thread_local std::byte never_destroyed[sizeof(Object)];
  Object* const kept = new (std::nothrow) Object(std::move(object));
  if (!kept) {
    new (never_destroyed) Object(std::move(object));
    return;
  }
  try {
    const SignalsBlocked blocked;
    std::thread([kept] { delete kept; }).detach();
  } catch (...) {  // it stays
  }
}

void log_message(LogLevel level, std::string_view text) noexcept {
  try {
    Sink& s = sink();
    if (static_cast<int32_t>(level) < s.level) return;
    const std::string copy(text);
    std::unique_lock lock(s.mutex);
    s.ring.emplace_back(level, copy);
    if (s.ring.size() > kKept) s.ring.pop_front();
    if (!s.callback || inside_log_callback()) return;  // one that logs would never end
    const LogCallback callback = s.callback;
    void* const user = s.user;
    ++s.running;
    const Call call(s.callbacks);
    lock.unlock();
    callback(static_cast<int32_t>(level), copy.c_str(), user);
  } catch (...) {
  }
}

void set_log_callback(LogCallback callback, void* user) {
  Sink& s = sink();
  std::unique_lock lock(s.mutex);
  s.callback = callback;
  s.user = user;
  ++s.callbacks;
  s.stale += std::exchange(s.running, 0);
  if (inside == 0) s.returned.wait(lock, [&] { return s.stale == 0; });
}

void set_log_level(LogLevel level) { sink().level = static_cast<int32_t>(level); }

bool next_log(size_t room, LogLevel* level, std::string* text) {
  std::lock_guard lock(sink().mutex);
  if (sink().ring.empty()) return false;
  *level = sink().ring.front().first;
  *text = sink().ring.front().second;
  if (room > text->size()) sink().ring.pop_front();
  return true;
}

}  // namespace prefix
