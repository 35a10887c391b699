// Bytes to read at offsets: a file of the system, or what a function reads.
//
// A file may change while it is read: its bytes are copied, piece by piece, and what is not there
// any more is an error of that read. It is not mapped: when another process cuts a mapped file
// short, the next look at what was behind its new end ends the process (SIGBUS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace prefix {

// Copies `count` > 0 bytes at `at` to `out`, or throws. Any thread.
using ReadAt = std::function<void(uint64_t at, size_t count, void* out)>;

class InputFile {
 public:
  // Throws kNotFound or kIo naming the path (not a regular file, no permission).
  explicit InputFile(const std::string& path);
  // What `read` gives; `name` stands for the path in messages.
  InputFile(const std::string& name, uint64_t size, ReadAt read);
  InputFile(const std::string& name, std::vector<std::byte> bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t size() const { return size_; }  // when it was opened
  // Different for every file that was ever opened.
  uint64_t id() const { return id_; }
  // Fit for a message: quoted.
  const std::string& name() const { return name_; }

  // Copies the bytes [at, at + count), which lie inside size(), to `out`. Any thread. Throws kIo
  // naming both lengths when the file ends before them now, and when it cannot be read.
  void read(uint64_t at, size_t count, void* out) const;

  // Throws kIo when the file has another length than when it was opened, or was written to since:
  // what was read may then be of two versions.
  void check_unchanged() const;

 private:
  struct Stamp {  // of the last change of the content
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct State {
    uint64_t size = 0;
    Stamp changed;
  };
  State current_state() const;

  uint64_t id_;
  std::string name_;
  int descriptor_ = -1;  // -1: read_ reads
  uint64_t size_ = 0;
  Stamp changed_;
  ReadAt read_;
};

// The whole of a small text file; throws kFormat when it is larger than `limit` bytes.
std::string read_text(const InputFile& file, size_t limit);

}  // namespace prefix
