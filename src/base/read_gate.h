// Lets reads of memory that is another's through until it is closed; no read touches the memory
// from then on.
//
//   read ── shared lock: open? ── memcpy ── unlock          close() ── no more ── waits for those inside
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "base/status.h"

namespace prefix {

class ReadGate {
 public:
  // Waits for the reads that are inside pass(), a copy of some kilobytes each.
  void close() noexcept {
    closed_ = true;  // first, so that a stream of readers cannot keep the lock from the next line
    std::lock_guard lock(mutex_);
  }
  // Throws kCancelled when it is closed.
  void check() const {
    if (closed_) fail(Code::kCancelled, "the load was ended");
  }
  template <typename Read>
  void pass(const Read& read) {
    check();
    std::shared_lock lock(mutex_);
    check();
    read();
  }

 private:
  std::atomic<bool> closed_{false};
  std::shared_mutex mutex_;
};

}  // namespace prefix
