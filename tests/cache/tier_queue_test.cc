// Tickets and the waiting room of a tier, with work that the test holds up as it likes.
#include "cache/tier_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "disk_support.h"
#include "support/failing_new.h"

namespace prefix {
namespace {

using testing_support::blob_of;
using testing_support::buffer_of;
using testing_support::finish;
using testing_support::key_of;
using testing_support::page_of;
using Kind = TierCall::Kind;
using Outcome = TierQueue::Outcome;

// Work stops in front of a closed gate.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_for_arrivals(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= n; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool open_ = false;
};

std::vector<PageKey> keys(size_t n) {
  std::vector<PageKey> list;
  for (size_t i = 0; i < n; ++i) list.push_back(key_of(i));
  return list;
}
std::vector<PageBuffer> buffers(size_t n, size_t size = 8) {
  std::vector<PageBuffer> list;
  for (size_t i = 0; i < n; ++i) list.push_back(buffer_of(size));
  return list;
}
std::vector<PageBlob> blobs(size_t n, size_t size = 8) {
  std::vector<PageBlob> list;
  for (size_t i = 0; i < n; ++i) list.push_back(blob_of(page_of(i, size)));
  return list;
}

TierQueueOptions options(int threads, size_t pages = 100, uint64_t bytes = 1 << 20) {
  TierQueueOptions o;
  o.threads = threads;
  o.pages = pages;
  o.bytes = bytes;
  return o;
}

TEST(Ticket, CountsDownAndTellsHitsApart) {
  Ticket ticket(3);
  EXPECT_FALSE(ticket.done());
  EXPECT_FALSE(ticket.wait_for(std::chrono::nanoseconds(0)));
  EXPECT_FALSE(ticket.wait_for(std::chrono::microseconds(1)));
  EXPECT_FALSE(ticket.complete(1, true));
  EXPECT_TRUE(ticket.hit(1));  // before the ticket is done
  EXPECT_FALSE(ticket.hit(0));
  EXPECT_FALSE(ticket.complete(0, false));
  EXPECT_TRUE(ticket.complete(2, true));
  EXPECT_TRUE(ticket.done());
  EXPECT_TRUE(ticket.wait_for(std::chrono::nanoseconds::max()));
  EXPECT_FALSE(ticket.hit(0));
  EXPECT_TRUE(ticket.hit(2));
  EXPECT_FALSE(ticket.hit(3));  // has no such page
}

TEST(Ticket, WithoutPagesIsDone) {
  const Ticket ticket(0);
  EXPECT_TRUE(ticket.done());
  EXPECT_FALSE(ticket.hit(0));
}

TEST(Ticket, WakesWhoWaitsForEver) {
  Ticket ticket(1);
  std::thread waiter([&] { EXPECT_TRUE(ticket.wait_for(std::chrono::nanoseconds::max())); });
  ticket.complete(0, false);
  waiter.join();
}

TEST(TierQueue, EveryPageIsWorkedOnOnce) {
  std::mutex mutex;
  std::multiset<PageKey> seen;
  std::atomic<int> done{0};
  TierQueueOptions o = options(3);
  o.on_done = [&] { ++done; };
  TierQueue* self = nullptr;
  TierQueue queue(o, [&](TierCall& call, size_t first, size_t count) {
    EXPECT_EQ(count, 1u);
    {
      const std::lock_guard lock(mutex);
      seen.insert(call.keys[first]);
    }
    self->complete(call, first, first % 2 == 0 ? Outcome::kHit : Outcome::kMiss);
  });
  self = &queue;
  const std::vector<PageKey> k = keys(40);
  const TicketPtr ticket = queue.start(Kind::kGet, k, buffers(40), {});
  finish(ticket);
  for (size_t i = 0; i < k.size(); ++i) EXPECT_EQ(ticket->hit(i), i % 2 == 0);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(seen.size(), 40u);
  EXPECT_EQ(std::set<PageKey>(seen.begin(), seen.end()).size(), 40u);
  const TierStats s = queue.stats();
  EXPECT_EQ(s.hits, 20u);
  EXPECT_EQ(s.misses, 20u);
  EXPECT_EQ(s.bytes_read, 20u * 8);
  EXPECT_EQ(s.refused, 0u);
}

TEST(TierQueue, TellsWhenATicketIsDone) {
  std::mutex mutex;
  std::condition_variable changed;
  int done = 0;
  TierQueueOptions o = options(2);
  o.on_done = [&] {
    const std::lock_guard lock(mutex);
    ++done;
    changed.notify_all();
  };
  TierQueue queue(o, [](TierCall&, size_t, size_t) {});
  (void)queue.start(Kind::kExists, keys(5), {}, {});
  (void)queue.start(Kind::kPut, keys(2), {}, blobs(2));
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::minutes(5), [&] { return done == 2; }));
}

