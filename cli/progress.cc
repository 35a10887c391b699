#include "progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "common.h"

namespace prefix_cli {

Progress::Progress(std::string title, const std::string& mode)
    : title_(std::move(title)), on_(mode == "on" || (mode == "auto" && isatty(STDERR_FILENO))) {}

void Progress::show(int64_t done, int64_t total) { print(cat(done, " of ", total, " requests")); }

void Progress::show_load(double fraction) { show_share("loading", fraction); }

void Progress::show_share(const std::string& what, double fraction) {
  // This is called often; a terminal needs a hundred lines at most.
  const int percent = static_cast<int>(fraction * 100);
  if (percent == last_percent_ && what == last_what_) return;
  last_percent_ = percent;
  last_what_ = what;
  print(cat(what, " ", percent, " %"));
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void Progress::print(const std::string& line) {
  if (!on_) return;
  std::fprintf(stderr, "\r\033[K%s: %s", title_.c_str(), line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace prefix_cli
