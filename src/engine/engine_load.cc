#include "engine/engine_load.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/signals.h"

namespace prefix {
namespace {

template <typename F>
std::thread without_signals(F f) {
  const SignalsBlocked blocked;
  return std::thread(std::move(f));
}

}  // namespace

EngineLoad::EngineLoad(ModelSource source, Options options)
    : source_(std::move(source)), options_(std::move(options)) {
  Engine::check_options(options_);
  if (source_.files) source_.files = std::make_shared<FedFiles>(source_.files->behind(gate_));
}

void EngineLoad::run() {
  without_signals([this] { load(); }).join();
}

void EngineLoad::start() {
  without_signals([self = shared_from_this()] { self->load(); }).detach();
}

void EngineLoad::load() noexcept {
  std::shared_ptr<Engine> engine;
  Code code = Code::kOk;
  std::string message;
  try {
    const Options options = std::move(options_);  // a pool goes with the engine, not with this
    engine =
        Engine::create(source_, options, [this](double fraction) { return advance(fraction); });
  } catch (...) {
    tell_failure([&](Code c, std::string_view text) {
      try {
        code = c;
        message = text;
      } catch (const std::bad_alloc&) {
        code = Code::kOutOfMemory;
      }
    });
  }
  std::unique_lock lock(mutex_);
  if (closed_) {  // also when it was too late to keep the engine from being made
    lock.unlock();
    engine.reset();
    lock.lock();
    code = Code::kCancelled;
  }
  engine_ = std::move(engine);
  if (engine_) there_.store(true, std::memory_order_release);
  code_ = code;
  message_.swap(message);
  ended_ = true;
  if (engine_) fraction_ = 1;
  for (const auto& [queue, tag] : notices_) queue->put(tag);
  notices_.clear();
  changed_.notify_all();
}

bool EngineLoad::advance(double fraction) {
  std::lock_guard lock(mutex_);
  fraction_ = std::max(fraction_, std::min(fraction, 1.0));
  return !closed_;
}

bool EngineLoad::wait(int64_t timeout_ms, double* fraction) {
  std::unique_lock lock(mutex_);
  wait_until_ready(changed_, lock, timeout_ms, [this] { return ended_; });
  if (ended_ && !engine_) throw_failure();
  const std::shared_ptr<Engine> engine = engine_;
  const double now = fraction_;
  lock.unlock();
  if (engine) engine->check_ready();
  if (fraction) *fraction = now;
  return engine != nullptr;
}

void EngineLoad::throw_failure() const {
  if (code_ == Code::kCancelled)
    fail(Code::kCancelled, "the load was ended: the engine was shut down or released");
  if (message_.empty()) throw std::bad_alloc();
  throw Error(code_, message_);
}

std::shared_ptr<Engine> EngineLoad::engine() {
  if (there_.load(std::memory_order_acquire)) return engine_;
  std::lock_guard lock(mutex_);
  if (engine_) return engine_;  // since that look
  if (closed_) fail(Code::kMisuse, "the engine is shut down and takes no more calls");
  if (!ended_) fail(Code::kMisuse, "the engine is still loading");
  fail(Code::kEngineFailed,
       "the engine did not load: ", message_.empty() ? "out of host memory" : message_);
}

void EngineLoad::notify(std::shared_ptr<CompletionQueue> queue, int64_t tag) {
  queue->promise();
  std::lock_guard lock(mutex_);
  if (ended_) return queue->put(tag);
  try {
    notices_.emplace_back(queue, tag);
  } catch (...) {
    queue->take_back();
    throw;
  }
}

EngineState EngineLoad::state() {
  if (there_.load(std::memory_order_acquire)) return engine_->state();
  std::unique_lock lock(mutex_);
  if (engine_) {  // since that look
    lock.unlock();
    return engine_->state();
  }
  if (!ended_) return closed_ ? EngineState::kDraining : EngineState::kLoading;
  return closed_ ? EngineState::kClosed : EngineState::kFailed;
}

void EngineLoad::stop() noexcept {
  gate_->close();
  std::unique_lock lock(mutex_);
  closed_ = true;
  // The thread of the load has a reference to this object, maybe for a while after it has said that
  // the engine is there: the engine must not live as long. Inside a callback of the log nothing may
  // be waited for; the engine goes with its last reference there.
  const std::shared_ptr<Engine> engine = inside_log_callback() ? nullptr : engine_;
  lock.unlock();
  if (engine) engine->shutdown(0);
}

void EngineLoad::shutdown(int64_t timeout_ms) {
  gate_->close();
  std::unique_lock lock(mutex_);
  closed_ = true;
  if (const std::shared_ptr<Engine> engine = engine_) {
    lock.unlock();
    return engine->shutdown(timeout_ms);
  }
  changed_.wait_for(lock, waiting_time(timeout_ms), [this] { return ended_; });
}

}  // namespace prefix
