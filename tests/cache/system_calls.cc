#include "system_calls.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace prefix::testing_support {
namespace {

std::atomic<SystemCalls*> current{nullptr};

[[noreturn]] void end_process() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// False: the call fails, errno says how.
bool allowed(SystemCall kind, int descriptor, bool* killed) {
  SystemCalls* const calls = current.load();
  const int error = calls ? calls->before(kind, descriptor, killed) : 0;
  if (error != 0) errno = error;
  return error == 0;
}

size_t max_bytes() {
  SystemCalls* const calls = current.load();
  return calls ? calls->max_bytes() : SIZE_MAX;
}

bool can_lock() {
  SystemCalls* const calls = current.load();
  return !calls || calls->locks();
}

void before_read(size_t bytes) {
  SystemCalls* const calls = current.load();
  if (calls && calls->before_reads()) calls->before_reads()(bytes);
}

// The same for calls that are done or not.
bool allowed(SystemCall kind, int descriptor) {
  bool killed = false;
  const bool go_on = allowed(kind, descriptor, &killed);
  if (killed) end_process();
  return go_on;
}

}  // namespace

SystemCalls::SystemCalls() { current = this; }
SystemCalls::~SystemCalls() { current = nullptr; }

std::vector<SystemCalls::Call> SystemCalls::seen() {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void SystemCalls::fail(SystemCall kind, int error) {
  const std::lock_guard lock(mutex_);
  failing_ = kind;
  error_ = error;
}

void SystemCalls::write_at_most(size_t bytes) {
  const std::lock_guard lock(mutex_);
  max_bytes_ = bytes;
}

size_t SystemCalls::max_bytes() {
  const std::lock_guard lock(mutex_);
  return max_bytes_;
}

void SystemCalls::kill_at(int n) {
  const std::lock_guard lock(mutex_);
  left_ = n;
}

int SystemCalls::before(SystemCall kind, int descriptor, bool* killed) {
  const std::lock_guard lock(mutex_);
  struct stat info{};
  const bool of_folder =
      kind == SystemCall::kSync && fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode);
  seen_.push_back({kind, of_folder});
  *killed = left_ > 0 && --left_ == 0;
  return kind == failing_ ? error_ : 0;
}

}  // namespace prefix::testing_support

using prefix::testing_support::allowed;
using prefix::testing_support::before_read;
using prefix::testing_support::can_lock;
using prefix::testing_support::end_process;
using prefix::testing_support::max_bytes;
using prefix::testing_support::SystemCall;

// Seen by the library where it is a shared one.
#pragma GCC visibility push(default)
extern "C" {

ssize_t write(int file, const void* data, size_t bytes) {
  bool killed = false;
  if (!allowed(SystemCall::kWrite, file, &killed)) return -1;
  if (killed) {
    syscall(SYS_write, file, data, bytes / 2);
    end_process();
  }
  return syscall(SYS_write, file, data, std::min(bytes, max_bytes()));
}

ssize_t writev(int file, const iovec* parts, int count) {
  bool killed = false;
  if (!allowed(SystemCall::kWrite, file, &killed)) return -1;
  if (killed) {
    for (int i = 0; i < count; ++i)  // whole parts, but for the last
      syscall(SYS_write, file, parts[i].iov_base,
              i + 1 < count ? parts[i].iov_len : parts[i].iov_len / 2);
    end_process();
  }
  for (int i = 0; i < count && max_bytes() < SIZE_MAX; ++i)
    if (parts[i].iov_len > 0)
      return syscall(SYS_write, file, parts[i].iov_base, std::min(parts[i].iov_len, max_bytes()));
  return syscall(SYS_writev, file, parts, count);
}

ssize_t pread(int file, void* data, size_t bytes, off_t at) {
  before_read(bytes);
  return syscall(SYS_pread64, file, data, bytes, at);
}

int fsync(int file) {
  return allowed(SystemCall::kSync, file) ? static_cast<int>(syscall(SYS_fsync, file)) : -1;
}

int fdatasync(int file) {
  return allowed(SystemCall::kSync, file) ? static_cast<int>(syscall(SYS_fdatasync, file)) : -1;
}

int flock(int file, int operation) noexcept {
  if (can_lock()) return static_cast<int>(syscall(SYS_flock, file, operation));
  errno = ENOLCK;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  if (!allowed(SystemCall::kRename, -1)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (!allowed(SystemCall::kRename, -1)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}

int unlink(const char* path) noexcept {
  if (!allowed(SystemCall::kRemove, -1)) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (!allowed(SystemCall::kRemove, -1)) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}

}  // extern "C"
#pragma GCC visibility pop
