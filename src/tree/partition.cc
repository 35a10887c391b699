#include "tree/partition.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace prefix {
namespace {

// Beyond these the order is halved first: the places where cuts can be grow with the parts.
constexpr int32_t kPartsAtOnce = 64;
// How often a smaller bound of the largest part is tried that costs no more tokens.
constexpr int kTightenings = 10;

// The sorted prompts as work. Positions are cuts: i is the one before the i-th prompt.
class Line {
 public:
  Line(PromptList prompts, const SortedPrompts& sorted) : shared_(sorted.shared) {
    const size_t n = sorted.order.size();
    sums_.reserve(n + 1);
    from_.reserve(n + 1);
    sums_.push_back(0);
    for (size_t k = 0; k < n; ++k) {
      from_.push_back(sums_.back() - shared_[k]);
      const auto length =
          static_cast<int64_t>(prompts[static_cast<size_t>(sorted.order[k])].size());
      sums_.push_back(sums_.back() + length - shared_[k]);
      longest_ = std::max(longest_, length);
    }
  }

  size_t size() const { return shared_.size(); }
  int64_t distinct() const { return sums_.back(); }
  int64_t longest() const { return longest_; }
  // Tokens that both sides of a cut compute.
  int64_t shared(size_t i) const { return i < size() ? shared_[i] : 0; }
  // Different tokens of the prompts [i, j). It grows with j and with every prompt before i.
  int64_t work(size_t i, size_t j) const { return i < j ? sums_[j] - from_[i] : 0; }
  // The last j with work(i, j) <= limit, and the first i.
  size_t furthest(size_t i, int64_t limit) const {
    if (i == size()) return i;
    const auto begin = sums_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto it = std::upper_bound(begin, sums_.end(), from_[i] + limit);
    return std::max(i, static_cast<size_t>(it - sums_.begin()) - 1);
  }
  size_t nearest(size_t j, int64_t limit) const {
    const auto end = from_.begin() + static_cast<std::ptrdiff_t>(j);
    return static_cast<size_t>(std::lower_bound(from_.begin(), end, sums_[j] - limit) -
                               from_.begin());
  }