TEST(TierQueue, TakesRunsOfOneCall) {
  Gate gate;
  std::mutex mutex;
  std::vector<size_t> runs;
  TierQueueOptions o = options(1);
  o.run = 4;
  TierQueue queue(o, [&](TierCall& call, size_t, size_t count) {
    if (call.kind == Kind::kExists) return gate.pass();
    const std::lock_guard lock(mutex);
    runs.push_back(count);
  });
  const TicketPtr blocker = queue.start(Kind::kExists, keys(1), {}, {});
  const TicketPtr a = queue.start(Kind::kGet, keys(10), buffers(10), {});
  const TicketPtr b = queue.start(Kind::kGet, keys(3), buffers(3), {});
  gate.open();
  finish(a);
  finish(b);
  EXPECT_EQ(runs, (std::vector<size_t>{4, 4, 2, 3}));
}

TEST(TierQueue, RefusesWhatDoesNotFit) {
  Gate gate;
  TierQueue* self = nullptr;
  TierQueue queue(options(1, 6), [&](TierCall& call, size_t first, size_t) {
    gate.pass();
    self->complete(call, first, call.kind == Kind::kPut ? Outcome::kStored : Outcome::kHit);
  });
  self = &queue;
  const TicketPtr blocker = queue.start(Kind::kExists, keys(1), {}, {});
  gate.wait_for_arrivals(1);
  // The lines of gets and puts are bounded each by itself; the head of a call is taken.
  const TicketPtr puts = queue.start(Kind::kPut, keys(9), {}, blobs(9));
  const TicketPtr gets = queue.start(Kind::kGet, keys(9), buffers(9), {});
  const TicketPtr more = queue.start(Kind::kGet, keys(2), buffers(2), {});
  EXPECT_TRUE(more->done());
  EXPECT_EQ(queue.stats().refused, 3u + 3 + 2);
  gate.open();
  finish(puts);
  finish(gets);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(puts->hit(i), i < 6);
    EXPECT_EQ(gets->hit(i), i < 6);
  }
  const TierStats s = queue.stats();
  EXPECT_EQ(s.stored, 6u);
  EXPECT_EQ(s.not_stored, 3u);
  EXPECT_EQ(s.hits, 6u);
  EXPECT_EQ(s.misses, 5u);
}

TEST(TierQueue, BoundsBytesButTakesOnePageOfAnySize) {
  Gate gate;
  TierQueue queue(options(1, 100, 1000), [&](TierCall&, size_t, size_t) { gate.pass(); });
  const TicketPtr blocker = queue.start(Kind::kExists, keys(1), {}, {});
  gate.wait_for_arrivals(1);
  const TicketPtr large = queue.start(Kind::kPut, keys(1), {}, blobs(1, 5000));
  EXPECT_FALSE(large->done());
  const TicketPtr small = queue.start(Kind::kPut, keys(1), {}, blobs(1, 1));
  EXPECT_TRUE(small->done());
  const TicketPtr gets = queue.start(Kind::kGet, keys(5), buffers(5, 300), {});
  EXPECT_EQ(queue.stats().refused, 1u + 2);
  gate.open();
  finish(large);
  finish(gets);
}

TEST(TierQueue, GetsGoBeforePuts) {
  Gate gate;
  std::mutex mutex;
  std::vector<Kind> order;
  TierQueue queue(options(1), [&](TierCall& call, size_t, size_t) {
    gate.pass();
    const std::lock_guard lock(mutex);
    order.push_back(call.kind);
  });
  const TicketPtr blocker = queue.start(Kind::kExists, keys(1), {}, {});
  gate.wait_for_arrivals(1);
  const TicketPtr put = queue.start(Kind::kPut, keys(2), {}, blobs(2));
  const TicketPtr get = queue.start(Kind::kGet, keys(2), buffers(2), {});
  gate.open();
  finish(put);
  finish(get);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(order,
            (std::vector<Kind>{Kind::kExists, Kind::kGet, Kind::kGet, Kind::kPut, Kind::kPut}));
}

