// The folder of a disk tier: all calls of the file system are here, and all their failures end
// here.
//
//   write()   tmp/NAME.tmp   create, lock, write, time, (sync)
//                 │ publish(): rename
//                 v
//   read()    3/f/KEY.page   open, size, read, compare header and checksum, time
//
// A page appears by rename, whole or not at all, and is never changed in place: any number of
// processes can share a folder without a word to each other. A writer holds a lock (flock) on its
// temporary file; the lock goes with the process, however that ends, so such a file that can be
// locked is a leftover. Nothing in the folder is removed but pages and leftovers.
//
// The folder must belong to this user or to root and no other user may write to it: pages
// decide what a model says. What is created here is for the user alone (0700, 0600).
//
// Nothing throws but for lack of memory. A call of the system that fails is counted and logged,
// each kind of failure once. Any thread may call anything at any time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/disk_format.h"
#include "cache/page_key.h"

namespace prefix {

enum class DiskSync {
  kNever,   // after a power failure recent pages may be missing or, found out when read, damaged
  kAlways,  // a page that put() reports as stored outlives a power failure
};

enum class DiskCall { kMakeFolder, kOpen, kLook, kRead, kWrite, kSync, kRename, kRemove, kList };

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  explicit operator bool() const { return value_ >= 0; }
  int operator*() const { return value_; }

 private:
  int value_;
};

class DiskFolder {
 public:
  // A failure for tests to see handled: called before each call of the system; an errno instead of
  // 0 makes that call fail with it.
  using Fault = std::function<int(DiskCall)>;

  struct Found {
    uint64_t bytes;  // of the file
    int64_t used;    // nanoseconds since 1970
  };
  enum class Read { kHit, kAbsent, kDamaged, kFailed };
  enum class Removed { kNow, kBefore, kFailed };

  // A page that is written and not visible yet; goes with the object unless published.
  class Unpublished {
   public:
    Unpublished(DiskFolder& folder, std::string name, Descriptor file)
        : folder_(&folder), name_(std::move(name)), file_(std::move(file)) {}
    ~Unpublished();
    Unpublished(Unpublished&& other) noexcept
        : folder_(std::exchange(other.folder_, nullptr)),
          name_(std::move(other.name_)),
          file_(std::move(other.file_)) {}
    Unpublished& operator=(Unpublished&&) = delete;

   private:
    friend class DiskFolder;
    DiskFolder* folder_;  // null when there is nothing to remove
    std::string name_;
    Descriptor file_;  // holds the lock
  };

  DiskFolder(std::string path, DiskSync sync, Fault fault);

  // False when the folder cannot be used at all; then everything is absent and fails.
  bool usable() const { return static_cast<bool>(root_); }
  // Why it cannot; empty when it can.
  const std::string& problem() const { return problem_; }
  uint64_t errors() const { return errors_.load(std::memory_order_relaxed); }

  std::optional<Found> probe(const PageKey& key);
  // Fills `page`, which may hold anything unless it is a hit, and notes the use.
  Read read(const PageKey& key, std::span<std::byte> page, int64_t now);
  void touch(const PageKey& key, int64_t now);
  std::optional<Unpublished> write(const PageKey& key, std::span<const std::byte> page,
                                   int64_t now);
  bool publish(Unpublished& page, const PageKey& key);
  Removed remove(const PageKey& key);

  // Calls each(key, found) for the pages of one of the kDiskFolders folders. False when it could
  // not be read to its end.
  using Each = std::function<void(const PageKey&, const Found&)>;
  bool list(int folder, const Each& each);
  // Removes temporary files whose writer is gone.
  void remove_leftovers();
  // Logs what failed since the last call: a callback of the host runs, so no lock may be held.
  void tell_failures();

 private:
  bool faulty(DiskCall call);  // sets errno
  void failed(DiskCall call);  // for errno
  void complain(const std::string& text);
  Descriptor unusable(const std::string& why);
  Descriptor unusable(DiskCall call);  // for errno
  Descriptor open_root();
  Descriptor open_at(const char* name, int flags);
  bool make_folder(const char* name);
  Descriptor create_temporary(std::string* name);
  bool write_all(int file, const DiskHeader& header, std::span<const std::byte> page);

  std::string path_;
  std::string problem_;
  DiskSync sync_;
  Fault fault_;
  uint64_t random_;  // keeps the names of processes apart
  std::atomic<uint64_t> serial_{0};
  std::atomic<uint64_t> errors_{0};
  std::mutex log_mutex_;
  std::set<std::pair<DiskCall, int>> logged_;
  std::vector<std::pair<DiskCall, int>> untold_;  // of these
  Descriptor root_;
};

}  // namespace prefix
