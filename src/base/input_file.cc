#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

std::atomic<uint64_t> opened{0};

// O_NONBLOCK: opening a named pipe must fail below, not wait for a writer.
int open_to_read(const std::string& path, const std::string& name) {
  if (path.find('\0') != std::string::npos)
    fail(Code::kInvalidArgument, "the path ", name, " contains a zero byte");
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0) return descriptor;
  const int error = errno;
  fail(error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kIo, "cannot open ", name,
       ": ", error_text(error));
}

}  // namespace

InputFile::InputFile(const std::string& path) : id_(++opened), name_(quote_path(path)) {
  descriptor_ = open_to_read(path, name_);
  try {
    const State now = current_state();
    size_ = now.size;
    changed_ = now.changed;
  } catch (...) {
    close(descriptor_);
    throw;
  }
  // A hint only: loading reads every tensor once, mostly in file order.
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
}

InputFile::InputFile(const std::string& name, uint64_t size, ReadAt read)
    : id_(++opened), name_(quote_path(name)), size_(size), read_(std::move(read)) {}

InputFile::InputFile(const std::string& name, std::vector<std::byte> bytes)
    : id_(++opened), name_(quote_path(name)), size_(bytes.size()) {
  read_ = [all = std::move(bytes)](uint64_t at, size_t count, void* out) {
    std::memcpy(out, all.data() + at, count);
  };
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

InputFile::State InputFile::current_state() const {
  struct stat info;
  if (fstat(descriptor_, &info) != 0)
    fail(Code::kIo, "cannot look at ", name_, ": ", error_text(errno));
  if (!S_ISREG(info.st_mode)) fail(Code::kIo, name_, " is not a regular file");
  return {static_cast<uint64_t>(info.st_size), {info.st_mtim.tv_sec, info.st_mtim.tv_nsec}};
}

void InputFile::read(uint64_t at, size_t count, void* out) const {
  PREFIX_CHECK(at <= size_ && count <= size_ - at);
  if (descriptor_ < 0) {
    if (count > 0) read_(at, count, out);
    return;
  }
  auto* to = static_cast<std::byte*>(out);
  while (count > 0) {
    const ssize_t n = pread(descriptor_, to, count, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(Code::kIo, "cannot read ", name_, ": ", error_text(errno));
    if (n == 0)
      fail(Code::kIo, name_, " was cut short while it was read: it had ", size_,
           " bytes when it was opened and has ", current_state().size, " now; byte ", at,
           " is missing");
    to += n;
    at += static_cast<uint64_t>(n);
    count -= static_cast<size_t>(n);
  }
}

void InputFile::check_unchanged() const {
  if (descriptor_ < 0) return;
  const State now = current_state();
  if (now.size != size_)
    fail(Code::kIo, name_, " was changed while it was read: it had ", size_,
         " bytes when it was opened and has ", now.size, " now");
  if (now.changed != changed_)
    fail(Code::kIo, name_, " was written to while it was read; its ", size_,
         " bytes may be of two versions");
}

std::string read_text(const InputFile& file, size_t limit) {
  if (file.size() > limit)
    fail(Code::kFormat, file.name(), " has ", file.size(), " bytes; at most ", limit, " are read");
  std::string text(file.size(), '\0');
  file.read(0, text.size(), text.data());
  return text;
}

}  // namespace prefix
