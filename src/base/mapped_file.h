// The bytes of a file, mapped for reading or copied.
//
// Mapping costs no memory and reads only what is used, but it shares the file with the world: when
// another process cuts a mapped file short, the next read behind its new end is a fatal signal
// (SIGBUS). check_size() asks the file system again; loaders call it right before they read tensor
// data, which leaves a window of that read. FileAccess::kCopy leaves none: it takes the memory of
// the whole file and does not look at the file again. Use it where model files may be rewritten
// in place; replacing a file by rename is safe with both.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace prefix {

enum class FileAccess { kMap, kCopy };

class MappedFile {
 public:
  // Throws kNotFound or kIo naming the path (not a regular file, no permission, cut short while it
  // was copied) and kOutOfMemory when there is no room for a copy.
  explicit MappedFile(const std::string& path, FileAccess access = FileAccess::kMap);
  // Bytes that are in memory already; `name` stands for the path in messages.
  MappedFile(std::string name, std::vector<std::byte> bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Throws kIo when the file is now shorter than it was when it was mapped.
  void check_size() const;

 private:
  std::string path_;
  int descriptor_ = -1;  // open while mapped, for check_size()
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::vector<std::byte> copy_;
};

// The whole of a small text file; throws kFormat when it is larger than `limit` bytes.
std::string read_text_file(const std::string& path, size_t limit);

}  // namespace prefix
