#include "base/resources.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <locale>
#include <optional>
#include <string_view>
#include <vector>

#include "base/processors.h"

namespace prefix {
namespace {

// The number after `key` in a file of lines "key number ...".
std::optional<int64_t> number_after(const std::string& path, std::string_view key) {
  std::ifstream in(path);
  in.imbue(std::locale::classic());  // in that of the host a space may be a part of a number
  std::string word;
  for (std::string rest; in >> word; std::getline(in, rest)) {
    int64_t value = 0;
    if (word == key && in >> value) return value;
  }
  return std::nullopt;
}

// The words of a file's first line.
std::vector<std::string> words(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> out;
  for (std::string word; out.size() < 2 && in >> word;) out.push_back(word);
  return out;
}

// A positive number at that place of a file's first line; "max" and nonsense are none.
std::optional<int64_t> number_at(const std::string& path, size_t place) {
  const std::vector<std::string> all = words(path);
  if (place >= all.size()) return std::nullopt;
  const std::string& text = all[place];
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value > 0 ? std::optional(value) : std::nullopt;
}

// The folders of the process's group and of those around it, the outermost first.
std::vector<std::string> groups(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0::/")) path = line.substr(4);
  std::vector<std::string> out = {root + "/sys/fs/cgroup"};
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != "..") out.push_back(out.back() + "/" + part);
    begin = end + 1;
  }
  return out;
}

// Processors' worth of time in a period, rounded up: two and a half keep three threads busy.
std::optional<int64_t> quota(const std::string& group) {
  const auto time = number_at(group + "/cpu.max", 0), period = number_at(group + "/cpu.max", 1);
  if (!time || !period) return std::nullopt;
  return (*time - 1) / *period + 1;
}

}  // namespace

Resources resources(const std::string& root) {
  Resources r;
  const auto meminfo = [&](std::string_view key) {
    return number_after(root + "/proc/meminfo", key).value_or(0) * 1024;
  };
  auto processors = static_cast<int64_t>(allowed_processors().size());
  r.total_bytes = meminfo("MemTotal:");
  r.available_bytes = meminfo("MemAvailable:");
  if (r.available_bytes == 0) r.available_bytes = int64_t{4} << 30;
  for (const std::string& group : groups(root)) {
    processors = std::min(processors, quota(group).value_or(processors));
    const std::optional<int64_t> limit = number_at(group + "/memory.max", 0);
    if (!limit) continue;
    r.total_bytes = r.total_bytes > 0 ? std::min(r.total_bytes, *limit) : *limit;
    // Pages of files that nothing has used for a while go when memory is wanted.
    const int64_t used = number_at(group + "/memory.current", 0).value_or(0);
    const int64_t files = number_after(group + "/memory.stat", "inactive_file").value_or(0);
    const int64_t taken = std::max<int64_t>(0, used - std::max<int64_t>(0, files));
    r.available_bytes = std::min(r.available_bytes, std::max<int64_t>(0, *limit - taken));
  }
  r.processors = static_cast<int>(processors);
  return r;
}

}  // namespace prefix
