#include "stop.h"

#include <algorithm>
#include <utility>

namespace prefix_cli {

StopSearch::StopSearch(Text& text, std::vector<std::string> stops)
    : stops_(std::move(stops)), stream_(text.stream()) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

bool StopSearch::push(int32_t token) {
  if (found_) return true;
  ++tokens_;
  // Only the new bytes and as many before them as a stop string may have begun with.
  const size_t start = text_.size() < longest_ ? 0 : text_.size() - longest_;
  text_ += stream_->push(token);
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, text_.find(stop, start));
  if (first == std::string::npos) return false;
  text_.resize(first);
  found_ = true;
  return true;
}

}  // namespace prefix_cli