// What a queue with one thread does while all of its calls are there: a letter for each piece.
class TierQueueTurns : public testing::Test {
 protected:
  TicketPtr start(Kind kind, size_t n) {
    return queue_.start(kind, keys(n), kind == Kind::kGet ? buffers(n) : std::vector<PageBuffer>{},
                        kind == Kind::kPut ? blobs(n) : std::vector<PageBlob>{});
  }
  // Holds up the thread at a piece of one page, until done() opens the gate.
  void hold() {
    held_ = start(Kind::kExists, 1);
    gate_.wait_for_arrivals(1);
  }
  std::string done(const std::vector<TicketPtr>& tickets) {
    gate_.open();
    for (const TicketPtr& ticket : tickets) finish(ticket);
    const std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  Gate gate_;
  std::mutex mutex_;
  std::string order_;
  TicketPtr held_;
  TierQueue queue_{options(1), [this](TierCall& call, size_t, size_t) {
                     if (call.kind == Kind::kExists) return gate_.pass();
                     const std::lock_guard lock(mutex_);
                     order_ += call.kind == Kind::kGet ? 'g' : call.kind == Kind::kPut ? 'P' : 'U';
                   }};
};

TEST_F(TierQueueTurns, PutsAndUsesHaveTheirsHoweverManyGetsCome) {
  hold();
  const TicketPtr gets = start(Kind::kGet, 30);
  const TicketPtr puts = start(Kind::kPut, 2);
  const TicketPtr use = start(Kind::kUse, 5);
  EXPECT_EQ(done({gets, puts, use}), "ggggggggPggggggggPggggggggUgggggg");
}

// A turn comes of gets that a put waited for.
TEST_F(TierQueueTurns, APutThatComesWaitsForGetsLikeAnyOther) {
  finish(start(Kind::kGet, 30));
  hold();
  const TicketPtr gets = start(Kind::kGet, 2);
  const TicketPtr put = start(Kind::kPut, 1);
  EXPECT_EQ(done({gets, put}), std::string(30, 'g') + "ggP");
}

TEST(TierQueue, AUseIsBehindThePutsBeforeItAndBeforeThoseBehindIt) {
  constexpr int kRounds = 300;
  std::atomic<int> begun{0}, ended{0}, uses{0};
  TierQueue queue(options(4, 10 * kRounds), [&](TierCall& call, size_t first, size_t count) {
    if (call.kind == Kind::kPut) {
      EXPECT_EQ(call.time, uses) << "a use is late or early";
      ++begun;
      std::this_thread::yield();
      ++ended;
      return;
    }
    EXPECT_EQ(first, 0u);
    EXPECT_EQ(count, 2u) << "one thread takes all of it";
    EXPECT_EQ(begun, 3 * (uses + 1));
    EXPECT_EQ(ended, 3 * (uses + 1));
    std::this_thread::yield();
    ++uses;
  });
  std::vector<TicketPtr> tickets;
  for (int i = 0; i < kRounds; ++i) {
    tickets.push_back(queue.start(Kind::kPut, keys(3), {}, blobs(3), i));
    tickets.push_back(queue.start(Kind::kUse, keys(2), {}, {}));
  }
  for (const TicketPtr& ticket : tickets) finish(ticket);
  EXPECT_EQ(uses, kRounds);
}

// It holds none of them.
TEST(TierQueue, AUseHasRoomBesideThePagesThatWait) {
  Gate gate;
  std::atomic<size_t> used{0};
  TierQueue queue(options(1, 2), [&](TierCall& call, size_t, size_t count) {
    gate.pass();
    if (call.kind == Kind::kUse) used += count;
  });
  const TicketPtr blocker = queue.start(Kind::kPut, keys(1), {}, blobs(1));
  gate.wait_for_arrivals(1);
  const TicketPtr put = queue.start(Kind::kPut, keys(2), {}, blobs(2));
  const TicketPtr use = queue.start(Kind::kUse, keys(2), {}, {});
  const TicketPtr beyond = queue.start(Kind::kUse, keys(1), {}, {});
  EXPECT_FALSE(use->done());
  EXPECT_TRUE(beyond->done()) << "as many as there may be pages";
  EXPECT_TRUE(queue.start(Kind::kPut, keys(1), {}, blobs(1))->done());
  gate.open();
  finish(put);
  finish(use);
  EXPECT_EQ(used, 2u);
}

// However long its path is.
TEST(TierQueue, AUseIsTakenWholeOrNotAtAll) {
  Gate gate;
  std::vector<size_t> used;
  TierQueue queue(options(1, 2), [&](TierCall& call, size_t first, size_t count) {
    gate.pass();
    EXPECT_EQ(first, 0u);
    if (call.kind == Kind::kUse) used.push_back(count);
  });
  const TicketPtr blocker = queue.start(Kind::kPut, keys(1), {}, blobs(1));
  gate.wait_for_arrivals(1);
  const TicketPtr one = queue.start(Kind::kUse, keys(1), {}, {});
  const TicketPtr all = queue.start(Kind::kUse, keys(7), {}, {});
  EXPECT_TRUE(queue.start(Kind::kUse, keys(1), {}, {})->done()) << "eight wait already";
  gate.open();
  finish(one);
  finish(all);
  EXPECT_EQ(used, (std::vector<size_t>{1, 7}));
}

TEST(TierQueue, CancelSkipsWhatHasNotBegun) {
  Gate gate;
  std::atomic<int> worked{0};
  TierQueue* self = nullptr;
  TierQueue queue(options(1), [&](TierCall& call, size_t first, size_t) {
    gate.pass();
    ++worked;
    self->complete(call, first, Outcome::kHit);
  });
  self = &queue;
  const TicketPtr ticket = queue.start(Kind::kGet, keys(5), buffers(5), {});
  gate.wait_for_arrivals(1);
  ticket->cancel();
  EXPECT_FALSE(ticket->done());  // one page is in work, and its buffer in use
  gate.open();
  finish(ticket);
  EXPECT_EQ(worked, 1);
  EXPECT_TRUE(ticket->hit(0));
  for (size_t i = 1; i < 5; ++i) EXPECT_FALSE(ticket->hit(i));
  EXPECT_EQ(queue.stats().cancelled, 4u);
}

TEST(TierQueue, GoingSettlesEverything) {
  Gate gate;
  TicketPtr working;
  TicketPtr waiting;
  {
    TierQueue queue(options(1), [&](TierCall&, size_t, size_t) { gate.pass(); });
    working = queue.start(Kind::kGet, keys(1), buffers(1), {});
    gate.wait_for_arrivals(1);
    waiting = queue.start(Kind::kPut, keys(7), {}, blobs(7));
    gate.open();
  }
  EXPECT_TRUE(working->done());
  EXPECT_TRUE(waiting->done());
}

TEST(TierQueue, AnExceptionIsAMiss) {
  TierQueue* self = nullptr;
  TierQueue queue(options(2), [&](TierCall& call, size_t first, size_t) {
    if (first == 1) throw std::bad_alloc();
    self->complete(call, first, Outcome::kHit);
    if (first == 2) throw std::runtime_error("after the page was completed");
  });
  self = &queue;
  const TicketPtr ticket = queue.start(Kind::kGet, keys(4), buffers(4), {});
  finish(ticket);
  EXPECT_TRUE(ticket->hit(0));
  EXPECT_FALSE(ticket->hit(1));
  EXPECT_TRUE(ticket->hit(2));
  EXPECT_TRUE(ticket->hit(3));
  EXPECT_EQ(queue.stats().misses, 1u);
}

// What has been worked on takes no room any more, in pages or in bytes.
TEST(TierQueue, RoomComesBack) {
  Gate gate;
  TierQueue queue(options(1, 6, 1000), [&](TierCall& call, size_t, size_t) {
    if (call.kind == Kind::kExists) gate.pass();
  });
  for (int round = 0; round < 5; ++round) {
    const TicketPtr puts = queue.start(Kind::kPut, keys(5), {}, blobs(5, 200));
    const TicketPtr gets = queue.start(Kind::kGet, keys(5), buffers(5, 200), {});
    finish(puts);
    finish(gets);
  }
  EXPECT_EQ(queue.stats().refused, 0u) << "each round fills both lines";
  const TicketPtr blocker = queue.start(Kind::kExists, keys(1), {}, {});
  gate.wait_for_arrivals(1);
  const TicketPtr puts = queue.start(Kind::kPut, keys(6), {}, blobs(6, 200));
  EXPECT_EQ(queue.stats().refused, 1u) << "and is bounded still";
  gate.open();
  finish(puts);
}

// Each page of a call for which there is none is a miss; the next call finds the queue as it was.
TEST(TierQueue, WithoutMemoryForACallItsPagesAreMisses) {
  TierQueue* self = nullptr;
  TierQueue queue(options(1), [&](TierCall& call, size_t first, size_t) {
    self->complete(call, first, call.kind == Kind::kGet ? Outcome::kHit : Outcome::kStored);
  });
  self = &queue;
  const std::vector<PageKey> k = keys(4);
  const std::vector<PageBuffer> read = buffers(4);
  const std::vector<PageBlob> written = blobs(4);
  constexpr uint64_t kRounds = 20;
  for (uint64_t allocations = 0; allocations < kRounds; ++allocations) {
    TicketPtr get, put, use;
    {
      const testing_support::Allowing few(static_cast<int64_t>(allocations));
      get = queue.start(Kind::kGet, k, read, {});
    }
    {
      const testing_support::Allowing few(static_cast<int64_t>(allocations));
      put = queue.start(Kind::kPut, k, {}, written);
    }
    {
      const testing_support::Allowing few(static_cast<int64_t>(allocations));
      use = queue.start(Kind::kUse, k, {}, {});
    }
    for (const TicketPtr& ticket : {get, put, use}) finish(ticket);
    const bool enough = allocations + 1 == kRounds;
    if (allocations == 0 || enough) {
      EXPECT_EQ(get->hit(3), enough);
      EXPECT_EQ(put->hit(3), enough);
    }
    const TierStats s = queue.stats();
    EXPECT_EQ(s.hits + s.misses, 4 * (allocations + 1));
    EXPECT_EQ(s.stored + s.not_stored, 4 * (allocations + 1));
    EXPECT_EQ(s.refused, s.misses + s.not_stored);
  }
}

TEST(TierQueue, LetsGoOfMemoryBeforeThePageIsDone) {
  TierQueue* self = nullptr;
  TierQueue queue(options(1), [&](TierCall& call, size_t first, size_t) {
    self->complete(call, first, call.kind == Kind::kGet ? Outcome::kHit : Outcome::kStored);
  });
  self = &queue;
  const std::vector<PageBuffer> read = buffers(3);
  const TicketPtr get = queue.start(Kind::kGet, keys(3), read, {});
  finish(get);
  for (const PageBuffer& buffer : read) EXPECT_EQ(buffer.data.use_count(), 1);
  const std::vector<PageBlob> written = blobs(3);
  const TicketPtr put = queue.start(Kind::kPut, keys(3), {}, written);
  finish(put);
  for (const PageBlob& blob : written) EXPECT_EQ(blob.data.use_count(), 1);
}

// Not a page before its time: who writes it reads that memory.
TEST(TierQueue, KeepsMemoryUntilThePageIsDone) {
  Gate gate;
  TierQueue queue(options(1), [&](TierCall& call, size_t first, size_t) {
    gate.pass();
    EXPECT_EQ(call.blobs[first].data.use_count(), 2);
  });
  const std::vector<PageBlob> written = blobs(3);
  const TicketPtr put = queue.start(Kind::kPut, keys(3), {}, written);
  gate.wait_for_arrivals(1);
  for (const PageBlob& blob : written) EXPECT_EQ(blob.data.use_count(), 2);
  gate.open();
  finish(put);
}

TEST(TierQueue, MissingBuffersAreNoMemoryError) {
  TierQueue queue(options(1), [&](TierCall& call, size_t first, size_t) {
    EXPECT_LT(first, call.buffers.size());
  });
  finish(queue.start(Kind::kGet, keys(4), buffers(1), {}));
  EXPECT_EQ(queue.stats().misses, 4u);
}

}  // namespace
}  // namespace prefix
