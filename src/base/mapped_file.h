// A file mapped for reading.
//
// A file that another process cuts short while it is mapped would kill the process at the next
// read. check_size() asks the file system again; loaders call it before they read tensor data.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace prefix {

class MappedFile {
 public:
  // Throws kNotFound or kIo naming the path.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Throws kIo when the file is now shorter than it was when it was mapped.
  void check_size() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The whole of a small text file; throws kFormat when it is larger than `limit` bytes.
std::string read_text_file(const std::string& path, size_t limit);

}  // namespace prefix
