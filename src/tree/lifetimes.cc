#include "tree/lifetimes.h"

#include <new>
#include <utility>

namespace prefix {
namespace {

constexpr size_t kFewPlaces = 64;

}  // namespace

int64_t Lifetimes::end_of(NodeId id) const {
  if (ends_.empty()) return kNever;
  const auto found = ends_.find(id);
  return found != ends_.end() ? found->second.end_ms : kNever;
}

void Lifetimes::set(NodeId id, int64_t end_ms) {
  const auto [life, is_new] = ends_.try_emplace(id, Life{end_ms, end_ms});
  life->second.end_ms = end_ms;
  if (!is_new && end_ms >= life->second.place_ms) return;
  try {
    if (places_.size() > 2 * ends_.size() + kFewPlaces) drop_outdated();
    place(id, life->second);
  } catch (const std::bad_alloc&) {
    ends_.erase(life);
    throw;
  }
}

// Without memory when a place was taken before.
void Lifetimes::place(NodeId id, Life& life) {
  places_.push({life.end_ms, id});
  life.place_ms = life.end_ms;
}

void Lifetimes::drop_outdated() {
  std::vector<Place> all;
  all.reserve(ends_.size());
  for (const auto& [id, life] : ends_) all.push_back({life.place_ms, id});
  places_ = decltype(places_)(std::greater<>(), std::move(all));
}

NodeId Lifetimes::take_due(int64_t now_ms) {
  while (!places_.empty() && places_.top().at_ms <= now_ms) {
    const Place due = places_.top();
    places_.pop();
    const auto found = ends_.find(due.id);
    if (found == ends_.end() || found->second.place_ms != due.at_ms) continue;  // gone since
    if (found->second.end_ms > now_ms) {                                        // used since
      place(due.id, found->second);
      continue;
    }
    ends_.erase(found);
    return due.id;
  }
  return kNoNode;
}

size_t Lifetimes::metadata_bytes() const {
  return ends_.size() * sizeof(decltype(ends_)::value_type) + places_.size() * sizeof(Place);
}

}  // namespace prefix
