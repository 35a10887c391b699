// The way of a ticket from waiting to done (tier.h).
#include <algorithm>

#include "cache/tier.h"

namespace prefix {

Ticket::Ticket(size_t pages)
    : pages_(pages), states_(new std::atomic<uint8_t>[pages]), waiting_(pages) {
  for (size_t i = 0; i < pages; ++i) states_[i].store(kWaiting, std::memory_order_relaxed);
}

bool Ticket::complete(size_t page, bool hit) {
  states_[page].store(hit ? kHit : kMiss, std::memory_order_release);
  if (waiting_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  const std::lock_guard lock(mutex_);  // no thread is between its check and its sleep
  changed_.notify_all();
  return true;
}

bool Ticket::wait_for(std::chrono::nanoseconds time) const {
  if (done() || time <= std::chrono::nanoseconds::zero()) return done();
  // "For ever" must not wrap around when it is added to the present.
  const std::chrono::nanoseconds most = std::chrono::hours(24 * 365);
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::min(time, most), [this] { return done(); });
}

}  // namespace prefix
