// Pages in a folder of the local disk: the cache of the next process, and of others beside this
// one.
//
//   get:  read the file, verify ─────────────────────> under the lock: note the use
//   put:  under the lock: make room, reserve the bytes
//         write the temporary file ───────────────────> under the lock: rename, note the page
//
//   cap ≥  [ pages in the index ][ reserved: being written ]
//
// Whatever changes the folder's pages does so under the lock, in the same breath as the index, so
// that the two agree as far as this process goes. Other processes add and remove pages too: a page
// that is not in the index is looked for in the folder and adopted, one that has gone is no error,
// and the folder is compared with the index at the start and whenever an eighth of the cap has been
// written since. So a folder that n processes share may be above the cap by n eighths of it.
//
// What goes first when room is needed: the page that was used longest ago, by any process. The last
// use is the file's time of modification. Of the pages of one call the first one counts as used at
// the time of the call and each further one a nanosecond before, so that a path goes from its end:
//
//   call at T     page 0  page 1  page 2 ...        page 1 without page 0 is worth nothing
//   last use      T       T - 1   T - 2
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "cache/disk_folder.h"
#include "cache/disk_index.h"
#include "cache/tier.h"
#include "cache/tier_queue.h"

namespace prefix {

struct DiskTierOptions {
  std::string folder;  // is created, but not what is above it
  // Sizes of files, headers included. What a file system rounds up, or takes for its folders (256
  // at most), comes on top.
  uint64_t cap_bytes = 10ull << 30;
  DiskSync sync = DiskSync::kNever;
  // After a failed write nothing is written for this long: a disk that is full stays so for a
  // while.
  std::chrono::nanoseconds pause = std::chrono::seconds(1);
  TierQueueOptions queue;
  DiskFolder::Fault fault;  // for tests
};

class DiskTier final : public Tier {
 public:
  // Lists the folder before it returns: some 5 microseconds for each page when the system has the
  // folder in memory. Of a folder that cannot be used (problem()) every page is a miss; throws only
  // when there is no memory.
  explicit DiskTier(DiskTierOptions options);
  // A use that is under way is cut short: it may be of a path of any length.
  ~DiskTier() override { stop_ = true; }

  TicketPtr exists(std::span<const PageKey> keys) noexcept override;
  TicketPtr get(std::span<const PageKey> keys,
                std::span<const PageBuffer> buffers) noexcept override;
  TicketPtr put(std::span<const PageKey> keys, std::span<const PageBlob> blobs) noexcept override;
  TierStats stats() const noexcept override;
  TicketPtr use(std::span<const PageKey> keys) noexcept override;
  // Why the folder cannot be used; empty when it can.
  const std::string& problem() const { return folder_.problem(); }

 private:
  using Outcome = TierQueue::Outcome;

  Outcome work_on(TierCall& call, size_t i);
  Outcome exists_one(const PageKey& key);
  Outcome get_one(const PageKey& key, const PageBuffer& buffer, int64_t time);
  Outcome put_one(const PageKey& key, const PageBlob& blob, int64_t time);
  Outcome use_one(const PageKey& key, int64_t time);
  // The present, for so many uses that end there: later than those of the call before, so that no
  // two are at the same time.
  int64_t now(size_t uses = 1);
  void compare_with_folder();
  // These want the lock.
  bool make_room(uint64_t bytes);
  bool evict_oldest();
  void remove_damaged(const PageKey& key);
  bool keep(const PageKey& key, uint64_t bytes, int64_t time);
  void publish_totals();

  DiskTierOptions options_;
  DiskFolder folder_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> last_time_{0};
  std::atomic<int64_t> writable_again_{0};  // steady clock

  std::mutex mutex_;  // of all up to the totals, and of what changes the pages of the folder
  DiskIndex index_;
  uint64_t reserved_ = 0;  // bytes of pages being written
  uint64_t written_since_comparison_ = 0;
  bool comparing_ = false;

  // For stats(), which must not wait for a disk.
  std::atomic<uint64_t> pages_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> evicted_{0};
  std::atomic<uint64_t> damaged_{0};

  TierQueue queue_;  // the last member: its threads use the others
};

}  // namespace prefix
