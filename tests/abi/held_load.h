// An engine that is loading for as long as a test wants: its load tells the log that it is over,
// and that call does not come back before finish().
#pragma once

#include <condition_variable>
#include <mutex>
#include <string_view>

#include "abi_support.h"

namespace prefix_abi {

class HeldLoad {
 public:
  HeldLoad() {
    prefix_set_log_level(PREFIX_LOG_INFO);
    prefix_set_log_callback(&HeldLoad::on_log, this);
    const Options options = make_options({{"cache_bytes", "1M"}, {"threads", "1"}});
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_engine_open(model_path().c_str(), PREFIX_NUL, options, engine.out(), e);
    });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_notify(engine, ended_, 0, e); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_; });
  }
  ~HeldLoad() {
    finish();
    prefix_set_log_callback(nullptr, nullptr);
    prefix_set_log_level(PREFIX_LOG_WARNING);
  }
  HeldLoad(const HeldLoad&) = delete;
  HeldLoad& operator=(const HeldLoad&) = delete;

  // The load goes on, and has ended when this returns.
  void finish() {
    {
      std::lock_guard lock(mutex_);
      if (finished_) return;
      finished_ = true;
      changed_.notify_all();
    }
    int64_t tag = -1;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_next(ended_, -1, &tag, e); });
  }

  Engine engine;

 private:
  static void on_log(int32_t, const char* text, void* user) {
    if (std::string_view(text).substr(0, 6) != "loaded") return;
    auto* self = static_cast<HeldLoad*>(user);
    std::unique_lock lock(self->mutex_);
    self->held_ = true;
    self->changed_.notify_all();
    self->changed_.wait(lock, [self] { return self->finished_; });
  }

  Queue ended_ = make_queue();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, finished_ = false;
};

}  // namespace prefix_abi