 private:
  std::vector<int64_t> shared_, sums_, from_;  // from_[i] = sums_[i] - shared_[i], ascending
  int64_t longest_ = 0;
};

bool fits(const Line& line, int32_t parts, int64_t limit) {
  size_t at = 0;
  for (int32_t k = 0; k < parts && at < line.size(); ++k) {
    const size_t next = line.furthest(at, limit);
    if (next == at) return false;
    at = next;
  }
  return at == line.size();
}

// The least that the largest part can have.
int64_t least_limit(const Line& line, int32_t parts) {
  int64_t low = line.longest(), high = line.distinct();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (fits(line, parts, middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Cuts a piece of the line: cuts[0] = begin <= ... <= cuts[parts] = end, no part above the limit.
class Cutter {
 public:
  Cutter(const Line& line, int64_t limit) : line_(line), limit_(limit) {}

  int64_t cost() const { return cost_; }
  std::vector<size_t> cut(size_t begin, size_t end, int32_t parts) {
    cuts_ = {begin};
    cost_ = 0;
    pieces(begin, end, parts);
    return cuts_;
  }

 private:
  // Where the cut after k parts can be so that the parts on both sides suffice.
  struct Window {
    size_t first, last;
  };
  std::vector<Window> windows(size_t begin, size_t end, int32_t parts) const {
    std::vector<Window> list(static_cast<size_t>(parts) + 1, {begin, end});
    list.front() = {begin, begin};
    for (size_t k = 1; k < list.size(); ++k)
      list[k].last = std::min(end, line_.furthest(list[k - 1].last, limit_));
    list.back() = {end, end};
    for (size_t k = list.size() - 1; k-- > 1;)
      list[k].first = std::max(begin, line_.nearest(list[k + 1].first, limit_));
    return list;
  }

  void pieces(size_t begin, size_t end, int32_t parts) {
    const std::vector<Window> list = windows(begin, end, parts);
    if (parts <= kPartsAtOnce) return best(list);
    const Window& middle = list[static_cast<size_t>(parts) / 2];
    size_t at = middle.first;
    for (size_t i = middle.first; i <= middle.last; ++i)
      if (line_.shared(i) < line_.shared(at)) at = i;
    pieces(begin, at, parts / 2);
    if (at > begin && at < end) cost_ += line_.shared(at);
    pieces(at, end, parts - parts / 2);
  }

  // The cuts in these windows that cost the least: after k parts at j it is the least after k - 1
  // parts at some i with work(i, j) within the limit, and what the cut at i costs. The first such i
  // only moves forward with j, so the least of the window is kept as it slides.
  void best(const std::vector<Window>& list) {
    constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 2;
    std::vector<std::vector<size_t>> from(list.size());  // the i of each j
    std::vector<int64_t> cost = {0};
    const size_t begin = list.front().first;
    const size_t end = list.back().last;
    for (size_t k = 1; k < list.size(); ++k) {
      const Window& before = list[k - 1];
      const Window& now = list[k];
      std::vector<int64_t> next(now.last - now.first + 1, kNever);
      from[k].assign(next.size(), before.first);
      std::deque<std::pair<int64_t, size_t>> least;  // ascending cost, ascending i
      size_t i = before.first;
      for (size_t j = now.first; j <= now.last; ++j) {
        const auto cost_at = [&](size_t at) { return cost[at - before.first]; };
        for (; i < j && i <= before.last; ++i) {
          const int64_t with = cost_at(i) + (i > begin && i < end ? line_.shared(i) : 0);
          while (!least.empty() && least.back().first >= with) least.pop_back();
          least.emplace_back(with, i);
        }
        while (!least.empty() && line_.work(least.front().second, j) > limit_) least.pop_front();
        int64_t& to = next[j - now.first];
        size_t& of = from[k][j - now.first];
        if (j >= before.first && j <= before.last) {  // an empty part
          to = cost_at(j);
          of = j;
        }
        if (!least.empty() && least.front().first < to) {
          to = least.front().first;
          of = least.front().second;
        }
      }
      cost = std::move(next);
    }
    cost_ += cost.back();
    std::vector<size_t> found(list.size());
    found.back() = end;
    for (size_t k = list.size() - 1; k > 0; --k) found[k - 1] = from[k][found[k] - list[k].first];
    cuts_.insert(cuts_.end(), found.begin() + 1, found.end());
  }

  const Line& line_;
  int64_t limit_;
  int64_t cost_ = 0;
  std::vector<size_t> cuts_;
};

std::vector<size_t> cuts_of(const Line& line, int32_t parts, double balance) {
  if (line.size() == 0) return std::vector<size_t>(static_cast<size_t>(parts) + 1, 0);
  const auto times = [&](double tokens) { return static_cast<int64_t>(balance * tokens); };
  const int64_t least = least_limit(line, parts);
  const int64_t fair = times(static_cast<double>(line.distinct()) / parts);
  int64_t limit = least <= fair ? fair : times(static_cast<double>(least));
  Cutter cutter(line, limit);
  std::vector<size_t> cuts = cutter.cut(0, line.size(), parts);
  const int64_t cost = cutter.cost();
  // As even as it can be at this price.
  int64_t low = least;
  for (int i = 0; i < kTightenings && low < limit; ++i) {
    const int64_t middle = low + (limit - low) / 2;
    Cutter tighter(line, middle);
    std::vector<size_t> found = tighter.cut(0, line.size(), parts);
    if (tighter.cost() <= cost) {
      cuts = std::move(found);
      limit = middle;
    } else {
      low = middle + 1;
    }
  }
  return cuts;
}

}  // namespace

Partition partition(PromptList prompts, int32_t parts, double balance) {
  Partition out;
  const SortedPrompts sorted = sort_prompts(prompts);
  const Line line(prompts, sorted);
  const std::vector<size_t> cuts = cuts_of(line, parts, balance);
  out.part.resize(prompts.size());
  out.work.reserve(static_cast<size_t>(parts));
  for (int32_t p = 0; p < parts; ++p) {
    const size_t begin = cuts[static_cast<size_t>(p)], end = cuts[static_cast<size_t>(p) + 1];
    out.work.push_back(line.work(begin, end));
    for (size_t k = begin; k < end; ++k) out.part[static_cast<size_t>(sorted.order[k])] = p;
  }
  for (const std::span<const int32_t> prompt : prompts)
    out.given += static_cast<int64_t>(prompt.size());
  out.distinct = line.distinct();
  out.order = sorted.order;
  return out;
}

}  // namespace prefix
