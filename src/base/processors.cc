#include "base/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr int kMaxProcessors = 1 << 16;  // no system has as many, and a list of them is still small

// A mask of as many processors as the system may have: cpu_set_t ends at 1,024.
class Mask {
 public:
  explicit Mask(int processors)
      : bytes_(CPU_ALLOC_SIZE(processors)), set_(CPU_ALLOC(processors), &free_set) {
    if (!set_) throw std::bad_alloc();
    CPU_ZERO_S(bytes_, set_.get());
  }
  size_t bytes() const { return bytes_; }
  cpu_set_t* get() const { return set_.get(); }
  bool has(int processor) const { return CPU_ISSET_S(processor, bytes_, set_.get()); }
  void add(int processor) { CPU_SET_S(processor, bytes_, set_.get()); }

 private:
  static void free_set(cpu_set_t* set) { CPU_FREE(set); }

  size_t bytes_;
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set_;
};

// One more than the last processor of an ascending list.
int end_of(const Processors& list) { return list.empty() ? 0 : list.back() + 1; }

// Of a thread (0: the calling one); the first thread of a process has its number.
Processors processors_of(pid_t thread) {
  for (int size = CPU_SETSIZE; size <= kMaxProcessors; size *= 2) {
    const Mask mask(size);
    if (sched_getaffinity(thread, mask.bytes(), mask.get()) != 0) {
      if (errno == EINVAL) continue;  // the system may have more
      break;
    }
    Processors list;
    for (int i = 0; i < size; ++i)
      if (mask.has(i)) list.push_back(i);
    if (!list.empty()) return list;
    break;
  }
  return {0};
}

}  // namespace

Processors allowed_processors() { return processors_of(0); }

Processors parse_processors(std::string_view text, std::string_view what) {
  const auto refuse = [&] {
    fail(Code::kInvalidArgument, what, " = ", quote(text),
         ": it must be a list of processors, as 0-3,8");
  };
  const auto number = [&](std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = end == digits.data() + digits.size();
    if (digits.starts_with('-') || (error == std::errc::invalid_argument) || !whole) refuse();
    if (error != std::errc() || value >= kMaxProcessors)
      fail(Code::kOutOfRange, what, " = ", quote(text), " is outside [0, ", kMaxProcessors - 1,
           "]");
    return value;
  };
  std::vector<bool> named(kMaxProcessors);  // a text may name each of them any number of times
  for (size_t at = 0; !text.empty() && at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, comma - at);
    const size_t dash = std::min(item.find('-', 1), item.size());
    const int first = number(item.substr(0, dash));
    const int last = dash < item.size() ? number(item.substr(dash + 1)) : first;
    if (last < first) refuse();
    std::fill(named.begin() + first, named.begin() + last + 1, true);
    at = comma + 1;
  }
  Processors list;
  for (int i = 0; i < kMaxProcessors; ++i)
    if (named[static_cast<size_t>(i)]) list.push_back(i);
  return list;
}

std::string processors_text(const Processors& list) {
  std::string text;
  for (size_t i = 0; i < list.size();) {
    size_t last = i;
    while (last + 1 < list.size() && list[last + 1] == list[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(list[i]);
    if (last > i) text += "-" + std::to_string(list[last]);
    i = last + 1;
  }
  return text;
}

void require_allowed(const Processors& list, std::string_view what) {
  Processors allowed = allowed_processors();
  for (const int processor : processors_of(getpid())) allowed.push_back(processor);
  std::sort(allowed.begin(), allowed.end());
  allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  for (const int processor : list)
    if (!std::binary_search(allowed.begin(), allowed.end(), processor))
      fail(Code::kOutOfRange, what, " = ", quote(processors_text(list)),
           ": this process may not use processor ", processor, ", only ", processors_text(allowed));
}

std::string processor_name(const std::string& root) {
  constexpr std::string_view kKey = "model name";
  constexpr std::string_view kBlank = " \t";
  std::ifstream in(root + "/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::string_view text = line;
    const size_t colon = text.find(':');
    if (!text.starts_with(kKey) || colon == std::string_view::npos) continue;
    const size_t begin = text.find_first_not_of(kBlank, colon + 1);
    if (begin == std::string_view::npos) continue;
    return line.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
  }
  return {};
}

int bind_thread(pthread_t thread, const Processors& list) {
  if (list.empty()) return 0;
  Mask mask(end_of(list));
  for (const int processor : list) mask.add(processor);
  return pthread_setaffinity_np(thread, mask.bytes(), mask.get());
}

}  // namespace prefix
