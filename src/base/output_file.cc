#include "base/output_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "base/error_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_io(std::string_view what, const std::string& path, int error) {
  fail(Code::kIo, what, " ", quote_path(path), ": ", error_text(error));
}

[[noreturn]] void fail_there(const std::string& path) {
  fail(Code::kInvalidArgument, "there is something at ", quote_path(path),
       " already; it is not overwritten");
}

// False with errno when it is there, or cannot be made.
bool make_new(const std::string& path, NewPath::Kind kind) {
  if (kind == NewPath::Kind::kFolder) return mkdir(path.c_str(), 0777) == 0;
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor >= 0) close(descriptor);
  return descriptor >= 0;
}

// Of a file or folder.
void sync_path(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_io("cannot open", path, errno);
  const bool synced = fsync(descriptor) == 0;
  const int error = errno;
  close(descriptor);
  if (!synced && error != EINVAL) fail_io("cannot write", path, error);
}

}  // namespace

size_t bytes_below_file_limit(const std::string& path, int64_t offset) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  const rlim_t at = static_cast<rlim_t>(offset);
  if (limit.rlim_cur <= at) fail_io("cannot write", path, EFBIG);
  return static_cast<size_t>(limit.rlim_cur - at);
}

OutputFile::OutputFile(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail_io("cannot write", path_, errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void OutputFile::write(uint64_t at, const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto offset = static_cast<int64_t>(at);
    const ssize_t n =
        pwrite(descriptor_, from, std::min(bytes, bytes_below_file_limit(path_, offset)), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io("cannot write", path_, errno);
    from += n;
    at += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
}

void OutputFile::finish() {
  if (fsync(descriptor_) != 0) fail_io("cannot write", path_, errno);
}

NewPath::NewPath(const std::string& path, Kind kind) : path_(path) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  if (path_.empty() || path_.find('\0') != std::string::npos)
    fail(Code::kInvalidArgument, "the path ", quote_path(path), " is not that of a file");
  std::error_code error;
  if (fs::exists(fs::symlink_status(path_, error))) fail_there(path_);
  for (int attempt = 0;; ++attempt) {
    part_ = cat(path_, ".part-", getpid(), "-", attempt);
    if (make_new(part_, kind)) return;
    if (errno != EEXIST || attempt == 1000) fail_io("cannot write", part_, errno);
  }
}

NewPath::~NewPath() {
  std::error_code error;
  if (!finished_) fs::remove_all(part_, error);
}

void NewPath::finish() {
  sync_path(part_);
  if (renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) fail_there(path_);
    // A file system that does not know the flag. A folder only takes the place of an empty one.
    if (errno != EINVAL && errno != ENOSYS) fail_io("cannot rename to", path_, errno);
    std::error_code error;
    if (fs::exists(fs::symlink_status(path_, error))) fail_there(path_);
    if (rename(part_.c_str(), path_.c_str()) != 0) fail_io("cannot rename to", path_, errno);
  }
  finished_ = true;
  const size_t slash = path_.rfind('/');
  sync_path(slash == std::string::npos ? "." : path_.substr(0, slash + 1));
}

}  // namespace prefix
