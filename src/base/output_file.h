// Files that are written for others to read, and the names under which they appear when they are
// complete: a process that dies while it writes leaves nothing under them.
//
//   NewPath("out")  ──  out.part-4711-0  ── OutputFile: write(at) ... ──>  finish(): out
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace prefix {

// The bytes that may be written at `offset` of a file: beyond the limit of the system for one
// (RLIMIT_FSIZE) a signal would end the process. Throws kIo when there are none.
size_t bytes_below_file_limit(const std::string& path, int64_t offset);

class OutputFile {
 public:
  // A file that is not there yet; one of NewPath is. Throws kIo.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(uint64_t at, const void* data, size_t bytes);
  // What was written is on the disk.
  void finish();

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Throws kInvalidArgument when there is something under this path, and kIo.
class NewPath {
 public:
  enum class Kind { kFile, kFolder };
  NewPath(const std::string& path, Kind kind);
  // Removes what was not finished.
  ~NewPath();
  NewPath(const NewPath&) = delete;
  NewPath& operator=(const NewPath&) = delete;

  // What is to be written meanwhile: an empty file, or an empty folder.
  const std::string& part() const { return part_; }
  void finish();

 private:
  std::string path_, part_;
  bool finished_ = false;
};

}  // namespace prefix
