// Files that the user names: opened with errors that say which flag named them.
#pragma once

#include <fstream>
#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace prefix_cli {

// Behind a message on a file: why the system's last call failed, ": No such file or directory"; nothing
// where errno, which the caller has set to 0 before, does not say it.
std::string reason();

// What a flag names for reading, "-" for standard input. Fails where there is nothing to read: a
// folder can be opened like a file, and would be taken for an empty one.
class Input {
 public:
  Input(std::string_view flag, std::string path);

  std::istream& stream() { return file_ ? *file_ : standard(); }
  // To be called at the end of the stream: fails when it ended for an error.
  void check_end();

 private:
  static std::istream& standard();

  std::string flag_;
  std::string path_;
  std::optional<std::ifstream> file_;
};

// What a flag names for writing, "-" for standard output; never the file `in` of `in_flag`.
class Output {
 public:
  Output(std::string_view flag, std::string path, std::string_view in_flag, const std::string& in);

  std::ostream& stream() { return file_ ? *file_ : standard(); }
  // Fails when not all of it was written.
  void finish();

 private:
  static std::ostream& standard();

  std::string flag_;
  std::string path_;
  std::optional<std::ofstream> file_;
};

// Fails when `out` is the file `in`, by any name: opening it for writing would empty it. An empty
// path or "-" is no file.
void refuse_overwrite(std::string_view out_flag, const std::string& out, std::string_view in_flag,
                      const std::string& in);

}  // namespace prefix_cli
