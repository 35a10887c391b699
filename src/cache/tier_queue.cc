#include "cache/tier_queue.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/signals.h"
#include "base/status.h"

namespace prefix {
namespace {

uint64_t page_bytes(const TierCall& call, size_t page) {
  switch (call.kind) {
    case TierCall::Kind::kGet:
      return call.buffers[page].size;
    case TierCall::Kind::kPut:
      return call.blobs[page].size;
    case TierCall::Kind::kExists:
    case TierCall::Kind::kUse:
      break;
  }
  return 0;
}

}  // namespace

TierQueue::TierQueue(TierQueueOptions options, Work work)
    : options_(std::move(options)), work_(std::move(work)), refused_(std::make_shared<Ticket>(0)) {
  options_.run = std::max<size_t>(options_.run, 1);
  try {
    const SignalsBlocked blocked;
    for (int i = 0; i < std::max(options_.threads, 1); ++i)
      threads_.emplace_back([this] { serve(); });
  } catch (const std::exception& e) {
    log_message(LogLevel::kWarning,
                cat("cache tier: got ", threads_.size(), " of ", options_.threads,
                    " threads: ", e.what(), threads_.empty() ? "; every page is a miss" : ""));
  }
}

TierQueue::~TierQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;  // from here on no thread takes from the queues, and nothing comes into them
  }
  wake_.notify_all();
  for (const Queue* queue : {&gets_, &puts_})
    for (const Waiting& waiting : queue->calls)
      abort(*waiting.call, waiting.next, waiting.end, &TierStats::cancelled);
  for (std::thread& thread : threads_) thread.join();
}

TicketPtr TierQueue::start(TierCall::Kind kind, std::span<const PageKey> keys,
                           std::span<const PageBuffer> buffers, std::span<const PageBlob> blobs,
                           int64_t time) noexcept {
  std::shared_ptr<TierCall> call;
  try {
    call = std::make_shared<TierCall>(kind, keys.size());
    call->keys.assign(keys.begin(), keys.end());
    call->buffers.assign(buffers.begin(), buffers.end());
    call->blobs.assign(blobs.begin(), blobs.end());
    // A page without a buffer, by a mistake of the caller, is a page without an address.
    call->buffers.resize(kind == TierCall::Kind::kGet ? keys.size() : 0);
    call->blobs.resize(kind == TierCall::Kind::kPut ? keys.size() : 0);
    call->time = time;
  } catch (...) {
    if (kind == TierCall::Kind::kUse) return refused_;
    count([&](TierStats& s) {
      s.refused += keys.size();
      if (kind == TierCall::Kind::kGet) s.misses += keys.size();
      if (kind == TierCall::Kind::kPut) s.not_stored += keys.size();
    });
    return refused_;
  }
  const bool asks = kind == TierCall::Kind::kExists || kind == TierCall::Kind::kGet;
  size_t accepted = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!stop_ && !threads_.empty()) accepted = accept(asks ? gets_ : puts_, call);
  }
  if (accepted == 1) {
    wake_.notify_one();
  } else if (accepted > 1) {
    wake_.notify_all();
  }
  abort(*call, accepted, keys.size(), &TierStats::refused);
  return TicketPtr(call, &call->ticket);
}

size_t TierQueue::accept(Queue& queue, const std::shared_ptr<TierCall>& call) {
  // A use holds no page: it has room of its own, however many pages wait to be written. It is taken
  // whole, or the pages behind a cut would go before those of paths that nobody uses.
  const bool use = call->kind == TierCall::Kind::kUse;
  size_t& waiting = use ? queue.used : queue.pages;
  size_t pages = use && waiting < options_.pages ? call->keys.size() : 0;
  uint64_t bytes = 0;
  for (; !use && pages < call->keys.size() && waiting + pages < options_.pages; ++pages) {
    const uint64_t more = page_bytes(*call, pages);
    const bool first = waiting + pages == 0;
    if (!first && queue.bytes + bytes + more > options_.bytes) break;
    bytes += more;
  }
  if (pages == 0) return 0;
  try {
    queue.calls.push_back({call, 0, pages});
  } catch (...) {
    return 0;
  }
  waiting += pages;
  queue.bytes += bytes;
  return pages;
}

void TierQueue::serve() {
  while (const std::optional<Waiting> piece = next_piece()) {
    work_on(*piece);
    settled(piece->call->kind);
  }
}

