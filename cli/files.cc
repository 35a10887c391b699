#include "files.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

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

bool read_line(std::istream& in, std::string& line, int64_t number) {
  line.clear();
  std::array<char, 4096> piece;
  while (true) {
    in.getline(piece.data(), piece.size());
    const auto count = static_cast<size_t>(in.gcount());
    const bool is_full = in.fail() && !in.eof() && !in.bad() && count == piece.size() - 1;
    const bool has_end = in.good();
    line.append(piece.data(), has_end ? count - 1 : count);
    if (!is_full) return has_end || (!line.empty() && !in.bad());
    if (line.size() > kMaxReadBytes)
      throw EndlessInput(
          cat("line ", number, " has more than ", kMaxReadBytes, " bytes, the limit"));
    in.clear();
  }
}

std::string Input::read_all() {
  std::string text;
  std::array<char, 4096> piece;
  while (stream().read(piece.data(), piece.size()), stream().gcount() > 0) {
    text.append(piece.data(), static_cast<size_t>(stream().gcount()));
    if (text.size() > kMaxReadBytes)
      fail(flag_, " ", shown(path_), " has more than ", kMaxReadBytes, " bytes, the limit");
  }
  check_end();
  return text;
}

std::istream& Input::standard() { return std::cin; }

void Input::check_end() {
  if (stream().bad()) fail("cannot read ", flag_, " ", shown(path_), " to its end");
}

Output::Output(std::string_view flag, std::string path, std::initializer_list<NamedFile> others)
    : flag_(flag), path_(std::move(path)) {
  for (const NamedFile& other : others) refuse(other);
  if (path_ == "-") return;
  std::error_code error;
  const bool is_new = !fs::exists(path_, error);
  errno = 0;
  file_.emplace(path_, std::ios::binary | std::ios::app);
  if (!*file_) fail("cannot write ", flag_, " ", shown(path_), reason());
  if (is_new) made_ = fs::canonical(path_, error);
}

void Output::refuse(const NamedFile& other) const {
  const bool is_standard = path_ == "-", other_is_standard = other.path == "-";
  const bool is_output = other.flag == "--out";
  if (other.path.empty() || (is_standard && other_is_standard && is_output)) return;
  const fs::path mine = is_standard ? "/dev/stdout" : path_;
  const fs::path place = !other_is_standard ? other.path : is_output ? "/dev/stdout" : "/dev/stdin";
  std::error_code error;
  if (!fs::is_regular_file(mine, error)) return;  // a device may well be both
  if (fs::equivalent(mine, place, error))
    fail(flag_, " ", shown(path_), " is the file of ", other.flag, ", which would be ",
         is_standard ? "written into" : "emptied");
  if (is_standard || !fs::is_directory(place, error) || mine.extension() == ".jsonl") return;
  const fs::path home = fs::canonical(place, error);
  for (fs::path up = fs::canonical(mine, error); up != up.parent_path(); up = up.parent_path())
    if (up.parent_path() == home)
      fail(flag_, " ", shown(path_), " is a file in the folder of ", other.flag,
           ", which would be emptied");
}

Output::~Output() {
  if (!file_ || begun_ || made_.empty()) return;
  std::error_code error;
  fs::remove(made_, error);
}

std::ostream& Output::standard() { return std::cout; }

bool Output::is_file() const {
  std::error_code error;
  return fs::is_regular_file(path_, error);
}

std::ostream& Output::stream() {
  if (!file_) return standard();
  if (!std::exchange(begun_, true) && is_file()) fs::resize_file(path_, 0);
  return *file_;
}

void Output::finish() {
  std::ostream& out = stream();
  errno = 0;
  out.flush();
  if (!out)
    fail("cannot write to ", path_ == "-" ? "standard output" : cat(flag_, " ", shown(path_)),
         reason());
}

std::optional<Output> output_if_named(const Args& args, std::string_view flag,
                                      std::initializer_list<NamedFile> others) {
  if (!args.has(flag)) return std::nullopt;
  return std::optional<Output>(std::in_place, flag, args.get(flag), others);
}

}  // namespace prefix_cli
