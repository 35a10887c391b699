// A place for pages below RAM: a folder, a server. The engine writes pages to it and asks for
// them again under their key; what it does not get back it computes.
//
//   scheduler thread                                   threads of the tier
//   ticket = tier.get(keys, buffers) ──> [ queue ] ──> read, verify ──> ticket
//   ... steps ...                                                          │
//   ticket->done()?  ticket->hit(i)?  <────────────────────────────────────┘
//
// - The three calls return at once and never throw. A failure of any kind, a full queue, a damaged
//   page, no memory, is a miss and nothing else; stats() and the log say why.
// - A page is a blob of bytes with a fixed size per model, which its key stands for: the same key
//   always means the same bytes, so nothing is ever overwritten or invalidated.
// - Pages of one call are independent: each is a hit or a miss by itself, in any order. There is no
//   order between calls either: a get may miss a page whose put is not done.
// - What comes first in a call stays longest: callers begin with what the others are worth nothing
//   without, the pages nearest to the root.
// - Dropping a tier drops what still waits in its queue; puts that matter are waited for before.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "cache/page_key.h"

namespace prefix {

// Bytes of one page. The tier holds on to `data` until the page is complete and lets go of it on
// one of its threads, so that freeing memory waits for no disk. With the aliasing constructor of
// shared_ptr the owner can be a lease on a page of the pool: std::shared_ptr<std::byte[]>(lease,
// address).
struct PageBuffer {
  std::shared_ptr<std::byte[]> data;
  size_t size = 0;
};
struct PageBlob {
  std::shared_ptr<const std::byte[]> data;
  size_t size = 0;
};

// What becomes of the pages of one call.
//
//   state of page i:   waiting ──> hit       exists: it is there; get: its buffer is filled;
//                          └─────> miss      put: it is there now
//
// Made and written by the tier, read by any thread. Letting go of a ticket does not cancel it.
class Ticket {
 public:
  // For tiers only: everyone else gets tickets from the three calls.
  explicit Ticket(size_t pages);
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
  bool complete(size_t page, bool hit);  // true for the call that made the ticket done
  // A page that the ticket does not have waits for nothing.
  bool completed(size_t page) const {
    return page >= pages_ || states_[page].load(std::memory_order_relaxed) != kWaiting;
  }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  size_t pages() const { return pages_; }
  // True for a page that has been found; what the tier wrote to its buffer can be read. Pages may
  // be used one by one before the ticket is done. False for pages that the ticket does not have.
  bool hit(size_t page) const {
    return page < pages_ && states_[page].load(std::memory_order_acquire) == kHit;
  }
  // All pages are complete, and the tier touches none of the buffers any more. The buffer of a miss
  // may hold anything.
  bool done() const { return waiting_.load(std::memory_order_acquire) == 0; }
  // Waits until it is done or time is up; returns done().
  bool wait_for(std::chrono::nanoseconds time) const;
  // Returns at once. Pages that still wait become misses soon; one that is being read or
  // written is finished, so wait for done() before a buffer without an owner is used again.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  enum State : uint8_t { kWaiting, kHit, kMiss };

  size_t pages_;
  std::unique_ptr<std::atomic<uint8_t>[]> states_;
  std::atomic<size_t> waiting_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;  // for sleepers only
  mutable std::condition_variable changed_;
};

using TicketPtr = std::shared_ptr<Ticket>;

// Counts since the tier was made, in pages where nothing else is said.
struct TierStats {
  // Every page of a get is one of these in the end.
  uint64_t hits = 0;
  uint64_t misses = 0;

  // Every page of a put is one of these in the end.
  uint64_t stored = 0;
  uint64_t kept = 0;  // not written again, for it was there
  uint64_t not_stored = 0;

  // Why, where it was not simply that the page is absent.
  uint64_t refused = 0;    // the queue was full, or there was no memory for the call
  uint64_t cancelled = 0;  // by the ticket, or because the tier went
  uint64_t too_large = 0;  // puts of pages that the tier could never hold
  uint64_t damaged = 0;    // pages that were not what their key says, and were removed
  uint64_t errors = 0;     // calls of the system that failed
  uint64_t evicted = 0;

  uint64_t pages = 0;          // held now
  uint64_t bytes = 0;          // held now, with everything that is stored around a page
  uint64_t bytes_read = 0;     // of pages that were hits
  uint64_t bytes_written = 0;  // of pages that were stored
};

// All functions may be called by any thread at any time. The destructor waits for the one page that
// each of the tier's threads works on; no call may run beside it, but tickets live on. A process
// that was forked has none of the threads: in it, a tier must be neither used nor destroyed.
class Tier {
 public:
  virtual ~Tier() = default;

  virtual TicketPtr exists(std::span<const PageKey> keys) noexcept = 0;
  // Page i goes into buffers[i]; there are as many buffers as keys, and a size that is not that of
  // the page is a miss.
  virtual TicketPtr get(std::span<const PageKey> keys,
                        std::span<const PageBuffer> buffers) noexcept = 0;
  // The bytes must not change until the ticket is done.
  virtual TicketPtr put(std::span<const PageKey> keys,
                        std::span<const PageBlob> blobs) noexcept = 0;
  virtual TierStats stats() const noexcept = 0;
  // The pages of one path, first ones first, are in use now: of those that it has, a tier that
  // chooses what goes lets go of the last ones first. Hits are as it likes; null: it need not know.
  virtual TicketPtr use(std::span<const PageKey>) noexcept { return nullptr; }
};

}  // namespace prefix
