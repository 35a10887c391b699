#include "stop.h"

#include <algorithm>
#include <utility>

namespace prefix_cli {

StopSearch::StopSearch(Text& text, std::vector<std::string> stops)
    : decoder_(&text), stops_(std::move(stops)), stream_(text.stream()) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

bool StopSearch::push(int32_t token) {
  if (found_) return true;
  seen_.push_back(token);
  return look(stream_->push(token));
}

void StopSearch::finish() {
  if (!found_) look(stream_->flush());
}

bool StopSearch::look(const std::string& more) {
  // Only the new bytes and as many before them as a stop string may have begun with.
  const size_t start = text_.size() < longest_ ? 0 : text_.size() - longest_;
  text_ += more;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, text_.find(stop, start));
  if (first == std::string::npos) return false;
  text_.resize(first);
  tokens_ = seen_.size();
  while (tokens_ > 1 && completes(tokens_ - 1)) --tokens_;
  found_ = true;
  return true;
}

// Whether the text of the first n tokens holds a stop string.
bool StopSearch::completes(size_t n) const {
  const auto end = seen_.begin() + static_cast<ptrdiff_t>(n);
  const std::string text = decoder_->decode({seen_.begin(), end});
  return std::any_of(stops_.begin(), stops_.end(),
                     [&](const std::string& stop) { return text.find(stop) != std::string::npos; });
}

}  // namespace prefix_cli
