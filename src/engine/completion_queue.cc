#include "engine/completion_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/error_text.h"
#include "base/status.h"

namespace prefix {

CompletionQueue::~CompletionQueue() {
  if (descriptor_ >= 0) close(descriptor_);
}

void CompletionQueue::promise() {
  std::lock_guard lock(mutex_);
  if (count_ + promised_ == tags_.size()) {
    std::vector<int64_t> larger(std::max<size_t>(16, 2 * tags_.size()));
    for (size_t i = 0; i < count_; ++i) larger[i] = tags_[(first_ + i) % tags_.size()];
    tags_ = std::move(larger);
    first_ = 0;
  }
  ++promised_;
}

void CompletionQueue::take_back() noexcept {
  std::lock_guard lock(mutex_);
  --promised_;
}

void CompletionQueue::put(int64_t tag) noexcept {
  {
    std::lock_guard lock(mutex_);
    --promised_;
    tags_[(first_ + count_) % tags_.size()] = tag;
    if (++count_ == 1) signal(true);
  }
  changed_.notify_one();
}

std::optional<int64_t> CompletionQueue::next(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  if (!wait_until_ready(changed_, lock, timeout_ms, [this] { return count_ > 0; }))
    return std::nullopt;
  const int64_t tag = tags_[first_];
  first_ = (first_ + 1) % tags_.size();
  if (--count_ == 0) signal(false);
  return tag;
}

int CompletionQueue::descriptor() {
  std::lock_guard lock(mutex_);
  if (descriptor_ < 0) {
    descriptor_ = eventfd(count_ > 0 ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (descriptor_ < 0)
      fail(Code::kIo, "the system gave no event descriptor: ", error_text(errno));
  }
  return descriptor_;
}

// The counter of the descriptor is 1 while there is a tag, else 0; neither call can block.
void CompletionQueue::signal(bool readable) noexcept {
  if (descriptor_ < 0) return;
  uint64_t one = 1;
  [[maybe_unused]] const ssize_t n =
      readable ? write(descriptor_, &one, sizeof(one)) : read(descriptor_, &one, sizeof(one));
}

}  // namespace prefix
