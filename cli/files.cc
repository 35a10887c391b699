#include "files.h"

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "common.h"

namespace prefix_cli {

namespace fs = std::filesystem;

std::string reason() {
  const int number = errno;
  return number == 0 ? "" : cat(": ", std::generic_category().message(number));
}

Input::Input(std::string_view flag, std::string path) : flag_(flag), path_(std::move(path)) {
  if (path_ == "-") return;
  std::error_code error;
  if (fs::is_directory(path_, error)) fail(flag_, " ", shown(path_), " is a folder, not a file");
  errno = 0;
  file_.emplace(path_, std::ios::binary);
  if (!*file_) fail("cannot read ", flag_, " ", shown(path_), reason());
}

std::istream& Input::standard() { return std::cin; }

void Input::check_end() {
  if (stream().bad()) fail("cannot read ", flag_, " ", shown(path_), " to its end");
}

Output::Output(std::string_view flag, std::string path, std::string_view in_flag,
               const std::string& in)
    : flag_(flag), path_(std::move(path)) {
  if (path_ == "-") return;
  refuse_overwrite(flag, path_, in_flag, in);
  errno = 0;
  file_.emplace(path_, std::ios::binary);
  if (!*file_) fail("cannot write ", flag_, " ", shown(path_), reason());
}

std::ostream& Output::standard() { return std::cout; }

void Output::finish() {
  errno = 0;
  stream().flush();
  if (!stream())
    fail("cannot write to ", path_ == "-" ? "standard output" : cat(flag_, " ", shown(path_)),
         reason());
}

void refuse_overwrite(std::string_view out_flag, const std::string& out, std::string_view in_flag,
                      const std::string& in) {
  if (out.empty() || out == "-" || in.empty() || in == "-") return;
  std::error_code error;
  // A device may well be both.
  if (fs::is_regular_file(out, error) && fs::equivalent(out, in, error))
    fail(out_flag, " ", shown(out), " is the file of ", in_flag, ", which would be emptied");
}

}  // namespace prefix_cli
