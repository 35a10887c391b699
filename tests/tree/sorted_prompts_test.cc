// Sorted prompts and what they count, against plain sorting and a plain tree.
#include "tree/sorted_prompts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace prefix {
namespace {

using Prompt = std::vector<int32_t>;

std::vector<std::span<const int32_t>> spans(const std::vector<Prompt>& prompts) {
  return {prompts.begin(), prompts.end()};
}

void check(const std::vector<Prompt>& prompts) {
  const SortedPrompts sorted = sort_prompts(spans(prompts));
  std::vector<int64_t> order(prompts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int64_t i) -> const Prompt& { return prompts[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return at(a) < at(b); });
  ASSERT_EQ(sorted.order, order);
  std::vector<int64_t> shared(prompts.size());
  for (size_t k = 1; k < prompts.size(); ++k) {
    const Prompt &a = at(order[k - 1]), &b = at(order[k]);
    shared[k] = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  }
  EXPECT_EQ(sorted.shared, shared);

  const BatchEstimate estimate = estimate_batch(spans(prompts));
  std::set<Prompt> computed;  // prefixes, each of which is one token of the tree
  int64_t given = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const size_t before = computed.size();
    Prompt prefix;
    for (const int32_t token : prompts[i]) {
      prefix.push_back(token);
      computed.insert(prefix);
    }
    given += static_cast<int64_t>(prompts[i].size());
    EXPECT_EQ(estimate.by_prompt[i], static_cast<int64_t>(computed.size() - before)) << i;
  }
  EXPECT_EQ(estimate.computed, static_cast<int64_t>(computed.size()));
  EXPECT_EQ(estimate.given, given);
}

TEST(SortedPrompts, Cases) {
  check({});
  check({{}});
  check({{}, {}, {}});
  check({{1, 2, 3}});
  check({{1, 2, 3}, {1, 2, 3}, {1, 2}, {}, {1, 2, 4}, {2}, {1, 2, 3}});
  check({{INT32_MAX}, {0}, {INT32_MAX, 0}});
}

TEST(SortedPrompts, RandomTrees) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<Prompt> prompts(random() % 60);
    const unsigned letters = 1 + random() % 4;
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (i > 0 && random() % 2 == 0) {  // goes on from another
        prompts[i] = prompts[random() % i];
        prompts[i].resize(random() % (prompts[i].size() + 1));
      }
      for (size_t n = random() % 24; n > 0; --n)
        prompts[i].push_back(static_cast<int32_t>(random() % letters));
    }
    check(prompts);
  }
}

// Each within the next: as many groups inside each other as prompts.
TEST(SortedPrompts, ChainsAndEqualPrompts) {
  std::vector<Prompt> prompts;
  for (int32_t i = 0; i < 300; ++i) prompts.emplace_back(static_cast<size_t>((i * 7) % 300), 5);
  check(prompts);
  check(std::vector<Prompt>(200, Prompt(50, 3)));
}

}  // namespace
}  // namespace prefix
