// An engine from the moment it is asked for: its model is read by one thread, while others watch,
// wait, or end that.
//
//   open ──> thread: Engine::create ──┬──> engine  ──┬──> wait(), engine(), tags in queues
//              │ fraction   ^ closed  └──> failure ──┘
//              v            │
//            wait()      stop(), shutdown()
//
//   state    LOADING ──> READY            (from then on the engine's own)
//               │ └────> FAILED
//               └─ closed ─> DRAINING ─ the thread sees it ─> CLOSED
//
// Every function may be called from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/completion_queue.h"
#include "engine/engine.h"
#include "model/files/model_files.h"

namespace prefix {

class EngineLoad : public std::enable_shared_from_this<EngineLoad> {
 public:
  // Throws what is wrong with the options alone; no file is looked at.
  EngineLoad(ModelSource source, Options options);
  EngineLoad(const EngineLoad&) = delete;
  EngineLoad& operator=(const EngineLoad&) = delete;

  // Once, one of them: loads in a thread of its own, and waits for its end, or has it keep this
  // object alive. Loading computes, for which threads of a host may have too little stack. Throws
  // std::system_error when there is no thread.
  void run();
  void start();

  // True: the load has ended, with an engine that is ready. False: it goes on after timeout_ms
  // (< 0: no limit, 0: only look). Throws how the load failed, kCancelled when it was ended, and
  // what the engine says that has failed or was shut down since. `fraction`: in [0, 1], never less
  // than before; also where the answer is false.
  bool wait(int64_t timeout_ms, double* fraction = nullptr);
  // Throws kMisuse while it loads and when it was ended, kEngineFailed when it failed.
  std::shared_ptr<Engine> engine();
  // Puts the tag into the queue when the load has ended, however; at once when it has.
  void notify(std::shared_ptr<CompletionQueue> queue, int64_t tag);
  EngineState state();
  // Ends the load before the next piece of weights, without waiting for that, and before the next
  // read of what is fed: memory of the caller is not touched any more. An engine that is there is
  // shut down; inside a callback of the log it goes with this object, later.
  void stop() noexcept;
  // Of an engine that is loading: ends the load and waits up to timeout_ms for that.
  void shutdown(int64_t timeout_ms);

 private:
  void load() noexcept;
  bool advance(double fraction);
  // With the lock held.
  [[noreturn]] void throw_failure() const;

  ModelSource source_;
  const std::shared_ptr<ReadGate> gate_ = std::make_shared<ReadGate>();  // of what is fed
  Options options_;                                                      // until load()
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;  // by stop() or shutdown()
  bool ended_ = false;
  double fraction_ = 0;
  // Set once and kept, so that a call on an engine takes no lock. Null: it loads, or failed.
  std::shared_ptr<Engine> engine_;
  std::atomic<bool> there_{false};  // engine_ is set; read without the lock
  Code code_ = Code::kOk;           // of the failure
  std::string message_;             // empty with kOutOfMemory: there was none for it
  std::vector<std::pair<std::shared_ptr<CompletionQueue>, int64_t>> notices_;
};

}  // namespace prefix
