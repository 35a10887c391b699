#include "cache/disk_tier.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace prefix {
namespace {

// Runs an action when the scope ends, by an exception too.
template <typename Action>
class AtEnd {
 public:
  explicit AtEnd(Action action) : action_(std::move(action)) {}
  ~AtEnd() { action_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  Action action_;
};

}  // namespace

DiskTier::DiskTier(DiskTierOptions options)
    : options_(std::move(options)),
      folder_(options_.folder, options_.sync, options_.fault),
      queue_(options_.queue, [this](TierCall& call, size_t first, size_t count) {
        const bool use = call.kind == TierCall::Kind::kUse;
        for (size_t i = first; i < first + count && !(use && stop_); ++i)
          queue_.complete(call, i, work_on(call, i));
      }) {
  folder_.remove_leftovers();
  compare_with_folder();
  folder_.tell_failures();
}

DiskTier::Outcome DiskTier::work_on(TierCall& call, size_t i) {
  const AtEnd failures([this] { folder_.tell_failures(); });
  const PageKey& key = call.keys[i];
  const int64_t time = call.time - static_cast<int64_t>(i);
  switch (call.kind) {
    case TierCall::Kind::kGet:
      return get_one(key, call.buffers[i], time);
    case TierCall::Kind::kPut:
      return put_one(key, call.blobs[i], time);
    case TierCall::Kind::kUse:
      return use_one(key, time);
    case TierCall::Kind::kExists:
      break;
  }
  return exists_one(key);
}

TicketPtr DiskTier::exists(std::span<const PageKey> keys) noexcept {
  return queue_.start(TierCall::Kind::kExists, keys, {}, {});
}

TicketPtr DiskTier::get(std::span<const PageKey> keys,
                        std::span<const PageBuffer> buffers) noexcept {
  return queue_.start(TierCall::Kind::kGet, keys, buffers, {}, now(keys.size()));
}

TicketPtr DiskTier::put(std::span<const PageKey> keys, std::span<const PageBlob> blobs) noexcept {
  return queue_.start(TierCall::Kind::kPut, keys, {}, blobs, now(keys.size()));
}

TicketPtr DiskTier::use(std::span<const PageKey> keys) noexcept {
  return queue_.start(TierCall::Kind::kUse, keys, {}, {}, now(keys.size()));
}

TierStats DiskTier::stats() const noexcept {
  TierStats stats = queue_.stats();
  stats.errors += folder_.errors();
  stats.pages = pages_.load(std::memory_order_relaxed);
  stats.bytes = bytes_.load(std::memory_order_relaxed);
  stats.evicted = evicted_.load(std::memory_order_relaxed);
  stats.damaged = damaged_.load(std::memory_order_relaxed);
  return stats;
}

int64_t DiskTier::now(size_t uses) {
  const int64_t clock = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  int64_t last = last_time_.load(std::memory_order_relaxed);
  int64_t time;
  do {
    time = std::max(clock, last + static_cast<int64_t>(uses));
  } while (!last_time_.compare_exchange_weak(last, time, std::memory_order_relaxed));
  return time;
}

DiskTier::Outcome DiskTier::exists_one(const PageKey& key) {
  const std::optional<DiskFolder::Found> found = folder_.probe(key);
  return found && found->bytes >= kDiskHeader ? Outcome::kHit : Outcome::kMiss;
}

DiskTier::Outcome DiskTier::get_one(const PageKey& key, const PageBuffer& buffer, int64_t time) {
  if (!buffer.data) return Outcome::kMiss;
  const DiskFolder::Read read = folder_.read(key, {buffer.data.get(), buffer.size}, time);
  if (read == DiskFolder::Read::kFailed) return Outcome::kMiss;
  const std::lock_guard lock(mutex_);
  const AtEnd totals([this] { publish_totals(); });
  switch (read) {
    case DiskFolder::Read::kHit:
      // Of another process, or evicted since it was opened.
      if (index_.contains(key) || folder_.probe(key)) {
        index_.add(key, kDiskHeader + buffer.size, time);
        make_room(0);
      }
      return Outcome::kHit;
    case DiskFolder::Read::kAbsent:
      if (index_.contains(key) && !folder_.probe(key)) index_.remove(key);
      break;
    case DiskFolder::Read::kDamaged:
      remove_damaged(key);
      break;
    case DiskFolder::Read::kFailed:
      break;
  }
  return Outcome::kMiss;
}

DiskTier::Outcome DiskTier::put_one(const PageKey& key, const PageBlob& blob, int64_t time) {
  if (!blob.data || !folder_.usable()) return Outcome::kNotStored;
  const uint64_t bytes = kDiskHeader + blob.size;
  if (bytes > options_.cap_bytes) {
    queue_.count([](TierStats& s) { ++s.too_large; });
    return Outcome::kNotStored;
  }
  {
    const std::lock_guard lock(mutex_);
    const AtEnd totals([this] { publish_totals(); });
    if (keep(key, bytes, time)) return Outcome::kKept;
    if (now_ns() < writable_again_.load(std::memory_order_relaxed)) return Outcome::kNotStored;
    if (!make_room(bytes)) return Outcome::kNotStored;
    reserved_ += bytes;
  }
  bool compare = false;
  {
    std::unique_lock lock(mutex_, std::defer_lock);
    const AtEnd totals([&] {  // with the lock, whichever way this ends
      if (!lock.owns_lock()) lock.lock();
      reserved_ -= bytes;
      publish_totals();
    });
    std::optional<DiskFolder::Unpublished> page =
        folder_.write(key, {blob.data.get(), blob.size}, time);
    lock.lock();
    if (!page || !folder_.publish(*page, key)) {
      writable_again_.store(now_ns() + options_.pause.count(), std::memory_order_relaxed);
      return Outcome::kNotStored;
    }
    index_.add(key, bytes, time);
    written_since_comparison_ += bytes;
    if (written_since_comparison_ > options_.cap_bytes / 8 && !comparing_)
      compare = comparing_ = true;
  }
  if (compare) {
    const AtEnd done([this] {
      const std::lock_guard lock(mutex_);
      comparing_ = false;
    });
    compare_with_folder();
  }
  return Outcome::kStored;
}

DiskTier::Outcome DiskTier::use_one(const PageKey& key, int64_t time) {
  const std::lock_guard lock(mutex_);
  const AtEnd totals([this] { publish_totals(); });
  const std::optional<DiskFolder::Found> found = folder_.probe(key);
  return found && keep(key, found->bytes, time) ? Outcome::kHit : Outcome::kMiss;
}

// Folder by folder, so that other threads wait for the lock no longer than one listing takes.
void DiskTier::compare_with_folder() {
  {
    const std::lock_guard lock(mutex_);
    written_since_comparison_ = 0;
    index_.begin_comparison();
  }
  bool complete = true;
  for (int i = 0; i < kDiskFolders; ++i) {
    const std::lock_guard lock(mutex_);
    const int64_t present = now();
    const bool whole = folder_.list(i, [&](const PageKey& key, const DiskFolder::Found& found) {
      // A time in the future, of a clock that was wrong, must not keep a page for ever.
      if (found.used > present) folder_.touch(key, present);
      index_.add(key, found.bytes, std::min(found.used, present));
    });
    complete = complete && whole;
  }
  const std::lock_guard lock(mutex_);
  if (complete) index_.end_comparison();
  make_room(0);
  publish_totals();
}

// Pages that cannot be removed are left for later, a few at a time: those of a folder whose
// permission was taken must not keep all others.
bool DiskTier::make_room(uint64_t bytes) {
  constexpr int kMaxFailures = 16;
  for (int failures = 0; index_.bytes() + reserved_ + bytes > options_.cap_bytes;)
    if (index_.pages() == 0 || (!evict_oldest() && ++failures == kMaxFailures)) return false;
  return true;
}

// False when the file cannot be removed: its turn comes again when all others have had theirs.
bool DiskTier::evict_oldest() {
  const PageKey key = index_.oldest();
  const std::optional<DiskFolder::Found> found = folder_.probe(key);
  if (found && found->used > index_.last_use(key) && found->used <= now()) {
    index_.add(key, found->bytes, found->used);  // another process used it: not the oldest
    return true;
  }
  const DiskFolder::Removed removed = folder_.remove(key);
  if (removed == DiskFolder::Removed::kFailed) {
    index_.add(key, index_.bytes_of(key), now());
    return false;
  }
  if (removed == DiskFolder::Removed::kNow) evicted_.fetch_add(1, std::memory_order_relaxed);
  index_.remove(key);
  return true;
}

void DiskTier::remove_damaged(const PageKey& key) {
  damaged_.fetch_add(1, std::memory_order_relaxed);
  if (folder_.remove(key) != DiskFolder::Removed::kFailed) index_.remove(key);
}

// True when the page is there already, which makes it a page that was just used. What waited in the
// queue may be late: a use since stays the last one.
// A time in the future, of a clock that was wrong, does not.
bool DiskTier::keep(const PageKey& key, uint64_t bytes, int64_t time) {
  const std::optional<DiskFolder::Found> found = folder_.probe(key);
  if (found && found->bytes == bytes) {
    if (found->used < time || found->used > now()) folder_.touch(key, time);
    index_.add(key, bytes, time);
    make_room(0);
    return true;
  }
  if (found) {
    remove_damaged(key);
  } else {
    index_.remove(key);
  }
  return false;
}

void DiskTier::publish_totals() {
  pages_.store(index_.pages(), std::memory_order_relaxed);
  bytes_.store(index_.bytes(), std::memory_order_relaxed);
}

}  // namespace prefix
