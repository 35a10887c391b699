#include "tree/hybrid_policy.h"

#include <algorithm>
#include <utility>

#include "tree/state_scores.h"

namespace prefix {
namespace {

double ratio(int64_t above, int64_t below) {
  return static_cast<double>(above) / static_cast<double>(std::max<int64_t>(below, 1));
}

}  // namespace

HybridQueue::HybridQueue(HybridPolicy policy, double alpha, Before before)
    : policy_(policy), alpha_(alpha), before_(std::move(before)) {}

void HybridQueue::create(int32_t id) {
  if (index(id) >= marks_.size()) marks_.resize(index(id) + 1);
  marks_[index(id)] = {.base = age_};
}

void HybridQueue::merge(int32_t gone, int32_t into) {
  Mark& mark = marks_[index(into)];
  mark.base = std::max(mark.base, marks_[index(gone)].base);
}

double HybridQueue::priority(const Mark& mark, const HybridCandidate& candidate) const {
  const double gain = ratio(candidate.flops, candidate.freed);
  return greedy_dual(mark.base, gain, policy_ == HybridPolicy::kGdsf ? 1 + mark.hits : 1);
}

double HybridQueue::value_of(const Mark& mark, const HybridCandidate& candidate) const {
  switch (policy_) {
    case HybridPolicy::kLru:
      return static_cast<double>(candidate.last_use);
    case HybridPolicy::kMarconi:
      return ratio(candidate.flops, candidate.bytes);
    default:
      return priority(mark, candidate);
  }
}

bool HybridQueue::less(const Entry& a, const Entry& b) const {
  return a.value != b.value ? a.value < b.value : before_(a.id, b.id);
}

void HybridQueue::place(size_t at, const Entry& entry) {
  queue_[at] = entry;
  marks_[index(entry.id)].place = static_cast<int32_t>(at);
}

// Writes the entry where it belongs, `at` being free.
void HybridQueue::sift(size_t at, const Entry& entry) {
  if (policy_ == HybridPolicy::kMarconi) return place(at, entry);
  while (at > 0 && less(entry, queue_[(at - 1) / 2])) {
    place(at, queue_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  for (size_t child; (child = 2 * at + 1) < queue_.size(); at = child) {
    if (child + 1 < queue_.size() && less(queue_[child + 1], queue_[child])) ++child;
    if (!less(queue_[child], entry)) break;
    place(at, queue_[child]);
  }
  place(at, entry);
}

void HybridQueue::put(int32_t id, const HybridCandidate& candidate) {
  const Mark& mark = marks_[index(id)];
  const Entry entry{.value = value_of(mark, candidate), .id = id, .candidate = candidate};
  size_t at = static_cast<size_t>(mark.place);
  if (mark.place < 0) {
    at = queue_.size();
    queue_.push_back(entry);
  }
  sift(at, entry);
}

void HybridQueue::remove(int32_t id) {
  const int32_t at = std::exchange(marks_[index(id)].place, -1);
  if (at < 0) return;
  const Entry last = queue_.back();
  queue_.pop_back();
  if (last.id != id) sift(static_cast<size_t>(at), last);
}

int32_t HybridQueue::victim(int64_t now, const std::optional<Range>& scale) const {
  if (queue_.empty()) return -1;
  return policy_ == HybridPolicy::kMarconi ? scan(now, scale) : queue_.front().id;
}

int32_t HybridQueue::scan(int64_t now, const std::optional<Range>& range) const {
  MarconiScale scale(alpha_, now);
  for (const Entry& e : queue_) scale.add(e.candidate.last_use, e.value);
  if (range) {
    scale.add_use(range->oldest);
    scale.add_use(range->newest);
  }
  const Entry* best = nullptr;
  double lowest = 0;
  for (const Entry& e : queue_) {
    const double score = scale.score(e.candidate.last_use, e.value);
    if (best && (score > lowest || (score == lowest && !before_(e.id, best->id)))) continue;
    best = &e;
    lowest = score;
  }
  return best->id;
}

void HybridQueue::evict(int32_t id) {
  const Mark& mark = marks_[index(id)];
  age_ = std::max(age_, priority(mark, queue_[static_cast<size_t>(mark.place)].candidate));
  remove(id);
}

void HybridQueue::set_policy(HybridPolicy policy, double alpha) {
  policy_ = policy;
  alpha_ = alpha;
  const std::vector<Entry> all = std::exchange(queue_, {});
  for (const Entry& e : all) marks_[index(e.id)].place = -1;
  for (const Entry& e : all) put(e.id, e.candidate);
}

}  // namespace prefix
