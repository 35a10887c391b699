#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

// Paths come from the caller: shown whole, but fit for a message.
std::string shown(const std::string& path) { return quote(path, 1024); }

// An open regular file; the descriptor closes with the scope unless it is taken.
class Descriptor {
 public:
  // O_NONBLOCK: opening a named pipe must fail below, not wait for a writer.
  explicit Descriptor(const std::string& path)
      : value_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (path.find('\0') != std::string::npos)
      fail(Code::kInvalidArgument, "the path ", shown(path), " contains a zero byte");
    if (value_ < 0) {
      const int error = errno;
      fail(error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kIo, "cannot open ",
           shown(path), ": ", std::strerror(error));
    }
  }
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int value() const { return value_; }
  int take() { return std::exchange(value_, -1); }
  size_t regular_size(const std::string& path) const {
    struct stat info;
    if (fstat(value_, &info) != 0 || !S_ISREG(info.st_mode))
      fail(Code::kIo, shown(path), " is not a regular file");
    return static_cast<size_t>(info.st_size);
  }

 private:
  int value_;
};

std::vector<std::byte> read_all(const std::string& path, int descriptor, size_t size) {
  std::vector<std::byte> bytes;
  try {
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    fail(Code::kOutOfMemory, "no memory to copy ", shown(path), " (", size, " bytes)");
  }
  size_t done = 0;
  while (done < size) {
    const ssize_t n = pread(descriptor, bytes.data() + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(Code::kIo, "cannot read ", shown(path), ": ", std::strerror(errno));
    if (n == 0)
      fail(Code::kIo, shown(path), " was cut short while it was read: ", done, " of ", size,
           " bytes");
    done += static_cast<size_t>(n);
  }
  return bytes;
}

}  // namespace

MappedFile::MappedFile(const std::string& path, FileAccess access) : path_(path) {
  Descriptor file(path);
  size_ = file.regular_size(path);
  if (access == FileAccess::kCopy) {
    copy_ = read_all(path, file.value(), size_);
    data_ = copy_.data();
    return;
  }
  if (size_ == 0) return;  // an empty mapping is an error of mmap, not of the file
  void* const data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (data == MAP_FAILED)
    fail(errno == ENOMEM ? Code::kOutOfMemory : Code::kIo, "cannot map ", shown(path), " (", size_,
         " bytes): ", std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
  descriptor_ = file.take();
  // Hints only. Loading reads every tensor once, mostly in file order.
  madvise(data, size_, MADV_SEQUENTIAL);
  madvise(data, size_, MADV_WILLNEED);
}

MappedFile::MappedFile(std::string name, std::vector<std::byte> bytes)
    : path_(std::move(name)), size_(bytes.size()), copy_(std::move(bytes)) {
  data_ = copy_.data();
}

MappedFile::~MappedFile() {
  if (descriptor_ < 0) return;
  munmap(const_cast<std::byte*>(data_), size_);
  close(descriptor_);
}

void MappedFile::check_size() const {
  if (descriptor_ < 0) return;
  struct stat info;
  if (fstat(descriptor_, &info) != 0)
    fail(Code::kIo, "cannot look at ", shown(path_), ": ", std::strerror(errno));
  if (static_cast<size_t>(info.st_size) < size_)
    fail(Code::kIo, shown(path_), " was cut short while it was open: ", info.st_size, " of ", size_,
         " bytes are left");
}

std::string read_text_file(const std::string& path, size_t limit) {
  const Descriptor file(path);
  const size_t size = file.regular_size(path);
  if (size > limit)
    fail(Code::kFormat, shown(path), " has ", size, " bytes; at most ", limit, " are read");
  const std::vector<std::byte> bytes = read_all(path, file.value(), size);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace prefix
