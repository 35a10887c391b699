// Stands between the library and the system in the programs that link it: a test sees the calls
// that make a file and let it last, can have one of them fail, and can end the process in the
// middle of any of them. It takes the place of the C library's functions, which costs the others
// nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace prefix::testing_support {

enum class SystemCall { kWrite, kSync, kRename, kRemove };

// Watches the calls of all threads of the process for as long as it lives; one at a time.
class SystemCalls {
 public:
  struct Call {
    SystemCall kind;
    bool of_folder;  // a sync: of a folder, not of a file
    bool operator==(const Call&) const = default;
  };

  SystemCalls();
  ~SystemCalls();
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  std::vector<Call> seen();
  // From now on calls of this kind fail with this errno.
  void fail(SystemCall kind, int error);
  // A write does no more at once, as is its right.
  void write_at_most(size_t bytes);
  // As on some file systems of networks.
  void no_locks() { locks_ = false; }
  bool locks() const { return locks_; }
  // Called before each read of so many bytes at a place in a file (pread), on the thread that reads.
  using Read = std::function<void(size_t bytes)>;
  void before_reads(Read read) { read_ = std::move(read); }
  const Read& before_reads() const { return read_; }
  // SIGKILL instead of call number n from now, n > 0; a write is half done then.
  void kill_at(int n);

  // For the functions that are watched. Returns an errno, 0: go on.
  int before(SystemCall kind, int descriptor, bool* killed);
  size_t max_bytes();

 private:
  std::mutex mutex_;
  std::vector<Call> seen_;
  SystemCall failing_ = SystemCall::kWrite;
  int error_ = 0;
  size_t max_bytes_ = SIZE_MAX;
  std::atomic<bool> locks_{true};
  Read read_;
  int left_ = 0;  // calls until the end; 0: it does not come
};

}  // namespace prefix::testing_support
