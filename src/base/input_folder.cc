#include "base/input_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {

namespace fs = std::filesystem;

bool plain_file_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == 127;
         });
}

bool plain_file_path(const std::string& path) {
  size_t begin = 0;
  for (size_t slash; (slash = path.find('/', begin)) != std::string::npos; begin = slash + 1)
    if (!plain_file_name(path.substr(begin, slash - begin))) return false;
  return path.size() <= 255 && plain_file_name(path.substr(begin));
}

std::string Directory::name() const { return quote_path(path_); }

bool Directory::has(const std::string& name) const {
  std::error_code error;
  const fs::path path = fs::path(path_) / name;
  const fs::file_status found = fs::symlink_status(path, error);
  if (found.type() == fs::file_type::not_found) return false;
  if (error) fail(Code::kIo, quote_path(path.string()), ": ", error_text(error.value()));
  return true;
}

std::shared_ptr<const InputFile> Directory::open(const std::string& name) const {
  return std::make_shared<InputFile>((fs::path(path_) / name).string());
}

std::shared_ptr<const InputFile> Directory::open_listed(const std::string& name,
                                                        const std::string& by) const {
  std::error_code error;
  const fs::path target = fs::canonical(fs::path(path_) / name, error);
  if (!error) {  // what is not there: opening it says so
    const fs::path home = fs::canonical(path_, error);
    const fs::path blobs = home.parent_path().filename() == "snapshots"
                               ? home.parent_path().parent_path() / "blobs"
                               : home;
    const bool inside =
        std::mismatch(home.begin(), home.end(), target.begin(), target.end()).first == home.end();
    if (!inside && target.parent_path() != blobs)
      fail(Code::kFormat, by, ": ", quote(name), " is a link to ", quote(target.string(), 500),
           ", outside the directory of the index");
  }
  return open(name);
}

void FedFiles::add(const std::string& name, File file) {
  if (!plain_file_path(name))
    fail(Code::kInvalidArgument, "the name ", quote(name),
         " is not that of a file in the model's directory: 1 to 255 bytes");
  if (!files_.emplace(name, std::move(file)).second)
    fail(Code::kInvalidArgument, "the source has a file ", quote(name), " already");
}

void FedFiles::add(const std::string& name, std::span<const std::byte> bytes) {
  add(name, File{bytes.size(), bytes.data(), nullptr});
}

void FedFiles::add(const std::string& name, uint64_t size, ReadAt read) {
  add(name, File{size, nullptr, std::move(read)});
}

FedFiles FedFiles::behind(std::shared_ptr<ReadGate> gate) const {
  FedFiles copy = *this;
  copy.gate_ = std::move(gate);
  return copy;
}

std::vector<std::string> FedFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

std::shared_ptr<const InputFile> FedFiles::open(const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) fail(Code::kNotFound, "the source has no file ", quote(name));
  const File& file = found->second;
  ReadAt read;
  if (file.read) {
    read = [gate = gate_, from = file.read](uint64_t at, size_t count, void* out) {
      gate->check();
      from(at, count, out);
    };
  } else {
    read = [gate = gate_, from = file.bytes](uint64_t at, size_t count, void* out) {
      gate->pass([&] { std::memcpy(out, from + at, count); });
    };
  }
  return std::make_shared<InputFile>(name, file.size, std::move(read));
}

}  // namespace prefix
