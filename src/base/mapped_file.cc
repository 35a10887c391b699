#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/status.h"

namespace prefix {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0)
    fail(errno == ENOENT ? Code::kNotFound : Code::kIo, "cannot open ", path, ": ",
         std::strerror(errno));
  struct stat info;
  if (fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor_);
    fail(Code::kIo, path, " is not a regular file");
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;  // an empty mapping is an error of mmap, not of the file
  void* const data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (data == MAP_FAILED) {
    close(descriptor_);
    fail(Code::kIo, "cannot map ", path, " (", size_, " bytes): ", std::strerror(errno));
  }
  data_ = static_cast<const std::byte*>(data);
  madvise(data, size_, MADV_WILLNEED);
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
  close(descriptor_);
}

void MappedFile::check_size() const {
  struct stat info;
  if (fstat(descriptor_, &info) != 0 || static_cast<size_t>(info.st_size) < size_)
    fail(Code::kIo, path_, " was cut short while it was open: ", size_, " bytes expected");
}

std::string read_text_file(const std::string& path, size_t limit) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > limit)
    fail(Code::kFormat, path, " has ", bytes.size(), " bytes; at most ", limit, " are read");
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace prefix
