#include "cache/disk_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <memory>
#include <random>
#include <string_view>

#include "base/error_text.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr int64_t kSecond = 1000000000;
// Where files cannot be locked, age has to say what is a leftover.
constexpr int64_t kLeftoverAge = 3600 * kSecond;

int64_t nanoseconds(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * kSecond + time.tv_nsec;
}

// For futimens: the time of reading stays, that of writing becomes `now`.
struct Times {
  explicit Times(int64_t now)
      : values{{0, UTIME_OMIT},
               {static_cast<time_t>(now / kSecond), static_cast<long>(now % kSecond)}} {}
  timespec values[2];
};

const char* name_of(DiskCall call) {
  switch (call) {
    case DiskCall::kMakeFolder:
      return "create a folder";
    case DiskCall::kOpen:
      return "open a file";
    case DiskCall::kLook:
      return "look at a file";
    case DiskCall::kRead:
      return "read a page";
    case DiskCall::kWrite:
      return "write a page";
    case DiskCall::kSync:
      return "sync a page";
    case DiskCall::kRename:
      return "rename a page";
    case DiskCall::kRemove:
      return "remove a file";
    case DiskCall::kList:
      return "list a folder";
  }
  return "work";
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) close(value_);
}

DiskFolder::Unpublished::~Unpublished() {
  if (folder_ && unlinkat(*folder_->root_, name_.c_str(), 0) != 0 && errno != ENOENT)
    folder_->failed(DiskCall::kRemove);
}

DiskFolder::DiskFolder(std::string path, DiskSync sync, Fault fault)
    : path_(std::move(path)), sync_(sync), fault_(std::move(fault)) {
  std::random_device random;
  random_ = static_cast<uint64_t>(random()) << 32 | random();
  root_ = open_root();
  if (root_) make_folder(kDiskTemporary);
}

bool DiskFolder::faulty(DiskCall call) {
  const int error = fault_ ? fault_(call) : 0;
  if (error != 0) errno = error;
  return error != 0;
}

void DiskFolder::complain(const std::string& text) {
  log_message(LogLevel::kWarning, cat("cache folder ", quote(path_, 1024), ": ", text));
}

void DiskFolder::failed(DiskCall call) {
  const int error = errno;
  errors_.fetch_add(1, std::memory_order_relaxed);
  try {
    const std::lock_guard lock(log_mutex_);
    if (logged_.emplace(call, error).second) untold_.emplace_back(call, error);
  } catch (const std::bad_alloc&) {
  }
}

void DiskFolder::tell_failures() {
  std::vector<std::pair<DiskCall, int>> failures;
  {
    const std::lock_guard lock(log_mutex_);
    failures.swap(untold_);
  }
  try {
    for (const auto& [call, error] : failures)
      complain(cat("cannot ", name_of(call), ": ", error_text(error),
                   "; pages are computed instead (said once)"));
  } catch (const std::bad_alloc&) {
  }
}

// Everything below is reached from this descriptor: renaming the folder does no harm, and a
// link in its place has no effect.
Descriptor DiskFolder::open_root() {
  if (path_.empty() || path_.find('\0') != std::string::npos) return unusable("is not a path");
  if (faulty(DiskCall::kMakeFolder) || (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST))
    return unusable(DiskCall::kMakeFolder);
  Descriptor root(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!root || fstat(*root, &info) != 0) return unusable(DiskCall::kOpen);
  if (info.st_uid != geteuid() && info.st_uid != 0)
    return unusable(cat("belongs to user ", info.st_uid, ", not to this one (", geteuid(), ")"));
  if ((info.st_mode & 022) != 0)
    return unusable(
        "others may write to it; name a folder inside that does not exist yet, or take the "
        "permission away");
  return root;
}

Descriptor DiskFolder::unusable(const std::string& why) {
  problem_ = why;
  return Descriptor();
}

Descriptor DiskFolder::unusable(DiskCall call) {
  errors_.fetch_add(1, std::memory_order_relaxed);
  return unusable(cat("cannot ", name_of(call), ": ", error_text(errno)));
}

bool DiskFolder::make_folder(const char* name) {
  if (!faulty(DiskCall::kMakeFolder) && (mkdirat(*root_, name, 0700) == 0 || errno == EEXIST))
    return true;
  failed(DiskCall::kMakeFolder);
  return false;
}

