// The queues and the threads of a tier, the same for a disk and for a server.
//
//             ┌ gets, exists:  [call: pages 3..7][call: pages 0..31]   <- first
//   start ──> ┤                                                          ──> threads ──> work()
//             └ puts, uses:    [call: pages 5..9]                      <- when no get waits,
//                                                                         or in turn
//
// A thread takes a piece: up to `run` pages of the first call of a queue. A request waits for a
// get, so gets go first. But puts hold memory, and have a turn however many gets come: after
// kGetsInARow pieces of gets that were taken while a put or a use could have gone, that goes.
//
// Both queues are bounded in pages and in bytes: what does not fit is a miss at once; but a use is
// taken whole or not at all.
//
// A use is a barrier between puts, or one that is made late would let go of what was used after it:
// it waits for those before it, no other put is in work meanwhile, and one thread takes all of it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "cache/tier.h"

namespace prefix {

inline constexpr int kGetsInARow = 8;

struct TierQueueOptions {
  int threads = 2;
  size_t pages = 4096;  // waiting in each queue, at most; a use comes in below as many used
  uint64_t bytes = 256ull << 20;  // of the pages of each queue; one page of any size fits
  size_t run = 1;                 // pages that a thread takes at once; more where a call is a trip
  std::function<void()> on_done;  // after a ticket is done, on a thread of the tier or the caller's
      // (all refused); returns soon, does not throw, call or drop the tier
};

struct TierCall {
  enum class Kind { kExists, kGet, kPut, kUse };  // the last one counts nothing

  TierCall(Kind k, size_t pages) : kind(k), ticket(pages) {}

  Kind kind;
  std::vector<PageKey> keys;
  std::vector<PageBuffer> buffers;  // of a get: as many as keys
  std::vector<PageBlob> blobs;      // of a put: as many as keys
  int64_t time = 0;                 // as the tier gave it
  Ticket ticket;
};

class TierQueue {
 public:
  // Completes pages [first, first + count) of a call with complete(); a page that it leaves, by an
  // exception too, is a miss.
  using Work = std::function<void(TierCall& call, size_t first, size_t count)>;
  enum class Outcome { kMiss, kHit, kStored, kKept, kNotStored };

  // With no thread to be had everything is refused.
  TierQueue(TierQueueOptions options, Work work);
  // Settles what still waits, then waits for the pages in work.
  ~TierQueue();
  TierQueue(const TierQueue&) = delete;
  TierQueue& operator=(const TierQueue&) = delete;

  TicketPtr start(TierCall::Kind kind, std::span<const PageKey> keys,
                  std::span<const PageBuffer> buffers, std::span<const PageBlob> blobs,
                  int64_t time = 0) noexcept;
  // Counts, lets go of the page's buffer, and tells the ticket.
  void complete(TierCall& call, size_t page, Outcome outcome);
  // Calls change(TierStats&); for the counts that complete() does not know about.
  template <typename Change>
  void count(const Change& change) {
    const std::lock_guard lock(stats_mutex_);
    change(stats_);
  }
  TierStats stats() const {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
  }

 private:
  struct Waiting {
    std::shared_ptr<TierCall> call;
    size_t next;
    size_t end;
  };
  struct Queue {
    std::deque<Waiting> calls;
    size_t pages = 0;  // of calls that hold pages
    size_t used = 0;   // pages of uses
    uint64_t bytes = 0;
  };

  // What a thread does: pieces, one after the other.
  void serve();
  // Waits for a piece; none when the queue goes.
  std::optional<Waiting> next_piece();
  void work_on(const Waiting& piece);
  void settled(TierCall::Kind kind);
  // These want the lock. Null: nothing may go.
  Queue* next_queue();
  bool put_may_go() const;
  Waiting take_from(Queue& queue);
  size_t accept(Queue& queue, const std::shared_ptr<TierCall>& call);
  void abort(TierCall& call, size_t first, size_t end, uint64_t TierStats::* reason);

  TierQueueOptions options_;
  Work work_;
  TicketPtr refused_;  // what a caller gets when there is no memory for a ticket

  mutable std::mutex stats_mutex_;
  TierStats stats_;

  std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  Queue gets_;
  Queue puts_;
  int gets_in_a_row_ = 0;  // pieces taken while a put or a use could have gone
  int writing_ = 0;        // pieces of puts in work
  bool using_ = false;     // a use is in work
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace prefix
