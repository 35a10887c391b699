// A file that lies in memory, for parsers that read files.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <span>
#include <string>

#include "target.h"

namespace prefix::fuzz {

class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("input", MFD_CLOEXEC)) { KEEP(file_ >= 0); }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Whoever opens it gets a descriptor of their own, as of any file.
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

  void write(std::span<const std::byte> bytes) {
    KEEP(ftruncate(file_, static_cast<off_t>(bytes.size())) == 0);
    KEEP(pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }

 private:
  int file_;
};

}  // namespace prefix::fuzz