Descriptor DiskFolder::open_at(const char* name, int flags) {
  if (faulty(DiskCall::kOpen)) return Descriptor();
  // O_NONBLOCK: a named pipe must not make a thread wait for a writer.
  return Descriptor(openat(*root_, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
}

std::optional<DiskFolder::Found> DiskFolder::probe(const PageKey& key) {
  if (!root_) return {};
  struct stat info;
  const std::string name = disk_page_name(key);
  if (faulty(DiskCall::kLook) || fstatat(*root_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) failed(DiskCall::kLook);
    return {};
  }
  if (!S_ISREG(info.st_mode)) return {};
  return Found{static_cast<uint64_t>(info.st_size), nanoseconds(info.st_mtim)};
}

DiskFolder::Read DiskFolder::read(const PageKey& key, std::span<std::byte> page, int64_t now) {
  if (!root_) return Read::kAbsent;
  const std::string name = disk_page_name(key);
  const Descriptor file = open_at(name.c_str(), O_RDONLY);
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return Read::kAbsent;
    // A link, or a file that its owner may not read: not ours.
    if (errno == ELOOP || errno == EACCES) return Read::kDamaged;
    failed(DiskCall::kOpen);
    return Read::kFailed;
  }
  struct stat info;
  if (faulty(DiskCall::kLook) || fstat(*file, &info) != 0) {
    failed(DiskCall::kLook);
    return Read::kFailed;
  }
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) != kDiskHeader + page.size())
    return Read::kDamaged;

  DiskHeader header;
  size_t done = 0;
  while (done < kDiskHeader + page.size()) {
    iovec parts[2];
    int count = 0;
    if (done < kDiskHeader) parts[count++] = {header.data() + done, kDiskHeader - done};
    const size_t into = done < kDiskHeader ? 0 : done - kDiskHeader;
    parts[count++] = {page.data() + into, page.size() - into};
    const ssize_t n =
        faulty(DiskCall::kRead) ? -1 : preadv(*file, parts, count, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      failed(DiskCall::kRead);
      return Read::kFailed;
    }
    if (n == 0) return Read::kDamaged;  // cut short since fstat
    done += static_cast<size_t>(n);
  }
  if (header != disk_header(key, page)) return Read::kDamaged;
  // Fails in a folder that is only read, where recency is of no use either.
  (void)futimens(*file, Times(now).values);
  return Read::kHit;
}

void DiskFolder::touch(const PageKey& key, int64_t now) {
  if (root_)
    (void)utimensat(*root_, disk_page_name(key).c_str(), Times(now).values, AT_SYMLINK_NOFOLLOW);
}

// A new file with a lock on it. Between its creation and its lock another process may take it for a
// leftover; it is then without a name, and the next one is tried.
Descriptor DiskFolder::create_temporary(std::string* name) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    *name = cat(kDiskTemporary, "/",
                disk_temporary_name(random_, serial_.fetch_add(1, std::memory_order_relaxed)));
    Descriptor file = open_at(name->c_str(), O_WRONLY | O_CREAT | O_EXCL);
    if (!file) {
      if (errno == EEXIST) continue;
      if (errno == ENOENT && attempt == 0 && make_folder(kDiskTemporary)) continue;
      failed(DiskCall::kOpen);
      return file;
    }
    if (flock(*file, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return file;  // no locks here: see kLeftoverAge
      continue;
    }
    struct stat info;
    if (fstat(*file, &info) == 0 && info.st_nlink > 0) return file;
  }
  errno = EBUSY;
  failed(DiskCall::kOpen);
  return Descriptor();
}

