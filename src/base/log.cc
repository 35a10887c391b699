#include "base/log.h"

#include <atomic>
#include <deque>
#include <mutex>

namespace prefix {
namespace {

constexpr size_t kKept = 1024;

struct Sink {
  std::mutex mutex;
  std::deque<std::pair<LogLevel, std::string>> ring;
  LogCallback callback = nullptr;
  void* user = nullptr;
  std::atomic<int32_t> level{static_cast<int32_t>(LogLevel::kWarning)};
};

// Never destroyed: threads may log while the process ends.
Sink& sink() {
  static Sink* const kSink = new Sink;
  return *kSink;
}

}  // namespace

void log_message(LogLevel level, std::string_view text) noexcept {
  try {
    Sink& s = sink();
    if (static_cast<int32_t>(level) < s.level) return;
    const std::string copy(text);
    LogCallback callback;
    void* user;
    {
      std::lock_guard lock(s.mutex);
      s.ring.emplace_back(level, copy);
      if (s.ring.size() > kKept) s.ring.pop_front();
      callback = s.callback;
      user = s.user;
    }
    if (callback) callback(static_cast<int32_t>(level), copy.c_str(), user);
  } catch (...) {
  }
}

void set_log_callback(LogCallback callback, void* user) {
  std::lock_guard lock(sink().mutex);
  sink().callback = callback;
  sink().user = user;
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