std::optional<TierQueue::Waiting> TierQueue::next_piece() {
  std::unique_lock lock(mutex_);
  Queue* queue = nullptr;
  wake_.wait(lock, [&] { return stop_ || (queue = next_queue()) != nullptr; });
  if (stop_) return {};
  return take_from(*queue);
}

TierQueue::Queue* TierQueue::next_queue() {
  const bool put = put_may_go();
  if (gets_.calls.empty()) return put ? &puts_ : nullptr;
  return put && gets_in_a_row_ >= kGetsInARow ? &puts_ : &gets_;
}

bool TierQueue::put_may_go() const {
  if (puts_.calls.empty() || using_) return false;
  return puts_.calls.front().call->kind != TierCall::Kind::kUse || writing_ == 0;
}

TierQueue::Waiting TierQueue::take_from(Queue& queue) {
  gets_in_a_row_ = &queue == &gets_ && put_may_go() ? gets_in_a_row_ + 1 : 0;
  Waiting& front = queue.calls.front();
  const TierCall& call = *front.call;
  const bool use = call.kind == TierCall::Kind::kUse;
  const size_t run = use ? front.end : options_.run;
  Waiting piece{front.call, front.next, std::min(front.end, front.next + run)};
  if (use) using_ = true;
  if (call.kind == TierCall::Kind::kPut) ++writing_;
  (use ? queue.used : queue.pages) -= piece.end - piece.next;
  for (size_t i = piece.next; i < piece.end; ++i) queue.bytes -= page_bytes(call, i);
  front.next = piece.end;
  if (front.next == front.end) queue.calls.pop_front();
  return piece;
}

// What waits for it may go now.
void TierQueue::settled(TierCall::Kind kind) {
  if (kind != TierCall::Kind::kPut && kind != TierCall::Kind::kUse) return;
  {
    const std::lock_guard lock(mutex_);
    if (kind == TierCall::Kind::kPut) --writing_;
    if (kind == TierCall::Kind::kUse) using_ = false;
  }
  wake_.notify_all();
}

void TierQueue::work_on(const Waiting& piece) {
  TierCall& call = *piece.call;
  if (call.ticket.cancelled()) {
    abort(call, piece.next, piece.end, &TierStats::cancelled);
    return;
  }
  try {
    work_(call, piece.next, piece.end - piece.next);
  } catch (...) {
    count([](TierStats& s) { ++s.errors; });  // no memory, most likely
  }
  const Outcome nothing = call.kind == TierCall::Kind::kPut ? Outcome::kNotStored : Outcome::kMiss;
  for (size_t i = piece.next; i < piece.end; ++i)
    if (!call.ticket.completed(i)) complete(call, i, nothing);
}

void TierQueue::abort(TierCall& call, size_t first, size_t end, uint64_t TierStats::* reason) {
  if (first == end) return;
  if (call.kind != TierCall::Kind::kUse) count([&](TierStats& s) { s.*reason += end - first; });
  const Outcome nothing = call.kind == TierCall::Kind::kPut ? Outcome::kNotStored : Outcome::kMiss;
  for (size_t i = first; i < end; ++i) complete(call, i, nothing);
}

void TierQueue::complete(TierCall& call, size_t page, Outcome outcome) {
  count([&](TierStats& s) {
    switch (call.kind) {
      case TierCall::Kind::kExists:
      case TierCall::Kind::kUse:
        break;
      case TierCall::Kind::kGet:
        ++(outcome == Outcome::kHit ? s.hits : s.misses);
        if (outcome == Outcome::kHit) s.bytes_read += call.buffers[page].size;
        break;
      case TierCall::Kind::kPut:
        ++(outcome == Outcome::kStored ? s.stored
           : outcome == Outcome::kKept ? s.kept
                                       : s.not_stored);
        if (outcome == Outcome::kStored) s.bytes_written += call.blobs[page].size;
        break;
    }
  });
  // Before the ticket says so: a caller that sees it done may count on free memory.
  if (call.kind == TierCall::Kind::kGet) call.buffers[page].data.reset();
  if (call.kind == TierCall::Kind::kPut) call.blobs[page].data.reset();
  const bool hit = outcome != Outcome::kMiss && outcome != Outcome::kNotStored;
  if (call.ticket.complete(page, hit) && options_.on_done) options_.on_done();
}

}  // namespace prefix
