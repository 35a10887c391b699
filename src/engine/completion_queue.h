// Tags of jobs that are done, for those who wait for many jobs in one thread or in an event loop.
//
//   job ──notify──> promise(): room for one more tag        put(): never needs memory
//                                      └── ring of tags ──> next(), and the descriptor is readable
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace prefix {

// Every function may be called from any thread.
class CompletionQueue {
 public:
  CompletionQueue() = default;
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;
  ~CompletionQueue();

  // Takes memory for a tag that put() will bring, once; take_back() when it will not.
  void promise();
  void take_back() noexcept;
  void put(int64_t tag) noexcept;
  // The oldest tag, or nothing after timeout_ms; < 0: no limit, 0: only look.
  std::optional<int64_t> next(int64_t timeout_ms);
  // A descriptor that poll() finds readable while there is a tag; it lives as long as the queue and
  // is not to be read. Throws kIo when the system gives none.
  int descriptor();

 private:
  void signal(bool readable) noexcept;  // with the lock held

  std::mutex mutex_;
  std::condition_variable changed_;
  // A ring: tags_[first_ + i], modulo its size, for i < count_. As long as count_ + promised_.
  std::vector<int64_t> tags_;
  size_t first_ = 0, count_ = 0, promised_ = 0;
  int descriptor_ = -1;
};

}  // namespace prefix
