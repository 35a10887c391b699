// Files that the user names: opened with errors that say which flag named them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <istream>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "args.h"

namespace prefix_cli {

// Behind a message on a file: why the system's last call failed, ": No such file or directory";
// nothing where errno, which the caller has set to 0 before, does not say it.
std::string reason();

// What is read of an input at a time has an end, or a device such as /dev/zero would take all memory.
constexpr size_t kMaxReadBytes = size_t{1} << 30;

// Ends the program as a Failure does, but is none: those of a line fail alone, and behind this one
// nothing is read.
class EndlessInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The next line without its end; false where there is none. Throws EndlessInput for one that is
// longer than kMaxReadBytes; `number` is for the message.
bool read_line(std::istream& in, std::string& line, int64_t number);

// What a flag names for reading, "-" for standard input. Fails where there is nothing to read: a
// folder can be opened like a file, and would be taken for an empty one.
class Input {
 public:
  Input(std::string_view flag, std::string path);

  std::istream& stream() { return file_ ? *file_ : standard(); }
  // All of it. Fails where that is more than kMaxReadBytes.
  std::string read_all();
  // To be called at the end of the stream: fails when it ended for an error.
  void check_end();

 private:
  static std::istream& standard();

  std::string flag_;
  std::string path_;
  std::optional<std::ifstream> file_;
};

// A file or a folder by the flag that names it. An empty path is none;
// "-" is standard output for --out, and standard input for others.
struct NamedFile {
  std::string_view flag;
  std::string path;
};

// What a flag names for writing, "-" for standard output; none of the `others`, by any name,
// and no file of a folder among them but .jsonl. That it can be written is known at once, but
// what is there stays until stream() is called, and nothing is left where there was nothing
// and it never was.
class Output {
 public:
  Output(std::string_view flag, std::string path, std::initializer_list<NamedFile> others);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  std::ostream& stream();
  // Fails when not all of it was written.
  void finish();

 private:
  static std::ostream& standard();
  bool is_file() const;
  void refuse(const NamedFile& other) const;

  std::string flag_;
  std::string path_;
  std::filesystem::path made_;  // by the constructor; not the link that may lead there
  bool begun_ = false;
  std::optional<std::ofstream> file_;
};

// What a flag names that may be missing.
std::optional<Output> output_if_named(const Args& args, std::string_view flag,
                                      std::initializer_list<NamedFile> others);

}  // namespace prefix_cli