bool DiskFolder::write_all(int file, const DiskHeader& header, std::span<const std::byte> page) {
  size_t done = 0;
  while (done < kDiskHeader + page.size()) {
    iovec parts[2];
    int count = 0;
    if (done < kDiskHeader)
      parts[count++] = {const_cast<std::byte*>(header.data()) + done, kDiskHeader - done};
    const size_t from = done < kDiskHeader ? 0 : done - kDiskHeader;
    parts[count++] = {const_cast<std::byte*>(page.data()) + from, page.size() - from};
    const ssize_t n = faulty(DiskCall::kWrite) ? -1 : writev(file, parts, count);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;  // or this would never end
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

std::optional<DiskFolder::Unpublished> DiskFolder::write(const PageKey& key,
                                                         std::span<const std::byte> page,
                                                         int64_t now) {
  if (!root_) return {};
  const DiskHeader header = disk_header(key, page);
  std::string name;
  Descriptor file = create_temporary(&name);
  if (!file) return {};
  const int descriptor = *file;
  Unpublished result(*this, std::move(name), std::move(file));
  if (!write_all(descriptor, header, page)) {
    failed(DiskCall::kWrite);
    return {};
  }
  (void)futimens(descriptor, Times(now).values);  // else the present, as the file system knows it
  if (sync_ == DiskSync::kAlways && (faulty(DiskCall::kSync) || fdatasync(descriptor) != 0)) {
    failed(DiskCall::kSync);
    return {};
  }
  return result;
}

bool DiskFolder::publish(Unpublished& page, const PageKey& key) {
  const std::string name = disk_page_name(key);
  const std::string folder = disk_folder_name(key.bytes[0]);
  const auto move = [&] {
    return !faulty(DiskCall::kRename) &&
           renameat(*root_, page.name_.c_str(), *root_, name.c_str()) == 0;
  };
  bool moved = move();
  if (!moved && errno == ENOENT) {  // the first page of its folder
    if (!make_folder(folder.substr(0, 1).c_str()) || !make_folder(folder.c_str())) return false;
    moved = move();
  }
  if (!moved) {
    failed(DiskCall::kRename);
    return false;
  }
  page.folder_ = nullptr;
  if (sync_ == DiskSync::kAlways) {
    const Descriptor parent = open_at(folder.c_str(), O_RDONLY | O_DIRECTORY);
    if (!parent || faulty(DiskCall::kSync) || fsync(*parent) != 0) failed(DiskCall::kSync);
  }
  return true;
}

DiskFolder::Removed DiskFolder::remove(const PageKey& key) {
  if (!root_) return Removed::kFailed;
  if (!faulty(DiskCall::kRemove) && unlinkat(*root_, disk_page_name(key).c_str(), 0) == 0)
    return Removed::kNow;
  if (errno == ENOENT || errno == ENOTDIR) return Removed::kBefore;
  failed(DiskCall::kRemove);
  return Removed::kFailed;
}

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

}  // namespace

bool DiskFolder::list(int folder, const Each& each) {
  if (!root_) return false;
  const int descriptor = faulty(DiskCall::kList)
                             ? -1
                             : openat(*root_, disk_folder_name(folder).c_str(),
                                      O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) {
    if (errno == ENOENT) return true;  // no page has come here yet
    failed(DiskCall::kList);
    return false;
  }
  const OpenFolder open(fdopendir(descriptor));
  if (!open) {
    close(descriptor);
    return false;
  }
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(open.get());
    if (!entry) break;
    const std::optional<PageKey> key = disk_page_of(folder, entry->d_name);
    if (!key) continue;
    struct stat info;
    if (fstatat(descriptor, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode))
      each(*key, {static_cast<uint64_t>(info.st_size), nanoseconds(info.st_mtim)});
  }
  if (errno == 0) return true;
  failed(DiskCall::kList);
  return false;
}

void DiskFolder::remove_leftovers() {
  if (!root_) return;
  const int descriptor =
      openat(*root_, kDiskTemporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return;
  const OpenFolder open(fdopendir(descriptor));
  if (!open) {
    close(descriptor);
    return;
  }
  while (const dirent* const entry = readdir(open.get())) {
    if (!is_disk_temporary(entry->d_name)) continue;
    const Descriptor file(
        openat(descriptor, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file) continue;
    if (flock(*file, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) continue;  // its writer lives
      struct stat info;
      timespec now;
      if (fstat(*file, &info) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) continue;
      if (nanoseconds(now) - nanoseconds(info.st_mtim) < kLeftoverAge) continue;
    }
    if (unlinkat(descriptor, entry->d_name, 0) != 0 && errno != ENOENT) failed(DiskCall::kRemove);
  }
}

}  // namespace prefix
