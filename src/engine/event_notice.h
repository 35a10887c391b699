// Tells a completion queue that a job has events to read,
// once for each time its reader has run out of them.
//
//          set()                     tell(): there is something to read
//   off ──────────> armed ────────────────────────────────────────────────> told
//    ^                ^                                                       │
//    │                └──────────── rearm(): the reader found nothing ────────┤
//    └───────────────────────────── end():   there will be no more ───────────┘
//
// While it is armed, the queue has promised room for the tag.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/completion_queue.h"

namespace prefix {

// Not locked: its job does that.
class EventNotice {
 public:
  // Takes the place of the one before, and is armed. The queue has promised room for a tag.
  void set(std::shared_ptr<CompletionQueue> queue, int64_t tag) noexcept {
    end();
    queue_ = std::move(queue);
    tag_ = tag;
    armed_ = true;
  }
  void tell() noexcept {
    if (std::exchange(armed_, false)) queue_->put(tag_);
  }
  void rearm() {
    if (!queue_ || armed_) return;
    queue_->promise();
    armed_ = true;
  }
  void end() noexcept {
    if (std::exchange(armed_, false)) queue_->take_back();
    queue_.reset();
  }

 private:
  std::shared_ptr<CompletionQueue> queue_;  // null: off
  int64_t tag_ = 0;
  bool armed_ = false;
};

}  // namespace prefix
