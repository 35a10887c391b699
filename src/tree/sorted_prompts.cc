#include "tree/sorted_prompts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tree/common_prefix.h"

namespace prefix {
namespace {

// What a prompt has at a depth: nothing, which comes first, or a token.
int64_t token_at(std::span<const int32_t> prompt, int64_t depth) {
  const auto at = static_cast<size_t>(depth);
  return at < prompt.size() ? prompt[at] : INT64_MIN;
}

// Tokens from `depth` on that both have; both reach it.
int64_t shared_from(std::span<const int32_t> a, std::span<const int32_t> b, int64_t depth) {
  const auto rest = static_cast<int64_t>(std::min(a.size(), b.size())) - depth;
  return common_prefix(a.data() + depth, b.data() + depth, rest);
}

// Quicksort by one token at a time, which never compares a shared prefix twice; where a whole group
// goes on alike it is skipped at once. Groups wait in a list, not on the stack:
// there may be as many as prompts, one inside the other.
class Sort {
 public:
  Sort(PromptList prompts, std::vector<int64_t>& order) : prompts_(prompts), order_(order) {}

  void run() {
    groups_.push_back({0, order_.size(), 0});
    while (!groups_.empty()) {
      const Group group = groups_.back();
      groups_.pop_back();
      if (group.end - group.begin <= kFew)
        sort_few(group);
      else
        split(group);
    }
  }

 private:
  static constexpr size_t kFew = 12;
  struct Group {  // of prompts that agree up to `depth`, and reach it
    size_t begin, end;
    int64_t depth;
  };

  std::span<const int32_t> prompt(int64_t number) const {
    return prompts_[static_cast<size_t>(number)];
  }

  void sort_few(const Group& g) {
    const auto before = [&](int64_t a, int64_t b) {
      const int64_t at = g.depth + shared_from(prompt(a), prompt(b), g.depth);
      return std::pair(token_at(prompt(a), at), a) < std::pair(token_at(prompt(b), at), b);
    };
    for (size_t i = g.begin + 1; i < g.end; ++i)
      for (size_t j = i; j > g.begin && before(order_[j], order_[j - 1]); --j)
        std::swap(order_[j], order_[j - 1]);
  }

  // How many more tokens all of the group share.
  int64_t common(const Group& g) const {
    const std::span<const int32_t> first = prompt(order_[g.begin]);
    auto length = static_cast<int64_t>(first.size()) - g.depth;
    for (size_t i = g.begin + 1; i < g.end && length > 0; ++i)
      length = std::min(length, shared_from(first, prompt(order_[i]), g.depth));
    return length;
  }

  void split(Group g) {
    const int64_t first = token_at(prompt(order_[g.begin]), g.depth);
    const auto as_first = [&](int64_t n) { return token_at(prompt(n), g.depth) == first; };
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(g.begin);
    const auto end = order_.begin() + static_cast<std::ptrdiff_t>(g.end);
    if (std::all_of(begin, end, as_first)) {
      if (first == INT64_MIN) return std::sort(begin, end);
      g.depth += common(g);
    }
    const int64_t pivot = token_at(prompt(order_[g.begin + next() % (g.end - g.begin)]), g.depth);
    const auto below = [&](int64_t n) { return token_at(prompt(n), g.depth) < pivot; };
    const auto equal = [&](int64_t n) { return token_at(prompt(n), g.depth) == pivot; };
    const auto middle = std::partition(begin, end, below);
    const auto after = std::partition(middle, end, equal);
    const auto from = [&](auto it) { return static_cast<size_t>(it - order_.begin()); };
    add({from(begin), from(middle), g.depth});
    add({from(after), from(end), g.depth});
    if (pivot == INT64_MIN)
      std::sort(middle, after);  // they have ended: equal prompts
    else
      add({from(middle), from(after), g.depth + 1});
  }

  void add(const Group& g) {
    if (g.end - g.begin > 1) groups_.push_back(g);
  }

  // No choice of prompts by a caller makes every pivot a bad one.
  size_t next() {
    seed_ = seed_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<size_t>(seed_ >> 33);
  }

  PromptList prompts_;
  std::vector<int64_t>& order_;
  std::vector<Group> groups_;
  uint64_t seed_ = 1;
};

}  // namespace

SortedPrompts sort_prompts(PromptList prompts) {
  SortedPrompts sorted;
  sorted.order.resize(prompts.size());
  std::iota(sorted.order.begin(), sorted.order.end(), 0);
  Sort(prompts, sorted.order).run();
  sorted.shared.assign(prompts.size(), 0);
  for (size_t k = 1; k < prompts.size(); ++k)
    sorted.shared[k] = shared_from(prompts[static_cast<size_t>(sorted.order[k - 1])],
                                   prompts[static_cast<size_t>(sorted.order[k])], 0);
  return sorted;
}

BatchEstimate estimate_batch(PromptList prompts) {
  BatchEstimate estimate;
  const size_t n = prompts.size();
  estimate.by_prompt.assign(n, 0);
  const SortedPrompts sorted = sort_prompts(prompts);
  // From the last prompt given to the first, each is taken out of the sorted list: when it goes,
  // its neighbours are those of the prompts before it that share the most with it.
  std::vector<size_t> place(n), left(n + 1), right(n + 1);
  std::vector<int64_t> shared = sorted.shared;  // with what is to the left in the list now
  shared.push_back(0);                          // place n: both ends of the list
  for (size_t k = 0; k < n; ++k) place[static_cast<size_t>(sorted.order[k])] = k;
  for (size_t k = 0; k <= n; ++k) {
    left[k] = k == 0 ? n : k - 1;
    right[k] = k == n ? 0 : k + 1;
  }
  for (size_t i = n; i-- > 0;) {
    const size_t k = place[i];
    const size_t after = right[k];
    const auto length = static_cast<int64_t>(prompts[i].size());
    estimate.by_prompt[i] = length - std::max(shared[k], shared[after]);
    estimate.given += length;
    estimate.computed += estimate.by_prompt[i];
    shared[after] = std::min(shared[after], shared[k]);
    right[left[k]] = after;
    left[after] = left[k];
  }
  return estimate;
}

}  // namespace prefix
